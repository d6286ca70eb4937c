"""The reward function that the trainer calls, the metrics of each step, and the samples kept for reading.

Owns turning the trainer's flat batch into groups and back. Refuses to score a reply: see `training.rewards`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import transformers

from data.dimensions import DIMENSIONS
from data.files import write_text
from engine.distinct import distinct_n
from engine.prompts import GenerationRequest
from engine.verify import Verifier
from training.rewards import RewardSettings, Scored, score_groups, teaches, training_rewards


class GroupReward:
    """Scores the replies of one generation batch; a reward function in TRL's form that works on groups."""

    def __init__(
        self,
        requests: Sequence[GenerationRequest],
        verifier: Verifier,
        settings: RewardSettings,
        *,
        group_size: int,
        samples: "SampleFile",
    ) -> None:
        """`requests`: what the dataset's column `request` indexes, from 0."""
        self._requests = requests
        self._verifier = verifier
        self._settings = settings
        self._group_size = group_size
        self._samples = samples
        self.__name__ = "contract_and_verifier"

    def __call__(
        self,
        completions: Sequence[Sequence[Mapping[str, str]]],
        request: Sequence[int],
        trainer_state: transformers.TrainerState,
        log_metric: Callable[[str, float], None],
        **_further: Any,  # the trainer passes every column, and more
    ) -> list[float | None]:
        """One reward per completion; the `group_size` completions of a prompt are adjacent."""
        starts = range(0, len(completions), self._group_size)
        requests = [self._requests[request[start]] for start in starts]
        texts = [[reply[0]["content"] for reply in completions[start : start + self._group_size]] for start in starts]
        groups = score_groups(requests, texts, self._verifier, self._settings, now=datetime.now(UTC))
        for name, value in step_figures(requests, texts, groups).items():
            log_metric(name, value)
        self._samples.keep(trainer_state.global_step + 1, requests, texts, groups)
        return [reward for group in groups for reward in training_rewards(group)]


def step_figures(
    requests: Sequence[GenerationRequest], texts: Sequence[Sequence[str]], groups: Sequence[Sequence[Scored]]
) -> dict[str, float]:
    """One step's metrics; figures with nothing to average are left out.

    `reward/TYPE` averages scorable replies of a type, `reward/TC` and so on the judged ones. `judged_share`: the share
    of replies with a verdict, among those passed to the verifier. `zero_variance_share`: the share of groups without a
    training signal (`training.rewards.teaches`), whatever their shaped rewards.
    """
    replies = [scored for group in groups for scored in group]
    figures = {
        "parse_share": fmean(scored.parsed for scored in replies),
        "contract_share": fmean(scored.passes_contract for scored in replies),
        "accepted_share": fmean(scored.is_accepted for scored in replies),
        "duplicate_share": fmean(scored.repeats is not None for scored in replies),
        "zero_variance_share": fmean(not teaches(group) for group in groups),
    }
    varieties = [variety for of_prompt in texts if (variety := distinct_n(of_prompt, 2)) is not None]
    if varieties:
        figures["distinct_2"] = fmean(varieties)
    open_replies = [scored for scored in replies if scored.is_to_judge]
    if open_replies:
        figures["judged_share"] = fmean(scored.reward is not None for scored in open_replies)
    known = [scored.probabilities for scored in replies if scored.probabilities is not None]
    for dimension in DIMENSIONS:
        judged = [probabilities[dimension.key] for probabilities in known if dimension.key in probabilities]
        if judged:
            figures[f"reward/{dimension.key}"] = fmean(judged)
    for variant_type in {request.variant_type for request in requests}:
        rewards = [
            scored.reward
            for request, group in zip(requests, groups, strict=True)
            for scored in group
            if request.variant_type == variant_type and scored.reward is not None
        ]
        if rewards:
            figures[f"reward/{variant_type}"] = fmean(rewards)
    return figures


class SampleFile:
    """JSON Lines of whole groups, from the first step and then every `every` steps; for people to read."""

    def __init__(self, file: Path, *, every: int, after_step: int) -> None:
        """Drops what the file has of steps after `after_step`: a resumed training makes them again."""
        self._file = file
        self._every = every
        kept = [line for line in _lines(file) if json.loads(line)["step"] <= after_step]
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, "".join(kept))

    def keep(
        self,
        step: int,
        requests: Sequence[GenerationRequest],
        texts: Sequence[Sequence[str]],
        groups: Sequence[Sequence[Scored]],
    ) -> None:
        """Appends the step's groups if the step is one to keep."""
        if step != 1 and step % self._every:
            return
        with self._file.open("a", encoding="utf-8") as out:
            for request, replies, group in zip(requests, texts, groups, strict=True):
                for text, scored in zip(replies, group, strict=True):
                    out.write(json.dumps(_sample(step, request, text, scored), ensure_ascii=False) + "\n")


def _sample(step: int, request: GenerationRequest, text: str, scored: Scored) -> dict[str, object]:
    return {
        "step": step,
        "question_id": request.question.question_id,
        "type": request.variant_type,
        "text": text,
        "reward": scored.reward,
        "passes_contract": scored.passes_contract,
        "is_accepted": scored.is_accepted,
        "is_duplicate": scored.repeats is not None,
        "probabilities": scored.probabilities,
        "penalties": dict(scored.penalties),
    }


def _lines(file: Path) -> Iterator[str]:
    """Complete lines; one truncated by a kill is dropped."""
    if file.exists():
        with file.open(encoding="utf-8") as lines:
            yield from (line for line in lines if line.endswith("\n"))

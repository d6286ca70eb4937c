"""The reward of a group of replies to one prompt: contract first, then the verifier's product, minus penalties (ADR 9).

    0                                            the reply cannot be parsed, fails its contract, or repeats another
    base + (1 - base) * TC * LC * AU - penalties otherwise, but at least 0; the factors are calibrated probabilities
    None                                         the contract holds, but the verifier gave no verdict on it or on what
                                                 it repeats

One product: in a sum, two dimensions could compensate for the third (ADR 9). Refuses to load a verifier or to sample
replies: both are passed in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import isfinite, prod
from statistics import fmean
from typing import Final

from data.dimensions import DIMENSIONS
from data.errors import ReplyError
from data.records import Recipe, Variant, VariantId, Verdict, VerdictTarget
from engine.candidate import candidate_from_reply
from engine.generate import variant_from_candidate
from engine.prompts import GenerationRequest, asks_for_control
from engine.variant_types.table import contract_checks, contract_passes
from engine.verify import Verifier
from training.artefacts import copied, is_near_duplicate, longer_answer, not_as_asked

_RECIPE: Final = Recipe(backend="grpo", model="policy", prompt_version="", sampling="{}", seed=0)
"""These variants exist for one step and are never stored."""


@dataclass(frozen=True, slots=True)
class RewardSettings:
    """`base` is the reward for passing the contract; each penalty is the most its artefact can cost.

    `duplicate_similarity`: stem similarity from which a later reply in a group counts as repeating an earlier one.
    """

    base: float = 0.1
    copy_penalty: float = 0.2
    length_penalty: float = 0.1
    position_penalty: float = 0.5
    duplicate_similarity: float = 0.95


@dataclass(frozen=True, slots=True)
class Scored:
    """One reply. `probabilities` are the verifier's by target, None if it was not asked or gave no verdict.

    `is_accepted` is the binary outcome: parsed, contract passed, not a repetition, and valid by the verifier's own
    label. `penalties`: what each artefact cost. `repeats`: index in the group of the earlier reply that this one
    nearly duplicates.
    """

    reward: float | None
    parsed: bool
    passes_contract: bool
    is_accepted: bool
    probabilities: Mapping[VerdictTarget, float] | None = None
    penalties: Mapping[str, float] = field(default_factory=dict)
    repeats: int | None = None
    variant: Variant | None = None

    @property
    def is_to_judge(self) -> bool:
        """Whether the verifier decides its reward."""
        return self.passes_contract and self.repeats is None


def score_groups(
    requests: Sequence[GenerationRequest],
    completions: Sequence[Sequence[str]],
    verifier: Verifier,
    settings: RewardSettings,
    *,
    now: datetime,
) -> list[list[Scored]]:
    """One list per request, in the order of its completions; the verifier is called once, for all eligible replies.

    Of near-duplicates within a group, only the first is judged.
    """
    groups = [_formed(request, texts, settings, now) for request, texts in zip(requests, completions, strict=True)]
    pairs = {
        scored.variant.variant_id: (request.question, scored.variant)
        for request, group in zip(requests, groups, strict=True)
        for scored in group
        if scored.variant is not None and scored.is_to_judge
    }
    verdicts: dict[VariantId, dict[VerdictTarget, Verdict]] = {variant_id: {} for variant_id in pairs}
    if pairs:
        for verdict in verifier.judge(list(pairs.values()), now=now):
            verdicts[verdict.variant_id][verdict.target] = verdict
    return [_rewarded(request, group, verdicts, settings) for request, group in zip(requests, groups, strict=True)]


def training_rewards(group: Sequence[Scored]) -> list[float | None]:
    """The rewards for the trainer; in a group without a training signal, each is replaced by the group's mean.

    Whether there is a signal depends on binary outcomes, not on the shaped rewards, which differ in every group and
    would be scaled up to full size within it (DAPO, arXiv 2503.14476, filters by correctness). There is none if

    - no reply passes the contract: all rewards are 0;
    - every reply is accepted: only differences in the verifier's confidence remain, and optimising those exploits its
      weak spots;
    - fewer than two replies could be scored.

    A group where some replies pass the contract but none is accepted still has a signal: the probabilities say which
    reply came closest. None stays None.
    """
    rewards = [scored.reward for scored in group]
    if teaches(group):
        return rewards
    known = [reward for reward in rewards if reward is not None]
    return [None if reward is None else fmean(known) for reward in rewards]


def teaches(group: Sequence[Scored]) -> bool:
    """Whether a group's rewards move the policy; see `training_rewards`."""
    scorable = [scored for scored in group if scored.reward is not None]
    return (
        any(scored.passes_contract for scored in scorable)
        and not all(scored.is_accepted for scored in scorable)
        and len({scored.reward for scored in scorable}) > 1
    )


def _formed(
    request: GenerationRequest, completions: Sequence[str], settings: RewardSettings, now: datetime
) -> list[Scored]:
    """Everything that needs no verifier; the reward of eligible replies is None for now."""
    found: list[Scored] = []
    for text in completions:
        try:
            candidate = candidate_from_reply(text)
        except ReplyError:
            found.append(Scored(0.0, parsed=False, passes_contract=False, is_accepted=False))
            continue
        variant = variant_from_candidate(request, candidate, recipe=_RECIPE, run_id=None, now=now)
        passes = contract_passes(contract_checks(request.question, variant))
        repeats = _place_of_duplicate(variant, found, settings) if passes else None
        is_open = passes and repeats is None
        found.append(
            Scored(None if is_open else 0.0, True, passes, is_accepted=False, repeats=repeats, variant=variant)
        )
    return found


def _place_of_duplicate(variant: Variant, earlier: Sequence[Scored], settings: RewardSettings) -> int | None:
    return next(
        (
            place
            for place, scored in enumerate(earlier)
            if scored.variant is not None
            and scored.is_to_judge
            and is_near_duplicate(scored.variant, variant, least=settings.duplicate_similarity)
        ),
        None,
    )


def _rewarded(
    request: GenerationRequest,
    group: Sequence[Scored],
    verdicts: Mapping[VariantId, Mapping[VerdictTarget, Verdict]],
    settings: RewardSettings,
) -> list[Scored]:
    judged: list[Scored] = []
    for scored in group:
        if scored.variant is not None and scored.is_to_judge:
            judged.append(_judged(request, scored.variant, verdicts[scored.variant.variant_id], settings))
        elif scored.repeats is not None and judged[scored.repeats].reward is None:
            judged.append(replace(scored, reward=None))
        else:
            judged.append(scored)
    return judged


def _judged(
    request: GenerationRequest,
    variant: Variant,
    verdicts: Mapping[VerdictTarget, Verdict],
    settings: RewardSettings,
) -> Scored:
    probabilities = {
        target: verdict.probability
        for target, verdict in verdicts.items()
        if verdict.probability is not None and isfinite(verdict.probability)
    }
    product = _product(probabilities)
    if product is None:
        return Scored(None, parsed=True, passes_contract=True, is_accepted=False, variant=variant)
    penalties = {
        name: cost
        for name, cost in (
            ("copy", settings.copy_penalty * copied(request.question, variant)),
            ("length", settings.length_penalty * longer_answer(request.question, variant)),
            (
                "position",
                settings.position_penalty * not_as_asked(variant, asked_for_control=asks_for_control(request)),
            ),
        )
        if cost > 0
    }
    return Scored(
        reward=max(settings.base + (1 - settings.base) * product - sum(penalties.values()), 0.0),
        parsed=True,
        passes_contract=True,
        is_accepted="valid" in verdicts and verdicts["valid"].label is True,
        probabilities=probabilities,
        penalties=penalties,
        variant=variant,
    )


def _product(probabilities: Mapping[VerdictTarget, float]) -> float | None:
    """TC x LC x AU, or the one probability of validity from a verifier without dimensions (IRA)."""
    dimensions = [probabilities.get(dimension.key) for dimension in DIMENSIONS]
    known = [probability for probability in dimensions if probability is not None]
    if len(known) == len(dimensions):
        return prod(known)
    return None if known else probabilities.get("valid")

"""Watches a GRPO training: the probe every few steps, the stop rules after each, and failures that end it.

Figures of earlier steps come from the trainer's own history, which is part of its checkpoints, so a resumed training
follows the same rules. Refuses to choose the rules: see `training.stop_rules`.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import torch
import transformers

from data.dimensions import DIMENSIONS
from data.errors import JobError
from data.records import VARIANT_TYPE_KEYS
from engine.jobs.report import Reporter
from training.probe import ProbeRows, probe_score
from training.stop_rules import StepFigures, StopRules, is_unscorable, reason_to_stop
from training.trainer_hooks import METRIC_NAMES

_OWN_NAMES: Final = (
    *("reward", "kl", "entropy", "probe", "parse_share", "contract_share", "accepted_share", "judged_share"),
    *("duplicate_share", "zero_variance_share", "distinct_2"),
    *(f"reward/{name}" for name in (*VARIANT_TYPE_KEYS, *(dimension.key for dimension in DIMENSIONS))),
)
GRPO_NAMES: Final[Mapping[str, str]] = {
    **METRIC_NAMES,
    "completions/mean_length": "completion_tokens",
    **{name: name for name in _OWN_NAMES},
}
"""The trainer's name of a metric -> the run's."""


class Watch(transformers.TrainerCallback):
    """Stops a training when its figures break a rule; `reason` then says which, and is otherwise empty."""

    def __init__(
        self, rules: StopRules, report: Reporter, *, probe: ProbeRows | None, probe_every: int, verifier: str
    ) -> None:
        self.reason = ""
        self.history: list[StepFigures] = []
        self._rules = rules
        self._report = report
        self._probe = probe
        self._probe_every = probe_every
        self._verifier = verifier

    def on_train_begin(
        self,
        args: transformers.TrainingArguments,  # noqa: ARG002  (the callback's own signature)
        state: transformers.TrainerState,
        control: transformers.TrainerControl,  # noqa: ARG002
        **kwargs: Any,
    ) -> None:
        if state.global_step == 0:
            self._score_probe(state, kwargs["model"])

    def on_step_end(
        self,
        args: transformers.TrainingArguments,  # noqa: ARG002  (the callback's own signature)
        state: transformers.TrainerState,
        control: transformers.TrainerControl,  # noqa: ARG002
        **kwargs: Any,
    ) -> None:
        if state.global_step % self._probe_every == 0 or state.global_step == state.max_steps:
            self._score_probe(state, kwargs["model"])

    def on_log(
        self,
        args: transformers.TrainingArguments,  # noqa: ARG002  (the callback's own signature)
        state: transformers.TrainerState,
        control: transformers.TrainerControl,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Raises JobError if continuing is pointless: nothing could be scored, or the gradient is not finite."""
        self.history = figures_of(state)
        norm = self.history[-1].get("grad_norm") if self.history else None
        if norm is not None and not math.isfinite(norm):
            raise JobError(
                f"GRPO: the gradient is {norm} at step {state.global_step}; resume with a lower learning rate, "
                f"or start again from another model"
            )
        if is_unscorable(self.history, self._rules):
            raise JobError(
                f"GRPO: for {self._rules.unscorable_steps} steps the verifier {self._verifier} gave no verdict on any "
                f"reply that passed its contract, so there is no reward; check it on variants, or choose another"
            )
        if not self.reason and (reason := reason_to_stop(self.history, self._rules)):
            self.reason = f"stopped at step {state.global_step}: {reason}"
            self._report.message(self.reason, "warning")
            control.should_training_stop = True

    def _score_probe(self, state: transformers.TrainerState, model: torch.nn.Module) -> None:
        if self._probe is None or self._report.is_cancelled:
            return  # a cancelled run has seconds left, and its checkpoint matters more
        score = probe_score(model, self._probe)
        self._report.metric("probe", score, state.global_step)
        state.log_history.append({"probe": score, "step": state.global_step})


def figures_of(state: transformers.TrainerState) -> list[StepFigures]:
    """The trainer's history under the run's metric names, from the first step on."""
    return [
        {"step": entry["step"], **{GRPO_NAMES[name]: value for name, value in entry.items() if name in GRPO_NAMES}}
        for entry in state.log_history
    ]

"""The results of a generator training, stage by stage, as values that travel from the job to the page.

Owns the shape of the run's counts and of `outputs/report.json`; the stages fill it. Refuses to judge it.
"""

from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter

from engine.report_json import Count, Figure, dumped, loaded
from training.comparison_report import GeneratorComparison


@dataclass(frozen=True, slots=True)
class Imitation:
    """The supervised stage, trained on `rows` accepted variants.

    `best_validation_loss` is None without validation rows; `resumed_from_step` is 0 for a fresh start.
    """

    steps: Count
    best_validation_loss: Figure | None
    trainable_parameters: Count
    resumed_from_step: Count
    rows: Count
    validation_rows: Count


@dataclass(frozen=True, slots=True)
class Practice:
    """The reinforcement stage, over `prompts` requests; `stop_reason` is empty if all steps were completed.

    Probe scores, in nats per token, are None without a probe before and after.
    """

    steps: Count
    stop_reason: str
    trainable_parameters: Count
    resumed_from_step: Count
    probe_before: Figure | None
    probe_after: Figure | None
    prompts: Count
    reward_verifier: str


@dataclass(frozen=True, slots=True)
class GeneratorTraining:
    """`steps` and `stop_reason` are those of the practice; a stage that was left out is None."""

    generator_version: str
    steps: Count
    stop_reason: str
    comparison: GeneratorComparison
    sft: Imitation | None = None
    grpo: Practice | None = None


_GENERATOR_TRAINING: Final = TypeAdapter(GeneratorTraining)


def generator_training_as_json(training: GeneratorTraining) -> dict[str, Any]:
    """For a run's counts; without keys for stages that were left out."""
    content = dumped(_GENERATOR_TRAINING, training)
    return {name: value for name, value in content.items() if value is not None}


def generator_training_from(content: object, *, source: str) -> GeneratorTraining:
    """Inverse of `generator_training_as_json`. Raises ReportError, which names the source."""
    return loaded(_GENERATOR_TRAINING, content, source=source)

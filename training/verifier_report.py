"""What the training of a verifier measured, as a value that travels from the job to the page.

Owns the shape of the run's counts and of `outputs/report.json`; the trainers fill it. Refuses to judge it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter

from data.records import VariantTypeKey, VerdictTarget
from engine.report_json import Count, dumped, loaded
from engine.verifier_metrics import TargetQuality, VerifierMetrics
from training.calibrate import CalibrationReport

TrainingMethod = Literal["era", "ira"]
"""How a language model is trained to judge: each dimension on its own, or validity at once."""


@dataclass(frozen=True, slots=True)
class VerifierTraining:
    """`targets` and `types` are out of fold for a feature verifier, and on held-out labels for a language model.

    `variants` were learnt from, of `groups` question clusters. `held_out` and `calibration` are None where no label
    was kept aside for them. `with_embeddings` is a feature verifier's alone; what follows it, to
    `resumed_from_step`, a language model's. `methods`: both on the validity of the same held-out variants, where
    they were compared.
    """

    variants: Count
    groups: Count
    targets: Mapping[VerdictTarget, TargetQuality]
    types: Mapping[VariantTypeKey, Mapping[VerdictTarget, TargetQuality]]
    verifier_version: str = ""
    with_embeddings: bool | None = None
    method: TrainingMethod | None = None
    rows: Count | None = None
    steps: Count | None = None
    best_validation_loss: Annotated[float, Field(allow_inf_nan=False)] | None = None
    trainable_parameters: Count | None = None
    resumed_from_step: Count | None = None
    held_out: VerifierMetrics | None = None
    calibration: CalibrationReport | None = None
    methods: Mapping[TrainingMethod, TargetQuality] | None = None


_VERIFIER_TRAINING: Final = TypeAdapter(VerifierTraining)


def verifier_training_as_json(training: VerifierTraining) -> dict[str, Any]:
    """For a run's counts; without the keys of what was not measured."""
    content = dumped(_VERIFIER_TRAINING, training)
    return {name: value for name, value in content.items() if value is not None}


def verifier_training_from(content: object, *, source: str) -> VerifierTraining:
    """Inverse of `verifier_training_as_json`. Raises ReportError, which names the source."""
    return loaded(_VERIFIER_TRAINING, content, source=source)

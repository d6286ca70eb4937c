"""The figures of a verifier's training and calibration, as values that travel from the job to the page.

Owns the shape of the run's counts and of `outputs/report.json`; the trainers and `training.calibrate` fill it. Refuses
to judge it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter

from data.records import VariantTypeKey, VerdictTarget
from engine.report_json import Count, Share, dumped, loaded
from engine.verifier_metrics import TargetQuality, VerifierMetrics
from training.thresholds import Threshold

TrainingMethod = Literal["era", "ira"]
"""How a language model is trained to judge: each dimension separately, or validity in one pass."""


MapKind = Literal["none", "platt", "isotonic"]


@dataclass(frozen=True, slots=True)
class TargetCalibration:
    """What was fitted for a target on `labels` labels: the kind of map, and a threshold if one is proved.

    The expected calibration errors, before any map and with maps fitted without the row's group, are None without
    labels. `note` is empty, or says what the labels are too few for.
    """

    labels: Count
    map: MapKind
    ece_before: Share | None
    ece_after: Share | None
    threshold: Threshold | None
    note: str


CalibrationReport = Mapping[VerdictTarget, TargetCalibration]
"""A verifier's calibration, by the targets that it judges."""


@dataclass(frozen=True, slots=True)
class VerifierTraining:
    """`targets` and `types` are out-of-fold figures for a feature verifier, held-out figures for a language model.

    `variants` were trained on, from `groups` question clusters. `held_out` and `calibration` are None if there are no
    labels for them. `with_embeddings` is for feature verifiers only; the fields after it, up to `resumed_from_step`,
    for language models only. `methods`: if both were compared, their figures on validity for the same held-out
    variants.
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
    """For a run's counts; without keys for what was not measured."""
    content = dumped(_VERIFIER_TRAINING, training)
    return {name: value for name, value in content.items() if value is not None}


def verifier_training_from(content: object, *, source: str) -> VerifierTraining:
    """Inverse of `verifier_training_as_json`. Raises ReportError, which names the source."""
    return loaded(_VERIFIER_TRAINING, content, source=source)

"""What a verification said or a training measured, by dimension; both methods beside each other; calibration."""

from collections.abc import Mapping
from typing import Final

from data.records import VerdictTarget
from engine.jobs.verify import VerdictCounts
from engine.verifier_metrics import TargetQuality
from training.verifier_report import CalibrationReport, TrainingMethod, VerifierTraining
from ui.views.measures import TARGET_NAMES
from ui.widgets.page import table

_METHODS: Final[Mapping[TrainingMethod, str]] = {"era": "ERA (each dimension)", "ira": "IRA (one pass)"}
_QUALITY_COLUMNS: Final = (
    "labels",
    "share of yes",
    "balanced accuracy",
    "baseline (always yes)",
    "PR-AUC (failing variants)",
    "chance level",
    "ROC-AUC",
    "calibration error (ECE)",
)


def training_figures(training: VerifierTraining) -> None:
    """Quality by dimension, by method where both were trained, and the calibration."""
    rows = [[name, *_quality(training.targets[key])] for key, name in TARGET_NAMES.items() if key in training.targets]
    if rows:
        # a feature verifier's figures are out of fold; a language model's on the parts that it did not learn from
        how = "held-out questions" if training.method else "questions held out in turn (cross-validation)"
        table(["", *_QUALITY_COLUMNS], rows, caption=f"Measured on people's labels of {how}.")
    if training.methods:
        table(
            ["", *_QUALITY_COLUMNS],
            [[name, *_quality(training.methods[key])] for key, name in _METHODS.items() if key in training.methods],
            caption="Validity by both methods, measured on people's labels of the same held-out variants.",
        )
    if training.calibration:
        _calibration(training.calibration)


def verdict_figures(counts: Mapping[VerdictTarget, VerdictCounts]) -> None:
    """What a verification said."""
    rows = [[name, it.yes, it.no, it.unparsed] for key, name in TARGET_NAMES.items() if (it := counts.get(key))]
    table(["", "yes", "no", "unparsed"], rows)


def _quality(it: TargetQuality) -> list[object]:
    return [
        it.n,
        it.base_rate,
        it.balanced_accuracy,
        it.majority_balanced_accuracy,
        it.fail_pr_auc,
        it.majority_fail_pr_auc,
        it.roc_auc,
        it.ece,
    ]


def _calibration(found: CalibrationReport) -> None:
    rows: list[list[object]] = []
    for key, name in TARGET_NAMES.items():
        if key not in found:
            continue
        it = found[key]
        proved = (None, None) if it.threshold is None else (it.threshold.probability, it.threshold.precision_bound)
        rows.append([name, it.labels, it.map, it.ece_before, it.ece_after, *proved, it.note])
    table(
        ["", "labels", "calibration map", "ECE before", "ECE after", "threshold", "precision, at least", "note"],
        rows,
        caption="Calibrated on people's labels of held-out questions. What is accepted from the threshold up has at "
        "least this precision, with 95 % confidence.",
    )

"""How good a verifier's probabilities are on labels that it has not seen. Refuses plain accuracy: the prior moves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from data.records import VerdictTarget

Truths = NDArray[np.bool_]
Probabilities = NDArray[np.float64]

_ECE_BINS: Final = 10


@dataclass(frozen=True, slots=True)
class TargetQuality:
    """One target over `n` labels; `base_rate` is the share that holds.

    A majority guess has balanced accuracy 0.5 and, ranking nothing, a PR-AUC of the fail class of
    `1 - base_rate`. Figures that need both answers are None where the labels hold one only.
    """

    target: VerdictTarget
    n: int
    base_rate: float
    balanced_accuracy: float | None
    roc_auc: float | None
    fail_pr_auc: float | None
    ece: float
    majority_balanced_accuracy: float
    majority_fail_pr_auc: float


def target_quality(target: VerdictTarget, truths: Truths, probabilities: Probabilities) -> TargetQuality:
    """Measures of P(holds) against what holds; a label is yes from 0.5 on. Needs at least one label."""
    from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score

    has_both = bool(truths.any() and not truths.all())
    base_rate = float(truths.mean())
    return TargetQuality(
        target=target,
        n=len(truths),
        base_rate=base_rate,
        balanced_accuracy=float(balanced_accuracy_score(truths, probabilities >= 0.5)) if has_both else None,
        roc_auc=float(roc_auc_score(truths, probabilities)) if has_both else None,
        fail_pr_auc=float(average_precision_score(~truths, 1 - probabilities)) if has_both else None,
        ece=expected_calibration_error(truths, probabilities),
        majority_balanced_accuracy=0.5,
        majority_fail_pr_auc=1 - base_rate,
    )


def expected_calibration_error(truths: Truths, probabilities: Probabilities) -> float:
    """Mean distance of probability and frequency over ten bins of equal width, by their sizes; 0 is calibrated.

    Source: Naeini et al. (2015), "Obtaining Well Calibrated Probabilities Using Bayesian Binning".
    """
    bins = np.minimum((probabilities * _ECE_BINS).astype(int), _ECE_BINS - 1)
    gaps = [
        abs(float(truths[bins == one].mean()) - float(probabilities[bins == one].mean())) * int((bins == one).sum())
        for one in np.unique(bins)
    ]
    return sum(gaps) / len(truths)


def as_json(quality: TargetQuality) -> Mapping[str, object]:
    """For a run's counts and report."""
    values = {name: getattr(quality, name) for name in TargetQuality.__dataclass_fields__}
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}

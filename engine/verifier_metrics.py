"""How good a verifier's probabilities are on labels that it has not seen. Refuses plain accuracy: the prior moves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from data.records import Answers, VerdictTarget

Truths = NDArray[np.bool_]
Probabilities = NDArray[np.float64]

_ECE_BINS: Final = 10


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of labels by what they say and what people said: `false_yes` passes what fails, `false_no` the reverse."""

    true_yes: int
    false_yes: int
    true_no: int
    false_no: int

    @property
    def kappa(self) -> float | None:
        """Agreement with people beyond chance; None where both say the same throughout. Source: Cohen (1960)."""
        n = self.true_yes + self.false_yes + self.true_no + self.false_no
        yes, holds = self.true_yes + self.false_yes, self.true_yes + self.false_no
        by_chance = (yes * holds + (n - yes) * (n - holds)) / n**2 if n else 1.0
        return None if by_chance == 1 else ((self.true_yes + self.true_no) / n - by_chance) / (1 - by_chance)


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


def target_truth(answers: Answers, target: VerdictTarget) -> bool | None:
    """What a person's answers say of a target; None where they leave it open."""
    return answers.is_valid if target == "valid" else answers.of(target)


def target_quality(
    target: VerdictTarget, truths: Truths, probabilities: Probabilities, labels: Truths | None = None
) -> TargetQuality:
    """Measures of P(holds) against what holds; without `labels` one is yes from 0.5 on. Needs at least one truth."""
    from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score

    said = probabilities >= 0.5 if labels is None else labels
    has_both = bool(truths.any() and not truths.all())
    base_rate = float(truths.mean())
    return TargetQuality(
        target=target,
        n=len(truths),
        base_rate=base_rate,
        balanced_accuracy=float(balanced_accuracy_score(truths, said)) if has_both else None,
        roc_auc=float(roc_auc_score(truths, probabilities)) if has_both else None,
        fail_pr_auc=float(average_precision_score(~truths, 1 - probabilities)) if has_both else None,
        ece=expected_calibration_error(truths, probabilities),
        majority_balanced_accuracy=0.5,
        majority_fail_pr_auc=1 - base_rate,
    )


def confusion(truths: Truths, labels: Truths) -> Confusion:
    return Confusion(
        true_yes=int((truths & labels).sum()),
        false_yes=int((~truths & labels).sum()),
        true_no=int((~truths & ~labels).sum()),
        false_no=int((truths & ~labels).sum()),
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

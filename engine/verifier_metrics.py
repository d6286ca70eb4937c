"""How good a verifier's probabilities are on human labels that it was not trained on.

Owns the measures and their values in reports. Refuses plain accuracy, because the base rate varies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from data.records import Answers, VariantTypeKey, VerdictTarget
from engine.report_json import Count, Share

Truths = NDArray[np.bool_]
Probabilities = NDArray[np.float64]

_ECE_BINS: Final = 10


@dataclass(frozen=True, slots=True)
class Confusion:
    """Label counts by verifier and human answer: `false_yes` passes a failing item, `false_no` fails a good one."""

    true_yes: Count
    false_yes: Count
    true_no: Count
    false_no: Count

    @property
    def kappa(self) -> float | None:
        """Agreement with people beyond chance; None if only one answer occurs. Source: Cohen (1960)."""
        n = self.true_yes + self.false_yes + self.true_no + self.false_no
        yes, holds = self.true_yes + self.false_yes, self.true_yes + self.false_no
        by_chance = (yes * holds + (n - yes) * (n - holds)) / n**2 if n else 1.0
        return None if by_chance == 1 else ((self.true_yes + self.true_no) / n - by_chance) / (1 - by_chance)


@dataclass(frozen=True, slots=True)
class TargetQuality:
    """One target over `n` labels; `base_rate` is the share of them that holds.

    `fail_pr_auc` is the area under the precision-recall curve of the fail class, `ece` the expected calibration error
    over ten bins. Always answering yes has balanced accuracy 0.5 and, without any ranking, the chance level
    `1 - base_rate` as PR-AUC: the two `majority_...` figures. Figures that need both answers are None if the labels
    have only one.
    """

    target: VerdictTarget
    n: Count
    base_rate: Share
    balanced_accuracy: Share | None
    roc_auc: Share | None
    fail_pr_auc: Share | None
    ece: Share
    majority_balanced_accuracy: Share
    majority_fail_pr_auc: Share


@dataclass(frozen=True, slots=True)
class VerifierMetrics:
    """One verifier on `labels` labels from `questions` question clusters, by target, and by variant type and target.

    Targets without a label or a verdict are missing.
    """

    labels: Count
    questions: Count
    targets: Mapping[VerdictTarget, TargetQuality]
    types: Mapping[VariantTypeKey, Mapping[VerdictTarget, TargetQuality]]


def target_truth(answers: Answers, target: VerdictTarget) -> bool | None:
    """The truth of a target according to a person's answers; None if they leave it open."""
    return answers.is_valid if target == "valid" else answers.of(target)


def target_quality(
    target: VerdictTarget, truths: Truths, probabilities: Probabilities, labels: Truths | None = None
) -> TargetQuality:
    """Measures of P(holds) against the truth; without `labels`, yes means 0.5 or more. Needs at least one truth."""
    from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score

    predicted = probabilities >= 0.5 if labels is None else labels
    has_both = bool(truths.any() and not truths.all())
    base_rate = float(truths.mean())
    return TargetQuality(
        target=target,
        n=len(truths),
        base_rate=base_rate,
        balanced_accuracy=float(balanced_accuracy_score(truths, predicted)) if has_both else None,
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
    """Mean distance between probability and frequency over ten bins of equal width, weighted by size; 0 is calibrated.

    Source: Naeini et al. (2015), "Obtaining Well Calibrated Probabilities Using Bayesian Binning".
    """
    bins = np.minimum((probabilities * _ECE_BINS).astype(int), _ECE_BINS - 1)
    gaps = [
        abs(float(truths[bins == one].mean()) - float(probabilities[bins == one].mean())) * int((bins == one).sum())
        for one in np.unique(bins)
    ]
    return sum(gaps) / len(truths)

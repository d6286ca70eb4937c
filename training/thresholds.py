"""Thresholds for a target precision of what a verifier accepts, with a bound that labels prove, not with a guess."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.calibration import DEFAULT_THRESHOLD
from engine.verifier_metrics import Probabilities, Truths

CONFIDENCE: Final = 0.95
_SHARES: Final = 10


@dataclass(frozen=True, slots=True)
class Threshold:
    """`probability`: from here on the label is yes. `precision_bound`: what the share of right yes is at least."""

    probability: float
    accepted: int
    right: int
    precision_bound: float


def precision_lower_bound(right: int, accepted: int, *, confidence: float) -> float:
    """The one-sided Clopper-Pearson bound of a share, 0 where nothing is right.

    Source: Clopper and Pearson (1934), "The use of confidence or fiducial limits".
    """
    from scipy.stats import beta

    return float(beta.ppf(1 - confidence, right, accepted - right + 1)) if right else 0.0


def threshold_for(
    truths: Truths, probabilities: Probabilities, *, target_precision: float, confidence: float = CONFIDENCE
) -> Threshold | None:
    """The lowest threshold whose accepted set is right at `target_precision` or above, with `confidence`; else None.

    Never below 0.5: where nearly everything holds, an item that probably does not is still no yes. Looked for among ten
    accepted shares (a tenth of the rows to all), each held to a tenth of the risk: a search over every row would name a
    threshold more often than it may. Rows count as independent, those of one question too.
    """
    shares = range(_SHARES, 0, -1) if len(truths) else ()
    tried = (_at_share(truths, probabilities, share, confidence) for share in shares)
    return next((it for it in tried if it.precision_bound >= target_precision), None)


def best_proven(truths: Truths, probabilities: Probabilities, *, confidence: float = CONFIDENCE) -> Threshold:
    """The threshold with the highest bound, whatever that is; needs at least one row."""
    tried = (_at_share(truths, probabilities, share, confidence) for share in range(1, _SHARES + 1))
    return max(tried, key=lambda it: it.precision_bound)


def _at_share(truths: Truths, probabilities: Probabilities, share: int, confidence: float) -> Threshold:
    """Of accepting `share` tenths of the rows, the most probable first; rows as probable as the last come along."""
    last = max(math.ceil(len(truths) * share / _SHARES), 1) - 1
    probability = max(float(np.sort(probabilities)[::-1][last]), DEFAULT_THRESHOLD)
    accepted = probabilities >= probability
    right, count = int(truths[accepted].sum()), int(accepted.sum())
    bound = precision_lower_bound(right, count, confidence=1 - (1 - confidence) / _SHARES)
    return Threshold(probability, count, right, bound)

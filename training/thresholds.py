"""Thresholds for a target precision of what a verifier accepts, with a bound that labels prove, not with a guess."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.calibration import DEFAULT_THRESHOLD
from engine.report_json import Count, Share
from engine.verifier_metrics import Probabilities, Truths

CONFIDENCE: Final = 0.95
_SHARES: Final = 10


@dataclass(frozen=True, slots=True)
class Threshold:
    """From `probability` on the label is yes: so it was for `accepted` labels, of which people call `right` right.

    `precision_bound` is the lower 95 % bound of the precision of what it accepts.
    """

    probability: Share
    accepted: Count
    right: Count
    precision_bound: Share


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

    Never below 0.5: where nearly everything holds, an item that probably does not is still no yes. Accepted shares are
    tried in tenths, the smallest first that could prove the precision at all, until one does not: with the order fixed
    beforehand each takes the whole risk. (200 drawn labels of a good verifier proved 0.95 in half of 200 draws so, and
    never with each share held to a tenth of the risk.) Rows count as independent, those of one question too.
    """
    found = None
    for tried in _sequence(truths, probabilities, target_precision, confidence):
        if tried.precision_bound < target_precision:
            break
        found = tried
    return found


def first_tried(
    truths: Truths, probabilities: Probabilities, *, target_precision: float, confidence: float = CONFIDENCE
) -> Threshold:
    """Where `threshold_for` begins; what accepts the most where nothing could prove the precision. Needs a row."""
    sequence = _sequence(truths, probabilities, target_precision, confidence)
    return next(sequence, _at_share(truths, probabilities, _SHARES, confidence))


def _sequence(
    truths: Truths, probabilities: Probabilities, target_precision: float, confidence: float
) -> Iterator[Threshold]:
    """By share, those whose size would prove the precision if all that they accept were right."""
    for share in range(1, _SHARES + 1) if len(truths) else ():
        tried = _at_share(truths, probabilities, share, confidence)
        if precision_lower_bound(tried.accepted, tried.accepted, confidence=confidence) >= target_precision:
            yield tried


def _at_share(truths: Truths, probabilities: Probabilities, share: int, confidence: float) -> Threshold:
    """Of accepting `share` tenths of the rows, the most probable first; rows as probable as the last come along."""
    last = max(math.ceil(len(truths) * share / _SHARES), 1) - 1
    probability = max(float(np.sort(probabilities)[::-1][last]), DEFAULT_THRESHOLD)
    accepted = probabilities >= probability
    right, count = int(truths[accepted].sum()), int(accepted.sum())
    return Threshold(probability, count, right, precision_lower_bound(right, count, confidence=confidence))

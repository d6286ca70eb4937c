"""Thresholds at which the variants a verifier accepts reach a target precision, with a bound proved by labels."""

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
    """The label is yes from `probability` on: that accepts `accepted` labels, `right` of them correctly.

    `precision_bound` is the lower 95 % bound of the precision of what it accepts.
    """

    probability: Share
    accepted: Count
    right: Count
    precision_bound: Share


def precision_lower_bound(right: int, accepted: int, *, confidence: float) -> float:
    """The one-sided Clopper-Pearson lower bound of a share; 0 if nothing is right.

    Source: Clopper and Pearson (1934), "The use of confidence or fiducial limits".
    """
    from scipy.stats import beta

    return float(beta.ppf(1 - confidence, right, accepted - right + 1)) if right else 0.0


def threshold_for(
    truths: Truths, probabilities: Probabilities, *, target_precision: float, confidence: float = CONFIDENCE
) -> Threshold | None:
    """The lowest threshold whose accepted set has at least `target_precision`, with `confidence`; otherwise None.

    Never below 0.5: even if nearly everything holds, an item that probably does not is not a yes. Accepted shares are
    tried in tenths, from the smallest that could prove the precision until one fails; because the order is fixed
    beforehand, each test may use the whole risk. (With 200 sampled labels of a good verifier, this proved 0.95 in half
    of 200 draws; splitting the risk into tenths never did.) Rows count as independent, even those of one question.
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
    """Where `threshold_for` starts; the largest accepted share if none could prove the precision. Needs a row."""
    sequence = _sequence(truths, probabilities, target_precision, confidence)
    return next(sequence, _at_share(truths, probabilities, _SHARES, confidence))


def _sequence(
    truths: Truths, probabilities: Probabilities, target_precision: float, confidence: float
) -> Iterator[Threshold]:
    """By share, those large enough to prove the precision if everything accepted were right."""
    for share in range(1, _SHARES + 1) if len(truths) else ():
        tried = _at_share(truths, probabilities, share, confidence)
        if precision_lower_bound(tried.accepted, tried.accepted, confidence=confidence) >= target_precision:
            yield tried


def _at_share(truths: Truths, probabilities: Probabilities, share: int, confidence: float) -> Threshold:
    """Accepts `share` tenths of the rows, most probable first, including ties with the last."""
    last = max(math.ceil(len(truths) * share / _SHARES), 1) - 1
    probability = max(float(np.sort(probabilities)[::-1][last]), DEFAULT_THRESHOLD)
    accepted = probabilities >= probability
    right, count = int(truths[accepted].sum()), int(accepted.sum())
    return Threshold(probability, count, right, precision_lower_bound(right, count, confidence=confidence))

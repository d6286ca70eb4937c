"""The two maps from a verifier's probabilities to frequencies: Platt scaling for few labels, isotonic for many."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.calibration import Isotonic, Platt
from engine.verifier_metrics import Probabilities, Truths

_NEAREST: Final = 1e-7
_SLOPE_SPREAD: Final = 1.0
_OFFSET_SPREAD: Final = 2.0
_MOST_STEPS: Final = 100

Numbers = NDArray[np.float64]


def fit_platt(truths: Truths, probabilities: Probabilities) -> Platt:
    """A line on the log odds, shrunk towards the identity if labels are few; the base rate if the ranking misleads.

    The prior (slope 1 +- 1, offset 0 +- 2) keeps the fit finite if all labels are the same.
    """
    inside = np.clip(probabilities, _NEAREST, 1 - _NEAREST)
    scores = np.log(inside / (1 - inside))
    columns = np.stack([scores, np.ones_like(scores)], axis=1)
    middle = np.array([1.0, 0.0])
    pull = np.array([_SLOPE_SPREAD**-2, _OFFSET_SPREAD**-2])

    def loss(line: Numbers) -> float:
        z = columns @ line
        return float(np.logaddexp(0.0, np.where(truths, -z, z)).sum() + 0.5 * (pull * (line - middle) ** 2).sum())

    line = _newton(loss, columns, truths, middle, pull)
    if line[0] > 0:
        return Platt(float(line[0]), float(line[1]))
    base = (truths.sum() + 1) / (len(truths) + 2)
    return Platt(0.0, math.log(base / (1 - base)))


def fit_isotonic(truths: Truths, probabilities: Probabilities) -> Isotonic:
    """Steps that increase with the probabilities; never 0 or 1, which no number of labels could prove."""
    from sklearn.isotonic import IsotonicRegression

    edge = 1 / (len(truths) + 2)
    model = IsotonicRegression(y_min=edge, y_max=1 - edge, out_of_bounds="clip").fit(probabilities, truths)
    return Isotonic(tuple(map(float, model.X_thresholds_)), tuple(map(float, model.y_thresholds_)))


def _newton(
    loss: Callable[[Numbers], float],
    columns: Numbers,
    truths: Truths,
    middle: Numbers,
    pull: Numbers,
) -> Numbers:
    """The minimum of the penalised logistic loss, which is convex; a step that overshoots is halved."""
    line = middle.copy()
    for _ in range(_MOST_STEPS):
        p = 1 / (1 + np.exp(-np.clip(columns @ line, -30.0, 30.0)))
        gradient = columns.T @ (p - truths) + pull * (line - middle)
        curvature = columns.T @ (columns * (p * (1 - p))[:, np.newaxis]) + np.diag(pull)
        step, size = np.linalg.solve(curvature, gradient), 1.0
        while loss(line - size * step) > loss(line) and size > 1e-6:
            size /= 2
        line = line - size * step
        if np.abs(size * step).max() < 1e-9:
            break
    return line

"""Intervals for the difference between two verifiers on the same rows: a bootstrap over whole question groups.

Variants of one question share its difficulty, so rows are not independent and are never drawn one by one. Both
verifiers are measured on the same draws, which removes a draw's difficulty from the difference. Owns the draws and
measures over weighted rows, for all draws at once; refuses to interpret a difference (see `training.gate`).
Source: Field and Welsh (2007), "Bootstrapping clustered data", the randomised cluster bootstrap.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.report_json import Figure

DRAWS: Final = 2000
_COVERAGE: Final = 0.95
_DRAWS_AT_ONCE: Final = 250
"""With 5,000 gate rows this takes 10 MB per measure."""
_FEWEST_USABLE_DRAWS: Final = 0.9
"""An answer found in only two groups is missing from 13 % of the draws, which makes its interval meaningless."""
_ECE_BINS: Final = 10

Truths = NDArray[np.bool_]
Labels = NDArray[np.bool_]
Probabilities = NDArray[np.float64]
Weights = NDArray[np.float64]
"""(draws, rows): how often each draw contains each row."""
Measure = Callable[[Weights], NDArray[np.float64]]
"""(draws, rows) in, one figure per draw out; NaN if a draw lacks one answer."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Challenger minus champion: `mean` on the actual rows, `low` and `high` the bounds of 95 % of the draws."""

    mean: Figure
    low: Figure
    high: Figure


def difference_interval(
    champion: Measure, challenger: Measure, groups: Sequence[str], *, seed: int, draws: int = DRAWS
) -> Interval | None:
    """None if the figure is undefined on the rows, or on more than a tenth of the draws.

    Args:
        groups: one per row; a draw contains all rows of a group or none, and some groups several times.
    """
    everything = np.ones((1, len(groups)))
    mean = float((challenger(everything) - champion(everything))[0])
    found = np.concatenate([challenger(w) - champion(w) for w in _drawn_weights(groups, seed=seed, draws=draws)])
    usable = found[~np.isnan(found)]
    if np.isnan(mean) or len(usable) < _FEWEST_USABLE_DRAWS * draws:
        return None
    tail = (1 - _COVERAGE) / 2
    low, high = np.quantile(usable, [tail, 1 - tail])
    return Interval(mean, float(low), float(high))


def balanced_accuracies(truths: Truths, labels: Labels) -> Measure:
    """Mean of the recall of yes and the recall of no."""

    def measure(weights: Weights) -> NDArray[np.float64]:
        right = truths == labels
        with np.errstate(invalid="ignore"):
            found = [weights @ (right & of_class) / (weights @ of_class) for of_class in (truths, ~truths)]
        figures: NDArray[np.float64] = (found[0] + found[1]) / 2
        return figures

    return measure


def fail_pr_aucs(truths: Truths, probabilities: Probabilities) -> Measure:
    """Average precision of the fail class, lowest P(holds) first; rows of equal probability count as one step."""
    order = np.argsort(probabilities, kind="stable")
    fails = ~truths[order]
    ranked = probabilities[order]
    ends = np.append(ranked[1:] != ranked[:-1], True)

    def measure(weights: Weights) -> NDArray[np.float64]:
        drawn = weights[:, order]
        seen = np.cumsum(drawn, axis=1)[:, ends]
        caught = np.cumsum(drawn * fails, axis=1)[:, ends]
        with np.errstate(invalid="ignore", divide="ignore"):
            precision = np.where(seen > 0, caught / seen, 0.0)
            recall = caught / caught[:, -1:]
            steps = np.diff(recall, axis=1, prepend=0.0)
            figures: NDArray[np.float64] = (steps * precision).sum(axis=1)
        return figures

    return measure


def calibration_errors(truths: Truths, probabilities: Probabilities) -> Measure:
    """Expected calibration error over ten bins of equal width, as in `engine.verifier_metrics`."""
    bins = np.minimum((probabilities * _ECE_BINS).astype(int), _ECE_BINS - 1)
    gaps = (truths - probabilities)[:, np.newaxis] * (bins[:, np.newaxis] == np.arange(_ECE_BINS))

    def measure(weights: Weights) -> NDArray[np.float64]:
        figures: NDArray[np.float64] = np.abs(weights @ gaps).sum(axis=1) / weights.sum(axis=1)
        return figures

    return measure


def _drawn_weights(groups: Sequence[str], *, seed: int, draws: int) -> Iterator[Weights]:
    """Groups are numbered by name, so that row order does not affect the draws."""
    names, of_row = np.unique(np.asarray(groups), return_inverse=True)
    rng = np.random.default_rng(seed)
    for start in range(0, draws, _DRAWS_AT_ONCE):
        counts = rng.multinomial(
            len(names), np.full(len(names), 1 / len(names)), size=min(_DRAWS_AT_ONCE, draws - start)
        )
        yield counts[:, of_row].astype(float)

"""Figures of verifiers on test rows with intervals: a bootstrap over test questions and over the draws of labels.

Each figure is the mean over the verifiers that were trained on different draws. A bootstrap draw takes test questions
whole and takes the verifiers anew too, so that an interval holds both sources of chance; differences are paired.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from data.dimensions import DIMENSIONS
from data.records import VerdictTarget
from engine.feature_verifier import FeatureVerifier
from engine.verifier_metrics import target_truth
from tests.bench.learning.verifier_rows import Drawn
from training.paired_bootstrap import (
    Measure,
    Probabilities,
    Truths,
    Weights,
    balanced_accuracies,
    calibration_errors,
    fail_pr_aucs,
)

Judgements = Mapping[VerdictTarget, Probabilities]
"""P(the target holds) of every test row; NaN where there is no verdict."""

TARGETS: Final[tuple[VerdictTarget, ...]] = get_args(VerdictTarget)
MEASURES: Final = ("balanced_accuracy", "fail_pr_auc", "roc_auc", "ece")
_DRAWS: Final = 1000
_COVERAGE: Final = 0.95


def said_by(verifier: FeatureVerifier, rows: Drawn) -> Judgements:
    columns = verifier.probabilities(rows.features, rows.types)
    return with_product({d.key: columns[:, place] for place, d in enumerate(DIMENSIONS)})


def with_product(dimensions: Judgements) -> Judgements:
    """And the product of the three as validity."""
    return {**dimensions, "valid": np.prod([dimensions[d.key] for d in DIMENSIONS], axis=0)}


def figures(rows: Drawn, verifiers: Sequence[Judgements], *, seed: int) -> Mapping[str, Any]:
    """By target: `n`, `base_rate`, and by measure `mean`, `low`, `high` and `of_draws`, one number a verifier."""
    return {
        target: {
            "n": int(_known(rows, target).sum()),
            "base_rate": float(np.mean(_truths(rows, target)[_known(rows, target)])),
            **{
                name: {**_interval(table, seed), "of_draws": [round(float(one), 4) for one in table[0]]}
                for name, table in _tables(rows, verifiers, target, seed).items()
            },
        }
        for target in TARGETS
        if target in verifiers[0]
    }


def differences(
    rows: Drawn, before: Sequence[Judgements], after: Sequence[Judgements], *, seed: int
) -> Mapping[str, Any]:
    """After minus before, by target and measure; verifier by verifier, so both hold as many in one order."""
    found: dict[str, Any] = {}
    for target in TARGETS:
        if target in before[0] and target in after[0]:
            first, second = (_tables(rows, side, target, seed) for side in (before, after))
            found[target] = {name: _interval(second[name] - first[name], seed) for name in MEASURES}
    return found


def _tables(
    rows: Drawn, verifiers: Sequence[Judgements], target: VerdictTarget, seed: int
) -> Mapping[str, NDArray[np.float64]]:
    """(1 + draws, verifiers) by measure; the first row is of the test rows as they are."""
    known = _known(rows, target)
    truths = _truths(rows, target)[known]
    groups = [group for group, is_known in zip(rows.groups, known, strict=True) if is_known]
    weights = np.concatenate([np.ones((1, len(groups))), _weights(groups, seed)])
    columns: dict[str, list[NDArray[np.float64]]] = {name: [] for name in MEASURES}
    for said in verifiers:
        probabilities = said[target][known]
        measures: tuple[Measure, ...] = (
            balanced_accuracies(truths, _labels(said, target)[known]),
            fail_pr_aucs(truths, probabilities),
            roc_aucs(truths, probabilities),
            calibration_errors(truths, probabilities),
        )
        for name, measure in zip(MEASURES, measures, strict=True):
            columns[name].append(measure(weights))
    return {name: np.stack(of_verifiers, axis=1) for name, of_verifiers in columns.items()}


def roc_aucs(truths: Truths, probabilities: Probabilities) -> Callable[[Weights], NDArray[np.float64]]:
    """How often what holds stands above what fails; equal probabilities count half."""
    order = np.argsort(probabilities, kind="stable")
    ranked = probabilities[order]
    ends = np.append(ranked[1:] != ranked[:-1], True)

    def measure(weights: Weights) -> NDArray[np.float64]:
        drawn = weights[:, order]
        holds = np.diff(np.cumsum(drawn * truths[order], axis=1)[:, ends], axis=1, prepend=0.0)
        fails = np.cumsum(drawn * ~truths[order], axis=1)[:, ends]
        below = fails - np.diff(fails, axis=1, prepend=0.0) / 2
        with np.errstate(invalid="ignore"):
            aucs: NDArray[np.float64] = (holds * below).sum(axis=1) / (holds.sum(axis=1) * fails[:, -1])
        return aucs

    return measure


def _interval(table: NDArray[np.float64], seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    drawn = table[1:]
    chosen = rng.integers(0, table.shape[1], size=drawn.shape)
    means = np.take_along_axis(drawn, chosen, axis=1).mean(axis=1)
    tail = (1 - _COVERAGE) / 2
    low, high = np.nanquantile(means, [tail, 1 - tail])
    return {"mean": round(float(table[0].mean()), 4), "low": round(float(low), 4), "high": round(float(high), 4)}


def _weights(groups: Sequence[str], seed: int) -> Weights:
    names, of_row = np.unique(np.asarray(groups), return_inverse=True)
    counts = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=_DRAWS)
    drawn: Weights = counts[:, of_row].astype(float)
    return drawn


def _known(rows: Drawn, target: VerdictTarget) -> NDArray[np.bool_]:
    return np.array([target_truth(answer, target) is not None for answer in rows.answers])


def _truths(rows: Drawn, target: VerdictTarget) -> NDArray[np.bool_]:
    return np.array([bool(target_truth(answer, target)) for answer in rows.answers])


def _labels(said: Judgements, target: VerdictTarget) -> NDArray[np.bool_]:
    """The likelier answer; of validity the three together where they are given."""
    parts = [said[d.key] >= 0.5 for d in DIMENSIONS if d.key in said] if target == "valid" else [said[target] >= 0.5]
    labels: NDArray[np.bool_] = np.logical_and.reduce(parts or [said[target] >= 0.5])
    return labels

"""Intervals of the difference of two verifiers, over draws of whole question groups."""

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.verifier_metrics import expected_calibration_error, target_quality
from training.paired_bootstrap import (
    Interval,
    Measure,
    Probabilities,
    balanced_accuracies,
    calibration_errors,
    difference_interval,
    fail_pr_aucs,
)

RNG = np.random.default_rng(7)
TRUTHS = RNG.random(120) < 0.6
BEFORE: Probabilities = np.round(
    np.clip(0.3 * TRUTHS.astype(float) + 0.35 + 0.3 * RNG.normal(size=120), 0.0, 1.0), 1
).astype(np.float64)
AFTER: Probabilities = np.round(
    np.clip(0.5 * TRUTHS.astype(float) + 0.25 + 0.3 * RNG.normal(size=120), 0.0, 1.0), 1
).astype(np.float64)
GROUPS = [f"c{number // 4}" for number in range(120)]


def accuracy_interval(groups: list[str], *, seed: int = 1) -> Interval:
    return interval_of(
        balanced_accuracies(TRUTHS, BEFORE >= 0.5), balanced_accuracies(TRUTHS, AFTER >= 0.5), groups, seed
    )


def interval_of(before: Measure, after: Measure, groups: list[str], seed: int = 1) -> Interval:
    found = difference_interval(before, after, groups, seed=seed)
    assert found is not None
    return found


def once(measure: Measure, weights: NDArray[np.float64] | None = None) -> float:
    return float(measure(np.ones((1, len(TRUTHS))) if weights is None else weights)[0])


def test_the_measures_on_the_rows_as_they_are_are_those_of_the_reports() -> None:
    quality = target_quality("valid", TRUTHS, BEFORE)

    assert once(balanced_accuracies(TRUTHS, BEFORE >= 0.5)) == pytest.approx(quality.balanced_accuracy)
    assert once(fail_pr_aucs(TRUTHS, BEFORE)) == pytest.approx(quality.fail_pr_auc)
    assert once(calibration_errors(TRUTHS, BEFORE)) == pytest.approx(expected_calibration_error(TRUTHS, BEFORE))


def test_a_row_that_a_draw_holds_three_times_counts_as_three_rows() -> None:
    weights = np.arange(120) % 4
    repeated = np.repeat(np.arange(120), weights)
    quality = target_quality("valid", TRUTHS[repeated], BEFORE[repeated])
    drawn = weights[np.newaxis].astype(float)

    assert once(balanced_accuracies(TRUTHS, BEFORE >= 0.5), drawn) == pytest.approx(quality.balanced_accuracy)
    assert once(fail_pr_aucs(TRUTHS, BEFORE), drawn) == pytest.approx(quality.fail_pr_auc)
    assert once(calibration_errors(TRUTHS, BEFORE), drawn) == pytest.approx(quality.ece)


def test_the_interval_stands_around_the_difference_of_the_rows() -> None:
    found = accuracy_interval(GROUPS)

    before, after = (target_quality("valid", TRUTHS, said).balanced_accuracy or 0 for said in (BEFORE, AFTER))
    assert found.mean == pytest.approx(after - before)
    assert found.low < found.mean < found.high


def test_rows_repeated_within_their_group_do_not_narrow_the_interval() -> None:
    twice = np.repeat(np.arange(120), 2)

    repeated = interval_of(
        balanced_accuracies(TRUTHS[twice], BEFORE[twice] >= 0.5),
        balanced_accuracies(TRUTHS[twice], AFTER[twice] >= 0.5),
        [GROUPS[row] for row in twice],
    )

    plain = accuracy_interval(GROUPS)
    assert [repeated.low, repeated.high] == pytest.approx([plain.low, plain.high])


def test_the_same_rows_taken_for_independent_would_narrow_it() -> None:
    twice = np.repeat(np.arange(120), 2)

    independent = interval_of(
        balanced_accuracies(TRUTHS[twice], BEFORE[twice] >= 0.5),
        balanced_accuracies(TRUTHS[twice], AFTER[twice] >= 0.5),
        [f"row {number}" for number in range(240)],
    )

    grouped = accuracy_interval(GROUPS)
    assert independent.high - independent.low < 0.85 * (grouped.high - grouped.low)


def test_the_same_verifier_twice_differs_by_nothing_in_every_draw() -> None:
    same = balanced_accuracies(TRUTHS, BEFORE >= 0.5)

    assert difference_interval(same, same, GROUPS, seed=1) == Interval(0.0, 0.0, 0.0)


def test_a_seed_gives_the_same_interval_whatever_the_order_of_the_rows() -> None:
    order = RNG.permutation(120)

    shuffled = interval_of(
        balanced_accuracies(TRUTHS[order], BEFORE[order] >= 0.5),
        balanced_accuracies(TRUTHS[order], AFTER[order] >= 0.5),
        [GROUPS[row] for row in order],
    )

    plain = accuracy_interval(GROUPS)
    assert accuracy_interval(GROUPS) == plain
    assert [shuffled.low, shuffled.high] == pytest.approx([plain.low, plain.high])
    assert accuracy_interval(GROUPS, seed=2) != plain


def test_one_answer_only_has_no_interval() -> None:
    truths = np.ones(40, dtype=bool)
    groups = [f"c{number}" for number in range(40)]
    said = RNG.random(40)

    assert difference_interval(fail_pr_aucs(truths, said), fail_pr_aucs(truths, said), groups, seed=1) is None


@pytest.mark.parametrize(("failing_groups", "has_interval"), [(2, False), (4, True)])
def test_an_answer_of_too_few_groups_has_no_interval(failing_groups: int, *, has_interval: bool) -> None:
    truths = np.arange(40) >= failing_groups
    said = balanced_accuracies(truths, truths)

    found = difference_interval(said, said, [f"c{number}" for number in range(40)], seed=1)

    assert (found is not None) is has_interval

"""Thresholds: the bound against scipy's own test, and what they promise, on drawn truths."""

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from engine.verifier_metrics import Probabilities
from training.thresholds import first_tried, precision_lower_bound, threshold_for


def spread(first: float, last: float, rows: int) -> Probabilities:
    return np.linspace(first, last, rows, dtype=np.float64)


@pytest.mark.parametrize(("right", "accepted"), [(59, 59), (58, 59), (1, 20), (95, 100), (300, 310)])
def test_the_bound_is_that_of_clopper_and_pearson(right: int, accepted: int) -> None:
    bound = precision_lower_bound(right, accepted, confidence=0.95)

    exact = binomtest(right, accepted, alternative="greater").proportion_ci(0.95, method="exact")
    assert bound == pytest.approx(exact.low)
    assert bound == pytest.approx(beta.ppf(0.05, right, accepted - right + 1))


def test_nothing_right_proves_nothing() -> None:
    assert precision_lower_bound(0, 10, confidence=0.95) == 0.0


def test_the_lowest_threshold_that_holds_is_taken() -> None:
    probabilities = 0.5 + np.arange(1000) / 2000
    truths = probabilities >= 0.71

    found = threshold_for(truths, probabilities, target_precision=0.9)

    assert found is not None
    assert found.probability == pytest.approx(0.7)
    assert (found.accepted, found.right) == (600, 580)
    assert found.precision_bound >= 0.9
    assert found.precision_bound < 580 / 600


def test_everything_is_accepted_where_everything_is_right() -> None:
    probabilities = spread(0.6, 0.9, 300)

    found = threshold_for(np.ones(300, dtype=bool), probabilities, target_precision=0.95)

    assert found is not None
    assert found.probability == pytest.approx(0.6)


def test_few_rows_prove_no_high_precision_though_all_are_right() -> None:
    truths, probabilities = np.ones(40, dtype=bool), spread(0.6, 0.9, 40)

    assert threshold_for(truths, probabilities, target_precision=0.95) is None
    told = first_tried(truths, probabilities, target_precision=0.95)
    assert (told.accepted, told.right) == (40, 40)
    assert told.precision_bound == pytest.approx(0.05 ** (1 / 40))


def test_the_search_ends_at_the_first_share_that_does_not_prove_it() -> None:
    """What comes after a failure is not looked at: the whole risk is spent on the order."""
    probabilities = spread(1.0, 0.5, 200)
    truths = np.ones(200, dtype=bool)
    truths[:10] = False

    assert threshold_for(truths, probabilities, target_precision=0.9) is None
    assert precision_lower_bound(190, 200, confidence=0.95) > 0.9
    told = first_tried(truths, probabilities, target_precision=0.9)
    assert (told.accepted, told.right) == (40, 30)


def test_what_probably_does_not_hold_is_never_accepted_however_much_holds() -> None:
    probabilities = spread(0.1, 0.9, 300)

    found = threshold_for(np.ones(300, dtype=bool), probabilities, target_precision=0.9)

    assert found is not None
    assert (found.probability, found.accepted) == (0.5, 150)


def test_where_everything_probably_fails_there_is_no_threshold() -> None:
    assert threshold_for(np.ones(100, dtype=bool), spread(0.1, 0.4, 100), target_precision=0.5) is None


def test_no_rows_give_no_threshold() -> None:
    assert threshold_for(np.array([], dtype=bool), np.array([]), target_precision=0.5) is None


def test_rows_as_probable_as_the_last_accepted_count() -> None:
    probabilities = np.array([0.9] * 50 + [0.5] * 150)
    truths = np.array([True] * 200)

    found = threshold_for(truths, probabilities, target_precision=0.95)

    assert found is not None
    assert (found.probability, found.accepted) == (0.5, 200)


def test_a_precision_just_missed_is_seldom_granted() -> None:
    """A verifier that knows nothing, of items that hold in 88 of 100: thresholds for 90 of 100 are mistakes."""
    rng = np.random.default_rng(7)
    granted = sum(
        threshold_for(rng.random(200) < 0.88, 0.5 + rng.random(200) / 2, target_precision=0.9) is not None
        for _ in range(300)
    )

    assert granted <= 0.05 * 300

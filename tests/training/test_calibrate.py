"""Calibration against truths that are drawn, so that what a fitted map must find is known."""

import numpy as np
import pytest

from data.dimensions import DIMENSIONS
from data.records import Answers
from engine.calibration import Calibration, Isotonic, Platt
from training.calibrate import FEWEST_LABELS, ISOTONIC_FROM, ScoredLabels, calibrated, fit_calibration


def scored_rows(rows: int, *, distortion: float = 3.0, shift: float = 1.0, seed: int = 1) -> ScoredLabels:
    """Three independent dimensions whose true odds a verifier overstates `distortion` times and shifts."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(1.0, 2.0, size=(rows, 3))
    truths = rng.random((rows, 3)) < 1 / (1 + np.exp(-log_odds))
    said = 1 / (1 + np.exp(-(distortion * log_odds + shift)))
    answers = [Answers(*map(bool, row)) for row in truths]
    groups = [f"c_{row // 7}" for row in range(rows)]
    return ScoredLabels({"TC": said[:, 0], "LC": said[:, 1], "AU": said[:, 2]}, answers, groups)


@pytest.mark.parametrize("rows", [400, 2000])
def test_the_calibration_error_falls_on_every_target(rows: int) -> None:
    fit = fit_calibration(scored_rows(rows), target_precision=0.9)

    assert list(fit.targets) == ["TC", "LC", "AU", "valid"]
    for it in fit.targets.values():
        assert it.ece_before is not None
        assert it.ece_after is not None
        assert it.ece_after < it.ece_before
        assert it.ece_after < 0.08


def test_the_line_that_was_hidden_is_found() -> None:
    fit = fit_calibration(scored_rows(ISOTONIC_FROM - 1), target_precision=0.9)

    found = fit.calibration.maps["TC"]

    assert isinstance(found, Platt)
    assert found.slope == pytest.approx(1 / 3, rel=0.25)
    assert found.offset == pytest.approx(-1 / 3, abs=0.25)


def test_from_a_thousand_labels_on_the_map_is_isotonic() -> None:
    few, many = (fit_calibration(scored_rows(n), target_precision=0.9) for n in (ISOTONIC_FROM - 1, ISOTONIC_FROM))

    assert {type(one) for one in few.calibration.maps.values()} == {Platt}
    assert {type(one) for one in many.calibration.maps.values()} == {Isotonic}
    assert {it.map for it in many.targets.values()} == {"isotonic"}


def test_validity_is_calibrated_beyond_the_product_of_calibrated_dimensions() -> None:
    """Dimensions that fail together: the product of true marginals is too low, and only validity's own map sees it."""
    rng = np.random.default_rng(2)
    odds = rng.normal(0.5, 1.5, size=900)
    holds = rng.random(900) < 1 / (1 + np.exp(-odds))
    said = 1 / (1 + np.exp(-odds))
    answers = [Answers(bool(it), bool(it), bool(it)) for it in holds]
    scored = ScoredLabels({"TC": said, "LC": said, "AU": said}, answers, [f"c_{row}" for row in range(900)])

    fit = fit_calibration(scored, target_precision=0.9)

    valid = fit.targets["valid"]
    assert valid.ece_before is not None
    assert valid.ece_after is not None
    assert valid.ece_before > 0.15
    assert valid.ece_after < 0.06


def test_a_verifier_that_judges_validity_alone_is_calibrated_on_it() -> None:
    rows = scored_rows(500)
    scored = ScoredLabels({"valid": rows.probabilities["TC"]}, rows.answers, rows.groups)

    fit = fit_calibration(scored, target_precision=0.9)

    assert set(fit.calibration.maps) == {"valid"}
    assert list(fit.targets) == ["valid"]


def test_probabilities_of_the_fit_never_saw_their_own_group() -> None:
    """A map learnt from the row itself would separate even labels that the verifier knows nothing of."""
    rng = np.random.default_rng(3)
    rows = 60
    truths = rng.random(rows) < 0.5
    scored = ScoredLabels(
        {"valid": np.full(rows, 0.7)}, [Answers(bool(t), True, True) for t in truths], [f"c_{r}" for r in range(rows)]
    )

    fit = fit_calibration(scored, target_precision=0.9)

    crossed = fit.probabilities["valid"]
    assert len(np.unique(crossed)) > 1
    assert crossed[truths].mean() <= crossed[~truths].mean() + 1e-9


def test_a_target_with_few_labels_keeps_its_probabilities_and_says_so() -> None:
    rows = scored_rows(100)
    few = [Answers(it.tc if row < FEWEST_LABELS - 1 else None, it.lc, it.au) for row, it in enumerate(rows.answers)]

    fit = fit_calibration(ScoredLabels(rows.probabilities, few, rows.groups), target_precision=0.9)

    tc = fit.targets["TC"]
    assert (tc.map, tc.threshold) == ("none", None)
    assert f"TC: {FEWEST_LABELS - 1} calibration labels" in tc.note
    assert "TC" not in fit.calibration.maps
    assert fit.calibration.mapped("TC", np.array([0.3]))[0] == 0.3


def test_no_labels_at_all_is_no_failure() -> None:
    empty: np.ndarray = np.array([])

    fit = fit_calibration(ScoredLabels({"valid": empty}, [], []), target_precision=0.9)

    assert fit.calibration == Calibration()
    valid = fit.targets["valid"]
    assert (valid.labels, valid.map, valid.threshold) == (0, "none", None)
    assert (valid.ece_before, valid.ece_after) == (None, None)


def test_one_answer_only_gives_a_finite_map() -> None:
    scored = ScoredLabels(
        {"valid": np.linspace(0.2, 0.9, 40, dtype=np.float64)},
        [Answers(True, True, True)] * 40,
        [f"c_{row}" for row in range(40)],
    )

    fit = fit_calibration(scored, target_precision=0.9)

    mapped = fit.calibration.mapped("valid", np.array([0.2, 0.9]))
    assert np.isfinite(mapped).all()
    assert (mapped > [0.2, 0.9]).all()
    assert (mapped < 1).all()


def test_a_verifier_that_ranks_the_wrong_way_round_is_left_with_the_base_rate() -> None:
    rows = scored_rows(500)
    turned = {target: 1 - said for target, said in rows.probabilities.items()}

    fit = fit_calibration(ScoredLabels(turned, rows.answers, rows.groups), target_precision=0.9)

    found = fit.calibration.maps["TC"]
    assert isinstance(found, Platt)
    assert found.slope == 0
    share = np.mean([answer.tc for answer in rows.answers])
    assert fit.calibration.mapped("TC", np.array([0.01, 0.99])) == pytest.approx([share, share], abs=0.01)


def test_a_row_without_a_verdict_is_left_out() -> None:
    rows = scored_rows(200)
    with_gap = {target: np.where(np.arange(200) == 5, np.nan, said) for target, said in rows.probabilities.items()}

    fit = fit_calibration(ScoredLabels(with_gap, rows.answers, rows.groups), target_precision=0.9)

    assert [it.labels for it in fit.targets.values()] == [199, 199, 199, 199]
    assert np.isnan(fit.probabilities["valid"][5])


def test_a_precision_that_is_not_reached_leaves_no_threshold_and_says_what_was_proved() -> None:
    fit = fit_calibration(scored_rows(150), target_precision=0.99)

    valid = fit.targets["valid"]
    assert valid.threshold is None
    assert "valid" not in fit.calibration.thresholds
    assert fit.calibration.threshold("valid") == 0.5
    assert "150 calibration labels prove no threshold with a precision of 0.99" in valid.note
    assert "which proves 0." in valid.note


def test_what_a_threshold_accepts_of_new_items_is_as_precise_as_asked() -> None:
    fit = fit_calibration(scored_rows(2000), target_precision=0.9)
    fresh = scored_rows(20_000, seed=9)

    said = calibrated(fit.calibration, fresh.probabilities)

    for index, target in enumerate(dimension.key for dimension in DIMENSIONS):
        accepted = said[target] >= fit.calibration.threshold(target)
        truths = np.array([(it.tc, it.lc, it.au)[index] for it in fresh.answers])
        assert target in fit.calibration.thresholds
        assert truths[accepted].mean() > 0.9
        assert accepted.mean() > 0.3


def test_the_same_rows_give_the_same_calibration_in_any_order() -> None:
    rows = scored_rows(300)
    order = np.random.default_rng(4).permutation(300)
    shuffled = ScoredLabels(
        {target: said[order] for target, said in rows.probabilities.items()},
        [rows.answers[row] for row in order],
        [rows.groups[row] for row in order],
    )

    one, other = fit_calibration(rows, target_precision=0.9), fit_calibration(shuffled, target_precision=0.9)

    assert fit_calibration(rows, target_precision=0.9).calibration.content_hash == one.calibration.content_hash
    assert calibrated(other.calibration, rows.probabilities)["valid"] == pytest.approx(
        calibrated(one.calibration, rows.probabilities)["valid"], abs=1e-6
    )

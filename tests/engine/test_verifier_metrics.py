import numpy as np
import pytest

from engine.verifier_metrics import Confusion, confusion, expected_calibration_error, target_quality


def test_perfect_ranking_and_calibration_are_told() -> None:
    truths = np.array([True, True, False, False])

    quality = target_quality("TC", truths, np.array([1.0, 1.0, 0.0, 0.0]))

    assert (quality.balanced_accuracy, quality.roc_auc, quality.fail_pr_auc, quality.ece) == (1.0, 1.0, 1.0, 0.0)
    assert (quality.base_rate, quality.majority_fail_pr_auc) == (0.5, 0.5)


def test_a_majority_guess_has_the_figures_that_stand_beside() -> None:
    truths = np.array([True] * 8 + [False] * 2)

    quality = target_quality("AU", truths, np.full(10, 0.8))

    assert quality.balanced_accuracy == quality.majority_balanced_accuracy
    assert quality.fail_pr_auc == pytest.approx(quality.majority_fail_pr_auc)
    assert quality.ece == pytest.approx(0.0)


def test_one_answer_only_has_no_figures_that_need_both() -> None:
    quality = target_quality("LC", np.array([True, True]), np.array([0.9, 0.7]))

    assert (quality.balanced_accuracy, quality.roc_auc, quality.fail_pr_auc) == (None, None, None)
    assert quality.base_rate == 1.0


def test_overconfidence_is_the_distance_of_probability_and_frequency() -> None:
    truths = np.array([True, False] * 10)

    assert expected_calibration_error(truths, np.full(20, 0.95)) == pytest.approx(0.45)
    assert expected_calibration_error(truths, np.full(20, 1.0)) == pytest.approx(0.5)


def test_a_confusion_counts_what_was_said_against_what_holds() -> None:
    truths = np.array([True, True, True, False, False, False])
    labels = np.array([True, True, False, True, False, False])

    found = confusion(truths, labels)

    assert found == Confusion(true_yes=2, false_yes=1, true_no=2, false_no=1)
    assert found.kappa == pytest.approx(1 / 3)


def test_agreement_beyond_chance_is_undefined_where_all_say_the_same() -> None:
    assert Confusion(5, 0, 0, 0).kappa is None
    assert Confusion(0, 0, 0, 0).kappa is None
    assert Confusion(8, 2, 0, 0).kappa == 0.0


def test_labels_of_their_own_make_the_balanced_accuracy() -> None:
    truths = np.array([True, True, False, False])
    probabilities = np.array([0.4, 0.3, 0.2, 0.1])

    assert target_quality("valid", truths, probabilities).balanced_accuracy == 0.5
    assert target_quality("valid", truths, probabilities, probabilities > 0.25).balanced_accuracy == 1.0

"""Figures of the learning bench: weighted ROC-AUC is scikit-learn's; intervals hold the figure; pairs cancel out."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from data.records import Answers
from tests.bench.learning.verifier_figures import Judgements, differences, figures, roc_aucs
from tests.bench.learning.verifier_rows import Drawn

ROWS = 120
RNG = np.random.default_rng(5)
TRUTHS = RNG.random(ROWS) < 0.6
SAID = np.round(0.2 * TRUTHS + 0.8 * RNG.random(ROWS), 1)  # tenths, so that there are equal ones


def rows() -> Drawn:
    answers = [Answers(bool(truth), True, True) for truth in TRUTHS]
    groups = [f"q{place // 4}" for place in range(ROWS)]
    return Drawn(np.zeros((ROWS, 1)), np.zeros(ROWS, dtype=int), answers, groups, [])


def said() -> Judgements:
    return {"valid": SAID}


def test_a_weighted_roc_auc_is_that_of_the_rows_repeated() -> None:
    weights = RNG.integers(0, 3, size=(3, ROWS)).astype(float)

    found = roc_aucs(TRUTHS, SAID)(weights)

    assert found == pytest.approx([roc_auc_score(TRUTHS, SAID, sample_weight=one) for one in weights])


def test_an_interval_holds_its_figure_and_is_wider_when_verifiers_differ() -> None:
    alike = figures(rows(), [said(), said()], seed=1)["valid"]["roc_auc"]
    unlike = figures(rows(), [said(), {"valid": 1 - SAID}], seed=1)["valid"]["roc_auc"]

    assert alike["low"] < alike["mean"] < alike["high"] < 1
    assert unlike["high"] - unlike["low"] > 2 * (alike["high"] - alike["low"])


def test_a_verifier_does_not_differ_from_itself() -> None:
    change = differences(rows(), [said()], [said()], seed=1)["valid"]

    assert {bound for one in change.values() for bound in one.values()} == {0.0}

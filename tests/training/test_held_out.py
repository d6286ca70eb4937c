"""What a verifier says of labels that it has not learnt from, by a verifier that always says the same."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from data.errors import JobCancelledError
from data.records import Answers, Verdict, VerdictMethod, VerdictTarget
from engine.jobs.report import Reporter
from engine.verifier_metrics import VerifierMetrics
from engine.verify import Pair
from tests.engine.sample_pairs import sample_rows
from training.calibrate import fit_calibration
from training.held_out import held_out, held_out_metrics, held_out_quality, scored_labels
from training.labelled_rows import LabelledRows

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SAMPLE = sample_rows()
ROWS = LabelledRows(*SAMPLE)
TARGETS: tuple[VerdictTarget, ...] = ("TC", "LC", "AU")
TARGETS_AND_VALID: tuple[VerdictTarget, ...] = (*TARGETS, "valid")


class Opinionated:
    """0.9 for each dimension of a variant, 0.2 where its context is long; nothing of the refused ones."""

    version = "opinionated"
    method: VerdictMethod = "feature"

    def __init__(self, refused: Sequence[str] = ()) -> None:
        self.refused = refused

    def judge(self, pairs: Sequence[Pair], *, now: datetime) -> list[Verdict]:
        verdicts = []
        for _, variant in pairs:
            said = None if variant.variant_id in self.refused else 0.2 if len(variant.context) > 150 else 0.9
            for target in TARGETS_AND_VALID:
                label = None if said is None else said >= 0.5
                verdicts.append(Verdict(variant.variant_id, target, said, label, self.version, self.method, None, now))
        return verdicts


@pytest.fixture
def report(tmp_path: Path) -> Reporter:
    return Reporter(tmp_path / "events.jsonl")


def scored(rows: LabelledRows, report: Reporter, refused: Sequence[str] = ()):
    return scored_labels(Opinionated(refused), rows, TARGETS, now=NOW, report=report, text="judging")


def figures_of(calibration: LabelledRows, validation: LabelledRows, report: Reporter) -> VerifierMetrics:
    scores = [scored(rows, report) for rows in (calibration, validation)]
    fit = fit_calibration(scores[0], target_precision=0.9)
    return held_out_metrics(held_out(fit, calibration, scores[0], validation, scores[1]))


def test_every_label_stands_beside_what_is_said_of_its_own_variant(report: Reporter) -> None:
    rows = ROWS.chosen(range(40))

    found = scored(rows, report)

    assert set(found.probabilities) == set(TARGETS)
    for (_, variant), said in zip(rows.pairs, found.probabilities["LC"], strict=True):
        assert said == (0.2 if len(variant.context) > 150 else 0.9)


def test_what_the_verifier_does_not_judge_has_no_probability(report: Reporter) -> None:
    refused = ROWS.pairs[17][1].variant_id

    found = scored(ROWS.chosen(range(40)), report, [refused])

    assert np.flatnonzero(np.isnan(found.probabilities["TC"])).tolist() == [17]


def test_a_cancel_stops_it_between_batches(report: Reporter) -> None:
    report.cancel()

    with pytest.raises(JobCancelledError):
        scored(ROWS, report)


def test_the_figures_are_of_both_parts_together_and_by_type(report: Reporter) -> None:
    calibration, validation = ROWS.chosen(range(60)), ROWS.chosen(range(60, 90))

    figures = figures_of(calibration, validation, report)

    assert (figures.labels, figures.questions) == (90, len(set(SAMPLE.groups[:90])))
    assert {target: it.n for target, it in figures.targets.items()} == dict.fromkeys((*TARGETS, "valid"), 90)
    assert sum(it["TC"].n for it in figures.types.values()) == 90


def test_validation_labels_alone_give_figures_too(report: Reporter) -> None:
    figures = figures_of(ROWS.chosen([]), ROWS.chosen(range(30)), report)

    assert figures.targets["valid"].n == 30


def test_what_nobody_answered_has_no_figure(report: Reporter) -> None:
    unanswered = LabelledRows(ROWS.pairs[:30], [Answers(True, None, None)] * 30, ROWS.groups[:30])

    figures = figures_of(unanswered, ROWS.chosen([]), report)

    assert set(figures.targets) == {"TC"}


def test_a_verifier_that_knows_nothing_does_not_seem_to_know_the_opposite() -> None:
    """Base rates learnt without a fold are lowest where most of the fold holds."""
    truths = np.array([True] * 8 + [False] * 2 + [False] * 8 + [True] * 2)
    without_own_fold = np.array([0.2] * 10 + [0.8] * 10)

    quality = held_out_quality("valid", truths, np.full(20, 0.7), without_own_fold)

    assert quality.roc_auc == 0.5
    assert quality.ece > 0.5

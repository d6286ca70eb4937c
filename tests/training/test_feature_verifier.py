"""Training of the feature verifier: deterministic, split by question, better than a majority guess where it says so."""

import numpy as np
import pytest

from data.errors import InputError
from data.records import VARIANT_TYPE_KEYS, Answers
from engine.feature_verifier import type_indices
from engine.features import features
from tests.engine.sample_pairs import BagOfWords, sample_rows
from training.feature_verifier import TrainedVerifier, train, train_on_features

pytestmark = pytest.mark.slow

ROWS = sample_rows()


@pytest.fixture(scope="module")
def trained() -> TrainedVerifier:
    return train(*ROWS, seed=3, encoder=None)


def test_the_same_rows_and_seed_give_the_same_verifier_and_report(trained: TrainedVerifier) -> None:
    again = train(*ROWS, seed=3, encoder=None)

    assert again.verifier.version == trained.verifier.version
    assert again.report == trained.report


def test_features_that_are_known_already_give_the_same_verifier_and_report(trained: TrainedVerifier) -> None:
    known = features(ROWS.pairs, None)

    again = train_on_features(known, type_indices(ROWS.pairs), ROWS.answers, ROWS.groups, seed=3, encoder=None)

    assert again.verifier.version == trained.verifier.version
    assert again.report == trained.report


def test_another_seed_splits_otherwise(trained: TrainedVerifier) -> None:
    assert train(*ROWS, seed=4, encoder=None).report.targets != trained.report.targets


def test_type_consistency_and_validity_are_told_apart_better_than_by_a_majority_guess(trained: TrainedVerifier) -> None:
    by_target = trained.report.targets

    assert set(by_target) == {"TC", "LC", "AU", "valid"}
    for target in ("TC", "valid"):
        quality = by_target[target]
        assert quality.balanced_accuracy is not None
        assert quality.fail_pr_auc is not None
        assert quality.balanced_accuracy > quality.majority_balanced_accuracy + 0.1
        assert quality.fail_pr_auc > quality.majority_fail_pr_auc + 0.15
        assert quality.ece < 0.15


def test_labels_drawn_at_random_teach_nothing() -> None:
    """Were a group on both sides of a split, or a label in a feature, this would look like skill."""
    rng = np.random.default_rng(5)
    by_group = {group: rng.random(3) < 0.5 for group in sorted(set(ROWS.groups))}
    answers = [Answers(*(bool(one) for one in by_group[group])) for group in ROWS.groups]

    report = train(ROWS.pairs, answers, ROWS.groups, seed=3, encoder=BagOfWords()).report

    for target in ("TC", "LC", "AU"):
        quality = report.targets[target]
        assert quality.roc_auc is not None
        assert quality.roc_auc < 0.65


def test_every_type_is_reported(trained: TrainedVerifier) -> None:
    assert set(trained.report.types) == set(VARIANT_TYPE_KEYS)
    assert sum(qualities["TC"].n for qualities in trained.report.types.values()) == len(ROWS.pairs)
    assert trained.report.with_embeddings is False
    assert trained.report.groups == len(set(ROWS.groups))


def test_a_dimension_that_nobody_answered_on_a_row_is_learnt_from_the_others() -> None:
    answers = [Answers(one.tc, None if i % 3 == 0 else one.lc, one.au) for i, one in enumerate(ROWS.answers)]

    report = train(ROWS.pairs, answers, ROWS.groups, seed=3, encoder=None).report

    counted = {target: quality.n for target, quality in report.targets.items()}
    assert counted["LC"] == sum(answer.lc is not None for answer in answers)
    assert counted["TC"] == counted["AU"] == len(ROWS.pairs)


def test_a_dimension_with_one_answer_only_is_refused_by_name() -> None:
    answers = [Answers(one.tc, one.lc, True) for one in ROWS.answers]

    with pytest.raises(InputError, match="AU is answered no for 0 questions"):
        train(ROWS.pairs, answers, ROWS.groups, seed=3, encoder=None)


def test_labels_of_one_question_are_refused() -> None:
    with pytest.raises(InputError, match="fewer than two questions"):
        train(ROWS.pairs[:5], ROWS.answers[:5], ["same"] * 5, seed=3, encoder=None)


def test_two_groups_of_each_answer_are_enough() -> None:
    chosen = [i for i, group in enumerate(ROWS.groups) if group in sorted(set(ROWS.groups))[:9]]
    rows = ([ROWS.pairs[i] for i in chosen], [ROWS.answers[i] for i in chosen], [ROWS.groups[i] for i in chosen])

    assert train(*rows, seed=3, encoder=None).report.variants == len(chosen)


def test_progress_is_told_step_by_step() -> None:
    told: list[tuple[int, int]] = []

    train(*ROWS, seed=3, encoder=None, progress=lambda done, total, _: told.append((done, total)))

    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]

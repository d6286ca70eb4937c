"""Which labels a verifier learns from: split by question, once and for all."""

from datetime import UTC, datetime, timedelta
from math import ceil

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from data.errors import InputError
from data.ids import cluster_id
from data.records import Answers, LabelSource, TrainingLabel, VariantId
from data.samples import CREATED_AT, sample_questions, sample_variants
from training.examples import LABEL_SCHEMA, held_out_groups, labels_table, sample_labels, sample_split, select

NOW = datetime(2026, 3, 1, tzinfo=UTC)
QUESTIONS = {question.question_id: question for question in sample_questions()}


def test_no_question_is_both_learnt_from_and_held_out() -> None:
    learnt, held_out = sample_split()
    clusters = [
        {cluster_id(q.context, q.options) for q in (QUESTIONS[it.variant.question_id] for it in side)}
        for side in (learnt, held_out)
    ]

    assert clusters[0] & clusters[1] == set()
    assert len(clusters[1]) == round(0.3 * len(QUESTIONS))
    assert len(learnt) + len(held_out) == len(sample_variants())


def test_both_sides_of_the_sample_have_every_type_and_every_defect_dimension() -> None:
    for side in sample_split():
        assert len({it.variant.variant_type for it in side}) == 7
        assert all(any(getattr(it.answers, name) is False for it in side) for name in ("tc", "lc", "au"))


def test_the_split_depends_on_content_and_seed_and_not_on_order() -> None:
    groups = [f"c_{number}" for number in range(40)]

    drawn = held_out_groups(groups, share=0.25, seed=1)

    assert drawn == held_out_groups([*reversed(groups), *groups], share=0.25, seed=1)
    assert len(drawn) == 10
    assert drawn != held_out_groups(groups, share=0.25, seed=2)
    assert held_out_groups([], share=0.25, seed=1) == frozenset()


def test_labels_keep_what_was_not_answered() -> None:
    label = TrainingLabel(
        VariantId("v_1"), Answers(True, None, False), "c_1", "gate", "annotations", is_blind=True, labelled_at=NOW
    )

    table = labels_table([label])

    assert table.schema == LABEL_SCHEMA
    assert table.to_pylist() == [
        {"variant_id": "v_1", "tc": True, "lc": None, "au": False, "group": "c_1"}
        | {"part": "gate", "source": "annotations", "is_blind": True, "labelled_at": NOW}
    ]


def test_the_samples_labels_are_learnt_from_and_never_called_blind() -> None:
    labelled = sample_variants()[:3]

    for item, label in zip(labelled, sample_labels(labelled, QUESTIONS.values()), strict=True):
        question = QUESTIONS[item.variant.question_id]
        assert label == TrainingLabel(
            item.variant.variant_id,
            item.answers,
            cluster_id(question.context, question.options),
            "train",
            "sample",
            is_blind=False,
            labelled_at=CREATED_AT,
        )


def a_label(number: int, *, source: LabelSource = "annotations", minute: int = 0) -> TrainingLabel:
    return TrainingLabel(
        VariantId(f"v_{number}"),
        Answers(True, True, True),
        f"c_{number}",
        "train",
        source,
        is_blind=False,
        labelled_at=NOW + timedelta(minutes=minute),
    )


@given(first=st.integers(1, 40), later=st.integers(0, 60), most=st.integers(1, 120), seed=st.integers(0, 2**31 - 1))
def test_at_least_thirty_percent_of_the_first_labels_are_kept_whatever_the_limit(
    first: int, later: int, most: int, seed: int
) -> None:
    labels = [a_label(number, source="sample") for number in range(first)]
    labels += [a_label(1000 + number, minute=number) for number in range(later)]
    assume(most >= ceil(0.3 * first))

    chosen = select(labels, max_labels=most, seed=seed)

    kept = {label.variant_id for label in chosen.chosen}
    assert len(chosen.chosen) == len(kept) == min(most, len(labels))
    assert sum(f"v_{number}" in kept for number in range(first)) == chosen.first_kept >= 0.3 * first
    assert chosen.first == first
    # Of the later ones an older is never preferred to a newer.
    is_kept = [f"v_{1000 + number}" in kept for number in range(later)]
    assert is_kept == sorted(is_kept)


def test_without_the_sample_the_oldest_labels_are_the_first() -> None:
    labels = [a_label(number, minute=-number) for number in range(400)]

    chosen = select(labels, max_labels=100, seed=1)

    oldest = {f"v_{number}" for number in range(100, 400)}
    assert (chosen.first, chosen.first_kept) == (300, 90)
    assert sum(label.variant_id in oldest for label in chosen.chosen) == 90
    assert {f"v_{number}" for number in range(10)} <= {label.variant_id for label in chosen.chosen}


def test_the_choice_is_by_seed_and_content_and_keeps_the_order_of_the_labels() -> None:
    labels = [a_label(number, source="sample") for number in range(50)]

    chosen, again, other = (
        select(given, max_labels=20, seed=seed).chosen for given, seed in ((labels, 1), (labels[::-1], 1), (labels, 2))
    )

    assert chosen == again[::-1]
    assert chosen != other
    assert chosen == [label for label in labels if label in chosen]


def test_a_limit_below_what_is_always_kept_is_refused_with_the_least() -> None:
    labels = [a_label(number, source="sample") for number in range(50)]

    with pytest.raises(
        InputError, match="a maximum of 14 labels is too low: 15 of the 50 first labels are always kept"
    ):
        select(labels, max_labels=14, seed=1)


def test_without_a_limit_all_labels_are_used() -> None:
    labels = [a_label(number) for number in range(500)]

    assert select(labels, max_labels=None, seed=1) == (labels, 300, 300)
    assert select([], max_labels=5, seed=1) == ([], 0, 0)

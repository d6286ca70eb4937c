"""Which labels a verifier learns from: split by question, once and for all."""

from datetime import UTC, datetime

from data.ids import cluster_id
from data.records import Answers, TrainingLabel, VariantId
from data.samples import CREATED_AT, sample_questions, sample_variants
from training.examples import LABEL_SCHEMA, held_out_groups, labels_table, sample_labels, sample_split

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

from datetime import timedelta
from typing import Any

import pytest

from annotation.adjudication import decide, refresh_decisions
from data.records import AnnotationId, Answers, Decision, VariantId
from data.tables.annotations import AnnotationTable
from data.tables.decisions import DecisionTable
from tests.annotation.labelling import NO_AU, NOW, YES, Bench, an_annotation

V = VariantId("v")


def test_one_complete_label_decides() -> None:
    decision = decide([an_annotation("a", V)], NOW)

    assert decision is not None
    assert (decision.outcome, decision.answers, decision.decided_by) == ("accepted", YES, "ana")
    assert decision.annotation_ids == ("a",)


def test_a_no_on_any_dimension_rejects() -> None:
    decision = decide([an_annotation("a", V, NO_AU)], NOW)

    assert decision is not None
    assert decision.outcome == "rejected"


def test_people_who_differ_on_validity_decide_nothing() -> None:
    assert decide([an_annotation("a", V), an_annotation("b", V, NO_AU, annotator="bo")], NOW) is None


def test_two_noes_for_different_reasons_reject_and_leave_the_reasons_open() -> None:
    no_tc = Answers(False, True, True)

    decision = decide([an_annotation("a", V, NO_AU), an_annotation("b", V, no_tc, annotator="bo")], NOW)

    assert decision is not None
    assert (decision.outcome, decision.answers) == ("rejected", Answers(None, True, None))


@pytest.mark.parametrize(
    "fields",
    [
        {"is_skipped": True},
        {"is_deleted": True},
        {"answers": Answers(None, None, None)},
        {"answers": Answers(True, None, False)},
    ],
)
def test_skipped_deleted_empty_and_incomplete_ones_have_no_voice(fields: dict[str, Any]) -> None:
    answers = fields.pop("answers", YES)

    assert decide([an_annotation("a", V, answers, **fields)], NOW) is None


def test_of_one_persons_two_labels_the_newer_has_the_voice() -> None:
    older = an_annotation("a", V, NO_AU)
    newer = an_annotation("b", V, YES, updated_at=NOW + timedelta(seconds=1))

    decision = decide([newer, older], NOW)

    assert decision is not None
    assert (decision.outcome, decision.annotation_ids) == ("accepted", ("b",))


def test_a_leads_decision_is_left_alone(bench: Bench) -> None:
    (variant,) = bench.add_variants(1)
    ruling = Decision(variant, "rejected", NO_AU, "adjudication", (AnnotationId("a"),), "lea", NOW)
    with bench.store.write() as connection:
        DecisionTable(connection).upsert(ruling)

    bench.submit(variant, YES)

    with bench.store.read() as connection:
        assert DecisionTable(connection).get(variant) == ruling


def test_a_decision_keeps_its_stamp_until_it_changes(bench: Bench) -> None:
    (variant,) = bench.add_variants(1)
    bench.submit(variant)
    with bench.store.write() as connection:
        before = DecisionTable(connection).get(variant)
        refresh_decisions(connection, [variant], NOW + timedelta(days=1))
        after = DecisionTable(connection).get(variant)

    assert before is not None
    assert after == before


def test_a_withdrawn_label_withdraws_the_decision(bench: Bench) -> None:
    (variant,) = bench.add_variants(1)
    label = bench.submit(variant)
    gone = an_annotation(label.annotation_id, variant, revision=2, is_deleted=True, updated_at=NOW + timedelta(hours=1))
    with bench.store.write() as connection:
        AnnotationTable(connection).append(gone)
        refresh_decisions(connection, [variant], NOW)

        assert DecisionTable(connection).by_ids([variant]) == {}

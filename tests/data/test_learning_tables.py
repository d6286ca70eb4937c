"""Parts of clusters, sign-offs and schedules over a real DuckDB in memory."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from data.ids import cluster_id, question_id, variant_id
from data.records import ContractCheck, Question, Recipe, RunId, Schedule, SignOff, Variant
from data.store import Connection, Store
from data.tables.cluster_parts import ClusterPartTable, StandingPart
from data.tables.contract_checks import ContractCheckTable
from data.tables.questions import QuestionTable
from data.tables.schedules import ScheduleTable
from data.tables.sign_offs import SignOffTable
from data.tables.variants import VariantTable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def connection() -> Iterator[Connection]:
    store = Store.in_memory(now=lambda: NOON)
    with store.write() as connection:
        yield connection
    store.close()


def bring_in(
    connection: Connection, context: str, *, benchmark: str = "mini", passes: bool = True, answer: int | None = 0
) -> Variant:
    """A question with one variant; the question's cluster is that of `cluster`."""
    options = ("She makes tea", "She flies")
    question = Question(question_id(context, options, answer), context, options, answer, benchmark, context)
    made = variant_id(question.question_id, "restatement", context + "!", options, 0)
    recipe = Recipe("rules", "rules-1", "p1", "{}", 3)
    variant = Variant(
        made, question.question_id, "restatement", context + "!", options, 0, False, None, recipe, None, NOON
    )
    QuestionTable(connection).upsert([question], now=NOON)
    VariantTable(connection).upsert([variant])
    ContractCheckTable(connection).upsert([ContractCheck(made, "options", passes, True, "")])
    return variant


def cluster(context: str) -> str:
    return cluster_id(context, ("She makes tea", "She flies"))


def test_a_cluster_keeps_the_part_that_it_got_first(connection: Connection) -> None:
    table = ClusterPartTable(connection)
    bring_in(connection, "Ann boils water")

    assert table.add({cluster("Ann boils water"): "gate", "c_elsewhere": "train"}, NOON) == 2
    assert table.add({cluster("Ann boils water"): "train"}, NOON + timedelta(days=1)) == 0

    assert table.standing() == {
        cluster("Ann boils water"): StandingPart("mini", "gate"),
        "c_elsewhere": StandingPart("", "train"),
    }


def test_only_clusters_without_a_part_are_asked_for_once_each(connection: Connection) -> None:
    table = ClusterPartTable(connection)
    first, twin = bring_in(connection, "Ann boils water"), bring_in(connection, "ANN boils  water", benchmark="more")
    known, broken = bring_in(connection, "Bob runs"), bring_in(connection, "Cy swims", passes=False)
    bring_in(connection, "Di sleeps", answer=None)
    table.add({cluster("Bob runs"): "train"}, NOON)

    named = table.without_part([one.variant_id for one in (first, twin, known, broken)])

    assert named == {cluster("Ann boils water"): "mini"}
    assert table.without_part() == {cluster("Ann boils water"): "mini", cluster("Cy swims"): "mini"}


def test_a_decided_variant_brings_its_question_in_whatever_became_of_that(connection: Connection) -> None:
    unanswered = bring_in(connection, "Di sleeps", answer=None)
    connection.execute(
        "INSERT INTO decision VALUES (?, 'rejected', true, false, true, 'annotations', [], 'ana', ?)",
        [unanswered.variant_id, NOON],
    )

    assert ClusterPartTable(connection).without_part() == {cluster("Di sleeps"): "mini"}


def test_sign_offs_are_kept_in_order_and_found_by_both_models(connection: Connection) -> None:
    table = SignOffTable(connection)
    first = table.add(
        role="verifier",
        action="promote",
        model_id="m_2",
        previous_id="m_1",
        run_id=RunId("r_9"),
        outcome="passes",
        note="better on LC",
        signed_by="lea",
        signed_at=NOON,
    )
    back = table.add(
        role="verifier",
        action="rollback",
        model_id="m_1",
        previous_id="m_2",
        run_id=None,
        outcome="",
        note="complaints",
        signed_by="lea",
        signed_at=NOON,
    )
    away = table.add(
        role="generator",
        action="rollback",
        model_id=None,
        previous_id="m_7",
        run_id=None,
        outcome="",
        note="n",
        signed_by="lea",
        signed_at=NOON,
    )

    assert first == SignOff(1, "verifier", "promote", "m_2", "m_1", RunId("r_9"), "passes", "better on LC", "lea", NOON)
    assert table.of_role("verifier") == [back, first]
    assert table.of_model("m_1") == [back, first]
    assert table.of_model("m_7") == [away]
    assert table.of_model("m_8") == []


def test_a_role_has_one_schedule_and_the_last_one_counts(connection: Connection) -> None:
    table = ScheduleTable(connection)
    early = Schedule("verifier", 100, None, None, False, "lea", NOON)
    late = Schedule("verifier", None, 6, 3, True, "max", NOON + timedelta(days=1))
    table.put(early)
    assert table.find("verifier") == early

    table.put(late)

    assert table.find("verifier") == late
    assert table.find("generator") is None
    assert table.all() == [late]

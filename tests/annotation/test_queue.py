"""The queue's order, its blind draw and its leases, on a real store."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from annotation.leases import LEASE_LIFETIME, release_lease, take_lease
from annotation.queue import enqueue, is_drawn_blind, priority_and_reason
from data.ids import cluster_id
from data.records import Question, QuestionId, VariantId
from data.store import Connection, Store
from data.tables.cluster_parts import ClusterPartTable
from data.tables.questions import QuestionTable
from data.tables.queue import QueueCandidate, QueueTable

NOW = datetime(2027, 1, 4, 9, 0, tzinfo=UTC)


@pytest.fixture
def connection() -> Iterator[Connection]:
    store = Store.in_memory(now=lambda: NOW)
    with store.write() as open_connection:
        yield open_connection
    store.close()


def add_variant(connection: Connection, name: str, **probabilities: float | None) -> VariantId:
    connection.execute(
        """
        INSERT INTO variant VALUES
            (?, 'q_1', 'negation', 'It', ['a', 'b'], 0, false, 1, 'rules', 'r', '1', '{}', 1, NULL, ?)
        """,
        [name, NOW],
    )
    for target, probability in probabilities.items():
        connection.execute(
            "INSERT INTO verdict VALUES (?, ?, ?, ?, 'v1', 'feature', NULL, ?)",
            [name, target, probability, None if probability is None else probability >= 0.5, NOW],
        )
    add_check(connection, name, holds=True, is_required=True)
    return VariantId(name)


def add_check(connection: Connection, variant_id: str, *, holds: bool, is_required: bool) -> None:
    connection.execute(
        "INSERT INTO contract_check VALUES (?, ?, ?, ?, '')", [variant_id, f"c{holds}", holds, is_required]
    )


def annotate(
    connection: Connection, variant_id: str, annotator: str, at: datetime, *, is_skipped: bool = False
) -> None:
    connection.execute(
        """
        INSERT INTO annotation VALUES (?, 1, ?, ?, ?, true, true, true, NULL, NULL, '', false, ?, false, false, NULL,
            'console', NULL, NULL, NULL, 'c', '1', 2.0, ?, ?, 'h')
        """,
        [f"a_{variant_id}_{annotator}", variant_id, annotator, annotator, is_skipped, at, at],
    )


def queue_of(connection: Connection, account: str = "ana", overlap: int = 1) -> list[str]:
    """The account's whole order, by putting off each first item once."""
    order: list[str] = []
    for minute in range(1, 50):
        item = QueueTable(connection).first_for(account, overlap=overlap, now=NOW)
        if item is None or item.variant_id in order:
            break
        order.append(item.variant_id)
        QueueTable(connection).put_off(item.variant_id, account, NOW + timedelta(minutes=minute))
    return order


def test_the_item_nearest_to_an_even_call_comes_first_and_says_why(connection: Connection) -> None:
    sure = add_variant(connection, "v_sure", TC=0.99, LC=0.98, AU=0.97)
    unsure = add_variant(connection, "v_unsure", TC=0.9, LC=0.9, AU=0.52)

    enqueue(connection, variant_ids=[sure, unsure], blind_share=0.0, seed=1, now=NOW)

    first = QueueTable(connection).first_for("ana", overlap=1, now=NOW)
    assert first is not None
    assert (first.variant_id, first.reason) == (unsure, "AU uncertain (0.52)")
    assert queue_of(connection) == [unsure, sure]


def test_a_verifier_of_validity_alone_orders_the_queue_too(connection: Connection) -> None:
    sure, unsure = add_variant(connection, "v_sure", valid=0.95), add_variant(connection, "v_unsure", valid=0.4)
    unparsed = add_variant(connection, "v_unparsed", valid=None)

    enqueue(connection, variant_ids=[sure, unsure, unparsed], blind_share=0.0, seed=1, now=NOW)

    assert queue_of(connection) == [unparsed, unsure, sure]


def test_a_reply_that_did_not_parse_comes_before_all(connection: Connection) -> None:
    even = add_variant(connection, "v_even", TC=0.5001)
    unparsed = add_variant(connection, "v_unparsed", TC=None)

    enqueue(connection, variant_ids=[even, unparsed], blind_share=0.0, seed=1, now=NOW)

    assert queue_of(connection) == [unparsed, even]


def test_only_variants_that_pass_their_contract_are_queued(connection: Connection) -> None:
    broken, unchecked = add_variant(connection, "v_broken"), add_variant(connection, "v_unchecked")
    warned = add_variant(connection, "v_warned")
    add_check(connection, broken, holds=False, is_required=True)
    add_check(connection, warned, holds=False, is_required=False)

    connection.execute("DELETE FROM contract_check WHERE variant_id = 'v_unchecked'")
    names = [broken, unchecked, warned, VariantId("v_absent")]

    added = enqueue(connection, variant_ids=names, blind_share=0.0, seed=1, now=NOW)

    assert added == 1
    assert queue_of(connection) == [warned]


def test_queueing_twice_adds_nothing_and_keeps_blindness_but_reorders_by_new_verdicts(connection: Connection) -> None:
    names = [add_variant(connection, f"v_{n}", TC=0.9) for n in range(40)]
    assert enqueue(connection, variant_ids=names, blind_share=0.5, seed=7, now=NOW) == 40
    before = {name: QueueTable(connection).find(name) for name in names}
    connection.execute("UPDATE verdict SET probability = 0.5")

    assert enqueue(connection, variant_ids=names, blind_share=0.0, seed=8, now=NOW) == 0

    for name in names:
        old, new = before[name], QueueTable(connection).find(name)
        assert old is not None
        assert new is not None
        assert new.is_blind == old.is_blind
        if new.is_blind:
            assert (new.priority, new.reason) == (old.priority, old.reason)
        else:
            assert new.reason == "TC uncertain (0.50)"


def test_blind_items_are_about_the_share_and_drawn_by_seed_and_id_alone(connection: Connection) -> None:
    ids = [VariantId(f"v_{n}") for n in range(2000)]

    drawn = [is_drawn_blind(variant_id, share=0.3, seed=5) for variant_id in ids]

    assert 0.26 < sum(drawn) / len(drawn) < 0.34
    assert drawn == [is_drawn_blind(variant_id, share=0.3, seed=5) for variant_id in ids]
    assert drawn != [is_drawn_blind(variant_id, share=0.3, seed=6) for variant_id in ids]


def test_what_is_asked_of_a_gate_question_is_blind_at_any_share_unless_it_was_there_before(
    connection: Connection,
) -> None:
    early, late = add_variant(connection, "v_early", TC=0.5), add_variant(connection, "v_late", TC=0.5)
    enqueue(connection, variant_ids=[early], blind_share=0.0, seed=1, now=NOW)
    question = Question(QuestionId("q_1"), "It", ("a", "b"), 0, "mini", "1")
    QuestionTable(connection).upsert([question], now=NOW)
    ClusterPartTable(connection).add({cluster_id("It", ("a", "b")): "gate"}, NOW)

    enqueue(connection, variant_ids=[early, late], blind_share=0.0, seed=1, now=NOW)

    before, after = QueueTable(connection).find(early), QueueTable(connection).find(late)
    assert before is not None
    assert after is not None
    assert (before.is_blind, before.reason) == (False, "TC uncertain (0.50)")
    assert (after.is_blind, after.reason) == (True, "random check")


def test_an_assisted_item_keeps_a_reason_of_its_verdicts_when_the_share_grows(connection: Connection) -> None:
    name = add_variant(connection, "v_1", TC=0.5)
    enqueue(connection, variant_ids=[name], blind_share=0.0, seed=1, now=NOW)

    enqueue(connection, variant_ids=[name], blind_share=1.0, seed=1, now=NOW)

    item = QueueTable(connection).find(name)
    assert item is not None
    assert (item.is_blind, item.reason) == (False, "TC uncertain (0.50)")


def test_a_question_in_another_part_is_as_blind_as_the_draw_says(connection: Connection) -> None:
    names = [add_variant(connection, f"v_{n}") for n in range(30)]
    QuestionTable(connection).upsert([Question(QuestionId("q_1"), "It", ("a", "b"), 0, "mini", "1")], now=NOW)
    ClusterPartTable(connection).add({cluster_id("It", ("a", "b")): "calibration"}, NOW)

    enqueue(connection, variant_ids=names, blind_share=0.3, seed=4, now=NOW)

    for name in names:
        item = QueueTable(connection).find(name)
        assert item is not None
        assert item.is_blind == is_drawn_blind(name, share=0.3, seed=4)


def test_a_blind_items_place_and_reason_do_not_depend_on_its_verdicts(connection: Connection) -> None:
    known = add_variant(connection, "v_a", TC=0.5)
    enqueue(connection, variant_ids=[known], blind_share=1.0, seed=3, now=NOW)
    first = QueueTable(connection).find(known)
    connection.execute("DELETE FROM queue_item")
    connection.execute("UPDATE verdict SET probability = 0.99")

    enqueue(connection, variant_ids=[known], blind_share=1.0, seed=3, now=NOW)

    assert QueueTable(connection).find(known) == first
    assert first is not None
    assert first.reason == "random check"


def test_an_answered_item_leaves_the_queue_and_a_skipped_one_only_the_skippers(connection: Connection) -> None:
    answered, skipped = add_variant(connection, "v_1"), add_variant(connection, "v_2")
    enqueue(connection, variant_ids=[answered, skipped], blind_share=0.0, seed=1, now=NOW)

    annotate(connection, answered, "ana", NOW)
    annotate(connection, skipped, "ana", NOW, is_skipped=True)

    assert queue_of(connection, "ana") == []
    assert queue_of(connection, "ben") == [skipped]
    assert queue_of(connection, "cai", overlap=2) == [answered, skipped]


def test_an_item_that_another_has_open_is_passed_over_until_the_lease_ends(connection: Connection) -> None:
    only = add_variant(connection, "v_1")
    enqueue(connection, variant_ids=[only], blind_share=0.0, seed=1, now=NOW)
    assert take_lease(connection, only, "ana", now=NOW) == NOW + LEASE_LIFETIME

    table = QueueTable(connection)

    assert table.first_for("ben", overlap=1, now=NOW) is None
    assert take_lease(connection, only, "ben", now=NOW) is None
    assert take_lease(connection, only, "ana", now=NOW + timedelta(minutes=9)) is not None
    assert take_lease(connection, only, "ben", now=NOW + timedelta(minutes=12)) is None
    assert table.first_for("ben", overlap=1, now=NOW + timedelta(minutes=20)) is not None
    assert take_lease(connection, only, "ben", now=NOW + timedelta(minutes=20)) is not None
    release_lease(connection, only, "ana")
    assert take_lease(connection, only, "ana", now=NOW + timedelta(minutes=21)) is None


def test_later_puts_an_item_at_the_end_of_my_queue_only(connection: Connection) -> None:
    first, second = add_variant(connection, "v_1", TC=0.5), add_variant(connection, "v_2", TC=0.9)
    enqueue(connection, variant_ids=[first, second], blind_share=0.0, seed=1, now=NOW)

    QueueTable(connection).put_off(first, "ana", NOW)

    table = QueueTable(connection)
    mine, theirs = table.first_for("ana", overlap=1, now=NOW), table.first_for("ben", overlap=1, now=NOW)
    assert mine is not None
    assert theirs is not None
    assert (mine.variant_id, theirs.variant_id) == (second, first)


def test_undo_steps_back_through_my_answers_in_the_order_i_gave_them(connection: Connection) -> None:
    names = [add_variant(connection, f"v_{n}") for n in range(3)]
    enqueue(connection, variant_ids=names, blind_share=0.0, seed=1, now=NOW)
    for minute, name in enumerate(names):
        annotate(connection, name, "ana", NOW + timedelta(minutes=minute))

    table = QueueTable(connection)

    assert table.answered_before("ana", None) == names[2]
    assert table.answered_before("ana", names[2]) == names[1]
    assert table.answered_before("ana", names[0]) is None
    assert table.answered_before("ben", None) is None


def test_the_counts_tell_the_teams_progress_and_mine(connection: Connection) -> None:
    names = [add_variant(connection, f"v_{n}") for n in range(4)]
    enqueue(connection, variant_ids=names, blind_share=0.0, seed=1, now=NOW)
    annotate(connection, names[0], "ana", NOW - timedelta(days=1))
    annotate(connection, names[1], "ben", NOW)
    annotate(connection, names[2], "ana", NOW, is_skipped=True)

    counts = QueueTable(connection).counts("ana", overlap=1, since=NOW - timedelta(hours=9))

    assert (counts.total, counts.done, counts.waiting) == (4, 2, 1)
    assert (counts.answered_by_account, counts.answered_by_account_today) == (1, 0)


@pytest.mark.parametrize(
    ("probabilities", "reason"),
    [
        ((None, None, None, None), "not verified yet"),
        ((0.99, 0.95, 0.97, 0.50), "confident; closest call LC (0.95)"),
        ((0.30, 0.95, None, None), "TC uncertain (0.30)"),
        ((None, None, None, 0.45), "validity uncertain (0.45)"),
    ],
)
def test_every_place_in_the_queue_has_a_reason_in_words(
    probabilities: tuple[float | None, float | None, float | None, float | None], reason: str
) -> None:
    candidate = QueueCandidate(
        VariantId("v"), *probabilities, has_unparsed=False, is_in_gate=False, is_queued_blind=None
    )

    assert priority_and_reason(candidate)[1] == reason

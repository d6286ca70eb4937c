from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import duckdb
import pytest

from data.records import Answers, Decision, VariantId
from data.store import Connection, Store
from data.tables.annotations import AnnotationTable
from data.tables.decisions import DecisionTable
from data.tables.label_studio_maps import AnnotationLink, AnnotationMapTable, TaskLink, TaskMapTable
from data.tables.outbox import OutboxTable
from data.tables.sync_state import InboxRow, InboxTable, Oddity, QuarantineTable, SyncCursor, SyncCursorTable
from tests.annotation.labelling import NO_AU, NOW, YES, an_annotation

V = VariantId("v_1")
SECOND = timedelta(seconds=1)


@pytest.fixture
def connection() -> Iterator[Connection]:
    store = Store.in_memory(now=lambda: NOW)
    with store.write() as connection:
        yield connection
    store.close()


def test_an_annotation_comes_back_as_it_went_in(connection: Connection) -> None:
    table = AnnotationTable(connection)
    label = an_annotation(
        "a_1",
        V,
        Answers(True, None, False),
        corrected_answer_index=2,
        corrected_text="текст",
        comment="'; DROP TABLE annotation; -- 😀",
        ls_server="s",
        ls_task_id=3,
        ls_annotation_id=2**40,
        lead_time_s=None,
    )

    table.append(label)

    assert table.current(label.annotation_id) == label
    assert table.revisions(label.annotation_id) == [label]


def test_the_current_revision_is_the_newest_then_the_tombstone_then_the_greater_hash(connection: Connection) -> None:
    table = AnnotationTable(connection)
    base = an_annotation("a_1", V)
    older = replace(base, revision=1, updated_at=NOW - SECOND, is_deleted=True)
    low = replace(base, revision=2, content_hash="1")
    high = replace(base, revision=3, content_hash="9")
    table.append_many([high, older, low])
    assert table.current(base.annotation_id) == high
    tombstone = replace(base, revision=4, content_hash="0", is_deleted=True)

    table.append(tombstone)

    assert table.current(base.annotation_id) == tombstone
    assert table.next_revision(base.annotation_id) == 5


def test_a_revision_is_never_overwritten(connection: Connection) -> None:
    table = AnnotationTable(connection)
    table.append(an_annotation("a_1", V))

    with pytest.raises(duckdb.Error):
        table.append(an_annotation("a_1", V, NO_AU))


def test_a_persons_word_is_their_newest_that_stands(connection: Connection) -> None:
    table = AnnotationTable(connection)
    stands = an_annotation("a_1", V)
    gone = an_annotation("a_2", V, NO_AU, is_deleted=True, updated_at=NOW + SECOND)
    others = an_annotation("a_3", V, annotator="bo", updated_at=NOW + 2 * SECOND)
    table.append_many([stands, gone, others])

    assert table.current_by(V, "ana") == stands
    assert table.current_by(V, "nobody") is None
    assert {each.annotation_id for each in table.current_of_variant(V)} == {"a_1", "a_2", "a_3"}
    assert table.current_of_variant(VariantId("other")) == []


def test_label_studios_ids_of_a_console_label_come_from_the_map(connection: Connection) -> None:
    AnnotationTable(connection).append(an_annotation("a_1", V))
    AnnotationMapTable(connection, "s").put([AnnotationLink(7, an_annotation("a_1", V).annotation_id, 3, NOW, NOW)])

    label = AnnotationTable(connection).current(an_annotation("a_1", V).annotation_id)

    assert label is not None
    assert (label.ls_server, label.ls_task_id, label.ls_annotation_id) == ("s", 3, 7)


def test_one_label_has_one_counterpart_at_a_time(connection: Connection) -> None:
    links = AnnotationMapTable(connection, "s")
    label = an_annotation("a_1", V).annotation_id
    links.put([AnnotationLink(7, label, 3, NOW, NOW)])

    links.put([AnnotationLink(8, label, 3, NOW, NOW)])

    assert [link.ls_annotation_id for link in links.all()] == [8]
    assert links.find(7) is None
    assert AnnotationMapTable(connection, "t").all() == []


def test_the_outbox_sends_the_newest_revision_and_a_read_back_settles_the_earlier_ones(connection: Connection) -> None:
    outbox = OutboxTable(connection)
    label = an_annotation("a_1", V).annotation_id
    for revision in (1, 2, 2):
        outbox.add(kind="annotation", annotation_id=label, revision=revision, now=NOW)
    assert outbox.open_count() == 2
    assert [row.revision for row in outbox.due(NOW, 10)] == [2]

    outbox.mark_done(label, 2, NOW + SECOND)

    assert outbox.open_count() == 0
    assert outbox.synced_at(label, 1) == outbox.synced_at(label, 2) == NOW + SECOND
    assert outbox.synced_at(label, 3) is None


def test_a_read_back_does_not_settle_what_was_said_after_it(connection: Connection) -> None:
    outbox = OutboxTable(connection)
    label = an_annotation("a_1", V).annotation_id
    outbox.add(kind="annotation", annotation_id=label, revision=1, now=NOW)
    outbox.add(kind="annotation", annotation_id=label, revision=2, now=NOW)

    outbox.mark_done(label, 1, NOW)

    assert outbox.open_revisions([label]) == {label: {2}}
    assert outbox.synced_at(label, 2) is None


def test_a_failed_push_waits_for_its_time(connection: Connection) -> None:
    outbox = OutboxTable(connection)
    row = outbox.add(kind="annotation", annotation_id=an_annotation("a_1", V).annotation_id, revision=1, now=NOW)

    outbox.mark_failed(row, next_attempt_at=NOW + 60 * SECOND, error="refused")

    assert outbox.due(NOW, 10) == []
    (due,) = outbox.due(NOW + 60 * SECOND, 10)
    assert (due.attempts, due.last_error) == (1, "refused")


def test_a_cursor_that_was_never_moved_is_empty_and_a_moved_one_comes_back(connection: Connection) -> None:
    cursors = SyncCursorTable(connection)
    assert cursors.newest() is None
    assert cursors.get("s", 1).watermark is None
    moved = SyncCursor("s", 1, NOW, NOW, None, NOW, "down", {"vanished": 2})

    cursors.put(moved)

    assert cursors.get("s", 1) == moved
    assert cursors.newest() == moved


def test_the_inbox_keeps_every_version_once_and_knows_which_hash_wins(connection: Connection) -> None:
    inbox = InboxTable(connection)
    for said in ("b", "a", "b"):
        inbox.add([InboxRow("s", 7, NOW, said, '{"id": 7}')], NOW)

    assert inbox.greatest_hashes("s", [7, 8]) == {(7, NOW): "b"}
    assert len(connection.execute("FROM inbox").fetchall()) == 2


def test_quarantine_keeps_a_version_once_and_lets_go_when_it_is_settled(connection: Connection) -> None:
    quarantine = QuarantineTable(connection)

    odd, odder = Oddity("s", 3, 7, "1", "odd", "{}"), Oddity("s", 3, None, "1", "odder", "{}")

    assert [quarantine.add(each, NOW) for each in ([odd], [odd, odder], [odder])] == [[odd], [odder], []]
    assert quarantine.open_count() == 2

    quarantine.resolve("s", [7], NOW)
    assert [row.reason for row in quarantine.open()] == ["odder"]
    quarantine.resolve_tasks("s", [3], NOW)
    assert quarantine.open() == []


def test_a_task_is_found_by_variant_and_by_number_within_its_project(connection: Connection) -> None:
    tasks = TaskMapTable(connection, "s", 1)
    link = TaskLink(V, 3, "hash", None, NOW)
    tasks.put([link, replace(link, verifier_version="feature-1")])

    assert tasks.by_variants([V]) == {V: replace(link, verifier_version="feature-1")}
    assert tasks.by_tasks([3, 4])[3].variant_id == V
    assert TaskMapTable(connection, "s", 2).by_variants([V]) == {}
    tasks.remove([V])
    assert tasks.task_ids() == frozenset()


def test_new_decisions_are_counted_without_those_made_in_bulk(connection: Connection) -> None:
    decisions = DecisionTable(connection)
    decisions.upsert(Decision(V, "accepted", YES, "annotations", (), "ana", NOW))
    decisions.upsert(Decision(VariantId("v_led"), "accepted", YES, "adjudication", (), "lea", NOW))
    decisions.upsert(Decision(VariantId("v_bulk"), "accepted", YES, "bulk", (), "lea", NOW))

    assert decisions.count_since(None) == 2
    assert decisions.count_since(NOW - timedelta(seconds=1)) == 2
    assert decisions.count_since(NOW) == 0


def test_a_decision_is_replaced_and_withdrawn(connection: Connection) -> None:
    decisions = DecisionTable(connection)
    first = Decision(V, "accepted", YES, "annotations", (an_annotation("a_1", V).annotation_id,), "ana", NOW)
    decisions.upsert(first)
    second = replace(first, outcome="rejected", answers=NO_AU, basis="bulk")

    decisions.upsert(second)

    assert decisions.by_ids([V, VariantId("x")]) == {V: second}
    assert decisions.count() == {"rejected": 1}
    decisions.remove([V])
    assert decisions.get(V) is None

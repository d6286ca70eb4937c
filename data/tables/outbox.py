"""The outbox: what has yet to be sent to Label Studio. A row is written in the transaction that saves the label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from data.ids import content_hash
from data.records import AnnotationId
from data.store import Connection

OutboxKind = Literal["annotation", "deletion"]


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """`attempts` counts failed attempts; `last_error` belongs to the latest."""

    outbox_id: str
    kind: OutboxKind
    annotation_id: AnnotationId
    revision: int
    created_at: datetime
    attempts: int
    next_attempt_at: datetime
    last_error: str | None


class OutboxTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, *, kind: OutboxKind, annotation_id: AnnotationId, revision: int, now: datetime) -> str:
        """Queue a push; queueing it twice makes one row. Returns its id."""
        outbox_id = "o_" + content_hash("outbox", kind, annotation_id, revision)[:20]
        self._connection.execute(
            "INSERT INTO outbox (outbox_id, kind, annotation_id, revision, created_at, attempts, next_attempt_at) "
            "VALUES (?, ?, ?, ?, ?, 0, ?) ON CONFLICT (outbox_id) DO NOTHING",
            [outbox_id, kind, annotation_id, revision, now, now],
        )
        return outbox_id

    def due(self, now: datetime, limit: int) -> list[OutboxRow]:
        """Open rows due for an attempt: the newest revision of each annotation, oldest first."""
        rows = self._connection.execute(
            """
            SELECT outbox_id, kind, annotation_id, revision, created_at, attempts, next_attempt_at, last_error
            FROM outbox WHERE done_at IS NULL
            QUALIFY row_number() OVER (PARTITION BY annotation_id ORDER BY revision DESC) = 1 AND next_attempt_at <= ?
            ORDER BY created_at, outbox_id LIMIT ?
            """,
            [now, limit],
        ).fetchall()
        return [OutboxRow(row[0], row[1], AnnotationId(row[2]), *row[3:]) for row in rows]

    def open_revisions(self, annotation_ids: Sequence[AnnotationId]) -> dict[AnnotationId, frozenset[int]]:
        """Our revisions that have not arrived yet; annotations without any are absent."""
        rows = self._connection.execute(
            "SELECT annotation_id, list(revision) FROM outbox "
            "WHERE done_at IS NULL AND annotation_id IN (SELECT unnest(?::TEXT[])) GROUP BY annotation_id",
            [list(annotation_ids)],
        ).fetchall()
        return {AnnotationId(row[0]): frozenset(row[1]) for row in rows}

    def mark_done(self, annotation_id: AnnotationId, revision: int, now: datetime) -> None:
        """Call after the read-back; earlier revisions of the annotation are superseded and done as well."""
        self.mark_all_done({annotation_id: revision}, now)

    def mark_all_done(self, revisions: Mapping[AnnotationId, int], now: datetime) -> None:
        """Like `mark_done`, for many."""
        self._connection.execute(
            """
            UPDATE outbox SET done_at = $now, last_error = NULL
            FROM (SELECT unnest($ids::TEXT[]) AS annotation_id, unnest($revisions::INTEGER[]) AS revision) AS arrived
            WHERE outbox.annotation_id = arrived.annotation_id AND outbox.revision <= arrived.revision
                AND outbox.done_at IS NULL
            """,
            {"now": now, "ids": list(revisions), "revisions": list(revisions.values())},
        )

    def mark_failed(self, outbox_id: str, *, next_attempt_at: datetime, error: str) -> None:
        self._connection.execute(
            "UPDATE outbox SET attempts = attempts + 1, next_attempt_at = ?, last_error = ? WHERE outbox_id = ?",
            [next_attempt_at, error, outbox_id],
        )

    def open_count(self) -> int:
        [(count,)] = self._connection.execute("SELECT count(*) FROM outbox WHERE done_at IS NULL").fetchall()
        return int(count)

    def synced_at(self, annotation_id: AnnotationId, revision: int) -> datetime | None:
        """When this revision was confirmed in Label Studio; None until then."""
        return self.synced([annotation_id]).get((annotation_id, revision))

    def synced(self, annotation_ids: Sequence[AnnotationId]) -> dict[tuple[AnnotationId, int], datetime]:
        """Like `synced_at`, for every confirmed revision of many annotations."""
        rows = self._connection.execute(
            "SELECT annotation_id, revision, max(done_at) FROM outbox "
            "WHERE done_at IS NOT NULL AND annotation_id IN (SELECT unnest(?::TEXT[])) GROUP BY ALL",
            [list(annotation_ids)],
        ).fetchall()
        return {(AnnotationId(row[0]), row[1]): row[2] for row in rows}

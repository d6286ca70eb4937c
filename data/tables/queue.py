"""The review queue: what is waiting for review and why, each account's order, and who has which item open.

Reads annotations only to see who has answered what; never writes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from data.records import AnnotationId, VariantId
from data.store import Connection
from data.tables.first_row import first_row


@dataclass(frozen=True, slots=True)
class QueueItem:
    """A queued variant. `share` is the blind share at the time its blindness was drawn with `draw_seed`.

    A variant of a gate question is always blind.
    """

    variant_id: VariantId
    is_blind: bool
    draw_seed: int
    share: float
    priority: float
    reason: str
    queued_at: datetime


@dataclass(frozen=True, slots=True)
class QueueCandidate:
    """A contract-passing variant with its latest probabilities.

    `has_unparsed`: one of the latest verdicts could not be parsed. Targets that the latest verifier does not answer are
    None: one that judges validity in one pass gives no dimensions. `is_in_gate`: its question is reserved for judging
    verifiers. `is_queued_blind`: its blindness in the queue; None if it is not queued.
    """

    variant_id: VariantId
    tc: float | None
    lc: float | None
    au: float | None
    valid: float | None
    has_unparsed: bool
    is_in_gate: bool
    is_queued_blind: bool | None


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """`done`: answered by as many people as the overlap requires. `waiting`: open to the requesting account."""

    total: int
    done: int
    waiting: int
    answered_by_account: int
    answered_by_account_today: int


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """An account's newest revision from the console; `synced_at` is None until it is read back."""

    variant_id: VariantId
    annotation_id: AnnotationId
    revision: int
    saved_at: datetime
    is_skipped: bool


# An item is open to an account until the account has answered or skipped it, or enough others have answered it.
_OPEN_TO = """
    NOT EXISTS (
        SELECT 1 FROM annotation_current a
        WHERE a.variant_id = q.variant_id AND a.annotator = $account AND NOT a.is_deleted
    )
    AND (
        SELECT count(DISTINCT a.annotator) FROM annotation_current a
        WHERE a.variant_id = q.variant_id AND NOT a.is_deleted AND NOT a.is_skipped
    ) < $overlap
"""


class QueueTable:
    """Queue items and their order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def candidates(self, variant_ids: Sequence[VariantId]) -> list[QueueCandidate]:
        """Those of `variant_ids` that pass their contract, in id order."""
        wanted = pa.table({"variant_id": pa.array(list(dict.fromkeys(variant_ids)), pa.string())})
        self._connection.register("wanted_for_queue", wanted)
        try:
            rows = self._connection.execute(
                """
                WITH scored AS (
                    SELECT variant_id,
                        max(probability) FILTER (target = 'TC') AS tc,
                        max(probability) FILTER (target = 'LC') AS lc,
                        max(probability) FILTER (target = 'AU') AS au,
                        max(probability) FILTER (target = 'valid') AS valid,
                        bool_or(probability IS NULL) AS has_unparsed
                    FROM verdict_latest GROUP BY variant_id
                )
                SELECT v.variant_id, s.tc, s.lc, s.au, s.valid, coalesce(s.has_unparsed, false),
                    coalesce(p.part = 'gate', false), i.is_blind
                FROM variant v JOIN contract_outcome c USING (variant_id) LEFT JOIN scored s USING (variant_id)
                LEFT JOIN question q ON q.question_id = v.question_id
                LEFT JOIN cluster_part p ON p.cluster_id = q.cluster_id
                LEFT JOIN queue_item i ON i.variant_id = v.variant_id
                WHERE c.passes AND v.variant_id IN (SELECT variant_id FROM wanted_for_queue)
                ORDER BY v.variant_id
                """
            ).fetchall()
        finally:
            self._connection.unregister("wanted_for_queue")
        return [QueueCandidate(VariantId(row[0]), *row[1:]) for row in rows]

    def add(self, items: Sequence[QueueItem]) -> int:
        """Returns how many items are new.

        An existing item keeps its blindness for good; an assisted one takes the new priority and reason.
        """
        if not items:
            return 0
        batch = pa.table(
            {
                "variant_id": [item.variant_id for item in items],
                "is_blind": [item.is_blind for item in items],
                "draw_seed": [item.draw_seed for item in items],
                "share": [item.share for item in items],
                "priority": [item.priority for item in items],
                "reason": [item.reason for item in items],
                "queued_at": pa.array([item.queued_at for item in items], pa.timestamp("us", tz="UTC")),
            }
        )
        before = self._count()
        self._connection.register("queue_batch", batch)
        try:
            self._connection.execute(
                """
                INSERT INTO queue_item
                SELECT variant_id, is_blind, draw_seed, share, priority, reason, queued_at FROM queue_batch
                ON CONFLICT (variant_id) DO UPDATE SET
                    priority = CASE WHEN is_blind THEN priority ELSE excluded.priority END,
                    reason = CASE WHEN is_blind THEN reason ELSE excluded.reason END
                """
            )
        finally:
            self._connection.unregister("queue_batch")
        return self._count() - before

    def undecided(self) -> list[VariantId]:
        """Queued variants without a decision, in id order, whoever has answered them."""
        rows = self._connection.execute(
            "SELECT variant_id FROM queue_item ANTI JOIN decision USING (variant_id) ORDER BY variant_id"
        ).fetchall()
        return [VariantId(row[0]) for row in rows]

    def find(self, variant_id: VariantId) -> QueueItem | None:
        row = first_row(
            self._connection,
            """
            SELECT variant_id, is_blind, draw_seed, share, priority, reason, queued_at
            FROM queue_item WHERE variant_id = ?
            """,
            [variant_id],
        )
        return None if row is None else QueueItem(VariantId(row[0]), *row[1:])

    def first_for(self, account: str, *, overlap: int, now: datetime) -> QueueItem | None:
        """The account's next item, by priority, postponed ones last; never one that somebody else has open."""
        row = first_row(
            self._connection,
            f"""
            SELECT q.variant_id, q.is_blind, q.draw_seed, q.share, q.priority, q.reason, q.queued_at
            FROM queue_item q
            LEFT JOIN queue_later l ON l.variant_id = q.variant_id AND l.account = $account
            WHERE {_OPEN_TO}
                AND NOT EXISTS (
                    SELECT 1 FROM lease
                    WHERE lease.variant_id = q.variant_id AND lease.account <> $account AND lease.expires_at > $now
                )
            ORDER BY l.put_off_at ASC NULLS FIRST, q.priority DESC, q.queued_at, q.variant_id
            LIMIT 1
            """,
            {"account": account, "overlap": overlap, "now": now},
        )
        return None if row is None else QueueItem(VariantId(row[0]), *row[1:])

    def put_off(self, variant_id: VariantId, account: str, now: datetime) -> None:
        """Move it to the end of this account's queue only."""
        self._connection.execute(
            """
            INSERT INTO queue_later VALUES (?, ?, ?)
            ON CONFLICT (variant_id, account) DO UPDATE SET put_off_at = excluded.put_off_at
            """,
            [variant_id, account, now],
        )

    def has_answered(self, variant_id: VariantId, account: str) -> bool:
        """Whether the account ever answered it, even if the answer was deleted: it has seen the verdicts."""
        row = first_row(
            self._connection,
            "SELECT 1 FROM annotation WHERE variant_id = ? AND annotator = ? AND NOT is_skipped LIMIT 1",
            [variant_id, account],
        )
        return row is not None

    def blind_to(self, variant_ids: Sequence[VariantId], account: str) -> frozenset[VariantId]:
        """Those whose verdicts the account must not see yet: blind, and not answered by it."""
        rows = self._connection.execute(
            """
            SELECT q.variant_id FROM queue_item q
            WHERE q.is_blind AND list_contains($variant_ids, q.variant_id)
                AND NOT EXISTS (
                    SELECT 1 FROM annotation a
                    WHERE a.variant_id = q.variant_id AND a.annotator = $account AND NOT a.is_skipped
                )
            """,
            {"variant_ids": list(variant_ids), "account": account},
        ).fetchall()
        return frozenset(VariantId(row[0]) for row in rows)

    def blind_to_come(self, variant_ids: Sequence[VariantId], account: str, *, overlap: int) -> frozenset[VariantId]:
        """Those of `blind_to` that the account may still be given."""
        rows = self._connection.execute(
            f"SELECT q.variant_id FROM queue_item q WHERE list_contains($variant_ids, q.variant_id) AND {_OPEN_TO}",
            {"variant_ids": list(self.blind_to(variant_ids, account)), "account": account, "overlap": overlap},
        ).fetchall()
        return frozenset(VariantId(row[0]) for row in rows)

    def answered_before(self, account: str, variant_id: VariantId | None) -> VariantId | None:
        """The item that the account answered or skipped before `variant_id`; its last one if that is unanswered."""
        row = first_row(
            self._connection,
            """
            WITH mine AS (
                SELECT a.variant_id, max(a.created_at) AS answered_at FROM annotation_current a
                JOIN queue_item USING (variant_id)
                WHERE a.annotator = $account AND NOT a.is_deleted GROUP BY a.variant_id
            )
            SELECT variant_id FROM mine
            WHERE answered_at < coalesce(
                (SELECT answered_at FROM mine WHERE variant_id = $variant_id), 'infinity'::TIMESTAMPTZ
            )
            ORDER BY answered_at DESC, variant_id LIMIT 1
            """,
            {"account": account, "variant_id": variant_id},
        )
        return None if row is None else VariantId(row[0])

    def last_answer(self, account: str) -> LastAnswer | None:
        row = first_row(
            self._connection,
            """
            SELECT variant_id, annotation_id, revision, updated_at, is_skipped FROM annotation
            WHERE annotator = ? AND origin = 'console' AND NOT is_deleted
            ORDER BY updated_at DESC, revision DESC LIMIT 1
            """,
            [account],
        )
        return None if row is None else LastAnswer(VariantId(row[0]), AnnotationId(row[1]), *row[2:])

    def counts(self, account: str, *, overlap: int, since: datetime) -> QueueCounts:
        """`since` is the start of the account's day."""
        row = first_row(
            self._connection,
            f"""
            SELECT
                (SELECT count(*) FROM queue_item),
                (SELECT count(*) FROM (
                    SELECT a.variant_id FROM annotation_current a JOIN queue_item USING (variant_id)
                    WHERE NOT a.is_deleted AND NOT a.is_skipped
                    GROUP BY a.variant_id HAVING count(DISTINCT a.annotator) >= $overlap
                )),
                (SELECT count(*) FROM queue_item q WHERE {_OPEN_TO}),
                (SELECT count(DISTINCT variant_id) FROM annotation_current
                    WHERE annotator = $account AND NOT is_deleted AND NOT is_skipped),
                (SELECT count(DISTINCT variant_id) FROM annotation_current
                    WHERE annotator = $account AND NOT is_deleted AND NOT is_skipped AND created_at >= $since)
            """,
            {"account": account, "overlap": overlap, "since": since},
        )
        assert row is not None  # noqa: S101 - an aggregate always has a row
        return QueueCounts(*row)

    def _count(self) -> int:
        row = first_row(self._connection, "SELECT count(*) FROM queue_item")
        return 0 if row is None else int(row[0])


class LeaseTable:
    """Who has an item open, and until when."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def take(self, variant_id: VariantId, account: str, *, now: datetime, expires_at: datetime) -> bool:
        """Take or renew the lease; False while another account holds it."""
        row = first_row(
            self._connection,
            """
            INSERT INTO lease VALUES ($variant_id, $account, $expires_at)
            ON CONFLICT (variant_id) DO UPDATE SET account = excluded.account, expires_at = excluded.expires_at
                WHERE account = $account OR expires_at <= $now
            RETURNING account
            """,
            {"variant_id": variant_id, "account": account, "expires_at": expires_at, "now": now},
        )
        return row is not None

    def holder(self, variant_id: VariantId, now: datetime) -> str | None:
        row = first_row(
            self._connection, "SELECT account FROM lease WHERE variant_id = ? AND expires_at > ?", [variant_id, now]
        )
        return None if row is None else str(row[0])

    def release(self, variant_id: VariantId, account: str) -> None:
        self._connection.execute("DELETE FROM lease WHERE variant_id = ? AND account = ?", [variant_id, account])

"""Where the sync stands: its cursor, what came in as it came, what could not be read. Refuses to interpret it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from data.ids import content_hash
from data.store import Connection


@dataclass(frozen=True, slots=True)
class SyncCursor:
    """Of one project. `watermark` is the largest `updated_at` of a task seen; `counts` is the last parity report."""

    ls_server: str
    ls_project_id: int
    watermark: datetime | None
    last_delta_at: datetime | None
    last_sweep_at: datetime | None
    stale_since: datetime | None
    last_error: str | None
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One version of one annotation; `payload` is JSON."""

    ls_server: str
    ls_annotation_id: int
    ls_updated_at: datetime
    content_hash: str
    payload: str


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """A payload that waits for a person; `reason` is one line."""

    quarantine_id: str
    ls_server: str
    ls_task_id: int | None
    ls_annotation_id: int | None
    reason: str
    payload: str
    seen_at: datetime
    resolved_at: datetime | None


class SyncCursorTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, ls_server: str, ls_project_id: int) -> SyncCursor:
        """A new one, with nothing seen, where there is none."""
        rows = self._connection.execute(
            "SELECT watermark, last_delta_at, last_sweep_at, stale_since, last_error, counts FROM sync_cursor "
            "WHERE ls_server = ? AND ls_project_id = ?",
            [ls_server, ls_project_id],
        ).fetchall()
        if not rows:
            return SyncCursor(ls_server, ls_project_id, None, None, None, None, None, {})
        watermark, last_delta_at, last_sweep_at, stale_since, last_error, counts = rows[0]
        return SyncCursor(
            ls_server,
            ls_project_id,
            watermark,
            last_delta_at,
            last_sweep_at,
            stale_since,
            last_error,
            json.loads(counts),
        )

    def put(self, cursor: SyncCursor) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO sync_cursor VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                cursor.ls_server,
                cursor.ls_project_id,
                cursor.watermark,
                cursor.last_delta_at,
                cursor.last_sweep_at,
                cursor.stale_since,
                cursor.last_error,
                json.dumps(dict(cursor.counts), sort_keys=True),
            ],
        )

    def newest(self) -> SyncCursor | None:
        """That of the project synced last; for showing where things stand while the server is away."""
        rows = self._connection.execute(
            "SELECT ls_server, ls_project_id FROM sync_cursor ORDER BY last_delta_at DESC NULLS LAST LIMIT 1"
        ).fetchall()
        return self.get(*rows[0]) if rows else None


class InboxTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, rows: Iterable[InboxRow], now: datetime) -> None:
        """Keep every version once."""
        for row in rows:
            self._connection.execute(
                "INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [row.ls_server, row.ls_annotation_id, row.ls_updated_at, row.content_hash, row.payload, now],
            )

    def greatest_hashes(self, ls_server: str, ls_annotation_ids: Sequence[int]) -> dict[tuple[int, datetime], str]:
        """Of the versions of an annotation with one stamp, the hash that wins; by (annotation id, stamp)."""
        rows = self._connection.execute(
            "SELECT ls_annotation_id, ls_updated_at, max(content_hash) FROM inbox "
            "WHERE ls_server = ? AND ls_annotation_id IN (SELECT unnest(?::BIGINT[])) GROUP BY ALL",
            [ls_server, list(ls_annotation_ids)],
        ).fetchall()
        return {(row[0], row[1]): row[2] for row in rows}


class QuarantineTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(
        self,
        *,
        ls_server: str,
        ls_task_id: int | None,
        ls_annotation_id: int | None,
        version: str,
        reason: str,
        payload: str,
        now: datetime,
    ) -> bool:
        """Keep an odd payload; False when the same `version` of the same thing is there already."""
        named = ("quarantine", ls_server, ls_task_id, ls_annotation_id, version, reason)
        quarantine_id = "k_" + content_hash(*named)[:20]
        added = self._connection.execute(
            "INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?, NULL) ON CONFLICT DO NOTHING RETURNING 1",
            [quarantine_id, ls_server, ls_task_id, ls_annotation_id, reason, payload, now],
        ).fetchall()
        return len(added) == 1

    def resolve(self, ls_server: str, ls_annotation_id: int, now: datetime) -> None:
        """A later version could be read, or the annotation is gone."""
        self._connection.execute(
            "UPDATE quarantine SET resolved_at = ? "
            "WHERE ls_server = ? AND ls_annotation_id = ? AND resolved_at IS NULL",
            [now, ls_server, ls_annotation_id],
        )

    def resolve_task(self, ls_server: str, ls_task_id: int, now: datetime) -> None:
        """The same for a whole task."""
        self._connection.execute(
            "UPDATE quarantine SET resolved_at = ? "
            "WHERE ls_server = ? AND ls_task_id = ? AND ls_annotation_id IS NULL AND resolved_at IS NULL",
            [now, ls_server, ls_task_id],
        )

    def open(self, limit: int = 200) -> list[QuarantineRow]:
        """What waits for a person, newest first."""
        rows = self._connection.execute(
            "SELECT quarantine_id, ls_server, ls_task_id, ls_annotation_id, reason, payload, seen_at, resolved_at "
            "FROM quarantine WHERE resolved_at IS NULL ORDER BY seen_at DESC, quarantine_id LIMIT ?",
            [limit],
        ).fetchall()
        return [QuarantineRow(*row) for row in rows]

    def open_count(self) -> int:
        [(count,)] = self._connection.execute("SELECT count(*) FROM quarantine WHERE resolved_at IS NULL").fetchall()
        return int(count)

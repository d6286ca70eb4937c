"""State of the sync: its cursor, raw incoming annotations, and the quarantine. Does not interpret them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa

from data.ids import content_hash
from data.store import Connection
from data.tables.batches import insert_missing

_STAMP: Final = pa.timestamp("us", tz="UTC")
_INBOX_KEY: Final = ("ls_server", "ls_annotation_id", "ls_updated_at", "content_hash")
_INBOX_SCHEMA: Final = pa.schema(
    [
        ("ls_server", pa.string()),
        ("ls_annotation_id", pa.int64()),
        ("ls_updated_at", _STAMP),
        ("content_hash", pa.string()),
        ("payload", pa.string()),
        ("received_at", _STAMP),
    ]
)
_QUARANTINE_SCHEMA: Final = pa.schema(
    [
        ("quarantine_id", pa.string()),
        ("ls_server", pa.string()),
        ("ls_task_id", pa.int64()),
        ("ls_annotation_id", pa.int64()),
        ("reason", pa.string()),
        ("payload", pa.string()),
        ("seen_at", _STAMP),
    ]
)


@dataclass(frozen=True, slots=True)
class SyncCursor:
    """One project's cursor. `watermark` is the latest task `updated_at` seen; `counts` is the last parity report."""

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
class Oddity:
    """Something to quarantine. `version` distinguishes successive states of the same thing."""

    ls_server: str
    ls_task_id: int | None
    ls_annotation_id: int | None
    version: str
    reason: str
    payload: str

    @property
    def quarantine_id(self) -> str:
        named = (self.ls_server, self.ls_task_id, self.ls_annotation_id, self.version, self.reason)
        return "k_" + content_hash("quarantine", *named)[:20]


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """A payload that needs somebody's attention; `reason` is one line."""

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
        """A new, empty cursor if there is none."""
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
        """The most recently synced project's cursor; for showing the state while the server is unreachable."""
        rows = self._connection.execute(
            "SELECT ls_server, ls_project_id FROM sync_cursor ORDER BY last_delta_at DESC NULLS LAST LIMIT 1"
        ).fetchall()
        return self.get(*rows[0]) if rows else None


class InboxTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, rows: Iterable[InboxRow], now: datetime) -> None:
        """Keep every version once."""
        batch = pa.Table.from_pylist([asdict(row) | {"received_at": now} for row in rows], schema=_INBOX_SCHEMA)
        insert_missing(self._connection, "inbox", batch, key=_INBOX_KEY)

    def greatest_hashes(self, ls_server: str, ls_annotation_ids: Sequence[int]) -> dict[tuple[int, datetime], str]:
        """The winning hash among an annotation's versions with the same time stamp, by (annotation id, stamp)."""
        rows = self._connection.execute(
            "SELECT ls_annotation_id, ls_updated_at, max(content_hash) FROM inbox "
            "WHERE ls_server = ? AND ls_annotation_id IN (SELECT unnest(?::BIGINT[])) GROUP BY ALL",
            [ls_server, list(ls_annotation_ids)],
        ).fetchall()
        return {(row[0], row[1]): row[2] for row in rows}


class QuarantineTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, oddities: Sequence[Oddity], now: datetime) -> list[Oddity]:
        """Quarantine the payloads; returns those that are new in this version."""
        rows = [
            {
                "quarantine_id": oddity.quarantine_id,
                "ls_server": oddity.ls_server,
                "ls_task_id": oddity.ls_task_id,
                "ls_annotation_id": oddity.ls_annotation_id,
                "reason": oddity.reason,
                "payload": oddity.payload,
                "seen_at": now,
            }
            for oddity in oddities
        ]
        known = self._connection.execute(
            "SELECT quarantine_id FROM quarantine WHERE quarantine_id IN (SELECT unnest(?::TEXT[]))",
            [[oddity.quarantine_id for oddity in oddities]],
        ).fetchall()
        batch = pa.Table.from_pylist(rows, schema=_QUARANTINE_SCHEMA)
        insert_missing(self._connection, "quarantine", batch, key=["quarantine_id"])
        return [oddity for oddity in oddities if (oddity.quarantine_id,) not in known]

    def resolve(self, ls_server: str, ls_annotation_ids: Sequence[int], now: datetime) -> None:
        """Call when later versions could be read, or the annotations are gone."""
        self._connection.execute(
            "UPDATE quarantine SET resolved_at = ? WHERE ls_server = ? AND resolved_at IS NULL "
            "AND ls_annotation_id IN (SELECT unnest(?::BIGINT[]))",
            [now, ls_server, list(ls_annotation_ids)],
        )

    def resolve_tasks(self, ls_server: str, ls_task_ids: Sequence[int], now: datetime) -> None:
        """Like `resolve`, for whole tasks."""
        self._connection.execute(
            "UPDATE quarantine SET resolved_at = ? WHERE ls_server = ? AND resolved_at IS NULL "
            "AND ls_annotation_id IS NULL AND ls_task_id IN (SELECT unnest(?::BIGINT[]))",
            [now, ls_server, list(ls_task_ids)],
        )

    def open(self, limit: int = 200) -> list[QuarantineRow]:
        """Unresolved rows, newest first."""
        rows = self._connection.execute(
            "SELECT quarantine_id, ls_server, ls_task_id, ls_annotation_id, reason, payload, seen_at, resolved_at "
            "FROM quarantine WHERE resolved_at IS NULL ORDER BY seen_at DESC, quarantine_id LIMIT ?",
            [limit],
        ).fetchall()
        return [QuarantineRow(*row) for row in rows]

    def open_count(self) -> int:
        [(count,)] = self._connection.execute("SELECT count(*) FROM quarantine WHERE resolved_at IS NULL").fetchall()
        return int(count)

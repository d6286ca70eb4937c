"""Runs: one row per execution of a job. Decides nothing: the supervisor sets the states."""

import json
from collections.abc import Sequence
from typing import Final

from data.records import Run, RunId, RunState
from data.store import Connection

_COLUMNS: Final = (
    "run_id, kind, state, folder, settings, submitted_by, created_at, started_at, ended_at, "
    "pid, pid_started_at, done, total, message, result"
)
_CHANGING: Final = ("state", "started_at", "ended_at", "pid", "pid_started_at", "done", "total", "message", "result")


class RunTable:
    """Reads and writes `run` on the given connection; the caller owns the transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, run: Run) -> None:
        marks = ", ".join("?" * len(_COLUMNS.split(", ")))
        self._connection.execute(f"INSERT INTO run ({_COLUMNS}) VALUES ({marks})", _values(run))

    def save(self, run: Run) -> None:
        """Write everything that can change about a run; kind, folder, settings and submitter never do."""
        assignments = ", ".join(f"{name} = ?" for name in _CHANGING)
        values = dict(zip(_COLUMNS.split(", "), _values(run), strict=True))
        self._connection.execute(
            f"UPDATE run SET {assignments} WHERE run_id = ?", [*(values[name] for name in _CHANGING), run.run_id]
        )

    def find(self, run_id: str) -> Run | None:
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM run WHERE run_id = ?", [run_id]).fetchall()
        return _run(rows[0]) if rows else None

    def newest(self, *, limit: int, kind: str | None = None, state: RunState | None = None) -> list[Run]:
        """Newest first."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM run WHERE ($kind IS NULL OR kind = $kind) AND ($state IS NULL OR state = $state) "
            "ORDER BY created_at DESC, run_id DESC LIMIT $limit",
            {"kind": kind, "state": state, "limit": limit},
        ).fetchall()
        return [_run(row) for row in rows]

    def in_states(self, states: Sequence[RunState]) -> list[Run]:
        """Oldest first, the order in which queued runs start."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM run WHERE list_contains(?, state) ORDER BY created_at, run_id", [list(states)]
        ).fetchall()
        return [_run(row) for row in rows]

    def report_progress(self, run_id: RunId, *, done: int, total: int | None, message: str) -> None:
        """Record a running run's progress; one that has ended is left unchanged."""
        self._connection.execute(
            "UPDATE run SET done = ?, total = ?, message = ? WHERE run_id = ? AND state = 'running'",
            [done, total, message, run_id],
        )


def _values(run: Run) -> list[object]:
    return [
        run.run_id,
        run.kind,
        run.state,
        run.folder,
        json.dumps(dict(run.settings), ensure_ascii=False),
        run.submitted_by,
        run.created_at,
        run.started_at,
        run.ended_at,
        run.pid,
        run.pid_started_at,
        run.done,
        run.total,
        run.message,
        json.dumps(dict(run.result), ensure_ascii=False),
    ]


def _run(row: tuple[object, ...]) -> Run:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    values["settings"] = json.loads(str(values["settings"]))
    values["result"] = json.loads(str(values["result"]))
    return Run(**values)  # type: ignore[arg-type]  # DuckDB's rows are untyped; the columns are NOT NULL as declared

"""Runs: list, follow, read the log, cancel, resume."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from data.errors import InputError
from data.records import RUN_STATES, Run, RunState
from data.tables.runs import RunTable
from engine.jobs.folder import RunFolder
from engine.jobs.kinds import KINDS
from engine.jobs.pace import time_left_s
from engine.jobs.reported import MOST_MESSAGES, Message
from ui.desk.context import Actor, Desk, audit, require_lead

MAX_RUNS: Final = 500
MAX_LOG_BYTES: Final = 200_000


@dataclass(frozen=True, slots=True)
class RunLog:
    """The end of a run's log; `is_cut` if the beginning is missing."""

    run_id: str
    text: str
    is_cut: bool


@dataclass(frozen=True, slots=True)
class RunMetric:
    """One finite figure reported by the job; its meaning and unit depend on the job kind."""

    name: str
    step: int
    value: float


@dataclass(frozen=True, slots=True)
class RunProgress:
    """A run with its remaining time or the reason why it stopped.

    `time_left_s` is for the current stage, None while unknown or not running. `why`: in one line, why it stopped before
    it was done, or where it is; empty for a run that is queued, running or done.
    """

    run: Run
    time_left_s: float | None
    why: str


def list_runs(
    desk: Desk, actor: Actor, *, kind: str | None = None, state: RunState | None = None, limit: int = 50
) -> list[Run]:
    """Newest first. Raises InputError for a kind or state that does not exist."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"kind {kind!r}: use one of {', '.join(sorted(KINDS))}")
    if state is not None and state not in RUN_STATES:
        raise InputError(f"state {state!r}: use one of {', '.join(RUN_STATES)}")
    with desk.store.read() as connection:
        return RunTable(connection).newest(limit=max(1, min(limit, MAX_RUNS)), kind=kind, state=state)


def show_run(desk: Desk, actor: Actor, *, run_id: str) -> Run:
    """Raises NotFoundError."""
    return desk.supervisor.get(run_id)


def run_progress(desk: Desk, actor: Actor, *, run_id: str) -> RunProgress:
    """Raises NotFoundError."""
    run = desk.supervisor.get(run_id)
    if run.state in ("queued", "done"):
        return RunProgress(run, None, "")
    if run.state != "running":
        return RunProgress(run, None, run.message or "it ended without giving a reason; see its log")
    since = None if run.pid_started_at is None else datetime.fromtimestamp(run.pid_started_at - 2, UTC)
    steps = desk.reported.steps(RunFolder(Path(run.folder)))
    return RunProgress(run, time_left_s(steps, since=since, now=desk.now()), "")


def run_metrics(desk: Desk, actor: Actor, *, run_id: str, since_step: int | None = None) -> list[RunMetric]:
    """The job's metrics after `since_step`, by step, then in order of first appearance.

    A step that was done again after a resume counts as it went the last time; a figure that is not finite is left
    out, a chart has no place for it. Raises NotFoundError.
    """
    run = desk.supervisor.get(run_id)
    figures = desk.reported.figures(RunFolder(Path(run.folder)))
    return sorted(
        (
            RunMetric(name, step, value)
            for (name, step), value in figures.items()
            if since_step is None or step > since_step
        ),
        key=lambda metric: metric.step,
    )


def run_log(desk: Desk, actor: Actor, *, run_id: str, max_bytes: int = 20_000) -> RunLog:
    """The log's last `max_bytes`; empty before the job starts. Raises NotFoundError."""
    run = desk.supervisor.get(run_id)
    file = RunFolder(Path(run.folder)).log
    if not file.exists():
        return RunLog(run_id, "", is_cut=False)
    wanted = max(1, min(max_bytes, MAX_LOG_BYTES))
    with file.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - wanted))
        text = log.read().decode("utf-8", "replace")
    return RunLog(run_id, text, is_cut=size > wanted)


def run_messages(desk: Desk, actor: Actor, *, run_id: str, limit: int = MOST_MESSAGES) -> list[Message]:
    """What the job said last, oldest first. Raises NotFoundError."""
    run = desk.supervisor.get(run_id)
    return desk.reported.messages(RunFolder(Path(run.folder)), limit=limit)


def cancel_run(desk: Desk, actor: Actor, *, run_id: str) -> Run:
    """Asks a run to stop; a running one ends a little later.

    Raises:
        PermissionDeniedError, NotFoundError, ConflictError (ended already).
    """
    require_lead(desk, actor, "run.cancel", run_id)
    run = desk.supervisor.cancel(run_id)
    audit(desk, actor, "run.cancel", run_id)
    return run


def resume_run(desk: Desk, actor: Actor, *, run_id: str) -> Run:
    """Continues a lost, failed or cancelled run in its own folder.

    Raises:
        PermissionDeniedError, NotFoundError, ConflictError (another state), JobError (its folder is gone).
    """
    require_lead(desk, actor, "run.resume", run_id)
    run = desk.supervisor.resume(run_id)
    audit(desk, actor, "run.resume", run_id)
    return run

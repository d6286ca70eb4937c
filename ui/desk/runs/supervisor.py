"""The supervisor: starts jobs as processes, follows, cancels and resumes them, and ingests their results.

Refuses to run a job's code in the desk's own process, to signal a process that it did not start (pid *and* start
time must match), and to let two processes work in one run folder (a running job holds a lock on it).
Unless told to stop, jobs outlive the desk: the next start adopts them or picks up their results.
"""

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from data.errors import ConflictError, JobError, NotFoundError
from data.records import Run, RunId
from data.store import Connection, Store
from data.tables.runs import RunTable
from engine.jobs.folder import RunFolder
from engine.jobs.kinds import trained_role
from engine.jobs.process import JobProcess, cut_torn_line, progress_since
from ui.desk.runs.ends import RunEnds, kept_folders
from ui.desk.runs.submission import Ingest, Prepare, Submission

_POLL_S: Final = 0.1
_IDLE_POLL_S: Final = 2.0
_PROGRESS_EVERY_S: Final = 0.5

logger = logging.getLogger(__name__)


class Supervisor:
    """One per desk. `start` runs it in the background; otherwise `submit` and `wait` do its work themselves."""

    def __init__(
        self,
        store: Store,
        runs: Path,
        *,
        ingests: Mapping[str, Ingest],
        prepares: Mapping[str, Prepare] = {},
        python: str,
        code_version: str,
        now: Callable[[], datetime],
        environment: Mapping[str, str] | None = None,
        max_running: int = 2,
        grace_s: float = 10.0,
        after: Callable[[Run], None] | None = None,
    ) -> None:
        self._store = store
        self._runs = runs
        self._python = python
        self._code_version = code_version
        self._now = now
        self._environment = dict(os.environ if environment is None else environment)
        self._max_running = max_running
        self._grace_s = grace_s
        self._ends = RunEnds(store, ingests, prepares=prepares, enqueue=self._enqueue, now=now, after=after)
        self._lock = threading.RLock()  # taken before the store's write lock, never inside it
        self._running: dict[RunId, JobProcess] = {}
        self._unsaved: set[RunId] = set()
        self._progress_saved_at = 0.0
        self._may_have_queued = True
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def code_version(self) -> str:
        """The version of the code that jobs run."""
        return self._code_version

    def submit(self, wanted: Submission, *, submitted_by: str) -> Run:
        """Queues a run, to start when a slot is free; one for a worker waits for its export.

        Raises:
            ConflictError: a training of the same role is queued, running or away.
            JobError: the run folder cannot be written.
        """
        with kept_folders() as folders, self._store.write() as connection:
            self._refuse_second_training(connection, wanted.kind)
            run = self._enqueue(connection, wanted, submitted_by, folders)
        logger.info("run %s: %s %s by %s", run.run_id, wanted.kind, run.state, submitted_by)
        self._move_along()
        return self.get(run.run_id)

    def get(self, run_id: str) -> Run:
        """Raises NotFoundError."""
        with self._store.read() as connection:
            run = RunTable(connection).find(run_id)
        if run is None:
            raise NotFoundError(f"no run {run_id!r}; `sagedesk run list` shows all runs")
        return run

    def cancel(self, run_id: str) -> Run:
        """Ends a queued run or one that is away; asks a running one to stop, and kills its group after a grace period.

        Raises:
            ConflictError: the run has already ended.
        """
        with self._lock:
            run = self.get(run_id)
            if run.state in ("queued", "away"):
                return self._save(replace(run, state="cancelled", ended_at=self._now(), message="cancelled"))
            process = self._running.get(run.run_id)
            if run.state != "running" or process is None:
                raise ConflictError(f"run {run_id} is {run.state}; only a run that has not ended can be cancelled")
            process.ask_to_stop(self._grace_s)
            logger.info("run %s: asked to stop", run_id)
        self._wake.set()
        return run

    def resume(self, run_id: str) -> Run:
        """Queues a lost, failed or cancelled run again, in its own folder: finished parts are not repeated.

        One that is away comes back and continues here from its state when it was exported.

        Raises:
            ConflictError: the run is in another state, or a training of the same role is queued, running or away.
            JobError: its folder is gone.
        """
        with self._lock:
            run = self.get(run_id)
            if run.state not in ("lost", "failed", "cancelled", "away"):
                raise ConflictError(
                    f"run {run_id} is {run.state}; only a lost, failed, cancelled or away run can be resumed"
                )
            self._reopen(run, replace(run, state="queued", ended_at=None, message="resumed", result={}))
            self._may_have_queued = True
        logger.info("run %s: resumed", run_id)
        self._move_along()
        return self.get(run_id)

    def send_away(self, run_id: str, message: str) -> Run:
        """Hands the run to a worker: nothing starts it here until it is resumed. `message` says where it is.

        Raises:
            ConflictError: the run is running or done, or a training of the same role is queued, running or away.
            JobError: its folder is gone.
        """
        with self._lock:
            run = self.get(run_id)
            refuse_to_send(run)
            self._reopen(run, replace(run, state="away", ended_at=None, message=message, result={}))
        logger.info("run %s: %s", run_id, message)
        return self.get(run_id)

    def take_in(self, run_id: str, bring: Callable[[RunFolder], None]) -> Run:
        """Concludes a run that a worker finished, as if it had ended here; `bring` copies its outputs into the folder.

        Raises:
            ConflictError: the run is queued or running here, or is done.
        """
        with self._lock:
            run = self.get(run_id)
            if run.state not in ("away", "lost", "failed", "cancelled"):
                raise ConflictError(
                    f"run {run_id} is {run.state} here and cannot take a worker's outputs; cancel it if it is not done"
                )
            bring(RunFolder(Path(run.folder)))
            self._ends.conclude(_as_reported(run), "no result came back")
        self._move_along()
        return self.get(run_id)

    def wait(
        self, run_id: str, *, timeout_s: float | None = None, on_progress: Callable[[Run], None] | None = None
    ) -> Run:
        """The run once it has ended, or in its current state after `timeout_s`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if self._thread is None:
                self.poll()
            run = self.get(run_id)
            if on_progress is not None:
                on_progress(run)
            if run.state not in ("queued", "running") or (deadline is not None and time.monotonic() > deadline):
                return run
            time.sleep(_POLL_S)

    def reconcile(self) -> None:
        """At start: ingests what ended while the desk was down, adopts what is still running, marks the rest lost."""
        with self._lock:
            with self._store.read() as connection:
                running = RunTable(connection).in_states(["running"])
            for run in running:
                has_ended = RunFolder(Path(run.folder)).ended_at() is not None
                process = None if has_ended else JobProcess.adopt(run)
                if process is None:
                    self._ends.conclude(_as_reported(run), "its process ended while the desk was not running")
                    continue
                self._running[run.run_id] = process
                logger.info("run %s: adopted, still running as process %s", run.run_id, run.pid)
                if process.follow():
                    self._save_progress(process)
            self._may_have_queued = True

    def start(self) -> None:
        """Follows jobs in a background thread until `stop`."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._work, name="job-supervisor", daemon=True)
        self._thread.start()

    def stop(self, *, end_jobs: bool = False) -> None:
        """Stops following. With `end_jobs`, cancels running jobs first (they can be resumed); else they continue."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if end_jobs:
            with self._lock:
                ending = list(self._running)
                self._max_running = 0
                for run_id in ending:
                    self.cancel(run_id)
            for run_id in ending:
                self.wait(run_id, timeout_s=self._grace_s + 2)

    def poll(self) -> None:
        """One step: reads events, ingests what ended, kills what outlived its grace period, starts what is queued."""
        with self._lock:
            is_time_to_save = time.monotonic() - self._progress_saved_at > _PROGRESS_EVERY_S
            for process in list(self._running.values()):
                is_running = process.is_running()  # checked before reading events, so that none is missed
                if process.follow():
                    self._unsaved.add(process.run_id)
                if process.run_id in self._unsaved and (is_time_to_save or not is_running):
                    self._save_progress(process)
                    self._unsaved.discard(process.run_id)
                    self._progress_saved_at = time.monotonic()
                if is_running:
                    process.kill_if_overdue()
                else:
                    self._detach(process)
            self._start_queued()

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                self.poll()
            except Exception:
                logger.exception("a supervisor step failed; the supervisor continues")
                self._stopping.wait(_IDLE_POLL_S)  # a full disk is not fixed within a tenth of a second
            self._wake.wait(_POLL_S if self._running else _IDLE_POLL_S)
            self._wake.clear()

    def _move_along(self) -> None:
        self._may_have_queued = True
        if self._thread is None:
            self.poll()
        self._wake.set()

    def _reopen(self, run: Run, as_it_is_now: Run) -> None:
        """Clears the result of a run that continues; if it may not continue, its result is kept."""
        folder = RunFolder(Path(run.folder))
        folder.spec()
        with self._store.write() as connection:
            self._refuse_second_training(connection, run.kind, but=run.run_id)
            cut_torn_line(folder.events)
            folder.clear_result()
            RunTable(connection).save(as_it_is_now)

    def _refuse_second_training(self, connection: Connection, kind: str, *, but: RunId | None = None) -> None:
        role = trained_role(kind)
        if role is None:
            return
        for other in RunTable(connection).in_states(["queued", "running", "away"]):
            if trained_role(other.kind) == role and other.run_id != but:
                raise ConflictError(
                    f"a {role} is already being trained by run {other.run_id} ({other.state}); wait for it or cancel it"
                )

    def _enqueue(self, connection: Connection, wanted: Submission, submitted_by: str, folders: list[Path]) -> Run:
        now = self._now()
        run_id = RunId(f"r_{now:%Y%m%d_%H%M%S}_{secrets.token_hex(3)}")
        path = self._runs / run_id
        folders.append(path)
        RunFolder.create(
            path,
            run_id=run_id,
            kind=wanted.kind,
            settings=wanted.settings,
            seed=wanted.seed,
            code_version=self._code_version,
            inputs=wanted.inputs,
        )
        run = Run(
            run_id=run_id,
            kind=wanted.kind,
            state="away" if wanted.elsewhere else "queued",
            folder=str(path),
            settings={**wanted.settings, **wanted.afterwards},
            submitted_by=submitted_by,
            created_at=now,
            started_at=None,
            ended_at=None,
            pid=None,
            pid_started_at=None,
            done=0,
            total=None,
            message="waiting to be exported to a worker" if wanted.elsewhere else "",
            result={},
        )
        RunTable(connection).add(run)
        self._may_have_queued = True
        return run

    def _start_queued(self) -> None:
        room = self._max_running - len(self._running)
        if room <= 0 or not self._may_have_queued:
            return
        with self._store.read() as connection:
            queued = RunTable(connection).in_states(["queued"])
        self._may_have_queued = len(queued) > room
        for run in queued[:room]:
            self._start(run)

    def _start(self, run: Run) -> None:
        try:
            process = JobProcess.spawn(run, self._python, self._environment, self._now().timestamp())
        except (ConflictError, JobError) as exc:
            logger.warning("run %s: %s", run.run_id, exc)
            self._save(replace(run, state="failed", ended_at=self._now(), message=str(exc)))
            return
        self._running[run.run_id] = process
        self._save(
            replace(
                run,
                state="running",
                started_at=run.started_at or self._now(),
                pid=process.pid,
                pid_started_at=process.pid_started_at,
                message="starting",
            )
        )
        logger.info("run %s: %s started as process %s", run.run_id, run.kind, process.pid)

    def _save_progress(self, process: JobProcess) -> None:
        progress = process.progress
        with self._store.write() as connection:
            RunTable(connection).report_progress(
                process.run_id, done=progress.done, total=progress.total, message=progress.message
            )

    def _detach(self, process: JobProcess) -> None:
        why = process.reap()
        # Still followed if the store fails, so that the next poll ingests the end.
        self._ends.conclude(self.get(process.run_id), why, is_cancelled=process.is_cancelled)
        del self._running[process.run_id]
        self._may_have_queued = True

    def _save(self, run: Run) -> Run:
        with self._store.write() as connection:
            RunTable(connection).save(run)
        return run


def refuse_to_send(run: Run) -> None:
    """Raises ConflictError for a run that is running here or done."""
    if run.state == "running":
        raise ConflictError(
            f"run {run.run_id} is running here; cancel it first, and the worker will continue from there"
        )
    if run.state == "done":
        raise ConflictError(f"run {run.run_id} is done, so there is nothing left for a worker; start another run")


def _as_reported(run: Run) -> Run:
    """The run with the progress recorded in its folder."""
    progress = progress_since(RunFolder(Path(run.folder))).progress
    return replace(run, done=progress.done, total=progress.total)

"""The supervisor: starts jobs as processes, follows, cancels and resumes them, and brings their results into the store.

Refuses to run a job's code in the desk's own process, to signal a process that it did not start (pid *and* start
time must match), and to let two processes work in one run folder (the job holds a lock on it while it lives).
Where nobody asks them to stop, jobs outlive the desk: the next start adopts them or finds what they left.
"""

import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from data.errors import ConflictError, JobError, NotFoundError
from data.records import Run, RunId
from data.store import Connection, Store
from data.tables.runs import RunTable
from engine.jobs.folder import RunFolder, RunResult
from ui.job_process import JobProcess, cut_torn_line, progress_since
from ui.submission import Ingest, Submission

TRAINING_ROLES: Final[Mapping[str, str]] = {"train-verifier": "verifier", "refresh-generator": "generator"}
"""Kinds that make a model, by its role: one at a time a role."""

_POLL_S: Final = 0.1
_IDLE_POLL_S: Final = 2.0
_PROGRESS_EVERY_S: Final = 0.5

logger = logging.getLogger(__name__)


class Supervisor:
    """One a desk. `start` runs it in the background; without it, `submit` and `wait` move things along themselves."""

    def __init__(
        self,
        store: Store,
        runs: Path,
        *,
        ingests: Mapping[str, Ingest],
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
        self._ingests = ingests
        self._python = python
        self._code_version = code_version
        self._now = now
        self._environment = dict(os.environ if environment is None else environment)
        self._max_running = max_running
        self._grace_s = grace_s
        self._after = after
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
        """Of the code that the jobs run."""
        return self._code_version

    def submit(self, wanted: Submission, *, submitted_by: str) -> Run:
        """Queue a run and let it start when there is room.

        Raises:
            ConflictError: a training of the same role is queued or running.
            JobError: the run folder cannot be written.
        """
        with _kept_folders() as folders, self._store.write() as connection:
            self._refuse_second_training(connection, wanted.kind)
            run = self._enqueue(connection, wanted, submitted_by, folders)
        logger.info("run %s: %s queued by %s", run.run_id, wanted.kind, submitted_by)
        self._move_along()
        return self.get(run.run_id)

    def get(self, run_id: str) -> Run:
        """Raises NotFoundError."""
        with self._store.read() as connection:
            run = RunTable(connection).find(run_id)
        if run is None:
            raise NotFoundError(f"no run {run_id!r}; `sagedesk run list` shows all")
        return run

    def cancel(self, run_id: str) -> Run:
        """End a queued run at once; ask a running one to stop, and kill its process group after the grace.

        Raises:
            ConflictError: the run has ended already.
        """
        with self._lock:
            run = self.get(run_id)
            if run.state == "queued":
                return self._save(replace(run, state="cancelled", ended_at=self._now(), message="cancelled"))
            process = self._running.get(run.run_id)
            if run.state != "running" or process is None:
                raise ConflictError(f"run {run_id} is {run.state}; only a queued or running run can be cancelled")
            process.ask_to_stop(self._grace_s)
            logger.info("run %s: asked to stop", run_id)
        self._wake.set()
        return run

    def resume(self, run_id: str) -> Run:
        """Queue a lost, failed or cancelled run again, in its own folder: finished parts are not done twice.

        Raises:
            ConflictError: the run is in another state, or a training of the same role is queued or running.
            JobError: its folder is gone.
        """
        with self._lock:
            run = self.get(run_id)
            if run.state not in ("lost", "failed", "cancelled"):
                raise ConflictError(f"run {run_id} is {run.state}; only a lost, failed or cancelled run can be resumed")
            folder = RunFolder(Path(run.folder))
            folder.spec()
            cut_torn_line(folder.events)
            folder.clear_result()
            with self._store.write() as connection:
                self._refuse_second_training(connection, run.kind)
                RunTable(connection).save(replace(run, state="queued", ended_at=None, message="resumed", result={}))
            self._may_have_queued = True
        logger.info("run %s: resumed", run_id)
        self._move_along()
        return self.get(run_id)

    def wait(
        self, run_id: str, *, timeout_s: float | None = None, on_progress: Callable[[Run], None] | None = None
    ) -> Run:
        """The run once it has ended, or as it stands after `timeout_s`."""
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
        """At start: ingest what ended while no desk looked, adopt what still runs, call the rest lost."""
        with self._lock:
            with self._store.read() as connection:
                running = RunTable(connection).in_states(["running"])
            for run in running:
                folder = RunFolder(Path(run.folder))
                ended_at = folder.ended_at()
                process = None if ended_at is not None else JobProcess.adopt(run)
                if process is None:
                    progress = progress_since(folder).progress
                    left = replace(run, done=progress.done, total=progress.total)
                    why = "its process ended while the desk was away"
                    self._conclude(left, why, is_cancelled=False, ended_at=ended_at)
                    continue
                self._running[run.run_id] = process
                logger.info("run %s: adopted, it still runs as process %s", run.run_id, run.pid)
                if process.follow():
                    self._save_progress(process)
            self._may_have_queued = True

    def start(self) -> None:
        """Follow jobs in a background thread until `stop`."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._work, name="job-supervisor", daemon=True)
        self._thread.start()

    def stop(self, *, end_jobs: bool = False) -> None:
        """Stop following. With `end_jobs` running jobs are cancelled first (they can be resumed), else they go on."""
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
        """One step: read events, bring in what ended, kill what outlived its grace, start what waits."""
        with self._lock:
            is_time_to_save = time.monotonic() - self._progress_saved_at > _PROGRESS_EVERY_S
            for process in list(self._running.values()):
                is_running = process.is_running()  # asked before the events are read, so that none is missed
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
                logger.exception("the job supervisor stumbled; it goes on")
                self._stopping.wait(_IDLE_POLL_S)  # a full disk does not get better ten times a second
            self._wake.wait(_POLL_S if self._running else _IDLE_POLL_S)
            self._wake.clear()

    def _move_along(self) -> None:
        self._may_have_queued = True
        if self._thread is None:
            self.poll()
        self._wake.set()

    def _refuse_second_training(self, connection: Connection, kind: str) -> None:
        role = TRAINING_ROLES.get(kind)
        if role is None:
            return
        for other in RunTable(connection).in_states(["queued", "running"]):
            if TRAINING_ROLES.get(other.kind) == role:
                raise ConflictError(
                    f"a {role} is being trained already by run {other.run_id} ({other.state}); wait for it or cancel it"
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
            state="queued",
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
            message="",
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
        # Still followed where the store refuses, so that the next poll brings the end in.
        self._conclude(self.get(process.run_id), why, is_cancelled=process.is_cancelled)
        del self._running[process.run_id]
        self._may_have_queued = True

    def _conclude(self, run: Run, why: str, *, is_cancelled: bool, ended_at: datetime | None = None) -> None:
        folder = RunFolder(Path(run.folder))
        try:
            result = folder.result()
        except JobError as exc:
            result = RunResult("failed", {}, str(exc))
        ended = replace(run, ended_at=ended_at or self._now(), pid=None, pid_started_at=None)
        if result is None and is_cancelled:
            run = self._save(replace(ended, state="cancelled", message="cancelled; its process had to be killed"))
        elif result is None:
            run = self._save(replace(ended, state="lost", message=f"{why}; see its log, then resume it"))
        elif result.state != "done":
            run = self._save(replace(ended, state=result.state, message=result.error, result=dict(result.counts)))
        else:
            run = self._ingest(ended, folder, result)
        level = logging.INFO if run.state in ("done", "cancelled") else logging.WARNING
        logger.log(level, "run %s: %s %s %s", run.run_id, run.kind, run.state, run.message)
        if self._after is None:
            return
        try:
            self._after(run)
        except Exception:
            logger.exception("run %s: what follows it went wrong", run.run_id)

    def _ingest(self, ended: Run, folder: RunFolder, result: RunResult) -> Run:
        """Outputs, state and follow-up in one transaction: all of it or none."""
        try:
            with _kept_folders() as folders, self._store.write() as connection:
                current = RunTable(connection).find(ended.run_id)
                if current is None or current.state == "done":
                    return ended if current is None else current
                ingested = self._ingests[ended.kind](connection, folder, ended)
                follow_up = (
                    None
                    if ingested.then is None
                    else self._enqueue(connection, ingested.then, ended.submitted_by, folders).run_id
                )
                counts = {**result.counts, **ingested.counts}
                done = replace(
                    ended,
                    state="done",
                    message="",
                    result=counts if follow_up is None else {**counts, "followed_by": follow_up},
                )
                RunTable(connection).save(done)
        except Exception as exc:
            logger.exception("run %s: its outputs could not be brought in", ended.run_id)
            message = f"its outputs could not be brought into the store: {exc}; resume it to try again"
            return self._save(replace(ended, state="failed", message=message, result=dict(result.counts)))
        return done

    def _save(self, run: Run) -> Run:
        with self._store.write() as connection:
            RunTable(connection).save(run)
        return run


@contextmanager
def _kept_folders() -> Iterator[list[Path]]:
    """Around a transaction: the run folders that are put into the list go again when it is not committed."""
    folders: list[Path] = []
    try:
        yield folders
    except BaseException:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        raise

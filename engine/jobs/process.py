"""One job's process: started in its own group with its folder locked, followed through its events, stopped or killed.

Knows nothing of the store; the supervisor decides what the end of a run means.
"""

import fcntl
import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final, NamedTuple

from data.errors import ConflictError, JobError
from data.processes import is_same_process, signal_group, started_at
from data.records import Run
from engine.jobs.failures import NO_RESULT_STATUS
from engine.jobs.folder import RunFolder

_JOB_NICENESS: Final = 5  # keeps reviewing on the same machine responsive

_DYING_S: Final = 2.0
_SIGNALS: Final[Mapping[int, str]] = {
    signal.SIGKILL: " (killed, often by the system when memory runs out)",
    signal.SIGTERM: " (asked to end)",
    signal.SIGSEGV: " (a library crashed)",
    signal.SIGABRT: " (a library aborted)",
    signal.SIGBUS: " (memory or a mapped file became unavailable, often because of a full disk)",
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """The latest progress in the events; `total` is None while unknown."""

    done: int = 0
    total: int | None = None
    message: str = ""


class ReadProgress(NamedTuple):
    """`offset`: how far the events have been read, in bytes."""

    offset: int
    progress: Progress


def progress_since(folder: RunFolder, offset: int = 0, before: Progress = Progress()) -> ReadProgress:
    """The progress after the events from `offset` on, given the progress `before` them."""
    progress = before
    for read_to, event in folder.read_events(offset):
        offset = read_to
        if event["kind"] == "progress":
            total = event["total"]
            progress = Progress(
                int(str(event["done"])), None if total is None else int(str(total)), str(event["message"])
            )
        elif event["kind"] == "message":
            progress = replace(progress, message=str(event["text"]))
    return ReadProgress(offset, progress)


class JobProcess:
    """A running job; `child` is None if an earlier desk started it."""

    def __init__(
        self,
        run: Run,
        pid: int,
        pid_started_at: float,
        *,
        child: subprocess.Popen[bytes] | None,
        events_offset: int,
    ) -> None:
        self.run_id = run.run_id
        self.pid = pid
        self.pid_started_at = pid_started_at
        self.progress = Progress()
        self.is_cancelled = False
        self._child = child
        self._folder = RunFolder(Path(run.folder))
        self._events_offset = events_offset
        self._kill_at = 0.0

    @classmethod
    def spawn(cls, run: Run, python: str, environment: Mapping[str, str], now_s: float) -> "JobProcess":
        """Start `python -m engine.jobs FOLDER`.

        The child inherits the lock's file descriptor, so the folder stays locked for exactly as long as it runs.

        Raises:
            ConflictError: an earlier process is still working in the folder.
            JobError: the interpreter cannot be started.
        """
        folder = RunFolder(Path(run.folder))
        offset = folder.events.stat().st_size if folder.events.exists() else 0
        try:
            with folder.log.open("ab") as log, (folder.path / "lock").open("ab") as lock:
                _take_lock(lock)
                child = subprocess.Popen(
                    [python, "-P", "-m", "engine.jobs", str(folder.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=folder.path,
                    env=dict(environment),
                    pass_fds=(lock.fileno(),),
                    start_new_session=True,
                )
        except BlockingIOError as exc:
            raise ConflictError(
                f"an earlier process is still working in {folder.path}; end it, then resume the run"
            ) from exc
        except OSError as exc:
            raise JobError(f"cannot start {python}: {exc.strerror or exc}; check SAGEDESK_WORKER_PYTHON") from exc
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, child.pid, _JOB_NICENESS)
        return cls(run, child.pid, started_at(child.pid) or now_s, child=child, events_offset=offset)

    @classmethod
    def adopt(cls, run: Run) -> "JobProcess | None":
        """The process that an earlier desk recorded, if it is still running."""
        if run.pid is None or run.pid_started_at is None or not is_same_process(run.pid, run.pid_started_at):
            return None
        return cls(run, run.pid, run.pid_started_at, child=None, events_offset=0)

    def is_running(self) -> bool:
        return is_same_process(self.pid, self.pid_started_at)

    def ask_to_stop(self, grace_s: float) -> None:
        """Sends TERM to the group, once; `kill_if_overdue` follows up."""
        if self.is_cancelled:
            return
        self.is_cancelled = True
        self._kill_at = time.monotonic() + grace_s
        signal_group(self.pid, self.pid_started_at, signal.SIGTERM)

    def kill_if_overdue(self) -> None:
        if self.is_cancelled and time.monotonic() > self._kill_at:
            signal_group(self.pid, self.pid_started_at, signal.SIGKILL)

    def follow(self) -> bool:
        """Reads new events into `progress`; returns whether anything changed."""
        read = progress_since(self._folder, self._events_offset, self.progress)
        has_changed = read.progress != self.progress
        self._events_offset, self.progress = read
        return has_changed

    def reap(self) -> str:
        """After the end: kills the rest of the group and returns how the process ended, in words.

        A second call returns the same and signals nobody: the group id may have been reused by then.
        """
        if self._child is None:
            return "its process ended"
        if self._child.returncode is not None:
            return _exit_reason(self._child.returncode)
        # Until it is waited for, the dead leader keeps the group id reserved, so the rest of the group can be
        # killed without hitting another process.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        return _exit_reason(self._child.wait())


def _take_lock(lock: IO[bytes]) -> None:
    """Raises BlockingIOError if the lock is held for longer than a killed process takes to end.

    A killed process's main thread is gone before its other threads have released its files.
    """
    give_up_at = time.monotonic() + _DYING_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.05)
        else:
            return


def _exit_reason(code: int) -> str:
    if code == NO_RESULT_STATUS:
        return "its process could not write its result, usually because the disk is full"
    if code >= 0:
        return f"its process ended with exit status {code}"
    return f"its process was ended by signal {-code}{_SIGNALS.get(-code, '')}"


def cut_torn_line(events: Path) -> None:
    """A killed job may have left an incomplete line, which a resumed one must not append to."""
    if not events.exists():
        return
    with events.open("r+b") as lines:
        lines.truncate(lines.read().rfind(b"\n") + 1)

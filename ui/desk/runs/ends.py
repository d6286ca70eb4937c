"""Concludes a run that has ended: its state, the reason, its outputs in the store, and the follow-up run.

Outputs, state and follow-up are one transaction, all or nothing. Refuses to mark a run done without a result.
"""

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from data.errors import JobError
from data.log_tail import last_line
from data.records import Run
from data.store import Connection, Store
from data.tables.runs import RunTable
from engine.jobs.folder import RunFolder, RunResult
from ui.desk.runs.submission import Ingest, Prepare, Submission

_LONGEST_QUOTE: Final = 240  # a run's message is one line of a table

Enqueue = Callable[[Connection, Submission, str, list[Path]], Run]
"""(connection, submission, submitted by, list that collects created folders)."""

logger = logging.getLogger(__name__)


class RunEnds:
    """Concludes runs, for the supervisor and under its lock."""

    def __init__(
        self,
        store: Store,
        ingests: Mapping[str, Ingest],
        *,
        prepares: Mapping[str, Prepare],
        enqueue: Enqueue,
        now: Callable[[], datetime],
        after: Callable[[Run], None] | None,
    ) -> None:
        self._store = store
        self._ingests = ingests
        self._prepares = prepares
        self._enqueue = enqueue
        self._now = now
        self._after = after

    def conclude(self, run: Run, why: str, *, is_cancelled: bool = False) -> None:
        """Saves how the run ended and ingests the outputs of a done one; `why` is used if the job gave no reason."""
        folder = RunFolder(Path(run.folder))
        try:
            result = folder.result()
        except JobError as exc:
            result = RunResult("failed", {}, str(exc))
        ended = replace(run, ended_at=folder.ended_at() or self._now(), pid=None, pid_started_at=None)
        if result is None and is_cancelled:
            run = self._save(replace(ended, state="cancelled", message="cancelled; its process had to be killed"))
        elif result is None:
            line = last_line(folder.log)[:_LONGEST_QUOTE]
            end = f"; its log ends with: {line}" if line else ""
            run = self._save(replace(ended, state="lost", message=f"{why}{end}; resume it to continue"))
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
            logger.exception("run %s: its follow-up failed", run.run_id)

    def _ingest(self, ended: Run, folder: RunFolder, result: RunResult) -> Run:
        try:
            prepare = self._prepares.get(ended.kind)
            ingest = self._ingests[ended.kind] if prepare is None else prepare(folder, ended)
            with kept_folders() as folders, self._store.write() as connection:
                current = RunTable(connection).find(ended.run_id)
                if current is None or current.state == "done":
                    return ended if current is None else current
                ingested = ingest(connection, folder, ended)
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
            logger.exception("run %s: its outputs could not be ingested", ended.run_id)
            message = f"its outputs could not be brought into the store: {exc}; resume it to try again"
            return self._save(replace(ended, state="failed", message=message, result=dict(result.counts)))
        return done

    def _save(self, run: Run) -> Run:
        with self._store.write() as connection:
            RunTable(connection).save(run)
        return run


@contextmanager
def kept_folders() -> Iterator[list[Path]]:
    """Wraps a transaction: removes the run folders added to the list if it is not committed."""
    folders: list[Path] = []
    try:
        yield folders
    except BaseException:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        raise

"""The sync with Label Studio: one run at a time, in a fixed order, with a readable health status.

A run finds the project, pushes tasks, pushes labels, pulls the delta, and sweeps when due. What each step guarantees is
in `push`, `pull` and `ingest`. No transaction is open during a call; an interrupted run leaves nothing half done.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Final

from annotation.client import LabelStudioClient, LabelStudioProject
from annotation.ingest import IngestCounts, Origin
from annotation.labels import label_config, label_config_hash
from annotation.people import People
from annotation.pull import pull_delta, sweep
from annotation.push import SyncParts, push_outbox, push_tasks, reveal_verdicts
from data.errors import LabelStudioError
from data.records import VariantId
from data.store import Store
from data.tables.label_studio_maps import TaskMapTable
from data.tables.outbox import OutboxTable
from data.tables.sync_state import QuarantineTable, SyncCursor, SyncCursorTable

PROJECT_TITLE: Final = "sagedesk"
DELTA_OVERLAP: Final = timedelta(seconds=5)
_SWEEP_INTERVAL: Final = timedelta(hours=1)
# Label Studio asks for at most one import per 30 s; a label that needs its task does not wait.
_IMPORT_INTERVAL: Final = timedelta(seconds=30)
_PAGE_SIZE: Final = 500

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What one run did. `swept` is the parity report of a sweep, empty if none was due."""

    tasks_pushed: int
    verdicts_revealed: int
    labels_pushed: int
    tasks_read: int
    ingest: IngestCounts
    swept: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SyncHealth:
    """The state of the sync. `stale_since` is set from the first failed run until one succeeds.

    `is_config_changed`: the label config was changed in Label Studio; labels that do not fit ours are quarantined.
    """

    configured: bool
    url: str
    project_url: str | None
    last_delta_at: datetime | None
    last_sweep_at: datetime | None
    stale_since: datetime | None
    last_error: str | None
    outbox_open: int
    quarantine_open: int
    is_config_changed: bool
    parity: Mapping[str, int]


class LabelStudioSync:
    """A desk's only sync. All methods may be called from any thread; runs take turns."""

    def __init__(
        self,
        store: Store,
        client: LabelStudioClient,
        *,
        now: Callable[[], datetime],
        rng: Random,
        project_title: str = PROJECT_TITLE,
        overlap: timedelta = DELTA_OVERLAP,
        page_size: int = _PAGE_SIZE,
    ) -> None:
        self.wanted = threading.Event()
        """Set by `hint`; a loop waits for it and clears it."""
        self._store = store
        self._client = client
        self._now = now
        self._rng = rng
        self._title = project_title
        self._overlap = overlap
        self._page_size = page_size
        self._people = People(client)
        self._project: LabelStudioProject | None = None
        self._last_import_at: datetime | None = None
        self._stale_since: datetime | None = None
        self._last_error: str | None = None
        self._flight = threading.RLock()
        self._turn = threading.Condition()
        self._runs_begun = 0
        self._is_running = False
        self._last_run: tuple[int, SyncReport | LabelStudioError] | None = None

    def run_once(self, *, with_sweep: bool = False) -> SyncReport:
        """Runs all steps in order. Callers that arrive during a run share the next one, which starts afterwards.

        Raises:
            LabelStudioError: the run failed; "stale since" is recorded, and the next run continues from there.
        """
        with self._turn:
            wanted = self._runs_begun + 1
            while self._is_running:
                self._turn.wait()
                shared = self._last_run
                if shared is not None and shared[0] >= wanted and not with_sweep:
                    if isinstance(shared[1], LabelStudioError):
                        raise shared[1]
                    return shared[1]
            self._is_running = True
            self._runs_begun += 1
            number = self._runs_begun
        outcome: SyncReport | LabelStudioError = LabelStudioError("the sync run was interrupted; sync again")
        try:
            outcome = self._run(with_sweep=with_sweep)
            return outcome
        except LabelStudioError as exc:
            outcome = exc
            raise
        finally:
            with self._turn:
                self._is_running = False
                self._last_run = (number, outcome)
                self._turn.notify_all()

    def push_tasks(self, variant_ids: Sequence[VariantId]) -> int:
        """Creates a task for each variant without one, now; returns how many are new. Raises LabelStudioError."""
        with self._step() as parts:
            return push_tasks(parts, variant_ids)

    def pull_delta(self) -> IngestCounts:
        """Ingests changes. Raises LabelStudioError."""
        counts = IngestCounts()
        with self._step() as parts:
            pull_delta(parts, counts, overlap=self._overlap, page_size=self._page_size)
        return counts

    def sweep(self) -> Mapping[str, int]:
        """Compares all ids; also used before a release. Returns the parity report. Raises LabelStudioError."""
        with self._step() as parts:
            return sweep(parts, IngestCounts())

    def hint(self) -> None:
        """Something may have changed: sync soon. Cheap, never fails; many hints cause one run."""
        self.wanted.set()

    def probe(self) -> None:
        """Checks that the server answers and accepts our token; changes nothing. Raises LabelStudioError."""
        with self._flight:
            self._client.users()

    def health(self) -> SyncHealth:
        """From memory and the store only, so that it works while Label Studio is down."""
        with self._store.read() as connection:
            cursors = SyncCursorTable(connection)
            project = self._project
            cursor = cursors.newest() if project is None else cursors.get(project.server_key, project.project_id)
            outbox_open = OutboxTable(connection).open_count()
            quarantine_open = QuarantineTable(connection).open_count()
        return SyncHealth(
            configured=True,
            url=self._client.url,
            project_url=None if cursor is None else self._client.project_url(cursor.ls_project_id),
            last_delta_at=None if cursor is None else cursor.last_delta_at,
            last_sweep_at=None if cursor is None else cursor.last_sweep_at,
            stale_since=self._stale_since or (None if cursor is None else cursor.stale_since),
            last_error=self._last_error or (None if cursor is None else cursor.last_error),
            outbox_open=outbox_open,
            quarantine_open=quarantine_open,
            is_config_changed=project is not None and _hash(project) != label_config_hash(),
            parity={} if cursor is None else cursor.counts,
        )

    def _run(self, *, with_sweep: bool) -> SyncReport:
        counts = IngestCounts()
        with self._step() as parts:
            tasks_pushed = self._push_queue(parts)
            revealed = reveal_verdicts(parts)
            labels_pushed = push_outbox(parts)
            tasks_read = pull_delta(parts, counts, overlap=self._overlap, page_size=self._page_size)
            swept = sweep(parts, counts) if with_sweep or self._is_sweep_due(parts) else {}
        report = SyncReport(tasks_pushed, revealed, labels_pushed, tasks_read, counts, swept)
        if tasks_pushed or labels_pushed or counts.revisions or counts.tombstones:
            logger.info("synced: %s", report)
        return report

    @contextmanager
    def _step(self) -> Iterator[SyncParts]:
        """One holder at a time; the outcome is recorded for `health`."""
        with self._flight:
            try:
                project = self._client.ensure_project(
                    self._title, label_config(), new_key=f"{self._rng.getrandbits(48):012x}"
                )
                self._project = self._with_our_config(project)
                origin = Origin(project.server_key, project.project_id, _hash(self._project))
                yield SyncParts(self._store, self._client, origin, self._people, self._now, self._rng)
            except LabelStudioError as exc:
                self._note_failure(exc)
                raise
            self._note_success()

    def _with_our_config(self, project: LabelStudioProject) -> LabelStudioProject:
        """Replaces an earlier or changed config by ours if Label Studio allows it."""
        if _hash(project) == label_config_hash() or (self._project is not None and self._project == project):
            return project
        if self._client.update_label_config(project.project_id, label_config()):
            return replace(project, label_config=label_config())
        return project

    def _push_queue(self, parts: SyncParts) -> int:
        now = self._now()
        if self._last_import_at is not None and now - self._last_import_at < _IMPORT_INTERVAL:
            return 0
        with self._store.read() as connection:
            tasks = TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id)
            waiting = tasks.queued_without_task()
        if not waiting:
            return 0
        self._last_import_at = now
        return push_tasks(parts, waiting)

    def _is_sweep_due(self, parts: SyncParts) -> bool:
        with self._store.read() as connection:
            last = SyncCursorTable(connection).get(parts.origin.ls_server, parts.origin.ls_project_id).last_sweep_at
        return last is None or self._now() - last >= _SWEEP_INTERVAL

    def _note_failure(self, error: LabelStudioError) -> None:
        self._last_error = str(error)
        if self._stale_since is None:
            self._stale_since = self._now()
            logger.warning("the Label Studio sync is stale since %s: %s", f"{self._stale_since:%H:%M}", error)
        self._note()

    def _note_success(self) -> None:
        was_stale = self._stale_since is not None
        self._stale_since = self._last_error = None
        if was_stale:
            logger.info("the Label Studio sync works again")
        self._note()

    def _note(self) -> None:
        with self._store.write() as connection:
            cursors = SyncCursorTable(connection)
            project = self._project
            cursor = cursors.newest() if project is None else cursors.get(project.server_key, project.project_id)
            if cursor is not None and _standing(cursor) != (self._stale_since, self._last_error):
                cursors.put(replace(cursor, stale_since=self._stale_since, last_error=self._last_error))


def _hash(project: LabelStudioProject) -> str:
    return label_config_hash(project.label_config)


def _standing(cursor: SyncCursor) -> tuple[datetime | None, str | None]:
    return cursor.stale_since, cursor.last_error

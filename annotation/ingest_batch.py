"""What one ingest transaction has read and will write, each in one go.

One statement per label would take 70 to 500 times as long. Decides nothing: see `ingest`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from data.records import Annotation, AnnotationId
from data.store import Connection
from data.tables.annotations import AnnotationTable
from data.tables.label_studio_maps import AnnotationLink, AnnotationMapTable
from data.tables.outbox import OutboxTable
from data.tables.sync_state import InboxRow, InboxTable, Oddity, QuarantineTable


@dataclass(slots=True)
class _Label:
    """One of our annotations, within the transaction."""

    current: Annotation | None
    next_revision: int
    open_revisions: frozenset[int]


class IngestBatch:
    """Reads see pending writes; `flush` carries them out."""

    def __init__(self, connection: Connection, ls_server: str, now: datetime) -> None:
        self.links: dict[int, AnnotationLink] = {}
        self._connection = connection
        self._server = ls_server
        self._now = now
        self._labels: dict[AnnotationId, _Label] = {}
        self._hashes: dict[tuple[int, datetime], str] = {}
        self._inbox: list[InboxRow] = []
        self._appended: list[Annotation] = []
        self._changed_links: set[int] = set()
        self._dropped_links: set[int] = set()
        self._arrived: dict[AnnotationId, int] = {}
        self._oddities: list[Oddity] = []
        self._settled: set[int] = set()
        self._settled_tasks: set[int] = set()

    def know_links(self, ls_task_ids: Sequence[int], annotation_ids: Sequence[AnnotationId] = ()) -> None:
        """Reads the links of these tasks and of these annotations of ours."""
        table = AnnotationMapTable(self._connection, self._server)
        found = [*table.of_tasks(ls_task_ids), *table.of_annotations(annotation_ids)]
        self.links |= {link.ls_annotation_id: link for link in found}
        self._hashes |= InboxTable(self._connection).greatest_hashes(self._server, list(self.links))

    def know_labels(self, annotation_ids: Iterable[AnnotationId]) -> None:
        """Reads these annotations of ours; all other methods require this first."""
        ids = [each for each in dict.fromkeys(annotation_ids) if each not in self._labels]
        table = AnnotationTable(self._connection)
        current, numbers = table.current_by_ids(ids), table.next_revisions(ids)
        open_revisions = OutboxTable(self._connection).open_revisions(ids)
        for each in ids:
            self._labels[each] = _Label(current.get(each), numbers[each], open_revisions.get(each, frozenset()))

    def current(self, annotation_id: AnnotationId) -> Annotation | None:
        return self._labels[annotation_id].current

    def next_revision(self, annotation_id: AnnotationId) -> int:
        return self._labels[annotation_id].next_revision

    def open_revisions(self, annotation_id: AnnotationId) -> frozenset[int]:
        return self._labels[annotation_id].open_revisions

    def is_linked(self, annotation_id: AnnotationId) -> bool:
        return any(link.annotation_id == annotation_id for link in self.links.values())

    def greatest_hash(self, ls_annotation_id: int, stamp: datetime) -> str | None:
        """The winning hash among the versions with this stamp."""
        return self._hashes.get((ls_annotation_id, stamp))

    def keep(self, row: InboxRow) -> None:
        key = row.ls_annotation_id, row.ls_updated_at
        self._hashes[key] = max(self._hashes.get(key, ""), row.content_hash)
        self._inbox.append(row)

    def append(self, annotation: Annotation) -> None:
        label = self._labels[annotation.annotation_id]
        label.next_revision = annotation.revision + 1
        if label.current is None or _order(annotation) > _order(label.current):
            label.current = annotation
        self._appended.append(annotation)

    def link(self, link: AnnotationLink) -> None:
        self.links[link.ls_annotation_id] = link
        self._changed_links.add(link.ls_annotation_id)

    def unlink(self, ls_annotation_id: int) -> None:
        self.links.pop(ls_annotation_id, None)
        self._changed_links.discard(ls_annotation_id)
        self._dropped_links.add(ls_annotation_id)

    def arrived(self, annotation_id: AnnotationId, revision: int) -> None:
        """Records that Label Studio has this revision, and so all before it."""
        label = self._labels[annotation_id]
        label.open_revisions = frozenset(each for each in label.open_revisions if each > revision)
        self._arrived[annotation_id] = max(revision, self._arrived.get(annotation_id, 0))

    def set_aside(self, oddity: Oddity) -> None:
        self._oddities.append(oddity)

    def settle(self, ls_annotation_id: int) -> None:
        """Resolves this annotation's quarantine entries."""
        self._settled.add(ls_annotation_id)
        self._oddities = [each for each in self._oddities if each.ls_annotation_id != ls_annotation_id]

    def settle_task(self, ls_task_id: int) -> None:
        self._settled_tasks.add(ls_task_id)

    def flush(self) -> list[Oddity]:
        """Writes everything; returns new quarantine entries."""
        links = AnnotationMapTable(self._connection, self._server)
        quarantine = QuarantineTable(self._connection)
        if self._inbox:
            InboxTable(self._connection).add(self._inbox, self._now)
        if self._appended:
            AnnotationTable(self._connection).append_many(self._appended)
        if self._dropped_links:
            links.remove(list(self._dropped_links))
        if self._changed_links:
            links.put([self.links[each] for each in sorted(self._changed_links)])
        if self._arrived:
            OutboxTable(self._connection).mark_all_done(self._arrived, self._now)
        if self._settled:
            quarantine.resolve(self._server, list(self._settled), self._now)
        if self._settled_tasks:
            quarantine.resolve_tasks(self._server, list(self._settled_tasks), self._now)
        return quarantine.add(self._oddities, self._now) if self._oddities else []


def _order(annotation: Annotation) -> tuple[datetime, bool, str, int]:
    """The order of the view `annotation_current`."""
    return annotation.updated_at, annotation.is_deleted, annotation.content_hash, annotation.revision

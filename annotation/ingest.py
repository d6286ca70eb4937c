"""From Label Studio's tasks to our revisions, within the caller's transaction. Calls no server; decides by time stamps.

Data that arrives twice, late or out of order leads to the same state: older stamps are ignored, equal stamps are
resolved by tombstone first, then content hash; identical answers make no new revision.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from annotation.adjudication import refresh_decisions
from annotation.inbound import InboundAnnotation, InboundTask, Unreadable, kept_json, task_from, task_id_of
from annotation.ingest_batch import IngestBatch
from annotation.people import People
from data.ids import content_hash, label_studio_annotation_id
from data.records import Annotation, AnnotationId, Variant, VariantId
from data.store import Connection
from data.tables.annotations import AnnotationTable
from data.tables.label_studio_maps import AnnotationLink
from data.tables.sync_state import InboxRow, Oddity

_TICK: Final = timedelta(microseconds=1)
_UNKNOWN_GUIDELINES: Final = "unknown"

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class IngestCounts:
    """`late`: versions older than what is known. `conflicts`: changed on both sides concurrently."""

    revisions: int = 0
    tombstones: int = 0
    unchanged: int = 0
    late: int = 0
    conflicts: int = 0
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the tasks come from. `config_hash` is that of the project's current label config."""

    ls_server: str
    ls_project_id: int
    config_hash: str


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A task of ours; `verifier_version` names the verifier whose verdicts it shows, None if it shows none."""

    variant: Variant
    verifier_version: str | None


class Ingest:
    """Used for one transaction: one call of one of its public methods."""

    def __init__(
        self, connection: Connection, origin: Origin, people: People, now: datetime, counts: IngestCounts
    ) -> None:
        self._counts = counts
        self._connection = connection
        self._origin = origin
        self._people = people
        self._now = now
        self._batch = IngestBatch(connection, origin.ls_server, now)
        self._touched: list[VariantId] = []

    def tasks(self, payloads: Sequence[object], known: Mapping[int, KnownTask]) -> datetime | None:
        """Ingests whole tasks; returns the latest time stamp among them.

        Args:
            known: by task id; labels of other tasks are quarantined.
        """
        read: list[tuple[InboundTask, KnownTask]] = []
        stamps = []
        for payload in payloads:
            ls_task_id = task_id_of(payload)
            ours = None if ls_task_id is None else known.get(ls_task_id)
            task = task_from(payload, option_count=0 if ours is None else len(ours.variant.options))
            if isinstance(task, Unreadable):
                self._set_aside(ls_task_id, task, payload)
                continue
            stamps.append(task.updated_at)
            if ours is None:
                self._stranger(task)
            else:
                read.append((task, ours))
        self._look_up([task.ls_task_id for task, _ in read], [each for task, _ in read for each, _ in task.annotations])
        for task, ours in read:
            self._task(task, ours)
        self._flush()
        return max(stamps, default=None)

    def annotation(
        self, inbound: InboundAnnotation, raw: Mapping[str, object], ls_task_id: int, task: KnownTask
    ) -> None:
        """Ingests one version of one annotation."""
        self._look_up([ls_task_id], [inbound])
        self._annotation(inbound, raw, ls_task_id, task)
        self._flush()

    def confirm(self, inbound: InboundAnnotation, raw: Mapping[str, object], ls_task_id: int, sent: Annotation) -> None:
        """Call after reading `sent` back: records its id there, and that it has arrived."""
        self._batch.know_labels([sent.annotation_id])
        self._note(inbound, raw, ls_task_id, sent.annotation_id)
        self._batch.arrived(sent.annotation_id, sent.revision)
        self._flush()

    def vanish(self, gone: Sequence[tuple[AnnotationLink, datetime]]) -> int:
        """For annotations deleted in Label Studio, each at the given time; returns how many become tombstones."""
        before = self._counts.tombstones
        self._batch.know_labels(link.annotation_id for link, _ in gone)
        for link, deleted_at in gone:
            self._vanish(link, deleted_at)
        self._flush()
        return self._counts.tombstones - before

    def _look_up(self, ls_task_ids: Sequence[int], annotations: Sequence[InboundAnnotation | Unreadable]) -> None:
        """Reads everything needed to decide on these annotations."""
        readable = [each for each in annotations if isinstance(each, InboundAnnotation)]
        named = [each.provenance.annotation_id for each in readable if each.provenance is not None]
        own = [label_studio_annotation_id(self._origin.ls_server, each.ls_annotation_id) for each in readable]
        self._batch.know_links(ls_task_ids, named)
        self._batch.know_labels([*named, *own, *(link.annotation_id for link in self._batch.links.values())])

    def _task(self, task: InboundTask, ours: KnownTask) -> None:
        self._batch.settle_task(task.ls_task_id)
        for inbound, raw in task.annotations:
            if isinstance(inbound, Unreadable):
                self._odd_annotation(inbound, raw, task.ls_task_id)
            else:
                self._annotation(inbound, raw, task.ls_task_id, ours)
        if len(task.ls_annotation_ids) < len(task.annotations):
            return  # one has no readable id, so missing ones cannot be determined
        for link in list(self._batch.links.values()):
            is_missing = link.ls_task_id == task.ls_task_id and link.ls_annotation_id not in task.ls_annotation_ids
            # The page may be older than the annotation.
            if is_missing and task.updated_at >= link.ls_updated_at:
                self._vanish(link, task.updated_at)

    def _annotation(
        self, inbound: InboundAnnotation, raw: Mapping[str, object], ls_task_id: int, task: KnownTask
    ) -> None:
        link, their_hash = self._batch.links.get(inbound.ls_annotation_id), inbound.content_hash
        if link is not None and inbound.updated_at < link.ls_updated_at:
            self._counts.late += 1
            return
        annotation_id = link.annotation_id if link else self._identify(inbound, task.variant)
        current = self._batch.current(annotation_id)
        if link is not None and inbound.updated_at == link.ls_updated_at:
            seen = self._batch.greatest_hash(inbound.ls_annotation_id, inbound.updated_at)
            # No version was seen with this stamp, so it is a tombstone.
            if seen is None or their_hash <= seen or (current is not None and current.is_deleted):
                self._counts.unchanged += 1
                return
            logger.warning(
                "annotation %s has two versions at %s; the one with the greater hash is used", link, inbound.updated_at
            )
        self._note(inbound, raw, ls_task_id, annotation_id)
        self._batch.settle(inbound.ls_annotation_id)
        if inbound.is_empty:
            reason = "empty: neither answered nor skipped; ask the annotator"
            self._set_aside(ls_task_id, Unreadable(inbound.ls_annotation_id, inbound.updated_at, reason), raw)
        echoed = self._echoed_revision(inbound, annotation_id, current)
        if echoed is not None:
            self._batch.arrived(annotation_id, echoed)
            self._counts.unchanged += 1
            return
        self._batch.append(self._revision(inbound, annotation_id, current, ls_task_id, task))
        self._touched.append(task.variant.variant_id)
        self._counts.revisions += 1

    def _identify(self, inbound: InboundAnnotation, variant: Variant) -> AnnotationId:
        """Our id, if the hidden field names a label of ours for this variant that has no other counterpart.

        Copying an annotation in Label Studio also copies the field; the copy is a separate label.
        """
        if inbound.provenance is not None:
            ours = self._batch.current(inbound.provenance.annotation_id)
            is_same = ours is not None and ours.variant_id == variant.variant_id
            if is_same and not self._batch.is_linked(inbound.provenance.annotation_id):
                return inbound.provenance.annotation_id
        return label_studio_annotation_id(self._origin.ls_server, inbound.ls_annotation_id)

    def _echoed_revision(
        self, inbound: InboundAnnotation, annotation_id: AnnotationId, current: Annotation | None
    ) -> int | None:
        """Our revision with the same content: the current one, or an earlier one whose push was never confirmed."""
        if current is None or current.is_deleted:
            return None
        if current.content_hash == inbound.content_hash:
            return current.revision
        provenance = inbound.provenance
        if provenance is None or provenance.annotation_id != annotation_id:
            return None
        if provenance.revision not in self._batch.open_revisions(annotation_id):
            return None
        for revision in AnnotationTable(self._connection).revisions(annotation_id):
            if revision.revision == provenance.revision and revision.content_hash == inbound.content_hash:
                return revision.revision
        return None

    def _revision(
        self,
        inbound: InboundAnnotation,
        annotation_id: AnnotationId,
        current: Annotation | None,
        ls_task_id: int,
        task: KnownTask,
    ) -> Annotation:
        updated_at = inbound.updated_at
        if current is not None and self._batch.open_revisions(annotation_id):
            # Neither side knew of the other's change: the newest stamp counts, and both versions are kept.
            self._counts.conflicts += 1
            logger.warning("annotation %s was changed here and in Label Studio concurrently", annotation_id)
        elif current is not None:
            # It was based on our version, whatever the two clocks say.
            updated_at = max(updated_at, current.updated_at + _TICK)
        author = self._people.account(inbound.completed_by)
        return Annotation(
            annotation_id=annotation_id,
            revision=self._batch.next_revision(annotation_id),
            variant_id=task.variant.variant_id,
            annotator=author,
            updated_by=author if inbound.updated_by is None else self._people.account(inbound.updated_by),
            answers=inbound.answers,
            corrected_answer_index=inbound.corrected_answer_index,
            corrected_text=inbound.corrected_text,
            comment=inbound.comment,
            is_flagged=inbound.is_flagged,
            is_skipped=inbound.is_skipped,
            is_deleted=False,
            is_blind=task.verifier_version is None,
            shown_verifier=task.verifier_version,
            origin="label_studio",
            ls_server=self._origin.ls_server,
            ls_task_id=ls_task_id,
            ls_annotation_id=inbound.ls_annotation_id,
            config_hash=self._origin.config_hash,
            guidelines_version=_UNKNOWN_GUIDELINES if current is None else current.guidelines_version,
            lead_time_s=inbound.lead_time_s,
            created_at=inbound.created_at if current is None else current.created_at,
            updated_at=updated_at,
            content_hash=inbound.content_hash,
        )

    def _vanish(self, link: AnnotationLink, deleted_at: datetime) -> None:
        """An unsent revision of ours that is newer than the deletion stays; its push creates a new annotation."""
        self._batch.settle(link.ls_annotation_id)
        current = self._batch.current(link.annotation_id)
        if current is not None and current.is_deleted:
            return
        stamp = max(deleted_at, link.ls_updated_at)
        is_ours_newer = current is not None and current.updated_at > stamp
        if current is None or (is_ours_newer and self._batch.open_revisions(link.annotation_id)):
            self._batch.unlink(link.ls_annotation_id)
            return
        revision = self._batch.next_revision(link.annotation_id)
        updated_at = max(stamp, current.updated_at)
        tombstone = replace(current, revision=revision, is_deleted=True, origin="label_studio", updated_at=updated_at)
        self._batch.append(tombstone)
        self._batch.arrived(link.annotation_id, revision)
        self._batch.link(replace(link, ls_updated_at=stamp, synced_at=self._now))
        self._touched.append(current.variant_id)
        self._counts.tombstones += 1

    def _note(
        self, inbound: InboundAnnotation, raw: Mapping[str, object], ls_task_id: int, annotation_id: AnnotationId
    ) -> None:
        server, ls_id, stamp = self._origin.ls_server, inbound.ls_annotation_id, inbound.updated_at
        self._batch.keep(InboxRow(server, ls_id, stamp, inbound.content_hash, kept_json(raw)))
        self._batch.link(AnnotationLink(ls_id, annotation_id, ls_task_id, stamp, self._now))

    def _odd_annotation(self, odd: Unreadable, raw: Mapping[str, object], ls_task_id: int) -> None:
        """Quarantines it and records its stamp, so that an older readable version is not accepted after it."""
        ls_id, stamp, server = odd.ls_annotation_id, odd.updated_at, self._origin.ls_server
        if ls_id is not None and stamp is not None:
            link = self._batch.links.get(ls_id)
            if link is not None and stamp < link.ls_updated_at:
                self._counts.late += 1
                return
            if link is None or stamp > link.ls_updated_at:
                annotation_id = link.annotation_id if link else label_studio_annotation_id(server, ls_id)
                kept = kept_json(raw)
                self._batch.know_labels([annotation_id])
                self._batch.keep(InboxRow(server, ls_id, stamp, content_hash(kept), kept))
                self._batch.link(AnnotationLink(ls_id, annotation_id, ls_task_id, stamp, self._now))
        self._set_aside(ls_task_id, odd, raw)

    def _stranger(self, task: InboundTask) -> None:
        for each, raw in task.annotations:
            reason = f"task {task.ls_task_id} was not created by the desk, so its labels belong to no variant"
            self._set_aside(task.ls_task_id, Unreadable(each.ls_annotation_id, each.updated_at, reason), raw)

    def _set_aside(self, ls_task_id: int | None, odd: Unreadable, payload: object) -> None:
        kept = kept_json(payload)
        version = kept if odd.updated_at is None else odd.updated_at.isoformat()
        server = self._origin.ls_server
        self._batch.set_aside(Oddity(server, ls_task_id, odd.ls_annotation_id, version, odd.reason, kept))

    def _flush(self) -> None:
        for oddity in self._batch.flush():
            self._counts.quarantined += 1
            logger.warning(
                "task %s, annotation %s quarantined: %s", oddity.ls_task_id, oddity.ls_annotation_id, oddity.reason
            )
        refresh_decisions(self._connection, self._touched, self._now)

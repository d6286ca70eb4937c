"""From Label Studio to the desk: the delta of recent changes, and the full sweep for what was deleted or missed.

A page is ingested together with its watermark in one transaction, so the watermark never gets ahead of the rows.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from annotation.inbound import Unreadable, task_from, task_id_of
from annotation.ingest import Ingest, IngestCounts, KnownTask
from annotation.push import SyncParts, drop_copy
from data.errors import LabelStudioError
from data.records import Variant, VariantId
from data.tables.annotations import AnnotationTable
from data.tables.label_studio_maps import AnnotationMapTable, TaskLink, TaskMapTable
from data.tables.sync_state import SyncCursor, SyncCursorTable
from data.tables.variants import VariantTable

_TICK: Final = timedelta(microseconds=1)
_CLOCK_STEP: Final = timedelta(seconds=1)  # the resolution of the server's clock
_SINGLE_READS_AT_MOST: Final = 200

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ServerTask:
    updated_at: datetime
    annotations: frozenset[int]
    stamps: Mapping[int, datetime]


def pull_delta(parts: SyncParts, counts: IngestCounts, *, overlap: timedelta, page_size: int) -> int:
    """Ingests what changed since the last delta; returns how many tasks were read.

    The delta starts just after the watermark, or at the server's time of the last delta minus `overlap` if that is
    earlier: changes being committed at that time are read again, and everything since if the server's clock was set
    back. Continuing from the last stamp instead of by page number, no task is skipped if another changes meanwhile
    and moves to the end.
    """
    begun_at = parts.now()
    cursor = _cursor(parts)
    since = _earliest(cursor, begun_at, begun_at, overlap)
    page = parts.client.tasks_since(parts.origin.ls_project_id, since, page_size=page_size)
    if since is not None and page.server_now is not None:
        earlier = _earliest(cursor, begun_at, page.server_now, overlap)
        if earlier is not None and earlier < since:
            since = earlier
            page = parts.client.tasks_since(parts.origin.ls_project_id, since, page_size=page_size)
    number = 1
    read = read_since = 0
    while page.tasks:
        newest = bring_in(parts, page.tasks, counts)
        read += len(page.tasks)
        read_since += len(page.tasks)
        if read_since >= page.total:
            break
        if newest is not None and (since is None or newest > since):
            since, number, read_since = newest, 1, 0
        else:
            number += 1  # a whole page with the same stamp: a bulk change
        page = parts.client.tasks_since(parts.origin.ls_project_id, since, page=number, page_size=page_size)
    with parts.store.write() as connection:
        cursors = SyncCursorTable(connection)
        now_there = cursors.get(parts.origin.ls_server, parts.origin.ls_project_id)
        cursors.put(replace(now_there, last_delta_at=begun_at))
    return read


def sweep(parts: SyncParts, counts: IngestCounts) -> Mapping[str, int]:
    """Compares all ids: deleted annotations become tombstones, missed ones are read. Returns the parity report."""
    there = _all_tasks(parts)
    with parts.store.read() as connection:
        links = AnnotationMapTable(connection, parts.origin.ls_server).all()
        linked_tasks = TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id).task_ids()
    stamps = {link.ls_annotation_id: link.ls_updated_at for link in links}
    theirs = {each for task in there.values() for each in task.annotations}
    missed = [
        ls_task_id
        for ls_task_id, task in there.items()
        if any(each not in stamps or stamps[each] < stamp for each, stamp in task.stamps.items())
    ]
    unknown = [ls_task_id for ls_task_id in there if ls_task_id not in linked_tasks]
    _read_again(parts, missed, counts)
    _look_into(parts, [ls_task_id for ls_task_id in unknown if not there[ls_task_id].annotations])
    vanished = [link for link in links if link.ls_annotation_id not in theirs]
    with parts.store.write() as connection:
        ingest = Ingest(connection, parts.origin, parts.people, parts.now(), counts)
        # The deletion time of a task is unknown, so its annotations use their last stamp, where the tombstone wins.
        gone = ingest.vanish(
            [
                (link, there[link.ls_task_id].updated_at if link.ls_task_id in there else link.ls_updated_at)
                for link in vanished
            ]
        )
        mapped = AnnotationMapTable(connection, parts.origin.ls_server).all()
        current = AnnotationTable(connection).current_by_ids([link.annotation_id for link in mapped])
        report = {
            "server_tasks": len(there),
            "local_tasks": len(linked_tasks),
            "server_annotations": len(theirs),
            "local_annotations": sum(
                link.annotation_id in current and not current[link.annotation_id].is_deleted for link in mapped
            ),
            "vanished": gone,
            "missed": len(missed),
        }
        cursors = SyncCursorTable(connection)
        cursor = cursors.get(parts.origin.ls_server, parts.origin.ls_project_id)
        cursors.put(replace(cursor, last_sweep_at=parts.now(), counts=report))
    return report


def bring_in(parts: SyncParts, payloads: Sequence[object], counts: IngestCounts) -> datetime | None:
    """Ingests one page in one transaction; returns its latest time stamp."""
    known = _known_tasks(parts, payloads)
    parts.people.learn(_user_ids(payloads))
    with parts.store.write() as connection:
        ingest = Ingest(connection, parts.origin, parts.people, parts.now(), counts)
        newest = ingest.tasks(payloads, known)
        cursors = SyncCursorTable(connection)
        cursor = cursors.get(parts.origin.ls_server, parts.origin.ls_project_id)
        if newest is not None and (cursor.watermark is None or newest > cursor.watermark):
            cursors.put(replace(cursor, watermark=newest))
    return newest


def _earliest(cursor: SyncCursor, begun_at: datetime, clock: datetime, overlap: timedelta) -> datetime | None:
    """Where the delta starts if the server's clock shows `clock`; None for everything."""
    if cursor.watermark is None or cursor.last_delta_at is None:
        return None
    elapsed = begun_at - cursor.last_delta_at
    if elapsed < timedelta(0):  # our own clock was set back
        return cursor.watermark - overlap
    return min(cursor.watermark + _TICK, clock - elapsed - overlap - _CLOCK_STEP)


def _cursor(parts: SyncParts) -> SyncCursor:
    with parts.store.read() as connection:
        return SyncCursorTable(connection).get(parts.origin.ls_server, parts.origin.ls_project_id)


def _known_tasks(parts: SyncParts, payloads: Sequence[object]) -> dict[int, KnownTask]:
    ids = [ls_task_id for ls_task_id in map(task_id_of, payloads) if ls_task_id is not None]
    with parts.store.read() as connection:
        links = TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id).by_tasks(ids)
    labelled = [task_id_of(each) for each in payloads if isinstance(each, Mapping) and each.get("annotations")]
    lost = [each for each in labelled if each is not None and each not in links]
    named = dict(_external_ids(parts, lost))
    with parts.store.read() as connection:
        variants = VariantTable(connection).by_ids([*(link.variant_id for link in links.values()), *named.values()])
    known = {each: _known(link, variants) for each, link in links.items() if link.variant_id in variants}
    # If an import was never confirmed, it is unknown which verdicts the task showed: its labels do not count as blind.
    return known | {
        each: KnownTask(variants[variant_id], "unknown") for each, variant_id in named.items() if variant_id in variants
    }


def _known(link: TaskLink, variants: Mapping[VariantId, Variant]) -> KnownTask:
    return KnownTask(variants[link.variant_id], link.verifier_version)


def _external_ids(parts: SyncParts, ls_task_ids: Iterable[int]) -> Iterable[tuple[int, VariantId]]:
    for ls_task_id in ls_task_ids:
        task = parts.client.get_task(ls_task_id)
        data = None if task is None else task.get("data")
        external_id = data.get("external_id") if isinstance(data, Mapping) else None
        if isinstance(external_id, str):
            yield ls_task_id, VariantId(external_id)


def _user_ids(payloads: Sequence[object]) -> set[int]:
    users: set[int] = set()
    for payload in payloads:
        task = task_from(payload, option_count=0)
        for annotation, _ in () if isinstance(task, Unreadable) else task.annotations:
            if not isinstance(annotation, Unreadable):
                users |= {user for user in (annotation.completed_by, annotation.updated_by) if user is not None}
    return users


def _all_tasks(parts: SyncParts) -> dict[int, _ServerTask]:
    there: dict[int, _ServerTask] = {}
    last_id = 0
    while True:
        page = parts.client.ids_after(parts.origin.ls_project_id, last_id)
        for payload in page.tasks:
            task = task_from(payload, option_count=0)
            if isinstance(task, Unreadable):
                raise LabelStudioError(
                    f"sweep: a task cannot be read ({task.reason}), so nothing counts as deleted; check Label Studio"
                )
            there[task.ls_task_id] = _ServerTask(task.updated_at, task.ls_annotation_ids, task.stamps)
            last_id = max(last_id, task.ls_task_id)
        if len(page.tasks) >= page.total:
            return there


def _read_again(parts: SyncParts, ls_task_ids: Sequence[int], counts: IngestCounts) -> None:
    if len(ls_task_ids) > _SINGLE_READS_AT_MOST:
        logger.warning("sweep: %d tasks had been missed; the next delta reads everything", len(ls_task_ids))
        with parts.store.write() as connection:
            cursors = SyncCursorTable(connection)
            cursor = cursors.get(parts.origin.ls_server, parts.origin.ls_project_id)
            cursors.put(replace(cursor, watermark=None))
        return
    payloads = [task for task in map(parts.client.get_task, ls_task_ids) if task is not None]
    if payloads:
        bring_in(parts, payloads, counts)


def _look_into(parts: SyncParts, ls_task_ids: Sequence[int]) -> None:
    """For unknown, unlabelled tasks: deletes second copies of a variant's task, leaves other people's tasks alone."""
    named = list(_external_ids(parts, ls_task_ids[:_SINGLE_READS_AT_MOST]))
    with parts.store.read() as connection:
        tasks = TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id)
        linked = tasks.by_variants([variant_id for _, variant_id in named])
    for ls_task_id, variant_id in named:
        link = linked.get(variant_id)
        if link is not None and link.ls_task_id != ls_task_id:
            drop_copy(parts.client, ls_task_id)

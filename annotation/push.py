"""From the desk to Label Studio: variants as tasks, labels from the outbox, verdicts once they may be shown.

Nothing is created twice: tasks are looked up by external id before import, an annotation has a unique id that the
server accepts only once, and a label counts as synced only after it has been read back.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random
from typing import Final

from annotation.client import LabelStudioClient
from annotation.inbound import InboundAnnotation, annotation_from
from annotation.ingest import Ingest, IngestCounts, KnownTask, Origin
from annotation.people import People
from annotation.tasks import AnnotationPayload, annotation_payload, prediction_payload, task_payload, unique_id
from data.errors import LabelStudioError, LabelStudioRejectedError, LabelStudioUnavailableError
from data.records import Annotation, Variant, VariantId, Verdict
from data.store import Store
from data.tables.accounts import AccountTable
from data.tables.annotations import AnnotationTable
from data.tables.label_studio_maps import AnnotationLink, AnnotationMapTable, TaskLink, TaskMapTable
from data.tables.outbox import OutboxRow, OutboxTable
from data.tables.questions import QuestionTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable
from engine.variant_types.table import VARIANT_TYPES

_TASKS_A_CALL: Final = 20_000  # a call may have 250 MiB; a task has a few KiB
_ROWS_A_RUN: Final = 200
_FIRST_WAIT_S: Final = 30.0
_LONGEST_WAIT_S: Final = 3600.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncParts:
    """What the steps of one sync run share."""

    store: Store
    client: LabelStudioClient
    origin: Origin
    people: People
    now: Callable[[], datetime]
    rng: Random


def push_tasks(parts: SyncParts, variant_ids: Sequence[VariantId]) -> int:
    """Creates a task for each variant without one; returns how many are new. Unknown variants are left out.

    Raises:
        LabelStudioError: none or only some were created; the next call finds those.
    """
    with parts.store.read() as connection:
        linked = TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id).by_variants(variant_ids)
        variants = VariantTable(connection).by_ids([each for each in variant_ids if each not in linked])
    if not variants:
        return 0
    known = _adopt(parts, list(variants))
    missing = [variant for variant_id, variant in variants.items() if variant_id not in known]
    for start in range(0, len(missing), _TASKS_A_CALL):
        _import(parts, missing[start : start + _TASKS_A_CALL])
    return len(missing)


def reveal_verdicts(parts: SyncParts) -> int:
    """Adds verdicts to tasks where they need not be hidden any longer; returns to how many."""
    with parts.store.read() as connection:
        links = TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id).to_reveal(_ROWS_A_RUN)
        verdicts = VerdictTable(connection).latest_for([link.variant_id for link in links])
    predictions = []
    revealed = []
    for link in links:
        prediction = prediction_payload(verdicts.get(link.variant_id, []))
        if prediction is not None:
            predictions.append({"task": link.ls_task_id, **prediction})
            revealed.append(replace(link, verifier_version=str(prediction["model_version"])))
    if not predictions:
        return 0
    # Recorded first: a label created in Label Studio meanwhile must not count as blind.
    with parts.store.write() as connection:
        TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id).put(revealed)
    try:
        parts.client.import_predictions(parts.origin.ls_project_id, predictions)
    except LabelStudioRejectedError as exc:
        logger.warning("verdicts could not be shown in Label Studio: %s", exc)
    return len(revealed)


def push_outbox(parts: SyncParts) -> int:
    """Sends what is due; returns how many labels arrived. A rejected label waits while the others continue.

    Raises:
        LabelStudioUnavailableError: the server is unavailable; the rest stays due.
    """
    with parts.store.read() as connection:
        rows = OutboxTable(connection).due(parts.now(), _ROWS_A_RUN)
    arrived = 0
    for row in rows:
        try:
            arrived += _push(parts, row)
        except LabelStudioUnavailableError:
            raise
        except LabelStudioError as exc:
            wait_s = min(_FIRST_WAIT_S * 2**row.attempts, _LONGEST_WAIT_S) * (0.5 + parts.rng.random())
            logger.warning("label %s is not synced: %s", row.annotation_id, exc)
            with parts.store.write() as connection:
                next_attempt_at = parts.now() + timedelta(seconds=wait_s)
                OutboxTable(connection).mark_failed(row.outbox_id, next_attempt_at=next_attempt_at, error=str(exc))
    return arrived


def _adopt(parts: SyncParts, variant_ids: Sequence[VariantId]) -> frozenset[VariantId]:
    """Links existing tasks that are unknown here, because an answer was lost or the store is an older copy."""
    found = parts.client.find_tasks_by_external_id(parts.origin.ls_project_id, variant_ids)
    links = []
    for external_id, tasks in found.items():
        first, *copies = tasks
        for copy in copies:
            drop_copy(parts.client, copy.ls_task_id)
        links.append(_link(parts, VariantId(external_id), first.ls_task_id, first.verifier_version))
    if links:
        with parts.store.write() as connection:
            TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id).put(links)
    return frozenset(link.variant_id for link in links)


def drop_copy(client: LabelStudioClient, ls_task_id: int) -> None:
    """Deletes a second task of a variant, unless somebody has labelled it."""
    task = client.get_task(ls_task_id)
    if task is not None and not task.get("annotations"):
        client.delete_task(ls_task_id)
        logger.warning("task %s was a second task of its variant and was deleted", ls_task_id)


def _import(parts: SyncParts, variants: Sequence[Variant]) -> None:
    ids = [variant.variant_id for variant in variants]
    with parts.store.read() as connection:
        questions = QuestionTable(connection).by_ids([variant.question_id for variant in variants])
        verdicts = VerdictTable(connection).latest_for(ids)
        blind = TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id).blind(ids)
    payloads, versions = [], []
    for variant in variants:
        shown: list[Verdict] = [] if variant.variant_id in blind else verdicts.get(variant.variant_id, [])
        kind, question = VARIANT_TYPES[variant.variant_type], questions[variant.question_id]
        payloads.append(task_payload(variant, question, shown, type_name=kind.name, definition=kind.definition))
        prediction = prediction_payload(shown)
        versions.append(None if prediction is None else str(prediction["model_version"]))
    ls_task_ids = parts.client.import_tasks(parts.origin.ls_project_id, payloads)
    with parts.store.write() as connection:
        TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id).put(
            _link(parts, variant_id, ls_task_id, version)
            for variant_id, ls_task_id, version in zip(ids, ls_task_ids, versions, strict=True)
        )


def _link(parts: SyncParts, variant_id: VariantId, ls_task_id: int, verifier_version: str | None) -> TaskLink:
    return TaskLink(variant_id, ls_task_id, parts.origin.config_hash, verifier_version, parts.now())


def _push(parts: SyncParts, row: OutboxRow) -> bool:
    """True once this row's label, or a newer one, has been read back."""
    with parts.store.read() as connection:
        label = AnnotationTable(connection).current(row.annotation_id)
        link = AnnotationMapTable(connection, parts.origin.ls_server).of(row.annotation_id)
    if label is None or label.is_deleted:
        if label is not None and link is not None:
            parts.client.delete_annotation(link.ls_annotation_id)
        with parts.store.write() as connection:
            OutboxTable(connection).mark_done(row.annotation_id, row.revision, parts.now())
        return True
    task = _task_of(parts, label)
    theirs = _theirs(parts, label, link, task)
    if theirs is not None:
        label = _settle(parts, label, theirs, link, task)
    payload = annotation_payload(label, completed_by=_user_id(parts, label))
    if theirs is None or _their_hash(theirs, task) != label.content_hash:
        ls_annotation_id = _write(parts, label, payload, theirs, task)
    else:
        ls_annotation_id = _id(theirs)
    return _read_back(parts, label, ls_annotation_id, task)


@dataclass(frozen=True, slots=True)
class _Task:
    """An existing task; `raw` is what was just read."""

    ls_task_id: int
    known: KnownTask
    raw: Mapping[str, object]


def _task_of(parts: SyncParts, label: Annotation) -> _Task:
    """The variant's task, created again if it is gone."""
    for _ in range(2):
        push_tasks(parts, [label.variant_id])
        with parts.store.read() as connection:
            tasks = TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id)
            link = tasks.by_variants([label.variant_id]).get(label.variant_id)
            variant = VariantTable(connection).get(label.variant_id)
        raw = None if link is None else parts.client.get_task(link.ls_task_id)
        if link is not None and raw is not None:
            return _Task(link.ls_task_id, KnownTask(variant, link.verifier_version), raw)
        with parts.store.write() as connection:
            TaskMapTable(connection, parts.origin.ls_server, parts.origin.ls_project_id).remove([label.variant_id])
    raise LabelStudioRejectedError(
        f"the task of {label.variant_id} disappears as soon as it is created; check the project in Label Studio"
    )


def _theirs(
    parts: SyncParts, label: Annotation, link: AnnotationLink | None, task: _Task
) -> Mapping[str, object] | None:
    """The label in Label Studio; None if it has none, not even one whose creation was never confirmed."""
    if link is not None:
        return parts.client.get_annotation(link.ls_annotation_id)
    annotations = task.raw.get("annotations")
    for raw in annotations if isinstance(annotations, list) else []:
        read = annotation_from(raw, option_count=len(task.known.variant.options))
        provenance = read.provenance if isinstance(read, InboundAnnotation) else None
        is_named = provenance is not None and provenance.annotation_id == label.annotation_id
        if is_named and isinstance(raw, Mapping) and not _is_linked(parts, _id(raw)):
            return raw
    return None


def _is_linked(parts: SyncParts, ls_annotation_id: int) -> bool:
    with parts.store.read() as connection:
        return AnnotationMapTable(connection, parts.origin.ls_server).find(ls_annotation_id) is not None


def _settle(
    parts: SyncParts, label: Annotation, theirs: Mapping[str, object], link: AnnotationLink | None, task: _Task
) -> Annotation:
    """The current revision, after ingesting any edit in Label Studio not seen yet, which may be newer."""
    read = annotation_from(theirs, option_count=len(task.known.variant.options))
    is_unseen = isinstance(read, InboundAnnotation) and (link is None or read.updated_at > link.ls_updated_at)
    if not isinstance(read, InboundAnnotation) or not is_unseen or read.content_hash == label.content_hash:
        return label
    parts.people.learn({user for user in (read.completed_by, read.updated_by) if user is not None})
    with parts.store.write() as connection:
        ingest = Ingest(connection, parts.origin, parts.people, parts.now(), IngestCounts())
        ingest.annotation(read, theirs, task.ls_task_id, task.known)
        return AnnotationTable(connection).current(label.annotation_id) or label


def _write(
    parts: SyncParts,
    label: Annotation,
    payload: AnnotationPayload,
    theirs: Mapping[str, object] | None,
    task: _Task,
) -> int:
    """Updates or creates the label in Label Studio; returns its id."""
    if theirs is not None:
        changed = parts.client.update_annotation(_id(theirs), payload)
        if changed is not None:
            return _id(changed)
    unique = unique_id(label.annotation_id, parts.origin.ls_server)
    made = parts.client.create_annotation(task.ls_task_id, {**payload, "unique_id": unique})
    if made is None:  # an earlier attempt did succeed
        made = _theirs(parts, label, None, replace(task, raw=parts.client.get_task(task.ls_task_id) or {}))
    if made is None:
        raise LabelStudioRejectedError(
            f"label {label.annotation_id} should exist in Label Studio but cannot be found; sync again later"
        )
    return _id(made)


def _read_back(parts: SyncParts, label: Annotation, ls_annotation_id: int, task: _Task) -> bool:
    raw = parts.client.get_annotation(ls_annotation_id)
    read = None if raw is None else annotation_from(raw, option_count=len(task.known.variant.options))
    if raw is None or not isinstance(read, InboundAnnotation) or read.content_hash != label.content_hash:
        return False  # changed again at the same moment: the row stays open for the next run
    with parts.store.write() as connection:
        Ingest(connection, parts.origin, parts.people, parts.now(), IngestCounts()).confirm(
            read, raw, task.ls_task_id, label
        )
    return True


def _their_hash(raw: Mapping[str, object], task: _Task) -> str | None:
    read = annotation_from(raw, option_count=len(task.known.variant.options))
    return read.content_hash if isinstance(read, InboundAnnotation) else None


def _user_id(parts: SyncParts, label: Annotation) -> int:
    with parts.store.read() as connection:
        account = AccountTable(connection).find(label.annotator)
    return parts.people.user_id(label.annotator, label.annotator if account is None else account.display_name)


def _id(raw: Mapping[str, object]) -> int:
    number = raw.get("id")
    if not isinstance(number, int):
        raise LabelStudioError(f"Label Studio sent the annotation id {number!r}; check its version")
    return number

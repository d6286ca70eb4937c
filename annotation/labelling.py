"""What an answer changes in the store, and which verdicts are hidden from whom. Works within the caller's transaction.

Blindness is decided here, from the queue and the annotations, and never taken from a form.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from annotation import labels
from annotation.adjudication import refresh_decisions
from annotation.forms import AnswerForm, check_form, console_annotation
from annotation.leases import release_lease, take_lease
from data.errors import ConflictError, NotFoundError, PermissionDeniedError
from data.records import Annotation, AnnotationId, VariantId
from data.store import Connection
from data.tables.annotations import AnnotationTable
from data.tables.drafts import DraftTable, FormTokenTable, SubmittedRevision
from data.tables.outbox import OutboxTable
from data.tables.policies import PolicyTable
from data.tables.queue import QueueItem, QueueTable
from data.tables.variants import VariantTable

GUIDELINES_POLICY: Final = "guidelines_version"
FIRST_GUIDELINES: Final = "1"


@dataclass(frozen=True, slots=True)
class Saved:
    """What was saved. `is_repeat`: this form was already submitted, and nothing was added."""

    variant_id: VariantId
    annotation_id: AnnotationId
    revision: int
    saved_at: datetime
    is_blind: bool
    is_repeat: bool


def queued_item(connection: Connection, variant_id: VariantId) -> QueueItem:
    """Raises NotFoundError for a variant that is not in the review queue."""
    queued = QueueTable(connection).find(variant_id)
    if queued is None:
        raise NotFoundError(f"item {variant_id} is not in the review queue; take the next one")
    return queued


def is_blind_to(connection: Connection, queued: QueueItem, account: str) -> bool:
    """Whether the verdicts are still hidden from the account: drawn blind, and not yet answered by it."""
    return queued.is_blind and not QueueTable(connection).has_answered(queued.variant_id, account)


def own_annotation(connection: Connection, variant_id: VariantId, account: str) -> Annotation | None:
    """The account's current answer; None if there is none or it was deleted."""
    current = AnnotationTable(connection).current_by(variant_id, account)
    return None if current is None or current.is_deleted else current


def label(
    connection: Connection,
    account: str,
    *,
    variant_id: VariantId,
    token: str,
    form: AnswerForm,
    is_skipped: bool,
    now: datetime,
) -> Saved:
    """Writes the annotation's revision and its outbox row, refreshes the decision, deletes the draft, frees the item.

    The first answer to a blind item is a blind label; a change after the verdicts were revealed is another,
    assisted revision. A form that was already submitted adds nothing.

    Args:
        token: identifies the rendered form, so that one form makes one label.

    Raises:
        NotFoundError: the variant is not in the queue.
        InputError: the form does not fit the variant.
        ConflictError: somebody else has the item open.
        PermissionDeniedError: the form belongs to another person.
    """
    sent = FormTokenTable(connection).find(token)
    if sent is not None:
        return _repeated(connection, account, sent)
    queued = queued_item(connection, variant_id)
    if take_lease(connection, variant_id, account, now=now) is None:
        raise ConflictError(
            f"item {variant_id}: your reservation expired and somebody else has it open; take the next one"
        )
    check_form(form, VariantTable(connection).get(variant_id))
    is_blind = is_blind_to(connection, queued, account)
    annotations = AnnotationTable(connection)
    previous = own_annotation(connection, variant_id, account)
    annotation = console_annotation(
        variant_id,
        form,
        annotator=account,
        previous=previous,
        revision=1 if previous is None else annotations.next_revision(previous.annotation_id),
        is_skipped=is_skipped,
        is_blind=is_blind,
        config_hash=labels.label_config_hash(),
        guidelines_version=PolicyTable(connection).get(GUIDELINES_POLICY, FIRST_GUIDELINES),
        now=now,
    )
    annotations.append(annotation)
    OutboxTable(connection).add(
        kind="annotation", annotation_id=annotation.annotation_id, revision=annotation.revision, now=now
    )
    FormTokenTable(connection).add(token, annotation.annotation_id, annotation.revision, now)
    DraftTable(connection).remove(variant_id, account)
    if is_skipped or not is_blind:
        release_lease(connection, variant_id, account)
    refresh_decisions(connection, [variant_id], now)
    return Saved(variant_id, annotation.annotation_id, annotation.revision, now, is_blind, is_repeat=False)


def _repeated(connection: Connection, account: str, sent: SubmittedRevision) -> Saved:
    """The result of the first submission of the same form."""
    revision = next(
        annotation
        for annotation in AnnotationTable(connection).revisions(sent.annotation_id)
        if annotation.revision == sent.revision
    )
    if revision.annotator != account:
        raise PermissionDeniedError("this form belongs to another person; open the item again")
    return Saved(
        revision.variant_id,
        revision.annotation_id,
        revision.revision,
        revision.updated_at,
        revision.is_blind,
        is_repeat=True,
    )

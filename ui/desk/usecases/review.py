"""Reviewing: the next item, drafts, answers, skip, later, undo, and what is saved and synced.

Blindness is enforced here: an item that is blind to the actor has no verdicts, so none can reach the browser, and a
label's blind flag is decided from the store, never taken from a form.
"""

import secrets
from dataclasses import dataclass, replace
from datetime import datetime

from annotation.forms import AnswerForm, check_form
from annotation.labelling import Saved, is_blind_to, label, own_annotation, queued_item
from annotation.leases import release_lease, take_lease
from annotation.queue import ANNOTATORS_PER_ITEM, BLIND_SHARE_POLICY, blind_share
from data.dimensions import DIMENSIONS
from data.errors import InputError, NotFoundError, PermissionDeniedError
from data.records import Annotation, ContractCheck, Draft, Question, Variant, VariantId, Verdict
from data.store import Connection
from data.tables.contract_checks import ContractCheckTable
from data.tables.drafts import DraftTable, FormTokenTable
from data.tables.outbox import OutboxTable
from data.tables.policies import PolicyTable
from data.tables.questions import QuestionTable
from data.tables.queue import LeaseTable, QueueItem, QueueTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable
from engine.variant_types.table import VARIANT_TYPES
from ui.desk.context import Actor, Desk, audit, require_lead


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """One item as the actor may see it. While `is_blind`, `verdicts` is empty.

    `was_blind`: drawn blind, and revealed to the actor after their own answer. `verdicts` are in the order of the
    dimensions. `token` ensures that one rendered form makes one label.
    """

    question: Question
    variant: Variant
    type_name: str
    type_definition: str
    checks: tuple[ContractCheck, ...]
    verdicts: tuple[Verdict, ...]
    is_blind: bool
    was_blind: bool
    reason: str
    draft: Draft | None
    annotation: Annotation | None
    token: str
    opened_at: datetime

    @property
    def verifier_version(self) -> str | None:
        """The verifier whose verdicts are shown."""
        return self.verdicts[0].verifier_version if self.verdicts else None


@dataclass(frozen=True, slots=True)
class SyncState:
    """`synced_at` is set only after reading back from Label Studio. `is_synced_elsewhere`: one is configured."""

    saved_at: datetime | None
    synced_at: datetime | None
    is_synced_elsewhere: bool


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """`waiting` counts items open to the actor; `blind_share`, 0..1, applies to new items."""

    total: int
    done: int
    waiting: int
    mine: int
    mine_today: int
    blind_share: float


def next_item(desk: Desk, actor: Actor) -> ReviewItem | None:
    """Reserves and returns the actor's next item; None if nothing is waiting for them."""
    now = desk.now()
    with desk.store.write() as connection:
        queued = QueueTable(connection).first_for(actor.name, overlap=ANNOTATORS_PER_ITEM, now=now)
        if queued is None:
            return None
        take_lease(connection, queued.variant_id, actor.name, now=now)
        return _item(connection, actor, queued, now)


def open_item(desk: Desk, actor: Actor, *, variant_id: VariantId) -> ReviewItem:
    """Reserves and returns an item by id, as given in a page's address.

    Raises:
        NotFoundError: it is not in the queue.
        PermissionDeniedError: somebody else has it open; the attempt is audited.
    """
    now = desk.now()
    holder = None
    with desk.store.write() as connection:
        queued = queued_item(connection, variant_id)
        if take_lease(connection, variant_id, actor.name, now=now) is not None:
            return _item(connection, actor, queued, now)
        holder = LeaseTable(connection).holder(variant_id, now)
        audit(desk, actor, "review.open", variant_id, within=connection, at=now, outcome="denied", held_by=holder)
    raise PermissionDeniedError(f"{holder} has item {variant_id} open; take the next one, or try again in ten minutes")


def renew(desk: Desk, actor: Actor, *, variant_id: VariantId) -> bool:
    """Renews the reservation of the open item; False if somebody else has it by now."""
    now = desk.now()
    with desk.store.write() as connection:
        return take_lease(connection, variant_id, actor.name, now=now) is not None


def save_draft(desk: Desk, actor: Actor, *, variant_id: VariantId, token: str, form: AnswerForm) -> datetime | None:
    """Saves what is filled in so far; returns when. None if the form with this `token` was submitted meanwhile."""
    now = desk.now()
    with desk.store.write() as connection:
        if FormTokenTable(connection).find(token) is not None:
            return None
        queued_item(connection, variant_id)
        check_form(form, VariantTable(connection).get(variant_id))
        draft = Draft(
            variant_id=variant_id,
            account=actor.name,
            answers=form.answers,
            corrected_answer_index=form.corrected_answer_index,
            corrected_text=form.corrected_text,
            comment=form.comment,
            is_flagged=form.is_flagged,
            updated_at=now,
        )
        DraftTable(connection).save(draft)
    return now


def submit(desk: Desk, actor: Actor, *, variant_id: VariantId, token: str, form: AnswerForm) -> Saved:
    """Saves exactly one label: annotation, outbox row, decision, draft and audit in one transaction.

    The first answer to a blind item is a blind label; a change after the reveal is another, assisted revision.

    Raises:
        InputError: an answer is missing and the item is not flagged, or the form does not fit the variant.
        ConflictError: somebody else has the item open.
    """
    if not form.answers.is_complete and not form.is_flagged:
        missing = [dimension.name for dimension in DIMENSIONS if form.answers.of(dimension.key) is None]
        raise InputError(f"no answer yet on: {', '.join(missing)}; answer, or flag the item to submit it as it is")
    return _label(desk, actor, variant_id=variant_id, token=token, form=form, is_skipped=False)


def skip(desk: Desk, actor: Actor, *, variant_id: VariantId, token: str, form: AnswerForm) -> Saved:
    """Records that the actor cannot judge it: a separate state, never a negative label."""
    return _label(desk, actor, variant_id=variant_id, token=token, form=form, is_skipped=True)


def flag(desk: Desk, actor: Actor, *, variant_id: VariantId, token: str, form: AnswerForm) -> Saved:
    """Refers the item to a lead, with whatever is answered so far."""
    return submit(desk, actor, variant_id=variant_id, token=token, form=replace(form, is_flagged=True))


def later(desk: Desk, actor: Actor, *, variant_id: VariantId) -> None:
    """Moves it to the end of the actor's own queue; the draft is kept."""
    now = desk.now()
    with desk.store.write() as connection:
        queued_item(connection, variant_id)
        QueueTable(connection).put_off(variant_id, actor.name, now)
        release_lease(connection, variant_id, actor.name)
        audit(desk, actor, "review.later", variant_id, within=connection, at=now)


def undo(desk: Desk, actor: Actor, *, variant_id: VariantId | None) -> ReviewItem:
    """Reopens the item that the actor answered before `variant_id`, with its answers; a change is a new revision.

    Raises:
        NotFoundError: there is none.
    """
    with desk.store.read() as connection:
        previous = QueueTable(connection).answered_before(actor.name, variant_id)
    if previous is None:
        raise NotFoundError("there is no earlier item that you have answered; take the next one")
    if variant_id is not None:
        with desk.store.write() as connection:
            release_lease(connection, variant_id, actor.name)
    return open_item(desk, actor, variant_id=previous)


def sync_state(desk: Desk, actor: Actor) -> SyncState:
    """For the actor's newest label: when it was saved, and when it was confirmed in Label Studio."""
    with desk.store.read() as connection:
        last = QueueTable(connection).last_answer(actor.name)
        synced_at = None if last is None else OutboxTable(connection).synced_at(last.annotation_id, last.revision)
    return SyncState(None if last is None else last.saved_at, synced_at, desk.sync is not None)


def queue_status(desk: Desk, actor: Actor) -> QueueStatus:
    today = desk.now().replace(hour=0, minute=0, second=0, microsecond=0)
    with desk.store.read() as connection:
        counts = QueueTable(connection).counts(actor.name, overlap=ANNOTATORS_PER_ITEM, since=today)
        share = blind_share(connection, desk.settings.blind_share)
    return QueueStatus(
        total=counts.total,
        done=counts.done,
        waiting=counts.waiting,
        mine=counts.answered_by_account,
        mine_today=counts.answered_by_account_today,
        blind_share=share,
    )


def set_blind_share(desk: Desk, actor: Actor, *, share: float) -> None:
    """Applies to new items; queued ones keep their draw.

    Raises:
        InputError: outside 0..1.
        PermissionDeniedError: the actor is not a lead.
    """
    require_lead(desk, actor, "queue.set_blind_share", f"{share}")
    if not 0 <= share <= 1:
        raise InputError(f"blind share {share}: give a share from 0 to 1")
    now = desk.now()
    with desk.store.write() as connection:
        PolicyTable(connection).set(BLIND_SHARE_POLICY, share, by=actor.name, now=now)
        audit(desk, actor, "queue.set_blind_share", BLIND_SHARE_POLICY, within=connection, at=now, share=share)


def _item(connection: Connection, actor: Actor, queued: QueueItem, now: datetime) -> ReviewItem:
    variant = VariantTable(connection).get(queued.variant_id)
    is_blind = is_blind_to(connection, queued, actor.name)
    variant_type = VARIANT_TYPES[variant.variant_type]
    return ReviewItem(
        question=QuestionTable(connection).get(variant.question_id),
        variant=variant,
        type_name=variant_type.name,
        type_definition=variant_type.definition,
        checks=tuple(ContractCheckTable(connection).of(variant.variant_id)),
        verdicts=() if is_blind else _dimension_verdicts(connection, variant.variant_id),
        is_blind=is_blind,
        was_blind=queued.is_blind and not is_blind,
        reason=queued.reason,
        draft=DraftTable(connection).find(variant.variant_id, actor.name),
        annotation=own_annotation(connection, variant.variant_id, actor.name),
        token=secrets.token_urlsafe(16),
        opened_at=now,
    )


def _dimension_verdicts(connection: Connection, variant_id: VariantId) -> tuple[Verdict, ...]:
    latest = {verdict.target: verdict for verdict in VerdictTable(connection).latest(variant_id)}
    return tuple(latest[dimension.key] for dimension in DIMENSIONS if dimension.key in latest)


def _label(desk: Desk, actor: Actor, *, variant_id: VariantId, token: str, form: AnswerForm, is_skipped: bool) -> Saved:
    with desk.store.write() as connection:
        saved = label(
            connection,
            actor.name,
            variant_id=variant_id,
            token=token,
            form=form,
            is_skipped=is_skipped,
            now=desk.now(),
        )
        if not saved.is_repeat:
            audit(
                desk,
                actor,
                "review.skip" if is_skipped else "review.submit",
                variant_id,
                within=connection,
                at=saved.saved_at,
                annotation_id=saved.annotation_id,
                revision=saved.revision,
                is_blind=saved.is_blind,
            )
    return saved

"""Reviewing as a use case: blindness, drafts, one label a form, undo, reservations, roles, the audit trail."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from annotation.forms import AnswerForm
from annotation.labelling import Saved
from data.errors import InputError, NotFoundError, PermissionDeniedError
from data.records import Annotation, Answers, VariantId
from data.tables.annotations import AnnotationTable
from data.tables.audit import AuditEntry, AuditTable
from data.tables.decisions import DecisionTable
from data.tables.drafts import DraftTable
from data.tables.outbox import OutboxTable
from ui.desk.context import Actor, Desk
from ui.desk.usecases import review

ANA, BEN = Actor("ana", "annotator"), Actor("ben", "annotator")
LEA = Actor("lea", "lead")
YES = AnswerForm(Answers(True, True, True), lead_time_s=4.5, shown_verifier="secret-verifier-7")
NO = AnswerForm(Answers(True, False, False), shown_verifier="secret-verifier-7")

QueueVariants = Callable[..., list[VariantId]]


@dataclass
class Clock:
    """Time that goes on by a second with every look, and further when told."""

    now: datetime = datetime(2027, 1, 4, 9, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(desk: Desk, clock: Clock) -> Desk:
    return replace(desk, now=clock)


def revisions(desk: Desk, variant_id: VariantId, annotator: str = "ana") -> list[Annotation]:
    with desk.store.read() as connection:
        table = AnnotationTable(connection)
        current = table.current_by(variant_id, annotator)
        return [] if current is None else table.revisions(current.annotation_id)


def audit_of(desk: Desk, action: str) -> list[AuditEntry]:
    with desk.store.read() as connection:
        return [entry for entry in AuditTable(connection).recent() if entry.action == action]


def next_of(desk: Desk, actor: Actor = ANA) -> review.ReviewItem:
    item = review.next_item(desk, actor)
    assert item is not None
    return item


def answer(desk: Desk, item: review.ReviewItem, form: AnswerForm = YES, actor: Actor = ANA) -> Saved:
    return review.submit(desk, actor, variant_id=item.variant.variant_id, token=item.token, form=form)


def test_the_next_item_comes_with_all_that_is_needed_to_judge_it(timed: Desk, queue_variants: QueueVariants) -> None:
    first, _ = queue_variants(2)

    item = next_of(timed)

    assert item.variant.variant_id == first
    assert item.question.question_id == item.variant.question_id
    assert item.type_name == "negative transformation"
    assert item.type_definition
    assert [check.check for check in item.checks] == ["option_count", "length"]
    assert [(verdict.target, verdict.probability) for verdict in item.verdicts] == [
        ("TC", 0.93),
        ("LC", 0.31),
        ("AU", 0.52),
    ]
    assert item.reason == "AU uncertain (0.52)"


def test_a_blind_item_carries_no_verdict_before_the_answer_and_all_after(
    timed: Desk, queue_variants: QueueVariants
) -> None:
    queue_variants(1, blind_share=1.0)

    item = next_of(timed)

    assert item.is_blind
    assert item.verdicts == ()
    assert "secret-verifier-7" not in repr(item)
    assert answer(timed, item).is_blind
    revealed = review.open_item(timed, ANA, variant_id=item.variant.variant_id)
    assert not revealed.is_blind
    assert revealed.was_blind
    assert revealed.verifier_version == "secret-verifier-7"


def test_a_mind_changed_by_the_reveal_is_a_second_assisted_revision_and_the_first_stays_blind(
    timed: Desk, queue_variants: QueueVariants
) -> None:
    queue_variants(1, blind_share=1.0)
    item = next_of(timed)
    answer(timed, item, YES)
    revealed = review.open_item(timed, ANA, variant_id=item.variant.variant_id)

    answer(timed, revealed, NO)

    first, second = revisions(timed, item.variant.variant_id)
    assert (first.revision, first.is_blind, first.shown_verifier, first.answers) == (1, True, None, YES.answers)
    assert (second.revision, second.is_blind, second.shown_verifier) == (2, False, "secret-verifier-7")
    assert second.answers == NO.answers


def test_a_form_that_claims_verdicts_were_shown_cannot_make_a_blind_label_assisted(
    timed: Desk, queue_variants: QueueVariants
) -> None:
    queue_variants(1, blind_share=1.0)

    item = next_of(timed)
    answer(timed, item, replace(YES, shown_verifier="forged"))

    (label,) = revisions(timed, item.variant.variant_id)
    assert label.is_blind
    assert label.shown_verifier is None


def test_skipping_a_blind_item_reveals_nothing(timed: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(1, blind_share=1.0)
    item = next_of(timed)
    review.skip(timed, ANA, variant_id=item.variant.variant_id, token=item.token, form=YES)

    back = review.undo(timed, ANA, variant_id=None)

    assert back.is_blind
    assert back.verdicts == ()


def test_a_label_says_how_it_came_about(timed: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(1)
    item = next_of(timed)

    saved = answer(timed, item, replace(YES, comment="fine", corrected_answer_index=2, is_flagged=True))

    (label,) = revisions(timed, item.variant.variant_id)
    assert (label.annotator, label.updated_by, label.origin) == ("ana", "ana", "console")
    assert (label.comment, label.corrected_answer_index, label.is_flagged) == ("fine", 2, True)
    assert (label.is_blind, label.shown_verifier, label.lead_time_s) == (False, "secret-verifier-7", 4.5)
    assert label.config_hash
    assert label.guidelines_version == "1"
    assert label.updated_at == saved.saved_at


def test_a_submission_stores_label_outbox_row_decision_and_audit_and_removes_the_draft(
    timed: Desk, queue_variants: QueueVariants
) -> None:
    queue_variants(1)
    item = next_of(timed)
    variant_id = item.variant.variant_id
    review.save_draft(timed, ANA, variant_id=variant_id, token=item.token, form=YES)

    saved = answer(timed, item)

    with timed.store.read() as connection:
        assert OutboxTable(connection).open_count() == 1
        assert DraftTable(connection).find(variant_id, "ana") is None
        assert DecisionTable(connection).by_ids([variant_id])[variant_id].outcome == "accepted"
    (entry,) = audit_of(timed, "review.submit")
    assert (entry.actor, entry.subject, entry.outcome) == ("ana", variant_id, "done")
    assert entry.detail["annotation_id"] == saved.annotation_id


def test_the_same_form_sent_again_and_again_at_once_is_one_label(timed: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(1)
    item = next_of(timed)

    with ThreadPoolExecutor(8) as clicks:
        saved = list(clicks.map(lambda _: answer(timed, item), range(24)))

    assert len(revisions(timed, item.variant.variant_id)) == 1
    assert sum(not one.is_repeat for one in saved) == 1
    assert len({(one.annotation_id, one.revision, one.saved_at) for one in saved}) == 1


def test_anothers_form_cannot_be_sent_again(timed: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(1)
    item = next_of(timed)
    answer(timed, item)

    with pytest.raises(PermissionDeniedError, match="another person"):
        answer(timed, item, actor=BEN)


def test_a_missing_answer_is_named_unless_the_item_is_flagged(timed: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(1)
    item = next_of(timed)
    partial = AnswerForm(Answers(True, None, None))

    with pytest.raises(InputError, match="Label correctness, Answer uniqueness"):
        answer(timed, item, partial)
    review.flag(timed, ANA, variant_id=item.variant.variant_id, token=item.token, form=partial)

    (label,) = revisions(timed, item.variant.variant_id)
    assert label.is_flagged
    assert label.answers == partial.answers


@pytest.mark.parametrize(
    ("form", "what"),
    [
        (replace(YES, corrected_answer_index=4), "has only 4 options"),
        (replace(YES, corrected_answer_index=-1), "has only 4 options"),
        (replace(YES, comment="x" * 20_001), "20,001 characters"),
        (replace(YES, comment="a\x00b"), "NUL"),
        (replace(YES, lead_time_s=float("nan")), "lead time"),
        (replace(YES, lead_time_s=-1.0), "lead time"),
    ],
)
def test_a_form_that_does_not_fit_is_refused_and_nothing_is_kept(
    timed: Desk, queue_variants: QueueVariants, form: AnswerForm, what: str
) -> None:
    queue_variants(1)
    item = next_of(timed)

    with pytest.raises(InputError, match=what):
        answer(timed, item, form)

    assert revisions(timed, item.variant.variant_id) == []
    with timed.store.read() as connection:
        assert OutboxTable(connection).open_count() == 0


def test_a_skip_is_no_negative_label_and_decides_nothing(timed: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(1)
    item = next_of(timed)

    review.skip(timed, ANA, variant_id=item.variant.variant_id, token=item.token, form=NO)

    (label,) = revisions(timed, item.variant.variant_id)
    assert label.is_skipped
    with timed.store.read() as connection:
        assert DecisionTable(connection).by_ids([item.variant.variant_id]) == {}
    assert review.next_item(timed, ANA) is None
    assert next_of(timed, BEN).variant.variant_id == item.variant.variant_id


def test_a_draft_comes_back_with_the_item_and_a_late_one_does_not_outlive_the_label(
    timed: Desk, queue_variants: QueueVariants
) -> None:
    queue_variants(1)
    item = next_of(timed)
    variant_id = item.variant.variant_id
    half = AnswerForm(Answers(True, None, False), comment="half")
    review.save_draft(timed, ANA, variant_id=variant_id, token=item.token, form=half)

    again = review.open_item(timed, ANA, variant_id=variant_id)

    assert again.draft is not None
    assert (again.draft.answers, again.draft.comment) == (half.answers, "half")
    answer(timed, again)
    assert review.save_draft(timed, ANA, variant_id=variant_id, token=again.token, form=half) is None
    assert review.open_item(timed, ANA, variant_id=variant_id).draft is None


def test_later_puts_an_item_behind_the_others_and_gives_it_back_to_them(
    timed: Desk, queue_variants: QueueVariants
) -> None:
    first, second = queue_variants(2)
    next_of(timed)

    review.later(timed, ANA, variant_id=first)

    assert next_of(timed, ANA).variant.variant_id == second
    assert next_of(timed, BEN).variant.variant_id == first


def test_undo_goes_back_item_by_item_with_the_answers_and_a_change_is_a_new_revision(
    timed: Desk, queue_variants: QueueVariants
) -> None:
    first, second, third = queue_variants(3)
    answer(timed, next_of(timed), YES)
    answer(timed, next_of(timed), NO)
    open_now = next_of(timed)
    assert open_now.variant.variant_id == third

    back = review.undo(timed, ANA, variant_id=third)
    assert back.variant.variant_id == second
    assert back.annotation is not None
    assert back.annotation.answers == NO.answers
    assert review.undo(timed, ANA, variant_id=second).variant.variant_id == first
    with pytest.raises(NotFoundError, match="no earlier"):
        review.undo(timed, ANA, variant_id=first)
    answer(timed, back, YES)

    assert [label.answers for label in revisions(timed, second)] == [NO.answers, YES.answers]
    assert next_of(timed).variant.variant_id == third


def test_anothers_open_item_is_refused_by_address_and_the_attempt_is_audited(
    timed: Desk, queue_variants: QueueVariants
) -> None:
    (only,) = queue_variants(1)
    next_of(timed)

    with pytest.raises(PermissionDeniedError, match="ana has item"):
        review.open_item(timed, BEN, variant_id=only)

    (entry,) = audit_of(timed, "review.open")
    assert (entry.actor, entry.subject, entry.outcome) == ("ben", only, "denied")
    assert review.next_item(timed, BEN) is None


def test_an_open_item_stays_reserved_while_it_is_renewed_and_returns_when_it_is_not(
    timed: Desk, clock: Clock, queue_variants: QueueVariants
) -> None:
    (only,) = queue_variants(1)
    next_of(timed)
    for _ in range(3):
        clock.now += timedelta(minutes=9)
        assert review.renew(timed, ANA, variant_id=only)
        assert review.next_item(timed, BEN) is None

    clock.now += timedelta(minutes=11)

    assert next_of(timed, BEN).variant.variant_id == only
    assert not review.renew(timed, ANA, variant_id=only)


def test_an_item_outside_the_queue_is_not_found(timed: Desk) -> None:
    with pytest.raises(NotFoundError, match="not in the review queue"):
        review.open_item(timed, ANA, variant_id=VariantId("v_' OR 1=1 --"))


def test_saved_is_said_at_once_and_synced_only_after_the_read_back(timed: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(1)
    assert review.sync_state(timed, ANA).saved_at is None

    saved = answer(timed, next_of(timed))

    state = review.sync_state(timed, ANA)
    assert (state.saved_at, state.synced_at) == (saved.saved_at, None)
    with timed.store.write() as connection:
        OutboxTable(connection).mark_done(saved.annotation_id, saved.revision, timed.now())
    assert review.sync_state(timed, ANA).synced_at is not None


def test_the_status_counts_the_teams_progress_and_mine(timed: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(3)
    answer(timed, next_of(timed))

    mine, theirs = review.queue_status(timed, ANA), review.queue_status(timed, BEN)

    assert (mine.total, mine.done, mine.waiting, mine.mine, mine.mine_today) == (3, 1, 2, 1, 1)
    assert (theirs.done, theirs.waiting, theirs.mine) == (1, 2, 0)


def test_only_a_lead_sets_the_blind_share_and_a_refusal_is_audited(timed: Desk) -> None:
    with pytest.raises(PermissionDeniedError, match="ask a lead"):
        review.set_blind_share(timed, ANA, share=0.5)
    with pytest.raises(InputError, match="0 to 1"):
        review.set_blind_share(timed, LEA, share=1.5)

    review.set_blind_share(timed, LEA, share=0.5)

    assert review.queue_status(timed, ANA).blind_share == 0.5
    outcomes = [(entry.actor, entry.outcome) for entry in audit_of(timed, "queue.set_blind_share")]
    assert sorted(outcomes) == [("ana", "denied"), ("lea", "done")]

"""The review page: one item, its verdicts unless it is blind, the answers. Every action is one use case."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import streamlit as st

from annotation.forms import EMPTY_FORM, AnswerForm, form_of_annotation, form_of_draft
from data.dimensions import DIMENSIONS, DimensionKey
from data.errors import NotFoundError, PermissionDeniedError, SagedeskError
from data.records import VariantId, Verdict
from ui.desk.context import Actor, Desk
from ui.desk.usecases import review
from ui.views.review_status import status_line
from ui.widgets.answer_panel import (
    NoticeKind,
    PanelAction,
    PanelContent,
    PanelDraft,
    PanelForm,
    ShownVerdict,
    answer_panel,
)
from ui.widgets.item import item_html
from ui.widgets.page import clock, empty, notice
from ui.widgets.presence import still
from ui.widgets.texts import letter

_ITEM: Final = "review_item"
_FORM: Final = "review_form"
_NOTICE: Final = "review_notice"
_ANSWER: Final = "review_answer"
_PANEL: Final = "review_panel"
# Nearer to 0.5 than this, a verdict is shown as undecided.
_UNSURE_BAND: Final = 0.1


def render(desk: Desk, actor: Actor) -> None:
    _work(desk, actor)


@st.fragment
def _work(desk: Desk, actor: Actor) -> None:
    try:
        actor = still(actor)
        item = _current(desk, actor)
    except SagedeskError as exc:
        notice(str(exc), kind="error")
        return
    with st.container(key="review_status"):
        status_line(desk, actor, None if item is None else item.variant.variant_id, "" if item is None else item.reason)
    if item is None:
        _nothing_waits(desk, actor)
        return
    st.html(
        item_html(
            item.question,
            item.variant,
            type_name=item.type_name,
            type_definition=item.type_definition,
            checks=item.checks,
        )
    )
    answer_panel(
        _content(item, actor),
        key=_PANEL,
        on_draft=lambda sent: _refusals_in_panel(lambda: _keep(desk, still(actor), sent)),
        on_action=lambda sent: _refusals_in_panel(lambda: _do(desk, actor, sent)),
    )


def _current(desk: Desk, actor: Actor) -> review.ReviewItem | None:
    """The item in the page's address, the one in hand, or the next."""
    held: review.ReviewItem | None = st.session_state.get(_ITEM)
    asked = st.query_params.get("item")
    if held is not None and asked in (None, held.variant.variant_id):
        _address(held)
        return held
    if asked is not None:
        try:
            return _hold(review.open_item(desk, actor, variant_id=VariantId(asked)))
        except (NotFoundError, PermissionDeniedError) as exc:
            st.session_state[_NOTICE] = ("warn", str(exc))
    return _hold(review.next_item(desk, actor))


def _hold(item: review.ReviewItem | None) -> review.ReviewItem | None:
    """Take `item` in hand: in the session for the next drawing, in the address for a refresh."""
    st.session_state[_ITEM] = item
    st.session_state.pop(_FORM, None)
    _address(item)
    return item


def _address(item: review.ReviewItem | None) -> None:
    if item is None:
        st.query_params.pop("item", None)
    elif st.query_params.get("item") != item.variant.variant_id:
        st.query_params["item"] = item.variant.variant_id


def _refusals_in_panel(act: Callable[[], None]) -> None:
    """Run a callback; what a use case refuses stands in the panel at the next drawing."""
    try:
        act()
    except SagedeskError as exc:
        st.session_state[_NOTICE] = ("error", str(exc))


def _keep(desk: Desk, actor: Actor, sent: PanelDraft) -> None:
    held: review.ReviewItem | None = st.session_state.get(_ITEM)
    if held is None or held.token != sent.token:
        return
    st.session_state[_FORM] = sent.form
    review.save_draft(
        desk, actor, variant_id=held.variant.variant_id, token=sent.token, form=_answer_form(sent.form, held)
    )


def _do(desk: Desk, actor: Actor, sent: PanelAction) -> None:
    st.session_state[_ANSWER] = st.session_state.get(_ANSWER, 0) + 1
    actor = still(actor)
    held: review.ReviewItem | None = st.session_state.get(_ITEM)
    if held is None or held.token != sent.token:  # a second click on a form that was dealt with
        return
    st.session_state.pop(_NOTICE, None)
    variant_id, token = held.variant.variant_id, held.token
    form = _answer_form(sent.form, held, seconds=sent.seconds)
    match sent.what:
        case "submit":
            saved = review.submit(desk, actor, variant_id=variant_id, token=token, form=form)
            if saved.is_blind:
                _hold(review.open_item(desk, actor, variant_id=variant_id))
            else:
                _hold(review.next_item(desk, actor))
        case "skip":
            review.skip(desk, actor, variant_id=variant_id, token=token, form=form)
            _hold(review.next_item(desk, actor))
        case "later":
            review.save_draft(desk, actor, variant_id=variant_id, token=token, form=form)
            review.later(desk, actor, variant_id=variant_id)
            following = _hold(review.next_item(desk, actor))
            if following is not None and following.variant.variant_id == variant_id:
                st.session_state[_NOTICE] = ("info", "This is the only item left in your queue.")
        case "undo":
            _undo(desk, actor, variant_id)
        case "next":
            _hold(review.next_item(desk, actor))


def _undo(desk: Desk, actor: Actor, variant_id: VariantId | None) -> None:
    _hold(review.undo(desk, actor, variant_id=variant_id))


def _nothing_waits(desk: Desk, actor: Actor) -> None:
    status = review.queue_status(desk, actor)
    if status.total == 0:
        empty(
            "Nothing to review yet",
            "Import questions and generate variants. Those that pass their contract are verified and appear here."
            if actor.role == "lead"
            else "A lead has to generate variants first. They appear here once they are verified.",
        )
    else:
        empty(
            "Nothing left to review",
            f"You have answered {status.mine:,}, {status.mine_today:,} of them today. "
            "Items that others have open may still return to the queue.",
        )
    kind, text = st.session_state.pop(_NOTICE, ("info", ""))
    if text:
        notice(text, kind=kind)
    with st.container(horizontal=True, key="review_empty"):
        st.button("Check again", shortcut="N", key="review_look")
        if status.mine:
            st.button(
                "Back to my last item",
                shortcut="U",
                key="review_back",
                on_click=lambda: _refusals_in_panel(lambda: _undo(desk, still(actor), None)),
            )


def _content(item: review.ReviewItem, actor: Actor) -> PanelContent:
    notice_kind: NoticeKind
    notice_kind, text = st.session_state.get(_NOTICE, ("info", ""))
    if not text:
        text = _standing_notice(item)
    revision = 0 if item.annotation is None else item.annotation.revision
    by_target: dict[str, Verdict] = {verdict.target: verdict for verdict in item.verdicts}
    return PanelContent(
        place=f"{item.variant.variant_id}:{actor.name}:{revision}",
        token=item.token,
        answer=st.session_state.get(_ANSWER, 0),
        verdicts=_shown_verdicts(by_target, item),
        form=st.session_state.get(_FORM) or _panel_form(_form_of(item)),
        letters=[letter(index) for index in range(len(item.variant.options))],
        is_answered=item.annotation is not None and not item.annotation.is_skipped,
        is_revealed=item.was_blind and item.annotation is not None and not item.annotation.is_skipped,
        notice=text,
        notice_kind=notice_kind,
    )


def _standing_notice(item: review.ReviewItem) -> str:
    annotation = item.annotation
    if annotation is None:
        return ""
    if annotation.is_skipped:
        return f"You skipped this item at {clock(annotation.updated_at)}. An answer is saved as a new revision."
    if item.was_blind and annotation.is_blind:
        return "Your blind answer is saved; these are the verdicts. Go on, or change an answer if they convince you."
    return f"You answered this item at {clock(annotation.updated_at)}. Changes are saved as a new revision."


def _shown_verdicts(by_target: Mapping[str, Verdict], item: review.ReviewItem) -> list[ShownVerdict]:
    """One a dimension, in order; a verifier is named where it first speaks and not again on the next line."""
    shown: list[ShownVerdict] = []
    named = ""
    for dimension in DIMENSIONS:
        one = _shown(by_target.get(dimension.key), dimension.key, item)
        shown.append(replace(one, source="") if one.source == named else one)
        named = one.source
    return shown


def _shown(verdict: Verdict | None, key: DimensionKey, item: review.ReviewItem) -> ShownVerdict:
    field = PanelForm.field_of(key)
    if item.is_blind:
        return ShownVerdict(
            field,
            "none",
            "◌ hidden until you answer",
            "",
            "This item is blind: answer first, then the verdicts appear.",
        )
    if verdict is None:
        return ShownVerdict(field, "none", "◌ not verified", "", "No verifier has judged this variant yet.")
    title = f"{verdict.verifier_version}, {verdict.method}"
    version = _short(verdict.verifier_version)
    if verdict.probability is None:
        return ShownVerdict(field, "unsure", "? unparsed", version, f"The verifier's reply could not be read. {title}")
    if abs(verdict.probability - 0.5) < _UNSURE_BAND:
        return ShownVerdict(field, "unsure", f"? unsure {verdict.probability:.2f}", version, title)
    is_yes = verdict.probability >= 0.5 if verdict.label is None else verdict.label
    word = "✓ yes" if is_yes else "✕ no"
    return ShownVerdict(field, "yes" if is_yes else "no", f"{word} {verdict.probability:.2f}", version, title)


def _short(version: str) -> str:
    return version if len(version) <= 22 else version[:21] + "…"


def _form_of(item: review.ReviewItem) -> AnswerForm:
    """The draft if there is one, else what was answered, else nothing."""
    if item.draft is not None:
        return form_of_draft(item.draft)
    return EMPTY_FORM if item.annotation is None else form_of_annotation(item.annotation)


def _panel_form(form: AnswerForm) -> PanelForm:
    return PanelForm(
        tc=form.answers.tc,
        lc=form.answers.lc,
        au=form.answers.au,
        corrected_answer_index=form.corrected_answer_index,
        corrected_text=form.corrected_text,
        comment=form.comment,
        is_flagged=form.is_flagged,
    )


def _answer_form(form: PanelForm, held: review.ReviewItem, *, seconds: float | None = None) -> AnswerForm:
    return AnswerForm(
        form.answers,
        form.corrected_answer_index,
        form.corrected_text or None,
        form.comment,
        form.is_flagged,
        lead_time_s=seconds,
        shown_verifier=held.verifier_version,
    )

"""The panel in which a reviewer answers: keys, drafts, actions. Draws and reports; what happens is for the caller.

A component of our own, because a key press must take effect at once, a draft must leave while it is typed, and an
action must carry the whole form: with one button a key, fast presses could overtake each other on the way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

import streamlit as st
from pydantic import BaseModel, ConfigDict, ValidationError

from data.dimensions import DIMENSIONS, DimensionKey
from data.errors import InputError
from data.records import Answers

PANEL_NAME: Final = "sagedesk_answer_panel"
NoticeKind = Literal["info", "warn", "error"]
AnswerField = Literal["tc", "lc", "au"]
ActionName = Literal["submit", "next", "skip", "later", "undo"]
Sent = TypeVar("Sent", bound=BaseModel)
_HERE: Final = Path(__file__).parent


class PanelForm(BaseModel):
    """The fields as the browser sends them."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    tc: bool | None
    lc: bool | None
    au: bool | None
    corrected_answer_index: int | None
    corrected_text: str | None
    comment: str
    is_flagged: bool

    @property
    def answers(self) -> Answers:
        return Answers(self.tc, self.lc, self.au)

    @staticmethod
    def field_of(dimension: DimensionKey) -> "AnswerField":
        fields: dict[DimensionKey, AnswerField] = {"TC": "tc", "LC": "lc", "AU": "au"}
        return fields[dimension]


class PanelDraft(BaseModel):
    """What is filled in so far in the form `token`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    token: str
    form: PanelForm


class PanelAction(BaseModel):
    """A person's wish, with the whole form; `seconds` is how long the item was in sight."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: ActionName
    token: str
    form: PanelForm
    seconds: float


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """A verdict in words, as one row of the panel; `kind` chooses its colour, `source` stands faint after it."""

    field: AnswerField
    kind: Literal["yes", "no", "unsure", "none"]
    text: str
    source: str
    title: str


@dataclass(frozen=True, slots=True)
class PanelContent:
    """What the panel shows.

    Args:
        place: names item, account and revision; what a refreshed tab had not sent yet comes back at the same place.
        answer: changes whenever the desk has dealt with an action.
        is_answered: the person has answered this item before; `is_revealed` that they did so blind.
    """

    place: str
    token: str
    answer: int
    verdicts: Sequence[ShownVerdict]
    form: PanelForm
    letters: Sequence[str]
    is_answered: bool
    is_revealed: bool
    notice: str
    notice_kind: NoticeKind


def _rows() -> str:
    rows = []
    for number, dimension in enumerate(DIMENSIONS):
        yes, no = 2 * number + 1, 2 * number + 2
        field = dimension.key.lower()
        rows.append(
            f'<div class="sd-row" role="group" aria-label="{dimension.name}">'
            f'<div><b>{dimension.name}</b><span class="sd-ask">{dimension.question}</span></div>'
            f'<div class="sd-verdict" data-part="verdict-{field}"></div>'
            f'<button type="button" class="sd-yes-key" data-do="{yes}" aria-pressed="false">'
            f"<span>✓ Yes</span><kbd>{yes}</kbd></button>"
            f'<button type="button" class="sd-no-key" data-do="{no}" aria-pressed="false">'
            f"<span>✕ No</span><kbd>{no}</kbd></button></div>"
        )
    return "\n".join(rows)


# Not isolated: Streamlit's own keys look at the focused element, which a shadow root would hide from them.
_panel = st.components.v2.component(
    PANEL_NAME,
    html=(_HERE / "answer_panel.html").read_text("utf-8").replace("{rows}", _rows()),
    css=(_HERE / "answer_panel.css").read_text("utf-8"),
    js=(_HERE / "answer_panel.js").read_text("utf-8"),
    isolate_styles=False,
)


def answer_panel(
    content: PanelContent,
    *,
    key: str,
    on_draft: Callable[[PanelDraft], None],
    on_action: Callable[[PanelAction], None],
) -> None:
    """Draw the panel; the callbacks run before the next drawing.

    Raises:
        InputError: in a callback, when the browser sent something else than the panel's own form.
    """

    def drafted() -> None:
        sent = st.session_state[key]["draft"]
        if sent is not None:
            on_draft(_parsed(PanelDraft, sent))

    def acted() -> None:
        sent = st.session_state[key]["action"]
        if sent is not None:
            on_action(_parsed(PanelAction, sent))

    _panel(
        key=key,
        data={
            "place": content.place,
            "token": content.token,
            "answer": content.answer,
            "verdicts": [
                {
                    "field": verdict.field,
                    "kind": verdict.kind,
                    "text": verdict.text,
                    "source": verdict.source,
                    "title": verdict.title,
                }
                for verdict in content.verdicts
            ],
            "form": content.form.model_dump(),
            "letters": list(content.letters),
            "answered": content.is_answered,
            "revealed": content.is_revealed,
            "notice": {"text": content.notice, "kind": content.notice_kind},
        },
        on_draft_change=drafted,
        on_action_change=acted,
    )


def _parsed(model: type[Sent], sent: object) -> Sent:
    try:
        return model.model_validate(sent)
    except ValidationError as exc:
        raise InputError(f"the page sent an invalid form ({exc.errors()[0]['msg']}); reload the page") from exc

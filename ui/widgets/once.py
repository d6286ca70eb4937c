"""Buttons that start something: however often one is clicked, it is done once, and what came of it is shown.

Every click begins a new run of the page's script, and Streamlit stops the one before wherever it is, also between what
it did and where it would have led; both may work at the same time. So a click is only noted. The first run that draws
the button does what was asked while others wait; whichever run is the last one shows what came of it or leads there.

Refuses fragments: a click in one does not run the page's script.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Final

import streamlit as st

from data.errors import SagedeskError
from ui.widgets.go import Place, Way, way
from ui.widgets.page import notice

_SESSION: Final = "sd_once"


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an act: words for the person, shown here unless their role has the page `place` that shows it."""

    words: str
    place: Place | None = None


@dataclass(slots=True)
class _Button:
    """`acts` numbers its drawings: a click on one that was dealt with gets what came of that one."""

    acts: int = 0
    is_asked: bool = False
    last: Done | None = None
    words: str = ""
    refusal: str = ""


@dataclass(slots=True)
class _Session:
    """Of one open page; its runs hold it by reference, since each look into Streamlit's state may end a run."""

    way: Way
    buttons: dict[str, _Button] = field(default_factory=dict)
    acting: RLock = field(default_factory=RLock)
    noting: Lock = field(default_factory=Lock)


def act_once(
    draw: Callable[..., bool],
    label: str,
    act: Callable[[], Done],
    *,
    key: str,
    disabled: bool = False,
    **look: object,
) -> None:
    """Draw the button, and act where it was clicked; a use case's refusal stands below it.

    Args:
        draw: `st.button`, or `form_submit_button` of a place in a form.
        act: calls one use case and leaves Streamlit alone after it: a run that is stopped between the two would have
            done something that nobody knows of.
        key: the button's own on its page.
        look: for `draw`.
    """
    session = _session()
    button = session.buttons.setdefault(key, _Button())
    number = button.acts
    draw(
        label,
        key=f"{key}_{number}",
        on_click=_note_click,
        args=(session, button, number),
        disabled=disabled and not button.is_asked,
        **look,
    )
    if button.is_asked:
        with session.acting:
            if button.is_asked:  # still, now that no other run is at it
                _act(session, button, act, is_refused=disabled)
    session.way.follow()
    if button.acts != number:
        st.rerun()
    place = st.empty()
    if button.refusal:
        with place:
            notice(button.refusal, kind="error")
        button.refusal = ""  # only now: a run that is stopped while it shows this leaves it to the next
    show_words(key)


def show_words(key: str) -> None:
    """What came of the button's last act, once: for a place that is still there when the button is not."""
    place = st.empty()  # always there, or all that stands below is shown twice while the page is drawn without it
    button = _session().buttons.get(key)
    if button is not None and button.words:
        with place:
            notice(button.words, kind="done")
        button.words = ""


def acts_so_far() -> int:
    """How often this session's buttons have done something."""
    return sum(button.acts for button in _session().buttons.values())


def settle(before: int) -> None:
    """Called by the page's script after it has drawn the page; `before` is `acts_so_far` as it began.

    What another run of it did meanwhile is not in this drawing; and what was asked of a button that is not on the
    page any more is forgotten.
    """
    session = _session()
    with session.acting:
        session.way.follow()
        if acts_so_far() != before:
            st.rerun()
        for button in session.buttons.values():
            button.is_asked = False


def _session() -> _Session:
    found: _Session | None = st.session_state.get(_SESSION)
    if found is None:
        found = st.session_state[_SESSION] = _Session(way())
    return found


def _note_click(session: _Session, button: _Button, number: int) -> None:
    """Before the script runs. `number` is of the drawing that was clicked."""
    with session.noting:
        if number == button.acts:
            button.is_asked = True
        elif number == button.acts - 1 and button.last is not None:
            _tell(session, button, button.last)


def _act(session: _Session, button: _Button, act: Callable[[], Done], *, is_refused: bool) -> None:
    if is_refused:
        button.is_asked = False
        return
    try:
        done = act()
    except SagedeskError as exc:
        button.is_asked, button.refusal = False, str(exc)
    except Exception:
        button.is_asked = False
        raise
    else:
        with session.noting:
            button.is_asked, button.acts, button.last = False, button.acts + 1, done
            _tell(session, button, done)


def _tell(session: _Session, button: _Button, done: Done) -> None:
    if done.place is None or not session.way.head_for(done.place):
        button.words = done.words

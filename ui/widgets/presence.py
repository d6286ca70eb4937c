"""Whether the person for whom a page was drawn is still signed in, asked again before anything is done in their name.

A fragment and a callback run without the page's script, so the check of the script does not cover them.
"""

from collections.abc import Callable
from typing import Final

import streamlit as st

from data.errors import SignInError
from ui.desk.context import Actor

_WHO: Final = "sd_who"


def remember(who: Callable[[], Actor | None]) -> None:
    """Called by the page's script: how to ask who is signed in."""
    st.session_state[_WHO] = who


def still(actor: Actor) -> Actor:
    """The actor as the store knows them now, with the role of now.

    Raises:
        SignInError: signed out meanwhile, or somebody else signed in in this browser.
    """
    who = st.session_state.get(_WHO)
    if who is None:  # a page under test is drawn without a door
        return actor
    present: Actor | None = who()
    if present is None or present.name != actor.name:
        raise SignInError("you are signed out; reload the page to sign in")
    return present

"""The console's script: who is signed in, which pages their role has, and the account menu."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import streamlit as st

from ui.desk.context import Actor, Desk
from ui.views import generate, models, overview, questions, releases, review, runs, training
from ui.web.serving import actor_of_page, current_desk
from ui.widgets.go import arrive
from ui.widgets.once import acts_so_far, settle
from ui.widgets.page import style
from ui.widgets.presence import remember

Render = Callable[[Desk, Actor], None]

LOGO: Final = Path(__file__).parent / "widgets" / "logo.svg"
FOR_ALL: Final = {"Review": review.render, "Questions": questions.render}
FOR_LEADS: Final = {
    "Generate": generate.render,
    "Runs": runs.render,
    "Training": training.render,
    "Models": models.render,
    "Releases": releases.render,
}


def main() -> None:
    st.set_page_config(page_title="sagedesk", page_icon="🌿", layout="wide")
    style()
    actor = actor_of_page()
    if actor is None:  # the door lets nobody in without a session, but one can end while a page is open
        st.html(
            '<div class="sd-empty"><h3>You are signed out</h3><p><a href="/login">Sign in</a> to continue.</p></div>'
        )
        return
    remember(actor_of_page)
    desk = current_desk()
    st.logo(LOGO, size="large")
    _account_menu(actor)
    renders = FOR_ALL | (FOR_LEADS if actor.role == "lead" else {}) | {"Overview": overview.render}
    pages = {
        title: st.Page(_bound(render, desk, actor), title=title, url_path=title.lower(), default=title == "Review")
        for title, render in renders.items()
    }
    shown = st.navigation(list(pages.values()), position="top")
    arrive(pages, shown.title)
    before = acts_so_far()
    shown.run()
    settle(before)


def _bound(render: Render, desk: Desk, actor: Actor) -> Callable[[], None]:
    return lambda: render(desk, actor)


def _account_menu(actor: Actor) -> None:
    with st.container(key="account"), st.popover("Account", type="tertiary"):
        st.text(f"{actor.name} ({actor.role})")
        st.html('<p><a href="/account">Change password</a></p><p><a href="/logout">Sign out</a></p>')


main()

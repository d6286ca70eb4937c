"""What the pages of this process reach: the desk while it is up, and who is signed in."""

from dataclasses import dataclass

import streamlit as st

from data.errors import SetupError
from ui.desk.context import Actor, Desk
from ui.web.login import COOKIE, Cookies, actor_of_token


@dataclass(slots=True)
class _Serving:
    desk: Desk | None = None
    cookies: Cookies | None = None


_serving = _Serving()


def begin(desk: Desk, cookies: Cookies) -> None:
    _serving.desk, _serving.cookies = desk, cookies


def end() -> None:
    _serving.desk, _serving.cookies = None, None


def current_desk() -> Desk:
    """Raises SetupError before the desk is up and after it went down."""
    if _serving.desk is None:
        raise SetupError("the desk is not ready; wait a moment and reload")
    return _serving.desk


def current_cookies() -> Cookies:
    """Raises SetupError like `current_desk`."""
    if _serving.cookies is None:
        raise SetupError("the desk is not ready; wait a moment and reload")
    return _serving.cookies


def actor_of_page() -> Actor | None:
    """Who is signed in, asked of the store on every script run: signing out elsewhere counts at once."""
    token = current_cookies().token_in(st.context.cookies.get(COOKIE))
    return actor_of_token(current_desk(), token)

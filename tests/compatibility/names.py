"""What people and scripts call by name, asked of the code under test: commands, routes, pages, use cases, variables."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import streamlit as st
import typer
from starlette.routing import Route
from streamlit.navigation.page import StreamlitPage
from streamlit.testing.v1 import AppTest

from ui.commands.tree import app
from ui.desk import sessions
from ui.desk.context import OPERATOR, Desk
from ui.desk.settings import Settings
from ui.desk.use_case_table import USE_CASES, use_case
from ui.desk.usecases import accounts
from ui.web import asgi, serving
from ui.web.login import COOKIE, Cookies

Need = Literal["required", "optional"]
Parameters = Mapping[str, Need]


def commands() -> dict[str, Parameters]:
    """`sagedesk NOUN VERB` to its options by each of their spellings; arguments by their place: `1`, `2`."""
    return dict(_commands("sagedesk", typer.main.get_command(app)))


def use_cases() -> dict[str, Parameters]:
    """What `/api/call/NAME` and `/api/jobs` take, by argument."""
    return {
        name: {argument: _need(argument in wanted.required) for argument in wanted.arguments}
        for name, wanted in ((name, use_case(name)) for name in USE_CASES)
    }


def routes(state: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """`METHOD /path` of everything that the desk adds to Streamlit's own."""
    found: list[str] = []

    def application(*_: object, routes: Sequence[Route], **__: object) -> None:
        found.extend(f"{method} {route.path}" for route in routes for method in route.methods or ())

    monkeypatch.setattr(st, "App", application)
    asgi.build_app(Settings(state=state))
    return sorted(name for name in found if not name.startswith("HEAD "))


def pages(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The paths in the navigation, by role; the first page is the address itself."""
    cookies = Cookies("key")
    found: dict[str, list[str]] = {}

    navigate = st.navigation

    def navigation(pages: Sequence[Any], **options: Any) -> StreamlitPage:
        found[role] = [f"/{page.url_path}" for page in pages]
        return navigate(pages, **options)

    monkeypatch.setattr(st, "navigation", navigation)
    serving.begin(desk, cookies)
    try:
        for role in ("annotator", "lead"):
            link = accounts.add_account(desk, OPERATOR, name=f"a-{role}", role=role)
            session = sessions.sign_in_by_link(desk, token=link.path.partition("token=")[2])
            cookie = {COOKIE: cookies.signed(session.token)}
            monkeypatch.setattr(st, "context", SimpleNamespace(cookies=cookie))
            drawn = AppTest.from_file(str(asgi.APP_SCRIPT), default_timeout=60).run()
            assert not drawn.exception
    finally:
        serving.end()
    return found


def _commands(path: str, command: Any) -> Iterator[tuple[str, Parameters]]:
    options = {
        spelling: _need(parameter.required)
        for parameter in command.params
        if parameter.param_type_name == "option"
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    }
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    yield path, options | {str(place): _need(one.required) for place, one in enumerate(arguments, 1)}
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(f"{path} {name}", inner)


def _need(is_required: bool) -> Need:
    return "required" if is_required else "optional"

"""Nobody's script breaks: every name of version 0.1 is still there, or its new one stands here and in the changelog."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from data.cache import cache_folder
from tests.compatibility import names
from ui.desk.context import Desk
from ui.desk.settings import Settings

RENAMED: Final[Mapping[str, str]] = {}
"""Old name to new, of a command (`sagedesk model compare`), an option or argument (`sagedesk model compare --json`,
`model.compare model_id`), a route, a page, a use case or a variable."""

CHANGELOG: Final = Path(__file__).parents[2] / "CHANGELOG.md"
OF_0_1: Final[Mapping[str, Any]] = json.loads(Path(__file__).with_name("names-0.1.json").read_text("utf-8"))


def now_called(name: str) -> str:
    return RENAMED.get(name, name)


def lost(before: Iterable[str], now: Iterable[str]) -> list[str]:
    return sorted({now_called(name) for name in before} - {*now})


def broken(before: Mapping[str, names.Parameters], now: Mapping[str, names.Parameters]) -> list[str]:
    """Calls that worked and do not any more: the name is gone, a parameter is gone, or one more has to be given."""
    found = lost(before, now)
    for name, parameters in before.items():
        known = now.get(now_called(name), {})
        wanted = {now_called(f"{name} {one}").rpartition(" ")[2]: need for one, need in parameters.items()}
        found += [f"{name} {one}" for one in wanted if one not in known]
        found += [
            f"{name} {one} (now required)"
            for one, need in known.items()
            if need == "required" and wanted.get(one) != "required"
        ]
    return found


def test_every_command_takes_what_it_took() -> None:
    assert broken(OF_0_1["commands"], names.commands()) == []


def test_every_use_case_takes_what_it_took() -> None:
    assert broken(OF_0_1["use_cases"], names.use_cases()) == []


def test_every_route_is_there(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lost(OF_0_1["routes"], names.routes(state, monkeypatch)) == []


def test_every_page_has_its_address(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    now = names.pages(desk, monkeypatch)

    assert {role: lost(before, now[role]) for role, before in OF_0_1["pages"].items()} == {"annotator": [], "lead": []}


@pytest.mark.parametrize("variable", OF_0_1["variables"])
def test_every_variable_is_read(variable: str, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = OF_0_1["variables"][variable]
    monkeypatch.setenv(now_called(variable), value)

    read = [getattr(it, "get_secret_value", lambda it=it: it)() for it in Settings().model_dump().values()]

    assert value in {*map(str, read), str(cache_folder())}


def test_every_new_name_stands_in_the_changelog_beside_the_old() -> None:
    told = CHANGELOG.read_text("utf-8")

    assert [name for pair in RENAMED.items() for name in pair if name not in told] == []


def test_a_loss_and_a_new_duty_are_seen() -> None:
    before: Mapping[str, names.Parameters] = {"model.show": {"model_id": "required"}, "gone": {}}
    now: Mapping[str, names.Parameters] = {"model.show": {"model": "required", "more": "optional"}}

    assert broken(before, now) == ["gone", "model.show model_id", "model.show model (now required)"]

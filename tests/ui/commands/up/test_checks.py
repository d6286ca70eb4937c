"""What `sagedesk up` refuses before it starts anything, each in one line that says what to do."""

import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data import processes
from data.errors import SetupError
from tests.ui.standing_in import free_port, stand_in
from ui.commands.up.checks import only_start
from ui.commands.up.start import main
from ui.desk.desk_file import RunningDesk, remove_desk_file, write_desk_file
from ui.desk.settings import Settings, read_settings

Sagedesk = Callable[..., Any]


@pytest.fixture
def ready(settings: Settings, tmp_path: Path) -> Settings:
    """Settings with which a start has nothing to complain of."""
    return settings.model_copy(
        update={
            "port": free_port(),
            "label_studio_port": free_port(),
            "label_studio_python": stand_in(tmp_path),
            "state": tmp_path / "var",
        }
    )


def refused(settings: Settings) -> str:
    said: list[str] = []
    with pytest.raises(SetupError) as told:
        main(settings, os.environ, report=said.append, answer=said.append)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_a_busy_port_of_the_desk_is_one_line(ready: Settings) -> None:
    with socket.create_server(("127.0.0.1", ready.port)):
        assert re.search(rf"cannot listen on 127.0.0.1:{ready.port}.*in use.*SAGEDESK_PORT", refused(ready))


def test_a_busy_port_of_label_studio_is_one_line(ready: Settings) -> None:
    with socket.create_server(("127.0.0.1", ready.label_studio_port)):
        assert re.search(rf"port {ready.label_studio_port} is in use.*SAGEDESK_LABEL_STUDIO_PORT", refused(ready))


def test_one_port_for_both_is_refused(ready: Settings) -> None:
    assert "cannot both listen" in refused(ready.model_copy(update={"label_studio_port": ready.port}))


def test_too_little_room_says_how_much_is_needed(ready: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: shutil._ntuple_diskusage(10**9, 10**9, 5 * 10**7))

    assert re.search(r"has 50 MB free, but a desk needs 1000 MB; free some space", refused(ready))


def test_a_state_folder_that_cannot_be_made_is_one_line(ready: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    said = refused(ready.model_copy(update={"state": tmp_path / "file" / "var"}))

    assert re.search(r"state folder .*file/var: Not a directory.*SAGEDESK_STATE", said)


def test_a_second_start_on_the_same_state_names_the_first(ready: Settings) -> None:
    with only_start(ready):
        said = refused(ready)

    assert re.search(rf"another `sagedesk up` \(process {os.getpid()}\) is using .*SAGEDESK_STATE", said)
    with only_start(ready):
        pass  # free again


def test_a_desk_whose_start_was_killed_is_named_with_what_to_do(ready: Settings) -> None:
    ready.state.mkdir()
    pid = os.getpid()
    write_desk_file(ready.desk_file, RunningDesk("http://127.0.0.1:1", "token", pid, processes.started_at(pid) or 0.0))

    said = refused(ready)

    assert re.search(rf"is already running at http://127.0.0.1:1 \(process {pid}\).*account link.*`kill {pid}`", said)


@pytest.mark.parametrize("content", ["{", "[1]", '{"url": 1}', '{"url":"u","token":"t","pid":"x","pid_started_at":0}'])
def test_a_damaged_desk_file_is_one_line(ready: Settings, content: str) -> None:
    ready.state.mkdir()
    ready.desk_file.write_text(content)

    assert re.search(r"desk\.json cannot be read.*delete the file", refused(ready))
    remove_desk_file(ready.desk_file, pid=os.getpid())
    assert ready.desk_file.exists()


def test_a_server_that_is_already_there_needs_an_address_and_a_key(ready: Settings) -> None:
    without_key = refused(ready.model_copy(update={"label_studio_url": "http://127.0.0.1:9"}))
    no_address = refused(ready.model_copy(update={"label_studio_url": "127.0.0.1:9"}))

    assert "LABEL_STUDIO_API_KEY" in without_key
    assert "http://" in no_address


def test_a_missing_label_studio_environment_says_how_to_make_it(ready: Settings, tmp_path: Path) -> None:
    assert "run `make up`" in refused(ready.model_copy(update={"label_studio_python": tmp_path / "nothing"}))


def test_a_setting_that_does_not_fit_is_one_line_for_every_command(
    sagedesk: Sagedesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGEDESK_PORT", "abc")

    answer = sagedesk("up")

    assert answer.status == 1
    assert answer.err.count("\n") == 1
    assert answer.err.startswith("sagedesk: environment variable SAGEDESK_PORT")


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    monkeypatch.setenv("SAGEDESK_STATE", "")
    monkeypatch.setenv("LABEL_STUDIO_URL", "")

    settings = read_settings()

    assert settings.state == Path.cwd() / "var"
    assert settings.label_studio_url is None

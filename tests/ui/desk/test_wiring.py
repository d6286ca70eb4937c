"""Secrets, logging and the environment of jobs."""

import json
import logging
import os
import stat
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import SecretStr

from data.errors import SetupError, StoreBusyError
from ui.desk.context import OPERATOR
from ui.desk.settings import Settings, read_settings
from ui.desk.usecases.generation import start_generation
from ui.desk.wiring import close_desk, code_version, configure_logging, job_environment, open_desk, read_or_make_secrets


def test_secrets_are_made_once_and_only_their_owner_can_read_them(settings: Settings) -> None:
    first = read_or_make_secrets(settings)
    again = read_or_make_secrets(settings)

    assert first == again
    assert stat.S_IMODE(settings.secrets_file.stat().st_mode) == 0o600
    assert len(first.label_studio.token) == 40
    assert first.cookie_key not in repr(first)


def test_secrets_that_others_can_read_are_refused(settings: Settings) -> None:
    read_or_make_secrets(settings)
    settings.secrets_file.chmod(0o644)

    with pytest.raises(SetupError, match="chmod 600"):
        read_or_make_secrets(settings)


def test_a_damaged_secrets_file_says_what_to_do(settings: Settings) -> None:
    settings.state.mkdir()
    settings.secrets_file.write_text("{")
    settings.secrets_file.chmod(0o600)

    with pytest.raises(SetupError, match="damaged"):
        read_or_make_secrets(settings)


@pytest.fixture
def _root_logger_put_back() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.mark.usefixtures("_root_logger_put_back")
def test_no_secret_reaches_the_log(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    made = read_or_make_secrets(settings)
    given = settings.model_copy(update={"openai_api_key": SecretStr("sk-given")})
    configure_logging(given)

    logging.getLogger("somewhere").info("asking with %s", "sk-given")
    try:
        int(f"url?token={made.label_studio.token}&key={made.cookie_key}")
    except ValueError:
        logging.getLogger("somewhere").exception("failed")

    said = capsys.readouterr().err
    assert said.count("[secret]") >= 3
    assert "Traceback" in said
    for secret in ("sk-given", made.label_studio.token, made.cookie_key):
        assert secret not in said


@pytest.mark.usefixtures("_root_logger_put_back")
def test_a_log_level_that_is_none_is_refused(settings: Settings) -> None:
    with pytest.raises(SetupError, match="SAGEDESK_LOG_LEVEL"):
        configure_logging(settings.model_copy(update={"log_level": "LOUD"}))


def test_a_job_gets_no_label_studio_key_and_a_bounded_number_of_threads() -> None:
    environment = job_environment({"LABEL_STUDIO_API_KEY": "x", "SAGEDESK_OPENAI_API_KEY": "y", "PATH": "/bin"})

    assert "LABEL_STUDIO_API_KEY" not in environment
    assert environment["SAGEDESK_OPENAI_API_KEY"] == "y"
    assert int(environment["OMP_NUM_THREADS"]) <= max(1, (os.cpu_count() or 2) // 2)


class _Echo(BaseHTTPRequestHandler):
    """An endpoint that refuses, and repeats the key in its refusal."""

    heard: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.heard.append(self.headers["Authorization"])
        body = json.dumps({"error": {"message": f"bad key: {self.headers['Authorization']}"}}).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        pass


@pytest.mark.server
@pytest.mark.usefixtures("stocked")
def test_a_run_folder_holds_no_secret(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-for-the-endpoint"
    endpoint = HTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    monkeypatch.setenv("SAGEDESK_OPENAI_API_KEY", key)
    monkeypatch.setenv("SAGEDESK_OPENAI_BASE_URL", f"http://127.0.0.1:{endpoint.server_port}/v1")
    desk = open_desk(read_settings(), with_label_studio=False)

    run = start_generation(desk, OPERATOR, backend="openai", types=["causal"], limit=1, model="some-model")
    ended = desk.supervisor.wait(run.run_id, timeout_s=60)
    close_desk(desk)
    endpoint.shutdown()
    endpoint.server_close()

    files = [file for file in state.rglob("*") if file.is_file()]
    assert _Echo.heard[0] == f"Bearer {key}"
    assert ended.state == "failed"
    assert Path(run.folder) / "log.txt" in files
    assert [file for file in files if key.encode() in file.read_bytes()] == []


@pytest.mark.usefixtures("desk")
def test_a_second_desk_on_the_same_state_is_refused(settings: Settings) -> None:
    with pytest.raises(StoreBusyError, match="in use by"):
        open_desk(settings, with_label_studio=False)


def test_a_label_studio_address_without_a_key_is_refused_and_the_store_given_back(settings: Settings) -> None:
    lacking = settings.model_copy(update={"label_studio_url": "http://127.0.0.1:1"})

    with pytest.raises(SetupError, match="LABEL_STUDIO_API_KEY"):
        open_desk(lacking, with_label_studio=True)

    open_desk(settings, with_label_studio=False).store.close()


def test_the_code_version_names_the_distribution() -> None:
    assert code_version().split("+")[0].count(".") == 2

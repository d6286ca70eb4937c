"""The managed server's life, with a stand-in for Label Studio's interpreter: how it starts, fails and ends."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from annotation.server import LabelStudioServer, new_credentials, server_environment
from data.errors import SetupError
from tests.conftest import RunningLabelStudio

STAND_IN = '''#!{python}
"""Answers as `python -c`, `-m label_studio.server version` and `... start` of a Label Studio environment do."""
import http.server, os, pathlib, signal, sys, time

data = pathlib.Path(os.environ.get("LABEL_STUDIO_BASE_DATA_DIR", "."))
if sys.argv[1] == "-c":
    print("{version}")
elif sys.argv[3] == "version":
    (data / "label_studio.sqlite3").write_text("migrated")
    with open("{builds}", "a") as builds:
        builds.write("build\\n")
else:
    {behaviour}
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers(); self.wfile.write(b'{{"status": "UP"}}')
        def log_message(self, *args): pass
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[-1])), Health).serve_forever()
'''


class Environment:
    """A Label Studio environment and a state folder of a test."""

    def __init__(self, tmp_path: Path, port: int) -> None:
        self.state = tmp_path / "label-studio"
        self.builds = tmp_path / "builds"
        self.port = port
        self._python = tmp_path / "python"

    def server(self, *, behaviour: str = "pass", version: str = "1.23.2") -> LabelStudioServer:
        text = STAND_IN.format(python=sys.executable, version=version, builds=self.builds, behaviour=behaviour)
        self._python.write_text(text)
        self._python.chmod(0o755)
        return LabelStudioServer(self._python, self.state, self.port, new_credentials())


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.setenv("SAGEDESK_CACHE", str(tmp_path / "cache"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Environment(tmp_path, probe.getsockname()[1])


def test_it_starts_answers_and_ends(environment: Environment) -> None:
    server = environment.server()
    said: list[str] = []
    server.start(said.append)
    try:
        server.wait_ready(120, said.append)

        assert httpx.get(f"{server.url}/health", trust_env=False).status_code == 200
    finally:
        server.stop()

    assert not server.is_running()
    assert not (environment.state / "server.json").exists()
    assert any("building" in line for line in said)


def test_the_template_is_built_once_and_copied(environment: Environment, tmp_path: Path) -> None:
    for name in ("one", "two"):
        environment.state = tmp_path / name
        server = environment.server()
        server.start()
        server.wait_ready(120)
        server.stop()

        assert (environment.state / "data" / "label_studio.sqlite3").read_text() == "migrated"
        assert (environment.state / "data" / "label_studio.sqlite3").stat().st_mode & 0o077 == 0

    assert environment.builds.read_text().splitlines() == ["build"]


def test_migrations_that_fail_say_why_and_leave_no_template(environment: Environment, tmp_path: Path) -> None:
    server = environment.server()
    python = tmp_path / "python"
    python.write_text(
        python.read_text().replace(
            '(data / "label_studio.sqlite3").write_text("migrated")',
            'print("django.db.utils.OperationalError: disk is full\\nInitializing database.."); sys.exit(1)',
        )
    )

    with pytest.raises(SetupError, match=r"migrations failed with status 1: django.*disk is full$"):
        server.start()

    assert not list((tmp_path / "cache").glob("*/label_studio.sqlite3"))


def test_a_cache_that_cannot_be_written_names_the_cache(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")

    with pytest.raises(SetupError, match=r"database in .*/cache: File exists.*SAGEDESK_CACHE"):
        environment.server().start()


def test_a_second_start_keeps_the_data(environment: Environment) -> None:
    data = environment.state / "data"
    data.mkdir(parents=True)
    (data / "label_studio.sqlite3").write_text("labels")
    server = environment.server()
    server.start()
    server.stop()

    assert (data / "label_studio.sqlite3").read_text() == "labels"


def test_a_busy_port_is_one_clear_line(environment: Environment) -> None:
    said = f"port {environment.port} is in use.*SAGEDESK_LABEL_STUDIO_PORT"
    with socket.create_server(("127.0.0.1", environment.port)), pytest.raises(SetupError, match=said) as refused:
        environment.server().start()

    assert "\n" not in str(refused.value)


def test_a_crash_at_the_start_shows_its_last_words(environment: Environment) -> None:
    server = environment.server(behaviour='sys.exit("django.db.utils.OperationalError: disk I/O error")')
    server.start()

    with pytest.raises(SetupError, match=r"exited while starting: django.db.utils.OperationalError: disk I/O error"):
        server.wait_ready(120)
    server.stop()


def test_a_server_that_never_gets_ready_is_given_up(environment: Environment) -> None:
    server = environment.server(behaviour="time.sleep(60)")
    server.start()
    try:
        with pytest.raises(SetupError, match="not ready after 1 s"):
            server.wait_ready(1)
    finally:
        server.stop()


def test_an_old_version_is_refused(environment: Environment) -> None:
    with pytest.raises(SetupError, match=r"1\.22\.0.*older than 1.23.2"):
        environment.server(version="1.22.0").start()


def test_a_missing_environment_says_how_to_make_it(tmp_path: Path) -> None:
    server = LabelStudioServer(tmp_path / "nowhere" / "python", tmp_path, 1, new_credentials())

    with pytest.raises(SetupError, match="cannot be run"):
        server.start()


def test_one_that_ignores_term_is_killed_with_its_children(environment: Environment, tmp_path: Path) -> None:
    child_file = tmp_path / "child"
    server = environment.server(
        behaviour=f"signal.signal(signal.SIGTERM, signal.SIG_IGN); pid = os.fork(); "
        f"pathlib.Path({str(child_file)!r}).write_text(str(os.getpid())) if pid == 0 else None; "
        "time.sleep(60) if pid == 0 else None"
    )
    server.start()
    server.wait_ready(120)
    assert eventually(lambda: child_file.exists() and bool(child_file.read_text()))
    child = int(child_file.read_text())

    server.stop(grace_s=0.3)

    assert not server.is_running()
    assert eventually(lambda: gone(child))


def test_a_foreign_process_is_never_signalled(environment: Environment) -> None:
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        environment.state.mkdir(parents=True)
        record = {"pid": bystander.pid, "started_at": 123.0, "port": environment.port}
        (environment.state / "server.json").write_text(json.dumps(record))

        environment.server().stop()

        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_one_left_running_by_a_killed_desk_is_taken_over(environment: Environment) -> None:
    first = environment.server()
    first.start()
    first.wait_ready(120)
    said: list[str] = []
    second = environment.server()

    second.start(said.append)
    second.wait_ready(120)
    second.stop()

    assert said == [f"Label Studio is already running on {second.url}"]
    assert not first.is_running()


def test_the_environment_closes_what_label_studio_leaves_open() -> None:
    ours = {
        "PATH": "/bin",
        "DEBUG": "1",
        "HF_TOKEN": "secret",
        "LABEL_STUDIO_API_KEY": "secret",
        "LABEL_STUDIO_POSTGRE_HOST": "db",
    }
    credentials = new_credentials()

    environment = server_environment(ours, Path("/data"), "http://127.0.0.1:8080", credentials)

    assert {"DEBUG", "HF_TOKEN", "LABEL_STUDIO_API_KEY"}.isdisjoint(environment)
    assert environment["LABEL_STUDIO_POSTGRE_HOST"] == "db"
    assert environment["LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK"] == "true"
    assert environment["LABEL_STUDIO_LS_CSP_REPORT_ONLY"] == "false"
    assert environment["LABEL_STUDIO_SESSION_COOKIE_SAMESITE"] == "Strict"
    assert environment["LABEL_STUDIO_CORS_ALLOW_ALL_ORIGINS"] == "false"
    assert environment["LABEL_STUDIO_COLLECT_ANALYTICS"] == "false"


def test_credentials_are_random_and_do_not_print() -> None:
    one, two = new_credentials(), new_credentials()

    assert one.password != two.password
    assert len(one.token) == 40
    assert int(one.token, 16) != int(two.token, 16)
    assert one.token not in repr(one)
    assert one.password not in repr(one)


@pytest.mark.server
def test_the_real_server_is_closed_to_strangers(label_studio: RunningLabelStudio) -> None:
    url = label_studio.url
    login = httpx.get(f"{url}/user/login/")
    sign_up = httpx.post(f"{url}/user/signup/", data={"email": "eve@example.org", "password": "longenough1"})
    other_host = httpx.get(f"{url}/user/login/", headers={"host": "evil.example"})
    other_origin = httpx.get(f"{url}/api/version", headers={"origin": "http://evil.example"})

    assert "content-security-policy" in login.headers
    assert "content-security-policy-report-only" not in login.headers
    assert all("SameSite=Strict" in cookie for cookie in login.headers.get_list("set-cookie"))
    assert sign_up.status_code in {302, 400, 403}
    assert other_host.status_code == 400
    assert "access-control-allow-origin" not in other_origin.headers
    assert httpx.get(f"{url}/api/projects/").status_code == 401


def gone(pid: int) -> bool:
    """Or ended, and its parent has yet to take note."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not (is_so := holds()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so

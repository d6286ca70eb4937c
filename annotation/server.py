"""The desk's own Label Studio server: its data folder, process group, readiness and shutdown.

Owns `state/data` (Label Studio's), `state/server.log` and `state/server.json` (which process it is). Refuses to signal
a process that it did not start, and a port in use. The server's Python is in a separate environment, so nothing of
Label Studio is imported here.
"""

import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from annotation.server_template import copy_template, server_version
from data.errors import SetupError
from data.log_tail import last_line
from data.processes import is_same_process, signal_group, started_at

_FLOOR: Final = (1, 23, 2)
_HOST: Final = "127.0.0.1"
_PROCESS_FILE: Final = "server.json"
_POLL_S: Final = 0.5
_REPORT_EVERY_S: Final = 5.0
# What the process needs from our environment; the rest is withheld, above all tokens of other services. Label Studio
# reads HOST, PORT, DEBUG and USERNAME even without its prefix.
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH")
_DATABASE: Final = "LABEL_STUDIO_POSTGRE_"

logger = logging.getLogger(__name__)
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of the service user that owns the desk's project. `token`: 40 hex digits. Keep in a 0600 file."""

    email: str
    password: str
    token: str

    def __repr__(self) -> str:
        return f"Credentials(email={self.email!r}, password=..., token=...)"


def new_credentials() -> Credentials:
    """All random, even the address, because Label Studio only gives a token to a newly created user."""
    return Credentials(
        f"desk-{secrets.token_hex(4)}@label-studio.local", secrets.token_urlsafe(24), secrets.token_hex(20)
    )


class LabelStudioServer:
    """One server on one state folder: `start`, `wait_ready`, use, `stop`."""

    def __init__(self, python: Path, state: Path, port: int, credentials: Credentials) -> None:
        self.url = f"http://{_HOST}:{port}"
        self.log = state / "server.log"
        self._python = python
        self._state = state
        self._port = port
        self._credentials = credentials
        self._process_file = state / _PROCESS_FILE
        self._child: subprocess.Popen[bytes] | None = None
        self._taken_over: _Recorded | None = None

    def start(
        self, report: Report = logger.info, *, undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """Starts the server, or takes over the one that an earlier desk left running on this state.

        Args:
            undisturbed: entered while the process is started and recorded, so that `stop` will find it.

        Raises:
            SetupError: `python` has no Label Studio or an old one, the port is in use, or the disk fails.
        """
        if self._take_over():
            report(f"Label Studio is already running on {self.url}")
            return
        version = server_version(self._python)
        if version < _FLOOR:
            raise SetupError(
                f"Label Studio {'.'.join(map(str, version))} in {self._python} is older than "
                f"{'.'.join(map(str, _FLOOR))}, which fixes security holes; run `make setup`"
            )
        self._require_free_port()
        data = self._state / "data"
        try:
            data.mkdir(parents=True, exist_ok=True, mode=0o700)
            if _is_sqlite(os.environ) and not (data / "label_studio.sqlite3").exists():
                copy_template(self._python, version, data, report)
            command = ["-m", "label_studio.server", "start", "--no-browser", "--internal-host", _HOST]
            with self.log.open("ab") as log, undisturbed():
                self._child = subprocess.Popen(
                    [str(self._python), *command, "--port", str(self._port)],
                    cwd=self._state,
                    env=server_environment(os.environ, data, self.url, self._credentials),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                pid = self._child.pid
                self._process_file.write_text(
                    json.dumps({"pid": pid, "started_at": started_at(pid), "port": self._port}), "utf-8"
                )
        except OSError as exc:
            raise SetupError(
                f"Label Studio cannot start in {self._state}: {exc.strerror or exc}; check the folder and the disk"
            ) from exc

    def wait_ready(self, timeout_s: float, report: Report = logger.info) -> None:
        """Returns once `GET /health` is 200; reports every few seconds while waiting.

        Raises:
            SetupError: it exited (with the last line of its log) or is not ready after `timeout_s`.
        """
        begun = reported = time.monotonic()
        while not self._is_healthy():
            if not self.is_running():
                raise SetupError(f"Label Studio exited while starting: {self._last_log_line()}; see {self.log}")
            now = time.monotonic()
            if now - begun > timeout_s:
                raise SetupError(
                    f"Label Studio is not ready after {timeout_s:.0f} s: {self._last_log_line()}; see {self.log}"
                )
            if now - reported >= _REPORT_EVERY_S:
                reported = now
                report(f"waiting for Label Studio on {self.url} ({now - begun:.0f} s; a minute is usual)")
            time.sleep(_POLL_S)

    def is_running(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return self._taken_over is not None and self._taken_over.is_alive

    def stop(self, grace_s: float = 10.0) -> None:
        """TERM to the process group, KILL after `grace_s`; does nothing if the process is not the recorded one."""
        server = _recorded(self._process_file) or self._unrecorded()
        if server is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not signal_group(server.pid, server.started_at, number):
                break
            deadline = time.monotonic() + grace_s
            while self._is_alive(server) and time.monotonic() < deadline:
                time.sleep(0.1)
        self._process_file.unlink(missing_ok=True)
        self._child = self._taken_over = None

    def _is_alive(self, server: "_Recorded") -> bool:
        return server.is_alive if self._child is None else self._child.poll() is None  # `poll` also reaps it

    def _take_over(self) -> bool:
        recorded = _recorded(self._process_file)
        if recorded is None or not recorded.is_alive:
            return False
        if recorded.port != self._port:
            self.stop()
            return False
        self._taken_over = recorded
        return True

    def _unrecorded(self) -> "_Recorded | None":
        """Our own child process, if a full disk kept it from being recorded."""
        start = None if self._child is None else started_at(self._child.pid)
        return None if self._child is None or start is None else _Recorded(self._child.pid, start, self._port)

    def _require_free_port(self) -> None:
        # Label Studio itself moves to the next free port and says so only in its log.
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, self._port))
            except OSError as exc:
                raise SetupError(
                    f"port {self._port} is in use, so Label Studio cannot start; "
                    "free it, or set SAGEDESK_LABEL_STUDIO_PORT to another port"
                ) from exc

    def _is_healthy(self) -> bool:
        try:
            answer = httpx.get(f"{self.url}/health", timeout=5.0, trust_env=False)
        except httpx.HTTPError:
            return False
        return answer.status_code == 200 and "UP" in answer.text

    def _last_log_line(self) -> str:
        return last_line(self.log) or "its log is empty"


def port_of_running_server(state: Path) -> int | None:
    """The port of this state folder's server; None if it is not running."""
    recorded = _recorded(state / _PROCESS_FILE)
    return recorded.port if recorded is not None and recorded.is_alive else None


def server_environment(
    environment: Mapping[str, str], data: Path, url: str, credentials: Credentials
) -> dict[str, str]:
    """The server's complete environment.

    Stricter than Label Studio's defaults: sign-up needs an invitation, the content security policy is enforced rather
    than only reported, cookies are same-site, other origins get no answer, and no telemetry is sent.
    """
    passed_on = {name: value for name, value in environment.items() if name in _PASSED_ON or name.startswith(_DATABASE)}
    ours = {
        "BASE_DATA_DIR": str(data),
        "USERNAME": credentials.email,
        "PASSWORD": credentials.password,
        "USER_TOKEN": credentials.token,
        "ENABLE_LEGACY_API_TOKEN": "true",
        "HOST": url,
        "ALLOWED_HOSTS": f"{_HOST},localhost",
        "DJANGO_DB": environment.get("LABEL_STUDIO_DJANGO_DB", "sqlite"),
        "LOG_LEVEL": "WARNING",
        "DISABLE_SIGNUP_WITHOUT_LINK": "true",
        "LS_CSP_REPORT_ONLY": "false",
        "CORS_ALLOW_ALL_ORIGINS": "false",
        # Not `SECURE`: the server speaks plain HTTP on loopback, where Safari would drop such a cookie.
        "SESSION_COOKIE_SAMESITE": "Strict",
        "CSRF_COOKIE_SAMESITE": "Strict",
        "ENABLE_LOCAL_FILES_STORAGE": "false",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
    }
    return passed_on | {f"LABEL_STUDIO_{name}": value for name, value in ours.items()}


class _Recorded(NamedTuple):
    """A started server: its process, by pid and start time, and its port."""

    pid: int
    started_at: float
    port: int

    @property
    def is_alive(self) -> bool:
        return is_same_process(self.pid, self.started_at)


def _recorded(process_file: Path) -> _Recorded | None:
    """None if there is no record, or it cannot be read."""
    try:
        record = json.loads(process_file.read_text("utf-8"))
        return _Recorded(int(record["pid"]), float(record["started_at"]), int(record["port"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_sqlite(environment: Mapping[str, str]) -> bool:
    return environment.get("LABEL_STUDIO_DJANGO_DB", "sqlite") == "sqlite"

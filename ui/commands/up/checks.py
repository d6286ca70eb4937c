"""What must hold before anything is started: one start a state folder, room, ports, settings that fit together.

Each refusal is one SetupError that names what to change. Starts nothing itself.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from data.errors import SetupError
from data.processes import is_same_process
from ui.desk.desk_file import read_desk_file
from ui.desk.settings import Settings
from ui.web.address import bound_socket

NEEDED_BYTES: Final = 1_000_000_000
LABEL_STUDIO_ENVIRONMENT: Final = Path(__file__).resolve().parents[3] / ".venv-label-studio"
_LOCK_NAME: Final = "up.lock"


@contextmanager
def only_start(settings: Settings) -> Iterator[None]:
    """Makes the state folder and holds it against a second `sagedesk up`; the kernel frees it however we end.

    Raises:
        SetupError: another start holds it, or the folder cannot be written.
    """
    file = settings.state / _LOCK_NAME
    try:
        settings.state.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise SetupError(
            f"state folder {settings.state}: {exc.strerror}; make it writable, or set SAGEDESK_STATE to another folder"
        ) from exc
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise SetupError(
                f"another `sagedesk up` (process {holder}) is using {settings.state}; "
                f"use its desk, stop it, or set SAGEDESK_STATE to another folder"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def require_startable(settings: Settings) -> None:
    """Raises SetupError for the first thing that a person must mend."""
    _require_fitting_settings(settings)
    _require_room(settings.state)
    _require_no_desk(settings)
    bound_socket(settings).close()


def label_studio_python(settings: Settings) -> Path | None:
    """The interpreter of the Label Studio that we start; None where a server that is already there is used.

    Raises:
        SetupError: there is no such interpreter.
    """
    if settings.label_studio_url is not None:
        return None
    python = settings.label_studio_python or LABEL_STUDIO_ENVIRONMENT / "bin" / "python"
    if not python.exists():
        raise SetupError(
            f"no Label Studio environment at {python}; run `make up`, "
            f"or set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY to use an existing server"
        )
    return python.absolute()


def _require_fitting_settings(settings: Settings) -> None:
    url = settings.label_studio_url
    if url is None:
        if settings.port == settings.label_studio_port:
            raise SetupError(
                f"the desk and Label Studio cannot both listen on port {settings.port}; "
                f"set SAGEDESK_PORT or SAGEDESK_LABEL_STUDIO_PORT to another"
            )
        return
    if not url.startswith(("http://", "https://")):
        raise SetupError(f"LABEL_STUDIO_URL {url!r} is not a web address; it must begin with http:// or https://")
    if settings.label_studio_api_key is None:
        raise SetupError("LABEL_STUDIO_URL is set without LABEL_STUDIO_API_KEY; set both, or neither")


def _require_room(state: Path) -> None:
    free = shutil.disk_usage(state).free
    if free < NEEDED_BYTES:
        raise SetupError(
            f"{state} has {free // 1_000_000} MB free, but a desk needs {NEEDED_BYTES // 1_000_000} MB; "
            f"free some space, or set SAGEDESK_STATE to a folder on another disk"
        )


def _require_no_desk(settings: Settings) -> None:
    """One whose `sagedesk up` was killed serves on; nobody's work is ended without being asked."""
    running = read_desk_file(settings.desk_file)
    if running is not None and is_same_process(running.pid, running.pid_started_at):
        raise SetupError(
            f"a desk is already running at {running.url} (process {running.pid}) on {settings.state}; "
            f"use it (`sagedesk account link lead` prints a sign-in link), "
            f"or stop it with `kill {running.pid}` and start again"
        )

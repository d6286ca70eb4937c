"""`var/desk.json`: where the running desk listens, and the token for the command line on the same machine."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from data.errors import SetupError
from data.files import write_json


@dataclass(frozen=True, slots=True)
class RunningDesk:
    """`pid` with `pid_started_at` identifies the process; in a stale file it no longer exists."""

    url: str
    token: str
    pid: int
    pid_started_at: float


def write_desk_file(file: Path, running: RunningDesk) -> None:
    """Written with mode 0600 from the start, and replaced atomically."""
    write_json(file, asdict(running), mode=0o600)


def read_desk_file(file: Path) -> RunningDesk | None:
    """None if there is no file.

    Raises:
        SetupError: the file is damaged.
    """
    try:
        content = json.loads(file.read_text("utf-8"))
        return RunningDesk(
            str(content["url"]), str(content["token"]), int(content["pid"]), float(content["pid_started_at"])
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OSError) as exc:
        raise SetupError(
            f"{file} cannot be read ({type(exc).__name__}: {exc}); stop the desk if it is running, delete the file "
            f"and start again"
        ) from exc


def remove_desk_file(file: Path, *, pid: int) -> None:
    """Removes the file only if this process wrote it; a damaged file is left for inspection."""
    with suppress(SetupError):
        running = read_desk_file(file)
        if running is not None and running.pid == pid:
            file.unlink(missing_ok=True)

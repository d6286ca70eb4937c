"""`var/desk.json`: where the running desk listens and the token that its own machine's command line uses."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from data.errors import SetupError
from data.files import write_json


@dataclass(frozen=True, slots=True)
class RunningDesk:
    """`pid` with `pid_started_at` names the process; a stale file names one that is gone."""

    url: str
    token: str
    pid: int
    pid_started_at: float


def write_desk_file(file: Path, running: RunningDesk) -> None:
    """Mode 0600 from the first byte; replaced atomically."""
    write_json(file, asdict(running), mode=0o600)


def read_desk_file(file: Path) -> RunningDesk | None:
    """None where no desk has written one.

    Raises:
        SetupError: the file is there and damaged.
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
            f"{file} cannot be read ({type(exc).__name__}: {exc}); stop the desk if one runs, delete the file "
            f"and start again"
        ) from exc


def remove_desk_file(file: Path, *, pid: int) -> None:
    """Only the process that wrote it takes it away; a damaged one is nobody's and stays to be seen."""
    with suppress(SetupError):
        running = read_desk_file(file)
        if running is not None and running.pid == pid:
            file.unlink(missing_ok=True)

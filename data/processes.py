"""Processes by pid *and* start time: the operating system reuses pids, but not both together.

Refuses to signal a process whose start time is not the one recorded.
"""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
# The kernel's boot time, from which start times are computed, moves by a second when the clock is slewed.
_SAME_START_TOLERANCE_S: Final = 2.0


def started_at(pid: int) -> float | None:
    """When the running process `pid` started, in seconds since the epoch; None if there is none or only a zombie."""
    return _started_at_linux(pid) if (_PROC / "self" / "stat").exists() else _started_at_ps(pid)


def is_same_process(pid: int, recorded_start: float) -> bool:
    """Whether `pid` is running and is the process that started at `recorded_start`."""
    start = started_at(pid)
    return start is not None and abs(start - recorded_start) <= _SAME_START_TOLERANCE_S


def signal_group(pid: int, recorded_start: float, number: signal.Signals) -> bool:
    """Signal the process group led by `pid`; False, with nothing sent, if it is no longer that process."""
    if not is_same_process(pid, recorded_start):
        return False
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _started_at_linux(pid: int) -> float | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
        boot = next(line for line in (_PROC / "stat").read_text("utf-8").splitlines() if line.startswith("btime "))
    except (OSError, StopIteration):
        return None
    # The command name is in parentheses and may itself contain any character: count from the last parenthesis.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in {"Z", "X"}:
        return None
    return int(boot.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _started_at_ps(pid: int) -> float | None:
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, start = answer.stdout.strip().partition(" ")
    if not start or state.startswith("Z"):
        return None
    return time.mktime(time.strptime(start.strip(), "%a %b %d %H:%M:%S %Y"))

"""What the log of a process ends with, for the message that the process is gone. Reads its last bytes only."""

import os
from pathlib import Path
from typing import Final

_TAIL_BYTES: Final = 4_000
_LONGEST: Final = 240


def last_line(log: Path, *, after: int = 0) -> str:
    """The last line that begins at the left, cut at 240 characters; empty where there is none or no log.

    Lines further in are a traceback's or a warning's code, which says little by itself.

    Args:
        after: the byte from which on the lines count.
    """
    try:
        with log.open("rb") as content:
            size = content.seek(0, os.SEEK_END)
            content.seek(max(after, size - _TAIL_BYTES))
            # a progress bar rewrites its line: only what stands there last was to be read
            lines = content.read().decode("utf-8", "replace").replace("\r", "\n").splitlines()
    except OSError:
        return ""
    return next((line.rstrip() for line in reversed(lines) if line.strip() and not line[0].isspace()), "")[:_LONGEST]

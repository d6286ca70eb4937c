"""What the log of a process ends with, for the message that the process is gone. Reads its last bytes only."""

import os
from pathlib import Path
from typing import Final

_TAIL_BYTES: Final = 4_000


def last_line(log: Path, *, after: int = 0) -> str:
    """The last line that begins at the left, else the last that is not blank; empty where there is none, or no log.

    Indented lines are the code of a traceback or a warning, which says little by itself.

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
    written = [line for line in lines if line.strip()]
    at_the_left = [line for line in written if not line[0].isspace()]
    return next(reversed(at_the_left or written), "").strip()

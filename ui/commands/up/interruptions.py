"""Ctrl-C, SIGTERM and a closed terminal: the first ends what goes on, at a moment when that is safe; later ones wait.

The interpreter's own handler raises anywhere, also between the start of a process and the note that it was started,
and again in the middle of stopping one.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptions:
    """In force inside `with`. The first signal raises KeyboardInterrupt; none does once `hold` was called."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_wanted = False
        self._is_over = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> "Interruptions":
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGTERM:
                self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, *_exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal gave us

    def hold(self) -> None:
        """From here on signals change nothing: everything is being stopped already."""
        self._is_over = True

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """A signal inside raises KeyboardInterrupt at the end of the block."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._is_wanted and self._depth == 0 and not self._is_over:
            self._is_over = True
            raise KeyboardInterrupt

    def _arrived(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_over:
            return
        self._is_wanted = True
        if self._depth == 0:
            self._is_over = True
            raise KeyboardInterrupt

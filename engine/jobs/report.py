"""How a running job reports progress, metrics and messages, and how it learns that it should stop."""

import json
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Literal

from data.errors import JobCancelledError


class Reporter:
    """Appends to `events.jsonl`, one flushed line per event.

    A cancelled job stops in `progress`, which raises JobCancelledError once `cancel` has been called.
    """

    def __init__(self, events: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._out = events.open("a", encoding="utf-8")
        self._now = now
        self._cancelled = threading.Event()

    def progress(self, done: int, total: int | None, message: str = "") -> None:
        """Raises JobCancelledError if a user asked the job to stop."""
        self._write({"kind": "progress", "done": done, "total": total, "message": message})
        self.check_cancelled()

    def metric(self, name: str, value: float, step: int) -> None:
        self._write({"kind": "metric", "name": name, "value": value, "step": step})

    def message(self, text: str, level: Literal["info", "warning", "error"] = "info") -> None:
        self._write({"kind": "message", "level": level, "text": text})

    def check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise JobCancelledError("cancelled by a user")

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        self._cancelled.set()

    def cancel_on_sigterm(self) -> None:
        """Call from the main thread only."""

        def stop(_number: int, _frame: FrameType | None) -> None:
            self.cancel()

        signal.signal(signal.SIGTERM, stop)

    def close(self) -> None:
        self._out.close()

    def _write(self, event: dict[str, object]) -> None:
        event = {"at": self._now().isoformat(), **event}
        self._out.write(json.dumps(event, ensure_ascii=False) + "\n")
        self._out.flush()

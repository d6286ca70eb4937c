"""What a run's job has reported so far, kept for those who look again and again: each look reads only what is new.

Holds the runs looked at last, whole in their figures and in the end of their messages and steps. Refuses to guess
whether a file is still the one it was: the last bytes that were read are compared at every look.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from engine.jobs.folder import RunFolder
from engine.jobs.pace import Step, step_of

MOST_MESSAGES: Final = 200
_MOST_RUNS: Final = 16
_MOST_STEPS: Final = 1_000  # the pace goes by the last dozen that got further
_MARK_BYTES: Final = 256  # a line of its own begins with its time, so two files hardly agree in so many


@dataclass(frozen=True, slots=True)
class Message:
    """A line for a person; `level` is info or warning."""

    at: str
    level: str
    text: str


@dataclass(slots=True)
class _Read:
    """Of one run: what stands before byte `offset` of its events, and the bytes before that."""

    offset: int = 0
    mark: bytes = b""
    messages: deque[Message] = field(default_factory=lambda: deque(maxlen=MOST_MESSAGES))
    steps: deque[Step] = field(default_factory=lambda: deque(maxlen=_MOST_STEPS))
    figures: dict[tuple[str, int], float] = field(default_factory=dict)

    def take(self, event: Mapping[str, object]) -> None:
        match event["kind"]:
            case "message":
                self.messages.append(Message(str(event["at"]), str(event["level"]), str(event["text"])))
            case "progress":
                self.steps.append(step_of(event))
            case "metric":
                place, value = (str(event["name"]), int(str(event["step"]))), float(str(event["value"]))
                if math.isfinite(value):
                    self.figures[place] = value
                else:
                    self.figures.pop(place, None)


class Reported:
    """One per desk, asked by many threads."""

    def __init__(self) -> None:
        self._runs: OrderedDict[Path, _Read] = OrderedDict()
        self._lock = Lock()

    def messages(self, folder: RunFolder, *, limit: int = MOST_MESSAGES) -> list[Message]:
        """The last `limit` of at most MOST_MESSAGES, oldest first."""
        with self._lock:
            return list(self._up_to_date(folder).messages)[-limit:]

    def steps(self, folder: RunFolder) -> list[Step]:
        """The last ones, oldest first."""
        with self._lock:
            return list(self._up_to_date(folder).steps)

    def figures(self, folder: RunFolder) -> dict[tuple[str, int], float]:
        """By name and step, in the order in which they were first reported; the last value of each, where it is finite.

        A chart has no place for one that is not.
        """
        with self._lock:
            return dict(self._up_to_date(folder).figures)

    def _up_to_date(self, folder: RunFolder) -> _Read:
        read = self._runs.pop(folder.path, None)
        if read is None or read.mark != _mark(folder.events, read.offset):  # cut, or another file by now
            read = _Read()
        for offset, event in folder.read_events(read.offset):
            read.take(event)
            read.offset = offset
        read.mark = _mark(folder.events, read.offset)
        self._runs[folder.path] = read
        while len(self._runs) > _MOST_RUNS:
            self._runs.popitem(last=False)
        return read


def _mark(events: Path, offset: int) -> bytes:
    """The bytes before `offset`; fewer where the file ends before it."""
    try:
        with events.open("rb") as lines:
            lines.seek(max(0, offset - _MARK_BYTES))
            return lines.read(min(offset, _MARK_BYTES))
    except FileNotFoundError:
        return b""

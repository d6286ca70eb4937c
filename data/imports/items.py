"""What an import yields: a parsed row, a refused row, or a notice about the whole file."""

from collections.abc import Mapping
from dataclasses import dataclass

from data.records import Question, Variant

MAX_SHOWN_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row as it is in the file. `number`: the line in JSONL, the record in CSV (header is 1), else the position."""

    file: str
    number: int
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A usable row. `is_carried`: the row is a variant and only brings its original question with it.

    `suspicions` are things somebody should check although the row is imported (such as two equal options).
    """

    file: str
    number: int
    question: Question
    variant: Variant | None = None
    suspicions: tuple[str, ...] = ()

    @property
    def is_carried(self) -> bool:
        return self.variant is not None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that cannot be used: which one, why, what to do, and the beginning of its text."""

    file: str
    number: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A remark on a whole file."""

    file: str
    text: str


def shown(value: object) -> str:
    """The beginning of a value, for a report; at most MAX_SHOWN_CHARACTERS."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 1] + "…"

"""What an import yields: a parsed row, a refused row, or a notice about the whole file."""

from collections.abc import Mapping
from dataclasses import dataclass

from data.records import Question, Variant

MAX_SHOWN_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row as the file has it. `number`: its line in JSONL, its record in CSV (the header is 1), else its position."""

    file: str
    number: int
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A usable row. `is_carried`: the row is a variant's and only carries its original question along.

    `suspicions` are things a person should look at though the row is imported (two equal options and the like).
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
    """A row that cannot be used: which, why, what to do, and how it began."""

    file: str
    number: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about a whole file."""

    file: str
    text: str


def shown(value: object) -> str:
    """The beginning of a value for a report; never more than MAX_SHOWN_CHARACTERS."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 1] + "…"

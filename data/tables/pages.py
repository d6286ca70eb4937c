"""What a list of many rows needs: the page that goes out and the filters that come in, as parameters only."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One screenful; `total` counts the matches on all pages."""

    items: tuple[Item, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Filter:
    """A WHERE clause (empty when nothing is asked) with its named parameters."""

    clause: str
    parameters: dict[str, object]


def where(*conditions: tuple[str, str, object], always: tuple[str, ...] = ()) -> Filter:
    """Join (SQL with `$name`, name, value) by AND, leaving out those whose value is None.

    The SQL is ours and fixed; what a person typed travels in the values alone.
    """
    asked = [condition for condition in conditions if condition[2] is not None]
    parts = [*always, *(sql for sql, _, _ in asked)]
    clause = "WHERE " + " AND ".join(f"({part})" for part in parts) if parts else ""
    return Filter(clause, {name: value for _, name, value in asked})

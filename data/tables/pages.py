"""Paging and filtering of long lists; filter values travel as parameters only."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page of results; `total` counts the matches on all pages."""

    items: tuple[Item, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Filter:
    """A WHERE clause (empty without conditions) with its named parameters."""

    clause: str
    parameters: dict[str, object]


def where(*conditions: tuple[str, str, object], always: tuple[str, ...] = ()) -> Filter:
    """Join conditions (SQL with `$name`, name, value) by AND, leaving out those whose value is None.

    The SQL is ours and fixed; user input is only ever in the values.
    """
    asked = [condition for condition in conditions if condition[2] is not None]
    parts = [*always, *(sql for sql, _, _ in asked)]
    clause = "WHERE " + " AND ".join(f"({part})" for part in parts) if parts else ""
    return Filter(clause, {name: value for _, name, value in asked})

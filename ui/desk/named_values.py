"""NAME=VALUE pairs as written by users for a trainer. Knows no names: the receiver refuses unknown ones."""

import json
from collections.abc import Iterable, Mapping

from data.errors import InputError


def named_values(pairs: Iterable[str], *, where: str) -> Mapping[str, object] | None:
    """Each pair's value, parsed as JSON (a number, true, null) if possible, otherwise as text; None without pairs.

    Args:
        where: the option or field they come from, for the message.

    Raises:
        InputError: a pair has no name or no value.
    """
    found: dict[str, object] = {}
    for pair in pairs:
        name, is_given, value = (part.strip() for part in pair.partition("="))
        if not name or not is_given or not value:
            raise InputError(f"{where} {pair!r} is not of the form NAME=VALUE; write learning_rate=1e-5, for example")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found or None

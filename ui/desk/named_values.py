"""NAME=VALUE pairs as people write them for a trainer. Knows no name: whoever takes them refuses the unknown."""

import json
from collections.abc import Iterable, Mapping

from data.errors import InputError


def named_values(pairs: Iterable[str], *, where: str) -> Mapping[str, object] | None:
    """Each pair's value, as JSON (a number, true, null) where it is JSON, else as text; None where there is no pair.

    Args:
        where: the option or field that they were written in, for the message.

    Raises:
        InputError: a pair has no name or no value.
    """
    found: dict[str, object] = {}
    for pair in pairs:
        name, is_given, value = (part.strip() for part in pair.partition("="))
        if not name or not is_given or not value:
            raise InputError(f"{where} {pair!r}: write NAME=VALUE, learning_rate=1e-5 for example")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found or None

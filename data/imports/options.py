"""Option cells to a tuple of texts with the file's own labels, however the file writes them."""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from data.errors import InputError
from data.imports.items import shown

_LETTERED_LINE: Final = re.compile(r"^\s*[(\[]?([A-Z])[)\].:]\s+(.*)$")
MIN_OPTIONS: Final = 2
MAX_OPTIONS: Final = 26


@dataclass(frozen=True, slots=True)
class Options:
    """Texts in the file's order; `labels` are the file's own names for them, empty if it has none."""

    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()


def options_from_cell(cell: object) -> Options:
    """From a list, a list of {label, text}, {text: [...], label: [...]}, a list written as text, or lettered lines.

    Raises:
        InputError: none of these forms, or an empty option.
    """
    if isinstance(cell, str):
        return _from_text(cell)
    if isinstance(cell, Mapping):
        return _from_columns(cell)
    if isinstance(cell, Sequence):
        if cell and all(isinstance(element, Mapping) for element in cell):
            texts = [_text_of(element.get("text", element.get("value"))) for element in cell]
            labels = [str(element["label"]) for element in cell if element.get("label") is not None]
            return _checked(texts, labels if len(labels) == len(texts) else [])
        return _checked([_text_of(element) for element in cell], [])
    raise InputError(f"options are {shown(cell)}; give a list of texts")


def options_from_cells(cells: Sequence[tuple[str, object]]) -> Options:
    """From one column per option: (column name, cell) in order; null or empty ones at the end are ignored.

    Raises:
        InputError: an empty option before the last.
    """
    texts = [None if cell is None else _text_of(cell) for _, cell in cells]
    while texts and not (texts[-1] or "").strip():
        texts.pop()
    for (name, _), text in zip(cells, texts, strict=False):
        if not (text or "").strip():
            raise InputError(f"option {name!r} is empty; fill it in or remove the row")
    return _checked([text or "" for text in texts], [])


def _from_text(cell: str) -> Options:
    stripped = cell.strip()
    if stripped.startswith(("[", "{")):
        return options_from_cell(_literal(stripped))
    found: list[tuple[str, str]] = []
    for line in stripped.splitlines():
        match = _LETTERED_LINE.match(line)
        if match and match[1] == chr(ord("A") + len(found)):
            found.append((match[1], match[2]))
        elif found:
            letter, text = found.pop()
            found.append((letter, f"{text}\n{line}"))
        else:
            raise InputError(f"options {shown(cell)!r}: write a JSON list, or one line per option: A. ..., B. ...")
    return _checked([text for _, text in found], [letter for letter, _ in found])


def _literal(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        value: object = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as exc:
        raise InputError(f"options {shown(text)!r} are neither a JSON nor a Python list; write a JSON list") from exc
    return value


def _from_columns(cell: Mapping[object, object]) -> Options:
    texts, labels = cell.get("text"), cell.get("label")
    if isinstance(texts, Sequence) and not isinstance(texts, str):
        names = list(labels) if isinstance(labels, Sequence) and not isinstance(labels, str) else []
        return _checked([_text_of(text) for text in texts], [str(name) for name in names])
    if cell and all(isinstance(key, str) and isinstance(value, str) for key, value in cell.items()):
        return _checked([str(value) for value in cell.values()], [str(key) for key in cell])
    raise InputError(f"options are {shown(cell)}; give a list of texts")


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return str(value)
    raise InputError(f"an option is {shown(value)}; give a text")


def _checked(texts: Sequence[str], labels: Sequence[str]) -> Options:
    for position, text in enumerate(texts, start=1):
        if not text.strip():
            raise InputError(f"option {position} is empty; fill it in or remove the row")
    if not MIN_OPTIONS <= len(texts) <= MAX_OPTIONS:
        raise InputError(f"{len(texts)} options; give {MIN_OPTIONS} to {MAX_OPTIONS}")
    if labels and len(labels) != len(texts):
        raise InputError(f"{len(labels)} option labels for {len(texts)} options; give one label per option")
    return Options(tuple(texts), tuple(labels))

"""The formats by name, which one a file is, and the one way to read any of them."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, get_args

from data.errors import InputError
from data.imports.files import RawItem, importable_files, read_rows
from data.imports.generic import parse_rows
from data.imports.hellaswag import parse_original, parse_pro_original, parse_pro_variants
from data.imports.hub import HUB_PREFIX, hub_rows
from data.imports.items import Notice, Parsed, RawRow, Refusal
from data.imports.mapping import ColumnMapping, MappingGuess, guess_mapping

FormatName = Literal["hellaswag", "hellaswag-pro", "hellaswag-pro-variants", "generic"]
FORMATS: Final[tuple[FormatName, ...]] = get_args(FormatName)
PEEK_ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class Source:
    """One file or hub data set as it will be read. `rows_seen` are its first rows, for a preview."""

    name: str
    path: Path | str
    format_name: FormatName
    guess: MappingGuess
    rows_seen: tuple[RawRow, ...]


def inspect(location: str, *, encoding: str | None = None) -> list[Source]:
    """What there is to import at a file, a folder, or `hf:ID`; reads only the first rows of each file.

    Raises:
        InputError: nothing there that can be read.
    """
    paths: list[Path | str] = [location] if location.startswith(HUB_PREFIX) else [*importable_files(Path(location))]
    sources = []
    for path in paths:
        first = itertools.islice(_raw_rows(path, encoding), PEEK_ROWS)
        seen = tuple(item for item in first if isinstance(item, RawRow))
        guess = guess_mapping(seen) if seen else MappingGuess(None, (), ("no row could be read",))
        name = path if isinstance(path, str) else path.name
        sources.append(Source(name, path, detect(seen), guess, seen))
    return sources


def detect(rows: Iterable[RawRow]) -> FormatName:
    """By the keys of the first row."""
    first = next(iter(rows), None)
    keys = set(first.values) if first else set()
    if {"original_context", "original_choices", "perturbation_type"} <= keys:
        return "hellaswag-pro-variants"
    if {"ctx", "endings"} <= keys:
        return "hellaswag"
    if (
        first is not None
        and {"id", "context", "choices", "label"} == keys
        and isinstance(first.values["choices"], list)
    ):
        return "hellaswag-pro"
    return "generic"


def read(
    source: Source,
    *,
    benchmark: str,
    now: datetime,
    format_name: FormatName | None = None,
    mapping: ColumnMapping | None = None,
    encoding: str | None = None,
) -> Iterator[Parsed | Refusal | Notice]:
    """Every row of a source, parsed or refused, in order. `format_name` and `mapping` overrule what was found.

    Raises:
        InputError: the file as a whole cannot be read, or no mapping is given and none could be guessed.
    """
    rows = _raw_rows(source.path, encoding)
    match format_name or source.format_name:
        case "hellaswag":
            yield from parse_original(rows, benchmark)
        case "hellaswag-pro":
            yield from parse_pro_original(rows, benchmark)
        case "hellaswag-pro-variants":
            yield from parse_pro_variants(rows, benchmark, now)
        case "generic":
            chosen = mapping or source.guess.mapping
            if chosen is None:
                raise InputError(f"{source.name}: {source.guess.notes[0]}; name the columns with --map")
            yield from parse_rows(rows, chosen, benchmark)


def benchmark_name(location: str) -> str:
    """The default name: that of the file, folder or data set."""
    if location.startswith(HUB_PREFIX):
        return location.removeprefix(HUB_PREFIX).strip("/").split("/")[-1].split(":")[0] or "hub"
    path = Path(location).absolute()
    return path.name if path.is_dir() else path.stem


def _raw_rows(path: Path | str, encoding: str | None) -> Iterator[RawItem]:
    return hub_rows(path) if isinstance(path, str) else read_rows(path, encoding=encoding)

"""The formats by name, how a file's format is detected, and one function that reads them all."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, assert_never, get_args

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
    """One file or hub dataset as it will be read. `rows_seen` are its first rows, for a preview.

    `is_one_of_several`: other files from the same location are read with it.
    """

    name: str
    path: Path | str
    format_name: FormatName
    guess: MappingGuess
    rows_seen: tuple[RawRow, ...]
    is_one_of_several: bool = False


def inspect(location: str, *, encoding: str | None = None) -> list[Source]:
    """What can be imported from a file, a folder or `hf:ID`; reads only the first rows of each file.

    Raises:
        InputError: nothing readable was found. A damaged file in a folder becomes a source without rows, whose guess
            says why.
    """
    paths: list[Path | str] = [location] if location.startswith(HUB_PREFIX) else [*importable_files(Path(location))]
    sources = []
    for path in paths:
        guess = MappingGuess(None, (), ("no rows could be read",))
        seen: tuple[RawRow, ...] = ()
        try:
            first = itertools.islice(_raw_rows(path, encoding), PEEK_ROWS)
            seen = tuple(item for item in first if isinstance(item, RawRow))
        except InputError as exc:
            if len(paths) == 1:
                raise
            guess = MappingGuess(None, (), (str(exc),))
        name = path if isinstance(path, str) else path.name
        sources.append(Source(name, path, detect(seen), guess_mapping(seen) if seen else guess, seen, len(paths) > 1))
    return sources


def detect(rows: Iterable[RawRow]) -> FormatName:
    """From the keys of the first row."""
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
    mapping: Mapping[str, object] | None = None,
    encoding: str | None = None,
) -> Iterator[Parsed | Refusal | Notice]:
    """Every row of a source, parsed or refused, in order. `format_name` and `mapping` override what was detected.

    Args:
        mapping: fields of ColumnMapping; those left out keep the guess.

    Raises:
        InputError: the file as a whole cannot be read, or no context column is mapped or guessed.
    """
    rows = _raw_rows(source.path, encoding)
    match format_of(source, format_name, mapping):
        case "hellaswag":
            yield from parse_original(rows, benchmark)
        case "hellaswag-pro":
            yield from parse_pro_original(rows, benchmark)
        case "hellaswag-pro-variants":
            yield from parse_pro_variants(rows, benchmark, now)
        case "generic":
            chosen = mapping_of(source, mapping)
            if chosen is None:
                raise InputError(f"{source.name}: {source.guess.notes[0]}; name the columns with --map")
            yield from parse_rows(rows, chosen, benchmark, is_one_of_several=source.is_one_of_several)
        case never:
            assert_never(never)


def format_of(source: Source, format_name: FormatName | None, mapping: Mapping[str, object] | None) -> FormatName:
    """The declared format, otherwise the detected one; a mapping implies the generic format.

    Raises:
        InputError: a mapping was given for a format with fixed columns.
    """
    if mapping is None:
        return format_name or source.format_name
    if format_name not in (None, "generic"):
        raise InputError(f"format {format_name} has fixed columns; leave out --map, or use the format generic")
    return "generic"


def mapping_of(source: Source, mapping: Mapping[str, object] | None) -> ColumnMapping | None:
    """The named columns, otherwise the guessed ones. Raises InputError for an invalid mapping."""
    return source.guess.mapping if mapping is None else ColumnMapping.from_settings(mapping, source.guess.mapping)


def benchmark_name(location: str) -> str:
    """The default name: that of the file, folder or dataset."""
    if location.startswith(HUB_PREFIX):
        return re.split("[:#]", location.removeprefix(HUB_PREFIX).strip("/").split("/")[-1])[0] or "hub"
    path = Path(location).absolute()
    return (path.name if path.is_dir() else path.stem) or "import"


def _raw_rows(path: Path | str, encoding: str | None) -> Iterator[RawItem]:
    return hub_rows(path) if isinstance(path, str) else read_rows(path, encoding=encoding)

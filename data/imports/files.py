"""Files to raw rows: JSONL, JSON, CSV/TSV, Parquet. Keeps every cell unchanged; refuses single rows where possible.

Cells such as NA, None, TRUE, 007 and 1e3 stay text: nothing here guesses types.
"""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from data.errors import InputError
from data.imports.items import Notice, RawRow, Refusal, shown

SUFFIXES: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
MAX_JSON_BYTES: Final = 200 * 1024 * 1024
MAX_CELL_CHARACTERS: Final = 1_000_000
# The CSV reader's limit: a longer cell refuses the whole file, one above MAX_CELL_CHARACTERS only its row.
_MAX_CSV_FIELD: Final = 16 * 1024 * 1024
PARQUET_BATCH_ROWS: Final = 1_000
_DELIMITERS: Final = (",", ";", "\t", "|")
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")

RawItem = RawRow | Refusal | Notice


def importable_files(path: Path) -> list[Path]:
    """`path` itself, or the readable files of the folder, by name.

    Raises:
        InputError: it does not exist, or has nothing readable.
    """
    try:
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
            if not files:
                known = ", ".join(SUFFIXES)
                raise InputError(f"{path}: the folder has no readable file; supported are {known}")
            return files
        if not path.exists():
            raise InputError(f"{path}: no such file or folder; check the path")
        if not path.is_file():
            raise InputError(f"{path} is neither a file nor a folder; give one of these")
    except OSError as exc:
        raise InputError(
            f"{shown(str(path))}: cannot be opened: {exc.strerror}; check the path and its permissions"
        ) from exc
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{path}: {path.suffix or 'a file without a suffix'} is not supported; use one of {', '.join(SUFFIXES)}"
        )
    return [path]


def read_rows(file: Path, *, encoding: str | None = None) -> Iterator[RawItem]:
    """The rows of one file in order, streamed where the format allows it.

    Raises:
        InputError: the file as a whole cannot be read.
    """
    try:
        if file.stat().st_size == 0:
            raise InputError(f"{file.name}: the file is empty")
        suffix = file.suffix.lower()
        if suffix in {".jsonl", ".ndjson"}:
            yield from _jsonl(file, encoding)
        elif suffix == ".json":
            yield from _json(file, encoding)
        elif suffix == ".parquet":
            yield from _parquet(file)
        else:
            yield from _csv(file, encoding)
    except OSError as exc:
        raise InputError(f"{file}: cannot be read: {exc.strerror or exc}") from exc


def rows_of(values: Mapping[str, object], file: str, number: int) -> RawRow | Refusal:
    """A row from parsed values; refused if its keys or texts cannot be stored."""
    for key, value in values.items():
        fault = _fault_of(value)
        if fault:
            return Refusal(file, number, f"field {shown(key)!r} {fault}", shown(value))
    return RawRow(file, number, values)


def _fault_of(value: object) -> str | None:
    if isinstance(value, str):
        if "\x00" in value:
            return "contains a NUL character; remove it"
        if len(value) > MAX_CELL_CHARACTERS:
            return f"has {len(value)} characters; shorten it to {MAX_CELL_CHARACTERS}"
        if any("\ud800" <= character <= "\udfff" for character in value):
            return "contains half of a surrogate pair; correct the text"
    elif isinstance(value, float) and not math.isfinite(value):
        return f"is {value}; use a finite number"
    elif isinstance(value, list | tuple):
        return next(filter(None, map(_fault_of, value)), None)
    elif isinstance(value, dict):
        return next(filter(None, map(_fault_of, value.values())), None)
    return None


def _jsonl(file: Path, encoding: str | None) -> Iterator[RawItem]:
    codec = _codec(file, encoding)
    with file.open("rb") if _ends_lines_in_one_byte(codec) else _recoded(file, codec) as lines:
        if isinstance(lines, io.BytesIO):
            codec = "utf-8"
        number = 0
        while line := lines.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                yield Refusal(
                    file.name,
                    number,
                    f"the line is longer than {MAX_LINE_BYTES} bytes; shorten or remove it",
                    shown(line[:300]),
                )
                while line and not line.endswith(b"\n"):
                    line = lines.readline(MAX_LINE_BYTES + 1)
                continue
            if not line.strip():
                continue
            try:
                text = line.decode(codec).removeprefix("\ufeff")
            except UnicodeDecodeError as exc:
                yield Refusal(file.name, number, _not_text(exc, codec), shown(line))
                continue
            yield _parsed_line(text.rstrip("\r\n"), file.name, number)


def _ends_lines_in_one_byte(codec: str) -> bool:
    """False for encodings such as UTF-16, which cannot be split into lines before decoding."""
    return "x\n".encode(codec).endswith(b"x\n")


def _recoded(file: Path, codec: str) -> io.BytesIO:
    """The whole file as UTF-8."""
    size = file.stat().st_size
    if size > MAX_JSON_BYTES:
        raise InputError(
            f"{file.name}: {size} bytes are too many to read as {codec}; save it as UTF-8, which is streamed"
        )
    try:
        return io.BytesIO(file.read_bytes().decode(codec).encode("utf-8", "surrogatepass"))
    except UnicodeDecodeError as exc:
        raise InputError(f"{file.name}: {_not_text(exc, codec)}") from exc


def _parsed_line(text: str, file: str, number: int) -> RawRow | Refusal:
    try:
        values = _loads(text)
    except (ValueError, RecursionError) as exc:
        return Refusal(file, number, f"the line is not JSON: {exc}; correct or remove it", shown(text))
    if not isinstance(values, dict):
        return Refusal(
            file,
            number,
            f"the line is a JSON {type(values).__name__}, not an object; correct or remove it",
            shown(text),
        )
    return rows_of(values, file, number)


def _json(file: Path, encoding: str | None) -> Iterator[RawItem]:
    size = file.stat().st_size
    if size > MAX_JSON_BYTES:
        raise InputError(
            f"{file.name}: {size} bytes are too many for one JSON document; convert it to JSONL, which is streamed"
        )
    codec = _codec(file, encoding)
    try:
        document = _loads(file.read_bytes().decode(codec).removeprefix("\ufeff"))
    except UnicodeDecodeError as exc:
        raise InputError(f"{file.name}: {_not_text(exc, codec)}") from exc
    except (ValueError, RecursionError) as exc:
        raise InputError(f"{file.name} is not JSON: {exc}; correct it") from exc
    rows = _rows_inside(document, file.name)
    for number, values in enumerate(rows, start=1):
        if isinstance(values, dict):
            yield rows_of(values, file.name, number)
        else:
            yield Refusal(
                file.name,
                number,
                f"the element is a {type(values).__name__}, not an object; correct or remove it",
                shown(values),
            )


def _rows_inside(document: object, file: str) -> list[object]:
    """The list itself, or the only list of objects within an exported object."""
    if isinstance(document, list):
        return document
    if isinstance(document, dict):
        lists = {key: value for key, value in document.items() if isinstance(value, list) and value}
        rows = {key: value for key, value in lists.items() if all(isinstance(row, dict) for row in value)}
        if len(rows) == 1:
            return next(iter(rows.values()))
        found = ", ".join(map(repr, rows)) or "none"
        raise InputError(f"{file} is one object; it must contain exactly one list of rows (found: {found})")
    raise InputError(f"{file} is a JSON {type(document).__name__}; give a list of objects")


def _csv(file: Path, encoding: str | None) -> Iterator[RawItem]:
    codec = _codec(file, encoding)
    csv.field_size_limit(_MAX_CSV_FIELD)
    try:
        with file.open(encoding=codec, newline="") as lines:
            head = lines.read(64 * 1024)
            if "\x00" in head:
                raise InputError(f"{file.name}: contains NUL bytes: not a text file, or UTF-16; save it as UTF-8")
            delimiter = _delimiter(head)
            lines.seek(0)
            yield from _csv_rows(csv.reader(lines, delimiter=delimiter, strict=False), file.name)
    except UnicodeDecodeError as exc:
        raise InputError(f"{file.name}: {_not_text(exc, codec)}") from exc
    except csv.Error as exc:
        raise InputError(f"{file.name} cannot be read as CSV: {exc}; correct it") from exc


def _csv_rows(reader: "csv._reader", file: str) -> Iterator[RawItem]:  # type: ignore[name-defined]  # csv names it only in its stub
    header: list[str] = []
    for number, cells in enumerate(reader, start=1):
        if not header:
            header = [cell.removeprefix("\ufeff").strip() for cell in cells]
            twice = sorted({name for name in header if header.count(name) > 1})
            if twice:
                raise InputError(
                    f"{file}: column {', '.join(map(repr, twice))} appears twice in the header; rename one"
                )
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            reason = f"the row has {len(cells)} cells, the header {len(header)}; quote cells that contain the delimiter"
            yield Refusal(file, number, reason, shown(str(cells)))
            continue
        yield rows_of(dict(zip(header, cells, strict=True)), file, number)


def _parquet(file: Path) -> Iterator[RawItem]:
    try:
        number = 0
        with pq.ParquetFile(file) as table:
            for batch in table.iter_batches(PARQUET_BATCH_ROWS):
                for values in batch.to_pylist():
                    number += 1
                    yield rows_of(values, file.name, number)
    except pa.ArrowException as exc:
        raise InputError(f"{file.name} cannot be read as Parquet: {str(exc).splitlines()[0]}; write it again") from exc


def _codec(file: Path, encoding: str | None) -> str:
    """The declared encoding, otherwise UTF-8 with or without a byte order mark.

    Raises:
        InputError: an unknown encoding, or undeclared UTF-16.
    """
    with file.open("rb") as content:
        if encoding is None and content.read(2) in _UTF16_MARKS:
            raise InputError(f"{file.name} is UTF-16; save it as UTF-8, or pass --encoding utf-16")
    if encoding is None:
        return "utf-8-sig"
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    except LookupError as exc:
        raise InputError(
            f"{file.name}: unknown encoding {encoding!r}; give one that Python knows, such as cp1252"
        ) from exc
    return encoding


def _not_text(exc: UnicodeDecodeError, codec: str) -> str:
    name = "UTF-8" if codec == "utf-8-sig" else codec
    return f"is not {name} (byte {exc.start}: {exc.object[exc.start]:#04x}); save it as UTF-8 or pass its --encoding"


def _delimiter(head: str) -> str:
    """The one that splits the header into most cells; a comma if none does."""
    first = next((line for line in head.splitlines() if line.strip()), "")
    return max(_DELIMITERS, key=lambda mark: len(next(csv.reader([first], delimiter=mark), [])))


def _loads(text: str) -> object:
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is too large")
    return value

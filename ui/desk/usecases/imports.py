"""Imports: preview, start, and see what was refused and why."""

import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal, get_args

from data.errors import InputError, NotFoundError, SetupError
from data.imports.files import SUFFIXES
from data.imports.hub import HUB_PREFIX
from data.imports.items import Notice, Parsed, Refusal
from data.imports.table import (
    FORMATS,
    FormatName,
    Source,
    benchmark_name,
    format_of,
    inspect,
    mapping_of,
    read,
)
from data.records import Question, Run
from engine.jobs.folder import RunFolder
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.runs.submission import Submission

Severity = Literal["refused", "suspect", "notice"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
PREVIEW_ROWS: Final = 20
MAX_ISSUES: Final = 1000
MAX_UPLOAD_BYTES: Final = 200 * 1024 * 1024
_SAFE_NAME: Final = re.compile(r"[^\w.-]+")
# A file name may have 255 bytes, and a character up to four.
_MAX_NAME_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True)
class ImportIssue:
    """A row to check: its place, why, and how it begins. Row 0 is the file as a whole."""

    file: str
    row: int
    severity: Severity
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class SourcePreview:
    """One file as it would be read. `mapping` is None for formats that need none, or if none could be guessed.

    `is_readable`: at least one of the first rows can be parsed.
    """

    name: str
    format_name: FormatName
    mapping: Mapping[str, object] | None
    columns: tuple[str, ...]
    notes: tuple[str, ...]
    questions: tuple[Question, ...]
    refused: tuple[ImportIssue, ...]
    suspicions: tuple[str, ...]
    is_readable: bool


@dataclass(frozen=True, slots=True)
class ImportPreview:
    """What would be imported: the first rows of each file, and the benchmark name."""

    location: str
    benchmark: str
    sources: tuple[SourcePreview, ...]


@dataclass(frozen=True, slots=True)
class ImportIssues:
    """Rows of an import to check, at most MAX_ISSUES; `total` counts all of the requested severity."""

    run_id: str
    rows: tuple[ImportIssue, ...]
    total: int


def preview_import(
    desk: Desk,
    actor: Actor,
    *,
    location: str,
    format_name: FormatName | None = None,
    mapping: Mapping[str, object] | None = None,
    benchmark: str | None = None,
    encoding: str | None = None,
) -> ImportPreview:
    """Reads only the first rows; stores nothing.

    Args:
        location: a file, a folder, or `hf:ID`.

    Raises:
        PermissionDeniedError, InputError (nothing readable there).
    """
    require_lead(desk, actor, "import.preview", location)
    name = benchmark or benchmark_name(location)
    sources = inspect(location, encoding=encoding)
    return ImportPreview(
        location,
        name,
        tuple(_preview(desk, source, name, _known_format(format_name), mapping, encoding) for source in sources),
    )


def start_import(
    desk: Desk,
    actor: Actor,
    *,
    location: str,
    format_name: FormatName | None = None,
    mapping: Mapping[str, object] | None = None,
    benchmark: str | None = None,
    encoding: str | None = None,
) -> Run:
    """Queues the import; the run's result will have the counts of new, same, changed and refused rows.

    Raises:
        PermissionDeniedError, InputError (nothing readable there, no such format, an invalid mapping).
    """
    require_lead(desk, actor, "import.start", location)
    declared = _known_format(format_name)
    is_on_hub = location.startswith(HUB_PREFIX)
    # A hub dataset is downloaded by the job, which may take long; local files are checked first.
    for source in [] if is_on_hub else inspect(location, encoding=encoding):
        if format_of(source, declared, mapping) == "generic" and source.rows_seen:
            mapping_of(source, mapping)
    settings: dict[str, object] = {
        "location": location if is_on_hub else str(Path(location).absolute()),
        "benchmark": benchmark or benchmark_name(location),
        "format": declared,
        "mapping": None if mapping is None else dict(mapping),
        "encoding": encoding,
    }
    run = desk.supervisor.submit(Submission("import", settings, {}, seed=0), submitted_by=actor.name)
    audit(desk, actor, "import.start", run.run_id, location=location)
    return run


def refusals(desk: Desk, actor: Actor, *, run_id: str, severity: Severity = "refused") -> ImportIssues:
    """The rows that an import refused, flagged as suspect, or has a notice on.

    Raises:
        NotFoundError: no such run, or it is not an import or has no results yet.
        InputError: no such severity.
    """
    if severity not in SEVERITIES:
        raise InputError(f"severity {severity!r}: use one of {', '.join(SEVERITIES)}")
    run = desk.supervisor.get(run_id)
    folder = RunFolder(Path(run.folder))
    if run.kind != "import" or not folder.has_output("issues"):
        raise NotFoundError(
            f"run {run_id} ({run.kind}, {run.state}) has no list of refused rows; give a finished import"
        )
    found = [row for row in folder.read_output("issues").to_pylist() if row["severity"] == severity]
    return ImportIssues(run_id, tuple(ImportIssue(**row) for row in found[:MAX_ISSUES]), len(found))


def keep_upload(desk: Desk, actor: Actor, *, name: str, content: bytes) -> str:
    """Stores an uploaded file in the state folder; returns its path for `preview_import` and `start_import`.

    Raises:
        PermissionDeniedError, InputError (unsupported, empty or too large), SetupError (no disk space).
    """
    require_lead(desk, actor, "import.upload", name)
    # Only the last part of the name is used, so that no path in it can lead out of the folder.
    bare = _SAFE_NAME.sub("_", re.split(r"[/\\]", name)[-1]).lstrip(".")
    if Path(bare).suffix.lower() not in SUFFIXES:
        raise InputError(f"upload {name!r}: this kind of file is not supported; use {', '.join(SUFFIXES)}")
    if not content:
        raise InputError(f"upload {name!r} is empty; choose another file")
    if len(content) > MAX_UPLOAD_BYTES:
        raise InputError(f"upload {name!r} is over {MAX_UPLOAD_BYTES // 2**20} MiB; import it by its path instead")
    folder = desk.settings.state / "uploads" / secrets.token_hex(4)
    file = folder / bare[-_MAX_NAME_CHARACTERS:]
    try:
        folder.mkdir(parents=True)
        file.write_bytes(content)
    except OSError as exc:
        shutil.rmtree(folder, ignore_errors=True)
        raise SetupError(
            f"upload {name!r} cannot be stored in {folder}: {exc.strerror}; free disk space there"
        ) from exc
    audit(desk, actor, "import.upload", bare, size_bytes=len(content))
    return str(file)


def _preview(
    desk: Desk,
    source: Source,
    benchmark: str,
    format_name: FormatName | None,
    mapping: Mapping[str, object] | None,
    encoding: str | None,
) -> SourcePreview:
    notes = list(source.guess.notes)
    questions: list[Question] = []
    refused: list[ImportIssue] = []
    suspicions: list[str] = []
    wanted = format_of(source, format_name, mapping)
    used = mapping_of(source, mapping) if wanted == "generic" and source.rows_seen else None
    try:
        items = read(
            source, benchmark=benchmark, now=desk.now(), format_name=wanted, mapping=mapping, encoding=encoding
        )
        for item in islice(items, PREVIEW_ROWS):
            match item:
                case Parsed():
                    questions.append(item.question)
                    suspicions.extend(f"row {item.number}: {suspicion}" for suspicion in item.suspicions)
                case Refusal():
                    refused.append(ImportIssue(item.file, item.number, "refused", item.reason, item.text))
                case Notice():
                    notes.append(item.text)
    except InputError as exc:
        notes.append(str(exc))
    return SourcePreview(
        source.name,
        wanted,
        None if used is None else asdict(used),
        source.guess.columns,
        tuple(notes if wanted == "generic" else notes[len(source.guess.notes) :]),
        tuple(questions),
        tuple(refused),
        tuple(suspicions),
        is_readable=bool(questions),
    )


def _known_format(name: FormatName | None) -> FormatName | None:
    if name is not None and name not in FORMATS:
        raise InputError(f"format {name!r}: use one of {', '.join(FORMATS)}")
    return name

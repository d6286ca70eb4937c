"""The import job: turns rows of external files into questions, variants with contract checks, and a list of issues.

Settings: `location` (file, folder or `hf:ID`), `benchmark`, and optionally `format`, `mapping`, `encoding`.
The original question of a variant row is added once, unless it has a row of its own.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from data.arrow import (
    CONTRACT_CHECK_SCHEMA,
    QUESTION_SCHEMA,
    VARIANT_SCHEMA,
    contract_checks_table,
    questions_table,
    variants_table,
)
from data.errors import InputError
from data.files import sync
from data.imports.items import Notice, Parsed, Refusal, shown
from data.imports.table import FORMATS, FormatName, Source, format_of, inspect, read
from data.records import ContractCheck, Question, QuestionId, RunId, Variant
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter
from engine.variant_types.table import contract_checks

BATCH_ROWS: Final = 1_000
ISSUE_SCHEMA: Final = pa.schema(
    [
        ("file", pa.string()),
        ("row", pa.int64()),
        ("severity", pa.string()),  # refused, suspect, notice
        ("reason", pa.string()),
        ("text", pa.string()),
    ]
)


@dataclass(slots=True)
class _Tally:
    rows: int = 0
    question_rows: int = 0
    unlabelled: int = 0
    open_questions: int = 0
    variant_rows: int = 0
    refused: int = 0
    refused_variants: int = 0
    suspect: int = 0
    notices: int = 0
    files: list[str] = field(default_factory=list)


def run(folder: RunFolder, report: Reporter) -> Mapping[str, object]:
    """Writes questions, variants, contract_checks and issues; returns counts of rows.

    Raises:
        InputError: nothing readable at the location.
    """
    settings = folder.spec().settings
    location, benchmark = str(settings["location"]), str(settings["benchmark"])
    encoding = _text_or_none(settings.get("encoding"))
    format_name = _format(settings.get("format"))
    mapping = settings.get("mapping")
    mapping = dict(mapping) if isinstance(mapping, Mapping) else None
    sources = inspect(location, encoding=encoding)

    tally = _Tally(files=[source.name for source in sources])
    outputs = _Outputs(folder.outputs, RunId(folder.spec().run_id))
    with outputs:
        for source in sources:
            is_variants = format_of(source, format_name, mapping) == "hellaswag-pro-variants"
            for item in _items(source, benchmark, format_name, mapping, encoding):
                outputs.take(item)
                _count(tally, item, is_variants=is_variants)
                if tally.rows % BATCH_ROWS == 0:
                    report.progress(tally.rows, None, source.name)
        tally.notices += outputs.flush_carried()
    report.progress(tally.rows, tally.rows, "read")
    return {
        "rows": tally.rows,
        "question_rows": tally.question_rows,
        "unlabelled": tally.unlabelled,
        "open_questions": tally.open_questions,
        "variant_rows": tally.variant_rows,
        "refused": tally.refused,
        "refused_variants": tally.refused_variants,
        "suspect": tally.suspect,
        "notices": tally.notices,
        "files": tally.files,
    }


def _items(
    source: Source,
    benchmark: str,
    format_name: FormatName | None,
    mapping: Mapping[str, object] | None,
    encoding: str | None,
) -> Iterator[Parsed | Refusal | Notice]:
    """An unreadable file becomes one refusal at row 0; the other files are still imported."""
    now = datetime.now(UTC)
    try:
        yield from read(
            source, benchmark=benchmark, now=now, format_name=format_name, mapping=mapping, encoding=encoding
        )
    except InputError as exc:
        yield Refusal(source.name, 0, str(exc), "")


def _count(tally: _Tally, item: Parsed | Refusal | Notice, *, is_variants: bool) -> None:
    if isinstance(item, Notice):
        tally.notices += 1
        return
    tally.rows += 1
    if isinstance(item, Refusal):
        tally.refused += 1
        tally.refused_variants += is_variants
        return
    tally.suspect += bool(item.suspicions)
    if item.is_carried:
        tally.variant_rows += 1
        return
    tally.question_rows += 1
    if not item.question.options:
        tally.open_questions += 1
    if item.question.answer_index is None and item.question.final_answer is None:
        tally.unlabelled += 1


class _Outputs:
    """Writes the four output files in batches, under temporary names; holds one batch and the carried questions.

    Two questions of one import with the same source key would supersede each other, so the second gets a new key.
    """

    def __init__(self, outputs: Path, run_id: RunId) -> None:
        self._run_id = run_id
        self._writers = {
            "questions": _Writer(outputs, "questions", QUESTION_SCHEMA),
            "variants": _Writer(outputs, "variants", VARIANT_SCHEMA),
            "contract_checks": _Writer(outputs, "contract_checks", CONTRACT_CHECK_SCHEMA),
            "issues": _Writer(outputs, "issues", ISSUE_SCHEMA),
        }
        self._questions: list[Question] = []
        self._variants: list[Variant] = []
        self._checks: list[ContractCheck] = []
        self._issues: list[dict[str, object]] = []
        self._own: set[QuestionId] = set()
        self._carried: dict[QuestionId, Question] = {}
        self._keys: dict[str, QuestionId] = {}
        self._repeated_keys: Counter[str] = Counter()

    def __enter__(self) -> "_Outputs":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._write()
        for writer in self._writers.values():
            writer.close(is_complete=kind is None)

    def take(self, item: Parsed | Refusal | Notice) -> None:
        match item:
            case Parsed(question=question, variant=None):
                self._own.add(question.question_id)
                self._questions.append(self._under_its_own_key(question, item.file))
            case Parsed(question=question, variant=Variant() as variant):
                self._carried[question.question_id] = question
                self._variants.append(replace(variant, run_id=self._run_id))
                self._checks.extend(contract_checks(question, variant))
            case Refusal():
                self._issue(item.file, item.number, "refused", item.reason, item.text)
            case Notice():
                self._issue(item.file, 0, "notice", item.text, "")
        if isinstance(item, Parsed):
            for suspicion in item.suspicions:
                self._issue(item.file, item.number, "suspect", suspicion, shown(item.question.context))
        if max(len(self._questions), len(self._variants), len(self._issues)) >= BATCH_ROWS:
            self._write()

    def flush_carried(self) -> int:
        """Adds originals that have no row of their own; returns the number of notices on source keys."""
        for question_id, question in self._carried.items():
            if question_id not in self._own:
                self._questions.append(self._under_its_own_key(question, ""))
        for file, rows in self._repeated_keys.items():
            notice = f"{rows} questions share their source key with another; #2, #3, ... was appended"
            self._issue(file, 0, "notice", f"{notice}. Name a column with unique values with --map key=COLUMN", "")
        return len(self._repeated_keys)

    def _under_its_own_key(self, question: Question, file: str) -> Question:
        key, number = question.source_key, 1
        while self._keys.setdefault(key, question.question_id) != question.question_id:
            number += 1
            key = f"{question.source_key}#{number}"
        if number == 1:
            return question
        self._repeated_keys[file] += 1
        return replace(question, source_key=key)

    def _issue(self, file: str, row: int, severity: str, reason: str, text: str) -> None:
        self._issues.append({"file": file, "row": row, "severity": severity, "reason": reason, "text": text})

    def _write(self) -> None:
        self._writers["questions"].write(questions_table(self._questions))
        self._writers["variants"].write(variants_table(self._variants))
        self._writers["contract_checks"].write(contract_checks_table(self._checks))
        self._writers["issues"].write(pa.Table.from_pylist(self._issues, schema=ISSUE_SCHEMA))
        for rows in (self._questions, self._variants, self._checks, self._issues):
            cast("list[object]", rows).clear()  # four lists of different types, only cleared here


class _Writer:
    def __init__(self, outputs: Path, name: str, schema: pa.Schema) -> None:
        self._file = outputs / f"{name}.parquet"
        self._temporary = outputs / f"{name}.tmp"
        self._writer = pq.ParquetWriter(self._temporary, schema)

    def write(self, table: pa.Table) -> None:
        if table.num_rows:
            self._writer.write_table(table)

    def close(self, *, is_complete: bool) -> None:
        self._writer.close()
        if is_complete:
            sync(self._temporary)
            self._temporary.replace(self._file)
        else:
            self._temporary.unlink(missing_ok=True)


def _format(name: object) -> FormatName | None:
    if name in (None, "", "auto"):
        return None
    for known in FORMATS:
        if name == known:
            return known
    raise InputError(f"unknown format {name!r}; use one of auto, {', '.join(FORMATS)}")


def _text_or_none(value: object) -> str | None:
    return None if value in (None, "") else str(value)

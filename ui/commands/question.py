"""`sagedesk question ...`: imports and what came in."""

from pathlib import Path
from typing import Annotated

import typer

from data.errors import InputError
from data.imports.table import FormatName
from data.records import QuestionId
from ui.commands.line import open_line
from ui.commands.output import AsJson, Limit, emit_facts, emit_json, emit_table, talk, wait_for
from ui.commands.run import Wait, emit_run
from ui.desk.settings import read_settings
from ui.desk.usecases import imports, questions, samples
from ui.desk.usecases.imports import ImportPreview, Severity

app = typer.Typer(help="Questions: imported benchmark items.", no_args_is_help=True)


@app.command("import")
def import_(
    location: Annotated[
        str,
        typer.Argument(metavar="FILE|DIR|hf:ID", help="JSONL, JSON, CSV, TSV or Parquet; or hf:ID[#CONFIG][:SPLIT]."),
    ],
    format_name: Annotated[FormatName | None, typer.Option("--format", help="Detected if omitted.")] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="Column of a field; may be repeated. Fields: context, options (several: A,B,C), answer, key, subject, "
            "answer_scheme. Guessed if omitted.",
        ),
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Name of the benchmark; the name of the file or folder if omitted.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of text files that are not UTF-8, such as mac-roman.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show how the first rows would be read; import nothing.")
    ] = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Import questions (and variants if the source has them); importing again adds no duplicates."""
    where = location if location.startswith("hf:") else str(Path(location).absolute())
    columns = None if mapping is None else _mapping(mapping)
    with open_line(read_settings()) as line:
        if dry_run:
            preview = line.call(
                imports.preview_import,
                location=where,
                format_name=format_name,
                mapping=columns,
                benchmark=benchmark,
                encoding=encoding,
            )
            emit_json(preview) if as_json else _emit_preview(preview)
            return
        run = line.call(
            imports.start_import,
            location=where,
            format_name=format_name,
            mapping=columns,
            benchmark=benchmark,
            encoding=encoding,
        )
        if wait:
            run = wait_for(line, run)
            if run.result.get("notices"):
                for notice in line.call(imports.refusals, run_id=run.run_id, severity="notice").rows:
                    talk(notice.reason)
            refused = run.result.get("refused")
            if refused:
                talk(f"{refused} rows were refused; `sagedesk question refusals {run.run_id}` lists them")
    emit_json(run) if as_json else emit_run(run)


@app.command("list")
def list_(
    search: Annotated[str, typer.Option(help="Search the question, options, subject, source key and id.")] = "",
    benchmark: Annotated[str | None, typer.Option(help="Only this benchmark.")] = None,
    offset: Annotated[int, typer.Option(min=0, help="Rows to skip.")] = 0,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List questions in source order."""
    with open_line(read_settings()) as line:
        page = line.call(questions.search_questions, search=search, benchmark=benchmark, offset=offset, limit=limit)
    if as_json:
        emit_json(page)
        return
    emit_table(
        ("question", "benchmark", "key", "context", "options", "answer"),
        [
            (
                it.question_id,
                it.benchmark,
                it.source_key,
                it.context,
                len(it.options),
                it.final_answer or _answer(it.answer_index),
            )
            for it in page.items
        ],
        empty="no question matches; `sagedesk question import FILE` imports some",
    )
    if page.total > len(page.items):
        talk(f"{offset + 1} to {offset + len(page.items)} of {page.total}")


@app.command()
def show(
    question_id: Annotated[str, typer.Argument(metavar="QUESTION", help="A question's id.")], as_json: AsJson = False
) -> None:
    """Show one question and its variants."""
    with open_line(read_settings()) as line:
        detail = line.call(questions.show_question, question_id=QuestionId(question_id))
    if as_json:
        emit_json(detail)
        return
    question = detail.question
    emit_facts(
        [
            ("question", question.question_id),
            ("benchmark", f"{question.benchmark} {question.source_key}"),
            ("subject", question.subject or None),
            ("context", question.context),
            *((_answer(index), option) for index, option in enumerate(question.options)),
            ("answer", question.final_answer or _answer(question.answer_index)),
        ]
    )
    emit_table(
        ("variant", "type", "contract", "context"),
        [
            (it.variant.variant_id, it.variant.variant_type, it.passes_contract, it.variant.context)
            for it in detail.variants
        ],
        empty="no variants yet; `sagedesk variant generate` generates some",
    )


@app.command()
def refusals(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="The id of the import's run.")],
    severity: Annotated[Severity, typer.Option(help="Which rows to list.")] = "refused",
    as_json: AsJson = False,
) -> None:
    """List the rows that an import refused, with the reasons."""
    with open_line(read_settings()) as line:
        found = line.call(imports.refusals, run_id=run_id, severity=severity)
    if as_json:
        emit_json(found)
        return
    emit_table(
        ("file", "row", "reason", "text"),
        [(it.file, it.row, it.reason, it.text) for it in found.rows],
        empty=f"no {severity} rows",
        whole_cells=True,
    )
    if found.total > len(found.rows):
        talk(f"showing the first {len(found.rows)} of {found.total}")


@app.command()
def duplicates(as_json: AsJson = False) -> None:
    """List questions that differ only in case, whitespace, Unicode form or option order."""
    with open_line(read_settings()) as line:
        found = line.call(questions.duplicate_questions)
    if as_json:
        emit_json(found)
        return
    emit_table(
        ("group", "question", "benchmark", "key", "subject", "context"),
        [
            (number, it.question_id, it.benchmark, it.source_key, it.subject, it.context)
            for number, group in enumerate(found.groups, start=1)
            for it in group
        ],
        empty="no duplicate questions",
    )
    if found.total > len(found.groups):
        talk(f"the first {len(found.groups)} of {found.total} groups")


@app.command()
def sample(as_json: AsJson = False) -> None:
    """Load the sample project: questions, variants, a first verifier and its verdicts (about a minute)."""
    with open_line(read_settings()) as line:
        talk("loading the sample project, training the first verifier and verifying with it: about a minute")
        loaded = line.call(samples.load_sample_project)
    if as_json:
        emit_json(loaded)
        return
    emit_facts([("questions", loaded.questions), ("variants", loaded.variants), ("waiting for review", loaded.queued)])


def _mapping(pairs: list[str]) -> dict[str, object]:
    mapping: dict[str, object] = {}
    for pair in pairs:
        field, equals, column = pair.partition("=")
        if not equals or not column:
            raise InputError(f"--map {pair!r}: write FIELD=COLUMN, such as answer=label")
        mapping[field] = column.split(",") if field == "options" else column
    return mapping


def _emit_preview(preview: ImportPreview) -> None:
    for source in preview.sources:
        mapping = source.mapping or {}
        emit_facts(
            [
                ("file", source.name),
                ("format", source.format_name),
                ("benchmark", preview.benchmark),
                *((f"{field} from", column) for field, column in mapping.items() if column),
                *(("note", note) for note in source.notes),
                *(("refused", f"row {it.row}: {it.reason}") for it in source.refused),
                *(("look at", suspicion) for suspicion in source.suspicions),
            ]
        )
        emit_table(
            ("context", "options", "answer"),
            [(it.context, it.options, it.final_answer or _answer(it.answer_index)) for it in source.questions],
            empty="no row can be read this way",
        )


def _answer(index: int | None) -> str:
    return "-" if index is None else chr(ord("A") + index) if index < 26 else str(index + 1)

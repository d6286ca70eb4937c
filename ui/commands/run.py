"""`sagedesk run ...`: what jobs do and did."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from data.errors import ReportError
from data.records import Run, RunState, VariantTypeKey
from engine.generate import GenerationYield
from engine.jobs.kinds import JobKind
from ui.commands.line import open_line
from ui.commands.output import AsJson, Limit, emit_facts, emit_json, emit_table, talk, wait_for
from ui.desk import run_reports
from ui.desk.settings import read_settings
from ui.desk.usecases import run_transfer, runs

app = typer.Typer(help="Runs of jobs: import, generation, verification and training.", no_args_is_help=True)

_YIELD_COLUMNS: Final = ("requested", "unsupported", "failed", "malformed", "duplicates", "made", "passed", "controls")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, as `run list` shows it.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the run to end.")]


@app.command("list")
def list_(
    kind: Annotated[JobKind | None, typer.Option(help="Only this kind.")] = None,
    state: Annotated[RunState | None, typer.Option(help="Only in this state.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    with open_line(read_settings()) as line:
        found = line.call(runs.list_runs, kind=kind, state=state, limit=limit)
    if as_json:
        emit_json(found)
        return
    emit_table(
        ("run", "kind", "state", "progress", "by", "created", "message"),
        [
            (run.run_id, run.kind, run.state, _progress(run), run.submitted_by, run.created_at, run.message)
            for run in found
        ],
        empty="no runs yet; `sagedesk question import` starts the first",
    )


@app.command()
def show(run_id: RunId, as_json: AsJson = False) -> None:
    """Show one run with its settings and result."""
    with open_line(read_settings()) as line:
        run = line.call(runs.show_run, run_id=run_id)
    if as_json:
        emit_json(run)
    else:
        emit_run(run)


@app.command()
def log(
    run_id: RunId,
    max_bytes: Annotated[
        int, typer.Option(min=1, max=runs.MAX_LOG_BYTES, help="Bytes to print, from the end of the log.")
    ] = 20_000,
    as_json: AsJson = False,
) -> None:
    """Print the end of a run's log."""
    with open_line(read_settings()) as line:
        found = line.call(runs.run_log, run_id=run_id, max_bytes=max_bytes)
    if as_json:
        emit_json(found)
        return
    if found.is_cut:
        talk(f"(the last {max_bytes} bytes)")
    typer.echo(found.text, nl=not found.text.endswith("\n"))


@app.command()
def cancel(run_id: RunId, as_json: AsJson = False) -> None:
    """Stop a run and wait for it to stop; finished work is kept, so it can be resumed."""
    with open_line(read_settings()) as line:
        run = line.call(runs.cancel_run, run_id=run_id)
        line.follow_jobs()
        while run.state in ("queued", "running"):
            time.sleep(0.1)
            run = line.call(runs.show_run, run_id=run_id)
    if as_json:
        emit_json(run)
    else:
        talk(f"{run.run_id}: {run.state}")


@app.command()
def resume(run_id: RunId, wait: Wait = True, as_json: AsJson = False) -> None:
    """Resume a lost, failed, cancelled or away run here, from the work it has finished."""
    with open_line(read_settings()) as line:
        run = line.call(runs.resume_run, run_id=run_id)
        if wait:
            run = wait_for(line, run)
    if as_json:
        emit_json(run)
    else:
        emit_run(run)


@app.command()
def export(
    run_id: RunId,
    to: Annotated[
        Path,
        typer.Argument(metavar="DIR|FILE.tar", help="A new folder or .tar file, or an existing folder to put it in."),
    ],
    as_json: AsJson = False,
) -> None:
    """Export a run for another machine: inputs, work so far and models."""
    with open_line(read_settings()) as line:
        made = line.call(run_transfer.export_run, run_id=run_id, to=to.absolute())
    if as_json:
        emit_json(made)
        return
    models = ", ".join(made.models.values())
    emit_facts([("run", made.run.run_id), ("path", made.path), ("bytes", made.size_bytes), ("models", models or None)])
    talk(f"on the worker: `python -m engine.jobs {run_id}`; then here: `sagedesk run collect {run_id} DIR|FILE.tar`")


@app.command()
def collect(
    run_id: RunId,
    source: Annotated[
        Path, typer.Argument(metavar="DIR|FILE.tar", help="The folder or .tar file that the worker returned.")
    ],
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Collect the result of an exported run from a worker."""
    with open_line(read_settings()) as line:
        run = line.call(run_transfer.collect_run, run_id=run_id, source=source.absolute())
        if wait:
            run = wait_for(line, run)
    if as_json:
        emit_json(run)
    else:
        emit_run(run)


def emit_run(run: Run) -> None:
    """What the run was and came to, one fact per line; counts by target or type as tables below."""
    tables = {name: rows for name, value in run.result.items() if (rows := _rows(value))}
    plain = {name: value for name, value in run.result.items() if name not in tables and name != "types"}
    emit_facts(
        [
            ("run", run.run_id),
            ("kind", run.kind),
            ("state", run.state),
            ("progress", _progress(run)),
            ("by", run.submitted_by),
            ("created", run.created_at),
            ("started", run.started_at),
            ("ended", run.ended_at),
            ("folder", run.folder),
            *([("message", run.message)] if run.message else []),
            *((f"setting {_words(name)}", _counts(value)) for name, value in sorted(run.settings.items())),
            *((_words(name), _counts(value)) for name, value in plain.items()),
        ]
    )
    for rows in tables.values():
        columns = list(next(iter(rows.values())))
        emit_table(
            ("", *map(_words, columns)),
            [(key, *(row.get(column) for column in columns)) for key, row in rows.items()],
            empty="",
        )
    try:
        if yields := run_reports.yields_of_run(run):
            _emit_yields(yields)
    except ReportError as exc:
        talk(str(exc))


def _rows(value: object) -> Mapping[str, Mapping[str, object]] | None:
    """`value` where it is a table: an object of objects that hold no further ones."""
    if not isinstance(value, Mapping) or not value:
        return None
    rows = list(value.values())
    is_flat = all(
        isinstance(row, Mapping) and not any(isinstance(one, Mapping) for one in row.values()) for row in rows
    )
    return value if is_flat else None


def _emit_yields(yields: Mapping[VariantTypeKey, GenerationYield]) -> None:
    """What became of a generation's requests, by variant type; below it why, where there is a reason."""
    emit_table(
        ("type", *_YIELD_COLUMNS),
        [(key, *(getattr(of_type, name) for name in _YIELD_COLUMNS)) for key, of_type in yields.items()],
        empty="nothing was requested",
    )
    for key, of_type in yields.items():
        for reason, times in of_type.unsupported_reasons.most_common():
            talk(f"{key}: {reason} ({times})")
        for check, times in of_type.failed_checks.most_common():
            talk(f"{key}: {_words(check)} failed {times} times")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _counts(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    return ", ".join(f"{_words(name)} {_counts(one)}" for name, one in value.items()) or None


def _progress(run: Run) -> str:
    return f"{run.done}/{run.total}" if run.total is not None else str(run.done)

"""How commands answer: values as tables or as JSON on stdout, talk and progress on stderr."""

import json
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Final

import typer
from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from data.errors import JobCancelledError, JobError
from data.records import Run
from ui.commands.line import Line
from ui.desk.usecases import runs

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="Maximum rows.")]

_POLL_S: Final = 0.1
_WHOLE_CELL_CHARACTERS: Final = 60


def talk(text: str) -> None:
    """To the person, on stderr."""
    typer.echo(text, err=True)


def emit_json(value: object) -> None:
    """A dataclass, or a list of them, on stdout."""
    plain = TypeAdapter(type(value)).dump_python(value, mode="json")
    typer.echo(json.dumps(plain, ensure_ascii=False, indent=2))


def emit_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str, whole_cells: bool = False
) -> None:
    """Rows on stdout, long texts cut unless `whole_cells`; `empty` on stderr where there are none."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value, whole=whole_cells)) for value in row))
    if not table.row_count:
        talk(empty)
        return
    # Without a terminal rich would fold to 80 columns, and a script that reads lines would get halves.
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 400, highlight=False).print(table)


def emit_facts(facts: Iterable[tuple[str, object]]) -> None:
    """One `name: value` per line on stdout."""
    pairs = [(name, cell(value, whole=True)) for name, value in facts]
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        typer.echo(f"{name:<{width}}  {value}")


def cell(value: object, *, whole: bool = False) -> str:
    """A value in one line; texts are cut unless `whole`."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, tuple | list):
        return ", ".join(cell(one, whole=True) for one in value)
    # Control characters of an imported text must not steer the terminal.
    text = "".join(" " if one in "\n\r\t" else one if one.isprintable() else f"\\x{ord(one):02x}" for one in str(value))
    return text if whole or len(text) <= _WHOLE_CELL_CHARACTERS else text[: _WHOLE_CELL_CHARACTERS - 1] + "…"


def wait_for(line: Line, run: Run) -> Run:
    """Follow a run, and what it is followed by, to the end, with a bar on stderr; one that is away is not waited for.

    Raises:
        JobError: it failed or was lost; says where to look.
        JobCancelledError: somebody cancelled it.
    """
    line.follow_jobs()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(run.kind, total=None, count="")
        try:
            while run.state in ("queued", "running"):
                time.sleep(_POLL_S)
                run = line.call(runs.show_run, run_id=run.run_id)
                count = f"{run.done}/{run.total}" if run.total is not None else str(run.done or "")
                bar.update(
                    task,
                    description=f"{run.kind} {cell(run.message or run.state)}",
                    completed=run.done,
                    total=run.total,
                    count=count,
                )
        except KeyboardInterrupt:
            if line.is_remote:
                talk(f"{run.run_id} continues in the desk; stop it with `sagedesk run cancel {run.run_id}`")
            else:
                line.call(runs.cancel_run, run_id=run.run_id)
                talk(f"{run.run_id} was asked to stop; continue it with `sagedesk run resume {run.run_id}`")
            raise
    if run.state == "away":
        talk(f"{run.run_id} is for a worker; take it there with `sagedesk run export {run.run_id} DIR`")
        return run
    if run.state == "cancelled":
        raise JobCancelledError(f"run {run.run_id} was cancelled; continue it with `sagedesk run resume {run.run_id}`")
    if run.state != "done":
        raise JobError(f"run {run.run_id} {run.state}: {run.message}; see `sagedesk run log {run.run_id}`")
    follower = run.result.get("followed_by")
    if isinstance(follower, str):
        wait_for(line, line.call(runs.show_run, run_id=follower))
    return run

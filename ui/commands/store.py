"""`sagedesk store ...`: the file that holds everything."""

from pathlib import Path
from typing import Annotated

import typer

from ui.commands.line import open_line
from ui.commands.output import AsJson, emit_facts, emit_json
from ui.desk.settings import read_settings
from ui.desk.usecases import overview

app = typer.Typer(help="The store (the desk's database).", no_args_is_help=True)


@app.command()
def backup(
    to: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="A new file, or a folder to put it in.")],
    as_json: AsJson = False,
) -> None:
    """Write a complete copy of the store; the desk may be running."""
    with open_line(read_settings()) as line:
        made = line.call(overview.back_up, to=to.absolute())
    emit_json(made) if as_json else emit_facts([("file", made.file), ("bytes", made.size_bytes)])

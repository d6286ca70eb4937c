"""`sagedesk queue ...`: what waits for people."""

import typer

from ui.commands.line import open_line
from ui.commands.output import AsJson, emit_facts, emit_json
from ui.desk.settings import read_settings
from ui.desk.usecases import review

app = typer.Typer(help="The review queue.", no_args_is_help=True)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show how many variants are waiting for review and how many have been answered."""
    with open_line(read_settings()) as line:
        found = line.call(review.queue_status)
    if as_json:
        emit_json(found)
        return
    emit_facts([("in the queue", found.total), ("answered", found.done), ("blind share", found.blind_share)])

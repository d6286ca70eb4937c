"""The tree of commands, `sagedesk NOUN VERB`: one module a noun, put together here."""

from typing import Annotated

import typer

from ui.commands import account, desk, model, overview, question, queue, release, run, store, sync, variant
from ui.desk.settings import read_settings

app = typer.Typer(
    name="sagedesk",
    help="Turns a memorised benchmark into one that tests understanding: generate, verify, review, release.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for noun in (question, variant, run, queue, sync, release, account, model, overview, store):
    app.add_typer(noun.app, name=noun.__name__.rpartition(".")[2])
app.command("up")(desk.up)
app.command("doctor")(desk.doctor_)
app.command("settings")(desk.settings_)


def _print_version(is_wanted: bool) -> None:
    from ui.desk.wiring import code_version

    if is_wanted:
        typer.echo(code_version())
        raise typer.Exit


@app.callback()
def configure(
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Before every command."""
    from ui.desk.wiring import configure_logging

    configure_logging(read_settings(), is_command=True)

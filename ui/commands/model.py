"""`sagedesk model ...`: generators and verifiers."""

from typing import Annotated

import typer

from ui.commands.line import open_line
from ui.commands.output import AsJson, emit_facts, emit_json, emit_table, talk, wait_for
from ui.commands.run import Wait, emit_run
from ui.settings import read_settings
from ui.usecases import models

app = typer.Typer(help="Models: generators and verifiers.", no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the models at hand, and which is the champion."""
    with open_line(read_settings()) as line:
        found = line.call(models.list_models)
    if as_json:
        emit_json(found)
        return
    emit_table(
        ("model", "role", "version", "kind", "champion", "at hand", "folder"),
        [(it.model_id or "-", it.role, it.version, it.kind, it.is_champion, it.is_at_hand, it.folder) for it in found],
        empty="no models yet; `sagedesk model fetch` fetches the embedded ones",
    )


@app.command()
def promote(
    model_id: Annotated[str, typer.Argument(metavar="MODEL", help="A verifier's id, as `model list` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Make a registered verifier the champion."""
    with open_line(read_settings()) as line:
        promoted = line.call(models.promote_verifier, model_id=model_id)
    emit_json(promoted) if as_json else emit_facts([("champion", promoted.version), ("folder", promoted.folder)])


@app.command()
def fetch(as_json: AsJson = False) -> None:
    """Fetch the embedded models into the cache; those that are there are left alone."""
    fetched = models.fetch_embedded(talk)
    emit_json(fetched) if as_json else emit_facts([(it.name, it.folder) for it in fetched])


@app.command()
def train(
    seed: Annotated[int, typer.Option(help="The same seed and labels train the same verifier.")] = 0,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Train a feature verifier on the sample labels; the first becomes the champion, a later one the challenger."""
    with open_line(read_settings()) as line:
        run = line.call(models.train_verifier, seed=seed)
        if wait:
            run = wait_for(line, run)
    emit_json(run) if as_json else emit_run(run)

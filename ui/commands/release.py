"""`sagedesk release ...`: frozen, numbered, provable sets of variants."""

from typing import Annotated

import typer

from data.errors import ReleaseError
from ui.commands.line import open_line
from ui.commands.output import AsJson, emit_facts, emit_json, emit_table
from ui.desk.settings import read_settings
from ui.desk.usecases import releases

app = typer.Typer(help="Releases: frozen sets of accepted variants.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The release's name.")]


@app.command()
def create(name: Name, as_json: AsJson = False) -> None:
    """Freeze all accepted variants into a folder that `datasets` can load."""
    with open_line(read_settings()) as line:
        detail = line.call(releases.create_release, name=name)
    _emit_detail(detail, as_json=as_json)


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show what a release contains and where it is."""
    with open_line(read_settings()) as line:
        detail = line.call(releases.show_release, name=name)
    _emit_detail(detail, as_json=as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List releases, newest first."""
    with open_line(read_settings()) as line:
        found = line.call(releases.list_releases)
    if as_json:
        emit_json(found)
        return
    emit_table(
        ("release", "number", "items", "by", "created", "folder"),
        [(it.name, it.number, it.items, it.created_by, it.created_at, it.folder) for it in found],
        empty="no releases yet; `sagedesk release create NAME` makes the first",
    )


@app.command()
def verify(name: Name, as_json: AsJson = False) -> None:
    """Check that a release's files are unchanged; exit status 1 if they are not."""
    with open_line(read_settings()) as line:
        proof = line.call(releases.verify_release, name=name)
    if as_json:
        emit_json(proof)
    if not proof.is_intact:
        raise ReleaseError(f"release {name!r} has been changed: {'; '.join(proof.problems)}")
    if not as_json:
        emit_facts([("release", proof.name), ("folder", proof.folder), ("intact", proof.is_intact)])


def _emit_detail(detail: releases.ReleaseDetail, *, as_json: bool) -> None:
    if as_json:
        emit_json(detail)
        return
    emit_facts(
        [
            ("release", detail.release.name),
            ("number", detail.release.number),
            ("folder", detail.release.folder),
            ("variants", detail.variants),
            ("questions", detail.questions),
            *detail.by_type.items(),
            ("verified by", detail.verifier_versions),
            ("manifest", detail.release.manifest_sha256),
        ]
    )

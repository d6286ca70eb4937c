"""`sagedesk up`, `sagedesk doctor`, `sagedesk settings`: the desk itself."""

import json
import os

import typer
from pydantic_core import to_jsonable_python

from data.errors import SagedeskError
from ui.commands.line import open_line, running_desk
from ui.commands.output import AsJson, emit_facts, emit_json, emit_table, talk
from ui.desk import environment
from ui.desk.environment import Finding
from ui.desk.settings import read_settings
from ui.desk.usecases import doctor


def up() -> None:
    """Start Label Studio and the desk and print a sign-in link; Ctrl-C stops everything."""
    from ui.commands.up.start import main

    raise typer.Exit(main(read_settings(), os.environ, report=talk, answer=typer.echo))


def doctor_(as_json: AsJson = False) -> None:
    """Check the environment, store, Label Studio and models; exit status 1 if a check fails."""
    settings = read_settings()
    running = running_desk(settings)
    findings = environment.examine_environment(settings, desk_url=None if running is None else running.url)
    if running is None and not settings.store_file.exists():
        findings.append(Finding("store", "ok", "none yet; `make up` creates one with a sample project"))
    else:
        try:
            with open_line(settings, with_label_studio=True) as line:
                findings += line.call(doctor.diagnose, is_serving=line.is_remote)
        except SagedeskError as exc:
            findings.append(Finding("store" if running is None else "desk", "fail", str(exc)))
    if as_json:
        emit_json(findings)
    else:
        emit_table(
            ("", "check", "state", "advice"),
            [(it.level, it.subject, it.detail, it.advice) for it in findings],
            empty="",
            whole_cells=True,
        )
    if any(finding.level == "fail" for finding in findings):
        raise typer.Exit(1)


def settings_(as_json: AsJson = False) -> None:
    """Print the current settings with their environment variables; keys are hidden."""
    settings = read_settings()
    values = {
        name: "(set)" if value is not None and "key" in name else value for name, value in settings.model_dump().items()
    }
    if as_json:
        typer.echo(json.dumps(to_jsonable_python(values), indent=2))
        return
    emit_facts(
        (
            field.validation_alias if isinstance(field.validation_alias, str) else f"SAGEDESK_{name.upper()}",
            values[name],
        )
        for name, field in type(settings).model_fields.items()
    )

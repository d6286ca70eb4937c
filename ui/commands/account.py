"""`sagedesk account ...`: the people of the desk."""

from typing import Annotated

import typer

from data.records import Role
from ui.commands.line import open_line, running_desk
from ui.commands.output import AsJson, emit_facts, emit_json, emit_table, talk
from ui.desk.settings import read_settings
from ui.desk.usecases import accounts

app = typer.Typer(help="Accounts: annotators and leads.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The account's name.")]


@app.command()
def add(
    name: Name,
    role: Annotated[Role, typer.Option(help="What the person may do.")] = "annotator",
    display_name: Annotated[str, typer.Option(help="The name that others see.")] = "",
    as_json: AsJson = False,
) -> None:
    """Add a person and print their one-time sign-in link."""
    with open_line(read_settings()) as line:
        link = line.call(accounts.add_account, name=name, role=role, display_name=display_name)
    _emit_link(link, as_json=as_json)


@app.command()
def link(name: Name, as_json: AsJson = False) -> None:
    """Print a new one-time sign-in link."""
    with open_line(read_settings()) as line:
        made = line.call(accounts.make_link, name=name)
    _emit_link(made, as_json=as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List accounts by name."""
    with open_line(read_settings()) as line:
        found = line.call(accounts.list_accounts)
    if as_json:
        emit_json(found)
        return
    emit_table(
        ("name", "display name", "role", "active", "password set", "created"),
        [(it.name, it.display_name, it.role, it.is_active, it.has_password, it.created_at) for it in found],
        empty="no accounts yet; `sagedesk account add NAME --role lead` creates the first",
    )


@app.command()
def close(name: Name, as_json: AsJson = False) -> None:
    """Close an account: end its sessions and refuse sign-ins; its labels are kept."""
    _set_active(name, is_active=False, as_json=as_json)


@app.command()
def reopen(name: Name, as_json: AsJson = False) -> None:
    """Reopen a closed account."""
    _set_active(name, is_active=True, as_json=as_json)


def _set_active(name: str, *, is_active: bool, as_json: bool) -> None:
    with open_line(read_settings()) as line:
        account = line.call(accounts.set_active, name=name, is_active=is_active)
    emit_json(account) if as_json else emit_facts([("account", account.name), ("active", account.is_active)])


def _emit_link(link: accounts.SignInLink, *, as_json: bool) -> None:
    if as_json:
        emit_json(link)
        return
    settings = read_settings()
    running = running_desk(settings)
    talk(f"valid once, until {link.expires_at:%Y-%m-%d %H:%M} UTC:")
    typer.echo(f"{f'http://{settings.host}:{settings.port}' if running is None else running.url}{link.path}")

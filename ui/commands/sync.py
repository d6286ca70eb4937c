"""`sagedesk sync ...`: the exchange with Label Studio."""

import typer

from ui.commands.line import open_line
from ui.commands.output import AsJson, emit_facts, emit_json
from ui.desk.settings import read_settings
from ui.desk.sync_status import SyncStatus
from ui.desk.usecases import sync

app = typer.Typer(help="The sync with Label Studio.", no_args_is_help=True)


@app.command()
def now(as_json: AsJson = False) -> None:
    """Push waiting labels, pull new ones, and compare both sides."""
    with open_line(read_settings(), with_label_studio=True) as line:
        status = line.call(sync.sync_now)
    _emit(status, as_json=as_json)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show when labels were last exchanged and how many are waiting."""
    with open_line(read_settings(), with_label_studio=True) as line:
        found = line.call(sync.sync_status)
    _emit(found, as_json=as_json)


def _emit(status: SyncStatus, *, as_json: bool) -> None:
    if as_json:
        emit_json(status)
        return
    emit_facts(
        [
            ("configured", status.is_configured),
            ("server", status.server),
            ("project", status.project_url),
            ("last read", status.last_delta_at),
            ("last full comparison", status.last_sweep_at),
            ("out of sync since", status.stale_since),
            ("last error", status.last_error),
            ("labels to push", status.outbox_open),
            ("in quarantine", status.quarantined),
            ("label config changed in Label Studio", status.is_config_changed),
            *status.counts.items(),
        ]
    )

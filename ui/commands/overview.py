"""`sagedesk overview ...`: how far the work has come."""

import typer

from ui.commands.line import open_line
from ui.commands.output import AsJson, emit_facts, emit_json, emit_table
from ui.desk.settings import read_settings
from ui.desk.usecases import overview

app = typer.Typer(help="The state of the work at a glance.", no_args_is_help=True)


@app.command()
def show(as_json: AsJson = False) -> None:
    """Show the funnel, yields by variant type, open work and the state of the sync."""
    with open_line(read_settings(), with_label_studio=True) as line:
        found = line.call(overview.overview)
    if as_json:
        emit_json(found)
        return
    funnel, backlog = found.funnel, found.backlog
    emit_facts(
        [
            ("questions", funnel.questions),
            ("variants generated", funnel.generated),
            ("passed contract", funnel.contract_passed),
            ("verified", funnel.verified),
            ("not verified yet", found.unverified),
            ("reviewed", funnel.reviewed),
            ("accepted", funnel.accepted),
            ("released", funnel.released),
            ("waiting for review", backlog.unanswered),
            ("labels to push", backlog.outbox_open),
            ("in quarantine", backlog.quarantined),
            ("open runs", found.runs_open),
            ("out of sync since", found.sync.stale_since),
        ]
    )
    emit_table(
        ("type", "generated", "passed contract", "judged valid", "accepted", "rejected"),
        [
            (it.variant_type, it.generated, it.contract_passed, it.judged_valid, it.accepted, it.rejected)
            for it in found.yields
        ],
        empty="no variants yet; `sagedesk variant generate` makes some",
    )

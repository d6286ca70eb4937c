"""Finds finished comparisons of two verifiers among the runs."""

from typing import Final, NamedTuple

from data.records import RunId
from data.store import Connection
from data.tables.runs import RunTable
from training.gate_report import GateReport
from ui.desk.run_reports import gate_of_run

# A challenger's comparison is looked for among the newest of these; one is made for each training.
_GATES_LOOKED_AT: Final = 500


class Gate(NamedTuple):
    """A finished comparison."""

    run_id: RunId
    champion_id: str
    challenger_id: str
    report: GateReport


def standing_gate(connection: Connection, challenger_id: str, champion_id: str | None) -> Gate | None:
    """The newest finished comparison of the challenger, with this champion where one is given.

    Raises:
        ReportError: its report cannot be read; an older one says nothing of it.
    """
    for run in RunTable(connection).newest(limit=_GATES_LOOKED_AT, kind="gate-verifier", state="done"):
        compared = run.settings.get("challenger_id"), run.settings.get("champion_id")
        if compared[0] != challenger_id or (champion_id is not None and compared[1] != champion_id):
            continue
        if (report := gate_of_run(run)) is not None:
            return Gate(run.run_id, str(compared[1]), challenger_id, report)
    return None

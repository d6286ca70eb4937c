"""Finished comparisons of two verifiers, found again among the runs."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from data.records import RunId
from data.store import Connection
from data.tables.runs import RunTable

# Comparisons are looked for among so many of the newest; one is made for each training.
_GATES_LOOKED_AT: Final = 500


class Gate(NamedTuple):
    """A finished comparison: `report` is `training.gate`'s JSON."""

    run_id: RunId
    champion_id: str
    challenger_id: str
    report: Mapping[str, object]

    @property
    def outcome(self) -> str:
        return str(self.report.get("outcome", ""))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, in words."""
        found = self.report.get("reasons")
        return tuple(map(str, found)) if isinstance(found, list | tuple) else ()


def standing_gate(connection: Connection, challenger_id: str, champion_id: str | None) -> Gate | None:
    """The newest finished comparison of the challenger, with this champion where one is given."""
    for run in RunTable(connection).newest(limit=_GATES_LOOKED_AT, kind="gate-verifier", state="done"):
        compared = run.settings.get("challenger_id"), run.settings.get("champion_id")
        report = run.result.get("gate")
        if compared[0] != challenger_id or (champion_id is not None and compared[1] != champion_id):
            continue
        if isinstance(report, Mapping):
            return Gate(run.run_id, str(compared[1]), challenger_id, report)
    return None

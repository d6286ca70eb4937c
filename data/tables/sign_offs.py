"""Sign-offs: who put which model into use, on what evidence, with which note. Append-only."""

from datetime import datetime
from typing import Final

from data.records import ModelRole, RunId, SignOff, SignOffAction
from data.store import Connection

_COLUMNS: Final = "sign_off_id, role, action, model_id, previous_id, run_id, outcome, note, signed_by, signed_at"


class SignOffTable:
    """Reads and writes `sign_off` on the given connection; the caller owns the transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(
        self,
        *,
        role: ModelRole,
        action: SignOffAction,
        model_id: str | None,
        previous_id: str | None,
        run_id: RunId | None,
        outcome: str,
        note: str,
        signed_by: str,
        signed_at: datetime,
    ) -> SignOff:
        rows = self._connection.execute(
            "INSERT INTO sign_off (role, action, model_id, previous_id, run_id, outcome, note, signed_by, signed_at) "
            f"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING {_COLUMNS}",
            [role, action, model_id, previous_id, run_id, outcome, note, signed_by, signed_at],
        ).fetchall()
        return SignOff(*rows[0])

    def of_role(self, role: ModelRole) -> list[SignOff]:
        """Newest first."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM sign_off WHERE role = ? ORDER BY sign_off_id DESC", [role]
        ).fetchall()
        return [SignOff(*row) for row in rows]

    def of_model(self, model_id: str) -> list[SignOff]:
        """Sign-offs that put the model into use or replaced it, newest first."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM sign_off WHERE model_id = $model_id OR previous_id = $model_id "
            "ORDER BY sign_off_id DESC",
            {"model_id": model_id},
        ).fetchall()
        return [SignOff(*row) for row in rows]

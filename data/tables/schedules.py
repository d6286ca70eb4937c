"""When a role's training is due, as set by leads; one row per role. Does not say whether it is due now."""

from typing import Final

from data.records import ModelRole, Schedule
from data.store import Connection

_COLUMNS: Final = "role, after_decisions, weekday, hour, may_start, updated_by, updated_at"


class ScheduleTable:
    """Reads and writes `schedule` on the given connection; the caller owns the transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, schedule: Schedule) -> None:
        """Replaces the role's earlier schedule."""
        self._connection.execute(
            f"INSERT OR REPLACE INTO schedule ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                schedule.role,
                schedule.after_decisions,
                schedule.weekday,
                schedule.hour,
                schedule.may_start,
                schedule.updated_by,
                schedule.updated_at,
            ],
        )

    def find(self, role: ModelRole) -> Schedule | None:
        """None while none is set."""
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM schedule WHERE role = ?", [role]).fetchall()
        return Schedule(*rows[0]) if rows else None

    def all(self) -> list[Schedule]:
        """Sorted by role."""
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM schedule ORDER BY role").fetchall()
        return [Schedule(*row) for row in rows]

"""Settings that leads make for the whole desk (blind share, queue seed, guidelines version), and who made them."""

import json
from datetime import datetime
from typing import TypeVar

from data.errors import StoreError
from data.store import Connection

Value = TypeVar("Value", bool, int, float, str)


class PolicyTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, name: str, default: Value) -> Value:
        """The latest value, which has the type of `default`; `default` while none is set.

        Raises:
            StoreError: the stored value has another type.
        """
        rows = self._connection.execute("SELECT value FROM policy WHERE name = ?", [name]).fetchall()
        if not rows:
            return default
        value = json.loads(rows[0][0])
        if isinstance(default, float) and type(value) is int:
            value = float(value)
        if type(value) is not type(default):
            raise StoreError(f"policy {name!r} is {value!r}, but must be a {type(default).__name__}; set it again")
        return value

    def set(self, name: str, value: bool | int | float | str, by: str, now: datetime) -> None:
        self._connection.execute(
            "INSERT INTO policy (name, value, updated_by, updated_at) VALUES ($name, $value, $by, $now) "
            "ON CONFLICT (name) DO UPDATE SET value = $value, updated_by = $by, updated_at = $now",
            {"name": name, "value": json.dumps(value), "by": by, "now": now},
        )

"""One row of an answer. Never leaves a result half read: that blocks the connection's next registration."""

from typing import Any

from data.store import Connection


def first_row(connection: Connection, sql: str, parameters: object = None) -> tuple[Any, ...] | None:
    """None where there is no row."""
    rows = connection.execute(sql, parameters).fetchall()
    return rows[0] if rows else None

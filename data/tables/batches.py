"""Whole batches in and out of a table: Arrow in, one statement; row by row is 70 to 500 times slower here.

Knows no particular table: the caller names the key and the order. Duplicates inside a batch are dropped first, because
with two versions of a key in one batch, a plain ON CONFLICT silently keeps the first.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from data.store import Connection

_POSITION: Final = "batch_position"


def insert_missing(connection: Connection, table: str, batch: pa.Table, *, key: Sequence[str]) -> int:
    """Insert the rows whose key is new; of equal keys in the batch, the first counts. Returns how many were new."""
    return _insert(connection, table, batch, key, order=f"{_POSITION} ASC", on_conflict="DO NOTHING")


def upsert(
    connection: Connection, table: str, batch: pa.Table, *, key: Sequence[str], newest: Sequence[str] = ()
) -> int:
    """Insert, or replace the row with the same key; returns how many rows were inserted or replaced.

    `newest` names the columns whose greatest tuple wins, in the batch and against the stored row (an equal tuple
    changes nothing), so that batches may arrive in any order and more than once. Without it, the last row wins.
    """
    others = [name for name in batch.schema.names if name not in key]
    assignments = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in others)
    action = f"DO UPDATE SET {assignments}"
    if newest:
        incoming = ", ".join(f"excluded.{_quoted(name)}" for name in newest)
        stored = ", ".join(f"target.{_quoted(name)}" for name in newest)
        action += f" WHERE ({incoming}) > ({stored})"
    order = ", ".join([f"{_quoted(name)} DESC" for name in newest] + [f"{_POSITION} DESC"])
    return _insert(connection, table, batch, key, order=order, on_conflict=action)


def fetch_table(connection: Connection, sql: str, parameters: Mapping[str, object], schema: pa.Schema) -> pa.Table:
    """A query's rows as Arrow, with the columns and types of `schema`."""
    table: pa.Table = connection.sql(sql, params=dict(parameters)).to_arrow_table()
    return table.select(schema.names).cast(schema)


def _insert(
    connection: Connection, table: str, batch: pa.Table, key: Sequence[str], *, order: str, on_conflict: str
) -> int:
    if batch.num_rows == 0:
        return 0
    columns = ", ".join(map(_quoted, batch.schema.names))
    keys = ", ".join(map(_quoted, key))
    numbered = batch.append_column(_POSITION, pa.array(np.arange(batch.num_rows)))
    connection.register("incoming_batch", numbered)
    try:
        counted = connection.execute(
            f"INSERT INTO {_quoted(table)} AS target ({columns}) "
            f"SELECT {columns} FROM incoming_batch "
            f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order}) = 1 "
            f"ON CONFLICT ({keys}) {on_conflict}"
        ).fetchall()
    finally:
        connection.unregister("incoming_batch")
    return int(counted[0][0])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

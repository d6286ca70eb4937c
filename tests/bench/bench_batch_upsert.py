"""Synced labels, as a delta from Label Studio brings them: one batch upsert beside one upsert a row."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa

from data.store import Connection, Store
from data.tables.batches import upsert

NAME: Final = "applying 10k synced labels in a batch"
BESIDE: Final = "row by row upsert"
BAR: Final = ">= 200x"

LABELS: Final = 10_000
ROWS_ONE_BY_ONE: Final = 200  # measured and scaled up: ten thousand would take minutes

_KEY: Final = ("annotation_id", "revision")
_NEWEST: Final = ("updated_at", "is_deleted", "content_hash")
_START: Final = datetime(2026, 3, 1, tzinfo=UTC)


def measure(run: int) -> tuple[float, float]:
    """Seconds for all labels, in one batch and row by row, half of them new and half newer versions of stored ones."""
    stored, incoming = labels(run, LABELS // 2, minute=0), labels(run, LABELS, minute=1)
    every_nth = incoming.take(list(range(0, LABELS, LABELS // ROWS_ONE_BY_ONE)))
    batch_s = _seconds(stored, incoming, _in_a_batch)
    row_by_row_s = _seconds(stored, every_nth, _row_by_row)
    return batch_s, row_by_row_s * LABELS / ROWS_ONE_BY_ONE


def labels(run: int, count: int, *, minute: int) -> pa.Table:
    """Rows of `annotation`, all of version `minute`."""
    stamp = pa.array([_START + timedelta(minutes=minute)] * count, pa.timestamp("us", tz="UTC"))
    numbers = range(count)
    return pa.table(
        {
            "annotation_id": [f"a_{run}_{number}" for number in numbers],
            "revision": pa.array([1] * count, pa.int32()),
            "variant_id": [f"v_{number}" for number in numbers],
            "annotator": [f"annotator{number % 7}@example.org" for number in numbers],
            "updated_by": ["annotator@example.org"] * count,
            "tc": [number % 2 == 0 for number in numbers],
            "lc": [number % 3 == 0 for number in numbers],
            "au": [True] * count,
            "comment": ["the second option also fits"] * count,
            "is_flagged": [False] * count,
            "is_skipped": [False] * count,
            "is_deleted": [False] * count,
            "is_blind": [number % 3 == 0 for number in numbers],
            "origin": ["label_studio"] * count,
            "ls_server": ["http://127.0.0.1:8080"] * count,
            "ls_task_id": list(numbers),
            "ls_annotation_id": list(numbers),
            "config_hash": ["c"] * count,
            "guidelines_version": ["1"] * count,
            "created_at": stamp,
            "updated_at": stamp,
            "content_hash": [f"{minute}-{number}" for number in numbers],
        }
    )


def _seconds(stored: pa.Table, incoming: pa.Table, apply: Callable[[Connection, pa.Table], None]) -> float:
    """In one transaction of a fresh store in memory that holds `stored`."""
    store = Store.in_memory(now=lambda: _START)
    with store.write() as connection:
        _in_a_batch(connection, stored)
        started = time.perf_counter()
        apply(connection, incoming)
        seconds = time.perf_counter() - started
        found = connection.execute("SELECT count(*) FROM annotation WHERE content_hash LIKE '1-%'").fetchall()[0][0]
    store.close()
    if found != incoming.num_rows:
        raise AssertionError(f"{incoming.num_rows} labels were applied, {found} are stored")
    return seconds


def _in_a_batch(connection: Connection, batch: pa.Table) -> None:
    upsert(connection, "annotation", batch, key=_KEY, newest=_NEWEST)


def _row_by_row(connection: Connection, batch: pa.Table) -> None:
    """The same rule as plain SQL with parameters, a statement a row."""
    columns = batch.schema.names
    assignments = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in _KEY)
    incoming, stored = (", ".join(f"{side}.{name}" for name in _NEWEST) for side in ("excluded", "target"))
    statement = (
        f"INSERT INTO annotation AS target ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {assignments} WHERE ({incoming}) > ({stored})"
    )
    for row in batch.to_pylist():
        connection.execute(statement, list(row.values()))

"""Runs a step over rows in this process, batch by batch, saving each batch as a part file. Refuses to share a folder.

A part's name contains a hash of the step's name and version and of each row's id and content, so that a restarted run
repeats at most the batch that was interrupted; changed rows or steps are recomputed.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from data.files import whole_file

logger = logging.getLogger(__name__)

ReportProgress = Callable[[int, int], None]
"""(rows done, total rows), called after each batch; may raise to stop the run."""


class Step(Protocol):
    """A pure table-to-table function with a name and a version; `setup` runs once per worker, before the first call.

    The version covers everything that affects the output: model, prompts, settings.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def setup(self) -> None: ...

    def __call__(self, rows: pa.Table) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """`batch_rows`: rows between saves, cancellation checks and progress reports."""

    batch_rows: int = 32

    def run(self, step: Step, rows: pa.Table, parts: Path, report_progress: ReportProgress) -> Iterator[pa.Table]:
        """The step's tables, one per batch, in the order of `rows`.

        Args:
            rows: must have a string column `row_id`, unique within the table.
            parts: folder of the part files, created if absent; nobody else may write there.

        Raises:
            OSError: a part cannot be written.
        """
        parts.mkdir(parents=True, exist_ok=True)
        for leftover in parts.glob("*.tmp"):
            leftover.unlink()
        is_set_up = False
        for start in range(0, rows.num_rows, self.batch_rows):
            batch = rows.slice(start, self.batch_rows)
            file = parts / f"{start:09d}-{_batch_key(step, batch)}.parquet"
            done = _read_part(file)
            if done is None:
                if not is_set_up:
                    step.setup()
                    is_set_up = True
                done = step(batch)
                with whole_file(file) as temporary:
                    pq.write_table(done, temporary)
            yield done
            report_progress(min(start + self.batch_rows, rows.num_rows), rows.num_rows)


def _batch_key(step: Step, batch: pa.Table) -> str:
    digest = hashlib.sha256(json.dumps([step.name, step.version]).encode())
    for row in batch.to_pylist():
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=True, default=str).encode() + b"\n")
    return digest.hexdigest()[:20]


def _read_part(file: Path) -> pa.Table | None:
    """None if the part is absent or was truncated by a machine crash."""
    if not file.exists():
        return None
    try:
        return pq.read_table(file)
    except (pa.ArrowException, OSError) as exc:
        logger.warning("part %s cannot be read (%s); its batch will be repeated", file, exc)
        return None

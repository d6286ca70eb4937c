"""Runs a step over rows in this process, batch by batch, each batch kept as a part file. Refuses to share a folder.

A part's name holds a hash over the step's name and version and over each row's id and content, so that an interrupted
run, started again, repeats at most the batch that it was in; rows or a step that changed are done anew.
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
"""(rows done, rows in all), after each batch; may raise to stop the run."""


class Step(Protocol):
    """A pure table-to-table function with a name and a version; `setup` once a worker, before the first call.

    The version covers all that changes its output: model, prompts, settings.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def setup(self) -> None: ...

    def __call__(self, rows: pa.Table) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """`batch_rows`: rows between two saves, two looks at a cancel, and two lines of progress."""

    batch_rows: int = 32

    def run(self, step: Step, rows: pa.Table, parts: Path, report_progress: ReportProgress) -> Iterator[pa.Table]:
        """The step's tables, one a batch, in the order of `rows`.

        Args:
            rows: has a column `row_id` of strings, unique within the table.
            parts: folder of the part files, made where absent; nobody else writes there.

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
    """None where the part is absent or, after a crash of the machine, cut short."""
    if not file.exists():
        return None
    try:
        return pq.read_table(file)
    except (pa.ArrowException, OSError) as exc:
        logger.warning("part %s is not readable (%s); its batch is done again", file, exc)
        return None

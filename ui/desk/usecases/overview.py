"""The overview, and the store's backup."""

from dataclasses import dataclass
from pathlib import Path

from data.errors import ConflictError
from data.tables.overview import Backlog, Funnel, OverviewTable, TypeFunnel
from data.tables.questions import QuestionTable
from data.tables.runs import RunTable
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.submissions import count_unverified
from ui.desk.sync_status import SyncStatus, status_from
from ui.desk.usecases.questions import Benchmark


@dataclass(frozen=True, slots=True)
class Overview:
    """A snapshot of progress, backlog and the Label Studio sync.

    `unverified` counts what `variant verify` would judge if there were one verifier.
    """

    funnel: Funnel
    unverified: int
    yields: tuple[TypeFunnel, ...]
    backlog: Backlog
    benchmarks: tuple[Benchmark, ...]
    runs_open: int
    sync: SyncStatus


@dataclass(frozen=True, slots=True)
class Backup:
    """A complete copy of the store."""

    file: str
    size_bytes: int


def overview(desk: Desk, actor: Actor) -> Overview:
    """Read-only; for everybody."""
    with desk.store.read() as connection:
        table = OverviewTable(connection)
        return Overview(
            funnel=table.funnel(),
            unverified=count_unverified(connection),
            yields=tuple(table.yields()),
            backlog=table.backlog(),
            benchmarks=tuple(Benchmark(name, count) for name, count in QuestionTable(connection).benchmarks()),
            runs_open=len(RunTable(connection).in_states(["queued", "running"])),
            sync=status_from(desk, connection),
        )


def back_up(desk: Desk, actor: Actor, *, to: Path) -> Backup:
    """Writes a consistent copy of the store while the desk keeps running.

    Raises:
        PermissionDeniedError, ConflictError (the target exists), StoreError (it cannot be written).
    """
    require_lead(desk, actor, "store.backup", str(to))
    target = to / f"sagedesk-{desk.now():%Y%m%d-%H%M%S}.duckdb" if to.is_dir() else to
    if target.exists():
        raise ConflictError(f"{target} already exists; name a new file, or a folder")
    desk.store.backup(target)
    audit(desk, actor, "store.backup", str(target))
    return Backup(str(target), target.stat().st_size)

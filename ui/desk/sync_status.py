"""How fresh the data from Label Studio is, and what is waiting to be sent there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from data.store import Connection
from data.tables.overview import OverviewTable
from data.tables.sync_state import SyncCursorTable
from ui.desk.context import Desk


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """`is_configured`: the desk has a Label Studio. `stale_since` is set while the sync fails.

    `counts` is the last sweep's parity report; `outbox_open` labels are saved here but not confirmed there yet.
    `is_config_changed`: the label config was changed there; labels that do not fit ours are quarantined.
    """

    is_configured: bool
    server: str | None
    project_url: str | None
    last_delta_at: datetime | None
    last_sweep_at: datetime | None
    stale_since: datetime | None
    last_error: str | None
    outbox_open: int
    quarantined: int
    is_config_changed: bool
    counts: Mapping[str, int]


def status_from(desk: Desk, connection: Connection) -> SyncStatus:
    """The status from the sync if there is one, otherwise from what the last one stored."""
    if desk.sync is not None:
        health = desk.sync.health()
        return SyncStatus(
            is_configured=True,
            server=health.url,
            project_url=health.project_url,
            last_delta_at=health.last_delta_at,
            last_sweep_at=health.last_sweep_at,
            stale_since=health.stale_since,
            last_error=health.last_error,
            outbox_open=health.outbox_open,
            quarantined=health.quarantine_open,
            is_config_changed=health.is_config_changed,
            counts=health.parity,
        )
    cursor = SyncCursorTable(connection).newest()
    backlog = OverviewTable(connection).backlog()
    return SyncStatus(
        is_configured=False,
        server=None,
        project_url=None,
        last_delta_at=None if cursor is None else cursor.last_delta_at,
        last_sweep_at=None if cursor is None else cursor.last_sweep_at,
        stale_since=None if cursor is None else cursor.stale_since,
        last_error=None if cursor is None else cursor.last_error,
        outbox_open=backlog.outbox_open,
        quarantined=backlog.quarantined,
        is_config_changed=False,
        counts={} if cursor is None else cursor.counts,
    )

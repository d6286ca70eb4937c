"""The Label Studio sync: is it up, how fresh is our data, what is waiting."""

from data.errors import SetupError
from data.tables.sync_state import QuarantineRow, QuarantineTable
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.sync_status import SyncStatus, status_from


def sync_status(desk: Desk, actor: Actor) -> SyncStatus:
    """From the store only, so that it works while Label Studio is down."""
    with desk.store.read() as connection:
        return status_from(desk, connection)


def sync_now(desk: Desk, actor: Actor) -> SyncStatus:
    """Pushes what is waiting, pulls what is new and compares both sides, now.

    Raises:
        PermissionDeniedError, SetupError (no Label Studio), LabelStudioError.
    """
    require_lead(desk, actor, "sync.now")
    if desk.sync is None:
        raise SetupError(
            "no Label Studio to sync with; start the desk with `make up`, or set LABEL_STUDIO_URL and "
            "LABEL_STUDIO_API_KEY"
        )
    desk.sync.run_once(with_sweep=True)
    audit(desk, actor, "sync.now", "")
    return sync_status(desk, actor)


def quarantined(desk: Desk, actor: Actor, *, limit: int = 200) -> list[QuarantineRow]:
    """What came from Label Studio but could not be used, newest first. Raises PermissionDeniedError."""
    require_lead(desk, actor, "sync.quarantine")
    with desk.store.read() as connection:
        return QuarantineTable(connection).open(limit)

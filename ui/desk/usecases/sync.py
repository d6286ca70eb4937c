"""Label Studio as a person sees it: is it there, how fresh is what we have, what waits."""

from data.errors import SetupError
from data.tables.sync_state import QuarantineRow, QuarantineTable
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.sync_status import SyncStatus, status_from


def sync_status(desk: Desk, actor: Actor) -> SyncStatus:
    """From the store alone: it answers while Label Studio does not."""
    with desk.store.read() as connection:
        return status_from(desk, connection)


def sync_now(desk: Desk, actor: Actor) -> SyncStatus:
    """Push what waits, pull what is new, compare both sides, now.

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
    """What came from Label Studio and does not fit, newest first. Raises PermissionDeniedError."""
    require_lead(desk, actor, "sync.quarantine")
    with desk.store.read() as connection:
        return QuarantineTable(connection).open(limit)

"""Reservations of queue items: their duration, taking and renewing them. A lease keeps two people off the same item."""

from datetime import datetime, timedelta
from typing import Final

from data.records import VariantId
from data.store import Connection
from data.tables.queue import LeaseTable

# Long enough to look something up, short enough that a closed laptop does not hide an item for the day.
LEASE_LIFETIME: Final = timedelta(minutes=10)


def take_lease(connection: Connection, variant_id: VariantId, account: str, *, now: datetime) -> datetime | None:
    """When the taken or renewed lease ends; None while another account has the item open."""
    expires_at = now + LEASE_LIFETIME
    if LeaseTable(connection).take(variant_id, account, now=now, expires_at=expires_at):
        return expires_at
    return None


def release_lease(connection: Connection, variant_id: VariantId, account: str) -> None:
    LeaseTable(connection).release(variant_id, account)

"""What every use case receives: the desk's parts and the acting user; and the role check."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from annotation.sync import LabelStudioSync
from data.errors import PermissionDeniedError
from data.records import Role
from data.store import Connection, Store
from data.tables.audit import AuditOutcome, AuditTable
from engine.jobs.reported import Reported
from ui.desk.runs.supervisor import Supervisor
from ui.desk.settings import Settings


@dataclass(frozen=True, slots=True)
class Actor:
    """The acting user. `name` is the account name, recorded in every audit row."""

    name: str
    role: Role


OPERATOR: Final = Actor("operator", "lead")
"""Whoever can read the state folder: the command line."""

SCHEDULE: Final = Actor("schedule", "lead")
"""The actor of trainings that the schedule starts, as far as leads allowed it."""


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts, wired once in `ui/desk/wiring.py`. `sync` is None if no Label Studio is configured."""

    settings: Settings
    store: Store
    supervisor: Supervisor
    sync: LabelStudioSync | None
    now: Callable[[], datetime]
    reported: Reported = field(default_factory=Reported)


def require_lead(desk: Desk, actor: Actor, action: str, subject: str = "") -> None:
    """Raises and audits the refusal unless the actor is a lead.

    Raises:
        PermissionDeniedError: `actor` is not a lead.
    """
    if actor.role == "lead":
        return
    audit(desk, actor, action, subject, outcome="denied")
    raise PermissionDeniedError(f"{action} is for leads, and {actor.name} is an {actor.role}; ask a lead")


def audit(
    desk: Desk,
    actor: Actor,
    action: str,
    subject: str,
    *,
    within: Connection | None = None,
    at: datetime | None = None,
    outcome: AuditOutcome = "done",
    **detail: object,
) -> None:
    """One audit row: in the transaction `within`, where what it records is written, else in one of its own.

    `at` is when it happened; now if None.
    """
    with nullcontext(within) if within is not None else desk.store.write() as connection:
        AuditTable(connection).add(
            happened_at=at or desk.now(),
            actor=actor.name,
            action=action,
            subject=subject,
            outcome=outcome,
            detail=detail,
        )

"""When a role's training is due: after a number of new decisions, or weekly. Never promotes anything.

Due trainings are proposed to leads; `ui.desk.scheduler` starts them if a lead allowed that. Every run of the role
counts from its start, however it ended: a failed run needs somebody's attention, not a repetition by schedule.
"""

from dataclasses import dataclass
from typing import Final

from data.errors import InputError
from data.records import MODEL_ROLES, ModelRole, Schedule
from data.tables.decisions import DecisionTable
from data.tables.runs import RunTable
from data.tables.schedules import ScheduleTable
from engine.jobs.kinds import TRAINING_KINDS
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.due import due_reason

MAX_DECISIONS: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Due:
    """A training that is due now, with the reason in words. `may_start`: the desk starts it by itself."""

    role: ModelRole
    reason: str
    may_start: bool


def list_schedules(desk: Desk, actor: Actor) -> list[Schedule]:
    """Sorted by role; a role without a schedule is only trained manually."""
    with desk.store.read() as connection:
        return ScheduleTable(connection).all()


def get_schedule(desk: Desk, actor: Actor, *, role: ModelRole) -> Schedule | None:
    """None while none is set. Raises InputError: no such role."""
    _check_role(role)
    with desk.store.read() as connection:
        return ScheduleTable(connection).find(role)


def set_schedule(
    desk: Desk,
    actor: Actor,
    *,
    role: ModelRole,
    after_decisions: int | None = None,
    weekday: int | None = None,
    hour: int | None = None,
    may_start: bool = False,
) -> Schedule:
    """Replaces the role's schedule; with neither condition its training is never due.

    Args:
        after_decisions: due after this number of new decisions since the role's last run.
        weekday: due weekly: 0 is Monday; requires `hour`, 0 to 23, in UTC.
        may_start: the desk starts it when due; otherwise it only proposes it.

    Raises:
        PermissionDeniedError, InputError.
    """
    require_lead(desk, actor, "schedule.set", role)
    _check_role(role)
    if after_decisions is not None and not 1 <= after_decisions <= MAX_DECISIONS:
        raise InputError(f"after {after_decisions} decisions: use 1 to {MAX_DECISIONS:,}")
    if (weekday is None) != (hour is None):
        raise InputError("give a weekday and an hour, or neither")
    if weekday is not None and hour is not None and not (0 <= weekday <= 6 and 0 <= hour <= 23):
        raise InputError(f"weekday {weekday}, hour {hour}: use 0 (Monday) to 6 and 0 to 23 (UTC)")
    schedule = Schedule(role, after_decisions, weekday, hour, may_start, actor.name, desk.now())
    with desk.store.write() as connection:
        ScheduleTable(connection).put(schedule)
    audit(
        desk,
        actor,
        "schedule.set",
        role,
        after_decisions=after_decisions,
        weekday=weekday,
        hour=hour,
        may_start=may_start,
    )
    return schedule


def due(desk: Desk, actor: Actor) -> list[Due]:
    """Trainings that are due and not already in progress, by role."""
    now = desk.now()
    found = []
    with desk.store.read() as connection:
        open_kinds = {run.kind for run in RunTable(connection).in_states(["queued", "running", "away"])}
        for schedule in ScheduleTable(connection).all():
            kind = TRAINING_KINDS[schedule.role]
            if kind in open_kinds:
                continue
            last = next(iter(RunTable(connection).newest(limit=1, kind=kind)), None)
            last_run_at = None if last is None else last.created_at
            decisions = DecisionTable(connection).count_since(last_run_at)
            reason = due_reason(schedule, last_run_at, decisions, now)
            if reason is not None:
                found.append(Due(schedule.role, reason, schedule.may_start))
    return found


def _check_role(role: str) -> None:
    if role not in MODEL_ROLES:
        raise InputError(f"role {role!r}: use one of {', '.join(MODEL_ROLES)}")

"""Why a role's training is due according to its schedule, in words. Pure."""

from datetime import datetime, timedelta
from typing import Final

from data.records import Schedule

_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def due_reason(schedule: Schedule, last_run_at: datetime | None, decisions_since: int, now: datetime) -> str | None:
    """Why a training is due, in words; None if it is not.

    Args:
        last_run_at: when the role's last run was started, whatever its outcome.
        decisions_since: decisions since then; all if there was no run.
    """
    wanted = schedule.after_decisions
    if wanted is not None and decisions_since >= wanted:
        since = "no run yet" if last_run_at is None else f"the last run of {last_run_at:%Y-%m-%d %H:%M} UTC"
        return f"{decisions_since:,} new decisions since {since}; due after {wanted:,}"
    if schedule.weekday is not None and schedule.hour is not None:
        slot = _last_slot(schedule.weekday, schedule.hour, now)
        # A time that had passed when the schedule was set, or for which a run was started, does not count.
        if slot > schedule.updated_at and (last_run_at is None or slot > last_run_at):
            return f"every week on {_WEEKDAYS[schedule.weekday]} at {schedule.hour:02d}:00 UTC"
    return None


def _last_slot(weekday: int, hour: int, now: datetime) -> datetime:
    """The latest such hour in the past; UTC."""
    today = now.replace(hour=hour, minute=0, second=0, microsecond=0)
    slot = today - timedelta(days=(now.weekday() - weekday) % 7)
    return slot if slot <= now else slot - timedelta(days=7)

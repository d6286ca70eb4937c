"""Estimates a run's remaining time from its recent progress. Refuses to guess before any progress."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

_STRETCH: Final = 12  # long enough to smooth out an evaluation, short enough to forget parts skipped by a resume


@dataclass(frozen=True, slots=True)
class Step:
    """One progress report of a job, with its time."""

    at: datetime
    done: int
    total: int | None


def step_of(event: Mapping[str, object]) -> Step:
    """Of an event that reports progress."""
    total = event["total"]
    return Step(
        datetime.fromisoformat(str(event["at"])),
        int(str(event["done"])),
        None if total is None else int(str(total)),
    )


def time_left_s(steps: Iterable[Step], *, since: datetime | None, now: datetime) -> float | None:
    """Seconds until the current stage is finished, never negative; None while the pace is unknown.

    Based on the latest steps of the current stage, each stage counting from its own start to its own total. Silence
    counts as work on the next step, so that a hanging job does not look nearly done forever.

    Args:
        since: when the process started; an earlier process of the same run says nothing about this one's pace.
    """
    stretch: list[Step] = []
    for step in steps:
        if since is not None and step.at < since:
            continue
        if stretch and (step.total != stretch[-1].total or step.done < stretch[-1].done):
            stretch = []
        if not stretch or step.done > stretch[-1].done:
            stretch.append(step)
    stretch = stretch[-_STRETCH - 1 :]
    if len(stretch) < 2:
        return None
    first, last = stretch[0], stretch[-1]
    if last.total is None:
        return None
    done = last.done - first.done
    silence_s = max(0.0, (now - last.at).total_seconds())
    worked_s = (last.at - first.at).total_seconds()
    next_step = done / (len(stretch) - 1)
    seconds_each = max(worked_s / done, (worked_s + silence_s) / (done + next_step))
    return max(0.0, (last.total - last.done) * seconds_each - silence_s)

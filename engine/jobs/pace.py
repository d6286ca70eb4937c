"""How long a run may still take, reckoned from what it did last. Refuses to guess before it has seen a pace."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

_STRETCH: Final = 12  # long enough to even out an evaluation, short enough to forget parts that a resume skipped


@dataclass(frozen=True, slots=True)
class Step:
    """What a job said of its progress, and when."""

    at: datetime
    done: int
    total: int | None


def steps_from(events: Iterable[Mapping[str, object]]) -> list[Step]:
    """The progress among a run's events, oldest first."""
    return [
        Step(
            datetime.fromisoformat(str(event["at"])),
            int(str(event["done"])),
            None if event["total"] is None else int(str(event["total"])),
        )
        for event in events
        if event["kind"] == "progress"
    ]


def time_left_s(steps: Iterable[Step], *, since: datetime | None, now: datetime) -> float | None:
    """Seconds until the present stage is through, never negative; None while no pace is known.

    Goes by the last steps of the present stage: a stage counts from its own start with its own total. Silence counts
    as work on the step that comes next, so a job that hangs is not soon done for ever.

    Args:
        since: when the process started; what an earlier one of the same run did says nothing of this one's pace.
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

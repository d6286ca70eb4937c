"""How long a run may still take."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from engine.jobs.pace import Step, step_of, time_left_s

BEGUN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGUN + timedelta(seconds=seconds)


def steps(*said: tuple[float, int, int | None]) -> Iterator[Step]:
    return (Step(at(seconds), done, total) for seconds, done, total in said)


def test_time_left_is_what_remains_at_the_pace_of_the_last_steps() -> None:
    said = steps((0, 0, 100), (10, 10, 100), (20, 20, 100))

    assert time_left_s(said, since=None, now=at(20)) == pytest.approx(80)


def test_time_passes_between_two_steps() -> None:
    said = steps((0, 0, 100), (10, 10, 100), (20, 20, 100))

    assert time_left_s(said, since=None, now=at(25)) == pytest.approx(75)


def test_a_slower_end_counts_more_than_a_fast_beginning() -> None:
    fast = [(number * 0.01, number, 60) for number in range(31)]
    slow = [(0.3 + number * 10, 30 + number, 60) for number in range(1, 16)]

    left = time_left_s(steps(*fast, *slow), since=None, now=at(150.3))

    assert left == pytest.approx(150)


def test_a_job_that_says_nothing_more_is_not_soon_done_for_ever() -> None:
    said = [(0, 0, 20), (1, 1, 20), (2, 2, 20)]

    early = time_left_s(steps(*said), since=None, now=at(2))
    late = time_left_s(steps(*said), since=None, now=at(600))

    assert early is not None
    assert late is not None
    assert late > 60 * early


@pytest.mark.parametrize(
    "said",
    [
        [],
        [(0, 0, 10)],
        [(0, 0, 10), (60, 0, 10)],
        [(0, 0, None), (1, 1, None)],
        [(0, 0, 10), (5, 5, 10), (6, 0, 40)],
        [(0, 8, 10), (5, 9, 10), (6, 0, 10)],
    ],
    ids=["no word", "one word", "no step done", "no total", "a new stage", "the same stage again"],
)
def test_no_pace_is_known(said: list[tuple[float, int, int | None]]) -> None:
    assert time_left_s(steps(*said), since=None, now=at(60)) is None


def test_time_left_is_never_negative() -> None:
    said = steps((0, 0, 2), (10, 1, 2), (20, 2, 2))

    assert time_left_s(said, since=None, now=at(90)) == 0


def test_what_an_earlier_process_did_says_nothing_of_the_pace() -> None:
    said = [(0, 0, 10), (1, 1, 10), (2, 2, 10), (3600, 2, 10), (3700, 3, 10)]

    assert time_left_s(steps(*said), since=at(3590), now=at(3700)) == pytest.approx(700)
    assert time_left_s(steps(*said[:3]), since=at(3590), now=at(3700)) is None


def test_a_step_is_what_an_event_says_of_progress() -> None:
    event: dict[str, object] = {"at": at(2).isoformat(), "kind": "progress", "done": 4, "total": 9, "message": "m"}

    assert step_of(event) == Step(at(2), 4, 9)
    assert step_of({**event, "total": None}) == Step(at(2), 4, None)

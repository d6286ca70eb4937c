"""When a training is due: after so many decisions or once a week; and who may say so."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from data.errors import InputError
from data.records import Answers, Decision, ModelRole, Run, RunId, RunState, Schedule, VariantId
from data.tables.decisions import DecisionTable
from data.tables.runs import RunTable
from ui.desk.context import Actor, Desk
from ui.desk.due import due_reason
from ui.desk.usecases.schedules import due, get_schedule, list_schedules, set_schedule

LEA = Actor("lea", "lead")
MONDAY_2 = datetime(2026, 6, 1, 2, tzinfo=UTC)  # a Monday, two o'clock
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


LONG_AGO: Final = MONDAY_2 - 30 * DAY


def schedule(
    *,
    after_decisions: int | None = None,
    weekday: int | None = None,
    hour: int | None = None,
    set_at: datetime = LONG_AGO,
) -> Schedule:
    return Schedule("verifier", after_decisions, weekday, hour, may_start=False, updated_by="lea", updated_at=set_at)


@pytest.mark.parametrize(("decisions", "is_due"), [(0, False), (49, False), (50, True), (51, True)])
def test_by_number_it_is_due_with_the_last_decision_that_was_asked_for(decisions: int, is_due: bool) -> None:
    reason = due_reason(schedule(after_decisions=50), MONDAY_2, decisions, MONDAY_2 + DAY)

    assert (reason is not None) == is_due
    assert reason is None or reason.startswith(f"{decisions} new decisions since the last run of 2026-06-01 02:00 UTC")


@pytest.mark.parametrize(
    ("last_run_at", "now", "is_due"),
    [
        (MONDAY_2 - DAY, MONDAY_2 - timedelta(seconds=1), False),
        (MONDAY_2 - DAY, MONDAY_2, True),
        (MONDAY_2 - DAY, MONDAY_2 + 6 * DAY, True),  # the desk was down at the hour
        (MONDAY_2 + timedelta(seconds=30), MONDAY_2 + HOUR, False),  # the run of this week
        (MONDAY_2 + timedelta(seconds=30), MONDAY_2 + 7 * DAY - HOUR, False),
        (MONDAY_2 + timedelta(seconds=30), MONDAY_2 + 7 * DAY, True),
        (None, MONDAY_2 + HOUR, True),
    ],
)
def test_by_the_clock_it_is_due_once_a_week_from_the_hour_on(
    last_run_at: datetime | None, now: datetime, is_due: bool
) -> None:
    reason = due_reason(schedule(weekday=0, hour=2), last_run_at, 0, now)

    assert reason == ("every week on Monday at 02:00 UTC" if is_due else None)


@pytest.mark.parametrize(
    ("set_at", "is_due"), [(MONDAY_2 - timedelta(seconds=1), True), (MONDAY_2, False), (MONDAY_2 + HOUR, False)]
)
def test_an_hour_that_was_over_when_the_schedule_was_set_does_not_count(set_at: datetime, is_due: bool) -> None:
    reason = due_reason(schedule(weekday=0, hour=2, set_at=set_at), None, 0, MONDAY_2 + DAY)

    assert (reason is not None) == is_due


def test_without_a_condition_it_is_never_due() -> None:
    assert due_reason(schedule(), None, 1_000_000, MONDAY_2 + 365 * DAY) is None


def test_a_schedule_is_kept_until_it_is_set_anew(desk: Desk) -> None:
    none_yet = get_schedule(desk, LEA, role="verifier")
    set_schedule(desk, LEA, role="verifier", after_decisions=100, may_start=True)
    set_schedule(desk, LEA, role="generator", weekday=6, hour=23)
    set_schedule(desk, LEA, role="verifier", weekday=0, hour=0)

    assert none_yet is None
    assert [(it.role, it.after_decisions, it.weekday, it.hour, it.may_start) for it in list_schedules(desk, LEA)] == [
        ("generator", None, 6, 23, False),
        ("verifier", None, 0, 0, False),
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"after_decisions": 0}, "use 1 to"),
        ({"weekday": 1}, "a weekday and an hour, or neither"),
        ({"hour": 1}, "a weekday and an hour, or neither"),
        ({"weekday": 7, "hour": 1}, "0 .Monday. to 6"),
        ({"weekday": 0, "hour": 24}, "0 to 23"),
        ({"role": "judge"}, "use one of verifier, generator"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_and_the_earlier_one_stays(
    desk: Desk, given: dict[str, Any], words: str
) -> None:
    before = set_schedule(desk, LEA, role="verifier", after_decisions=3)

    with pytest.raises(InputError, match=words):
        set_schedule(desk, LEA, **{"role": "verifier", **given})

    assert list_schedules(desk, LEA) == [before]


def decided(desk: Desk, count: int) -> None:
    with desk.store.write() as connection:
        DecisionTable(connection).upsert_many(
            Decision(VariantId(f"v_{n}"), "accepted", Answers(True, True, True), "annotations", (), "lea", desk.now())
            for n in range(count)
        )


def run_of(desk: Desk, kind: str, state: RunState) -> None:
    with desk.store.write() as connection:
        RunTable(connection).add(
            Run(
                RunId(f"r_{kind}"),
                kind,
                state,
                "nowhere",
                {},
                "lea",
                desk.now(),
                None,
                None,
                None,
                None,
                0,
                None,
                "",
                {},
            )
        )


def due_roles(desk: Desk) -> list[ModelRole]:
    return [one.role for one in due(desk, LEA)]


@pytest.mark.parametrize("run_state", ["done", "failed", "cancelled"])
def test_decisions_count_from_the_start_of_the_last_run_whatever_became_of_it(desk: Desk, run_state: RunState) -> None:
    """A failed run is a person's to look at: it is not started again and again."""
    set_schedule(desk, LEA, role="verifier", after_decisions=3)
    decided(desk, 3)
    before = due_roles(desk)
    run_of(desk, "train-verifier", run_state)
    after = due_roles(desk)
    decided(desk, 3)  # decided anew

    assert (before, after, due_roles(desk)) == (["verifier"], [], ["verifier"])


@pytest.mark.parametrize("run_state", ["queued", "running", "away"])
def test_what_is_going_on_is_not_proposed_and_the_other_role_is(desk: Desk, run_state: RunState) -> None:
    for role in ("verifier", "generator"):
        set_schedule(desk, LEA, role=role, after_decisions=1)
    run_of(desk, "train-verifier", run_state)
    decided(desk, 2)

    assert due_roles(desk) == ["generator"]

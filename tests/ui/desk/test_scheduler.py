"""The scheduler: starts what is due where a lead allowed that, once, and otherwise keeps still."""

import time
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from data.records import Answers, Decision, Run, VariantId
from data.tables.decisions import DecisionTable
from data.tables.runs import RunTable
from ui.desk.context import Actor, Desk
from ui.desk.scheduler import Scheduler
from ui.desk.usecases.schedules import due, set_schedule

LEA = Actor("lea", "lead")


class Clock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(desk: Desk) -> Clock:
    return Clock(desk.now())


@pytest.fixture
def timed(desk: Desk, clock: Clock) -> Desk:
    """The desk by the test's clock; what is submitted stays queued."""
    desk.supervisor.stop(end_jobs=True)  # leaves no room for a job
    return replace(desk, now=clock)


def decide(desk: Desk, count: int) -> None:
    with desk.store.write() as connection:
        DecisionTable(connection).upsert_many(
            Decision(VariantId(f"v_{n}"), "accepted", Answers(True, True, True), "annotations", (), "lea", desk.now())
            for n in range(count)
        )


def runs(desk: Desk) -> list[Run]:
    with desk.store.read() as connection:
        return RunTable(connection).newest(limit=10)


def test_what_may_start_is_started_once_by_the_schedule(timed: Desk) -> None:
    set_schedule(timed, LEA, role="verifier", after_decisions=2, may_start=True)
    decide(timed, 2)
    scheduler = Scheduler(timed)

    scheduler.tick()
    scheduler.tick()

    (run,) = runs(timed)
    assert (run.kind, run.submitted_by) == ("train-verifier", "schedule")
    assert due(timed, LEA) == []


def test_what_may_not_start_stays_a_proposal(timed: Desk) -> None:
    set_schedule(timed, LEA, role="verifier", after_decisions=2)
    decide(timed, 2)

    Scheduler(timed).tick()

    assert runs(timed) == []
    assert [one.role for one in due(timed, LEA)] == ["verifier"]


def test_a_start_that_is_refused_is_told_and_tried_again_only_after_an_hour(
    timed: Desk, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no verifier yet that could reward."""
    set_schedule(timed, LEA, role="generator", after_decisions=2, may_start=True)
    decide(timed, 2)
    scheduler = Scheduler(timed)

    for minutes in (0, 1, 59, 61):
        clock.now += timedelta(minutes=minutes)
        scheduler.tick()
        clock.now -= timedelta(minutes=minutes)

    assert runs(timed) == []
    assert caplog.text.count("training the generator is due") == 2


def test_it_ticks_in_its_thread_and_ends(timed: Desk) -> None:
    set_schedule(timed, LEA, role="verifier", after_decisions=2, may_start=True)
    decide(timed, 2)
    scheduler = Scheduler(timed, tick_s=0.01)

    scheduler.start()
    deadline = time.monotonic() + 60
    while not runs(timed) and time.monotonic() < deadline:
        time.sleep(0.01)
    scheduler.stop()

    assert len(runs(timed)) == 1

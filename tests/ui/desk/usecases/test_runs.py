"""Runs as a person sees them: figures, time left, and why one stopped."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from data.errors import NotFoundError
from data.records import Run, RunId, RunState
from data.tables.runs import RunTable
from ui.desk.context import OPERATOR, Desk
from ui.desk.usecases.runs import RunMetric, run_messages, run_metrics, run_progress

BEGUN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def put_run(desk: Desk, *, state: RunState = "running", message: str = "", events: list[dict[str, object]]) -> str:
    """A run that began at the first event, with what its job wrote."""
    folder = desk.settings.runs / "r_1"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    with desk.store.write() as connection:
        RunTable(connection).add(
            Run(
                run_id=RunId("r_1"),
                kind="verify",
                state=state,
                folder=str(folder),
                settings={},
                submitted_by="lea",
                created_at=BEGUN,
                started_at=BEGUN,
                ended_at=None,
                pid=None,
                pid_started_at=BEGUN.timestamp(),
                done=0,
                total=None,
                message=message,
                result={},
            )
        )
    return "r_1"


def metric(name: str, step: int, value: float) -> dict[str, object]:
    return {"at": BEGUN.isoformat(), "kind": "metric", "name": name, "value": value, "step": step}


def progress(at: datetime, done: int) -> dict[str, object]:
    return {"at": at.isoformat(), "kind": "progress", "done": done, "total": 10, "message": ""}


def test_figures_come_by_step_and_after_the_step_that_is_known(desk: Desk) -> None:
    run_id = put_run(desk, events=[metric("loss", 1, 0.5), metric("reward", 1, 0.1), metric("loss", 2, 0.4)])

    assert run_metrics(desk, OPERATOR, run_id=run_id) == [
        RunMetric("loss", 1, 0.5),
        RunMetric("reward", 1, 0.1),
        RunMetric("loss", 2, 0.4),
    ]
    assert run_metrics(desk, OPERATOR, run_id=run_id, since_step=1) == [RunMetric("loss", 2, 0.4)]


def test_a_step_that_was_done_again_after_a_resume_is_there_once(desk: Desk) -> None:
    run_id = put_run(desk, events=[metric("loss", 1, 0.5), metric("loss", 2, 9.0), metric("loss", 2, 0.4)])

    assert run_metrics(desk, OPERATOR, run_id=run_id) == [RunMetric("loss", 1, 0.5), RunMetric("loss", 2, 0.4)]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_figure_that_is_not_finite_is_left_out(desk: Desk, value: float) -> None:
    run_id = put_run(desk, events=[metric("loss", 1, 0.5), metric("loss", 1, value), metric("loss", 2, 0.4)])

    assert run_metrics(desk, OPERATOR, run_id=run_id) == [RunMetric("loss", 2, 0.4)]


def test_a_running_run_tells_how_long_it_may_still_take(desk: Desk) -> None:
    now = desk.now()
    begun = now - timedelta(seconds=40)
    run_id = put_run(desk, events=[progress(begun, 0), progress(now, 4)])

    told = run_progress(desk, OPERATOR, run_id=run_id)

    assert told.run.run_id == run_id
    assert told.time_left_s == pytest.approx(60, abs=2)
    assert told.why == ""


def test_a_run_that_stopped_has_no_time_left_and_says_why(desk: Desk) -> None:
    run_id = put_run(desk, state="failed", message="no model at x", events=[progress(BEGUN, 0), progress(BEGUN, 4)])

    told = run_progress(desk, OPERATOR, run_id=run_id)

    assert (told.time_left_s, told.why) == (None, "no model at x")


def test_a_run_that_is_not_there_is_told(desk: Desk) -> None:
    assert Path(desk.settings.runs).is_dir()

    for ask in (run_progress, run_metrics):
        with pytest.raises(NotFoundError, match="r_nowhere"):
            ask(desk, OPERATOR, run_id="r_nowhere")


def test_what_was_read_once_is_not_read_again(desk: Desk) -> None:
    run_id = put_run(desk, events=[metric("loss", step, 0.5) for step in range(100)])
    events = desk.settings.runs / run_id / "events.jsonl"
    assert len(run_metrics(desk, OPERATOR, run_id=run_id)) == 100

    with events.open("r+b") as lines:
        lines.write(b"?" * 5_000)  # no line of these could be read
    with events.open("a") as lines:
        lines.write(json.dumps(metric("loss", 100, 0.4)) + "\n")

    assert len(run_metrics(desk, OPERATOR, run_id=run_id)) == 101
    assert run_progress(desk, OPERATOR, run_id=run_id).time_left_s is None
    assert run_messages(desk, OPERATOR, run_id=run_id) == []

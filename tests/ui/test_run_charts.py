"""A training's charts: which metrics stand in which, and that none is left out."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from data.records import Run, RunId, RunState
from data.tables.runs import RunTable
from ui.usecases.context import Actor, Desk
from ui.views.run_charts import charts_for
from ui.views.run_detail import time_left

LEA = Actor("lea", "lead")


@pytest.fixture(autouse=True)
def _no_search_for_components(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit reads the metadata of every installed package for each page of `AppTest`: half of a test's time."""
    monkeypatch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", list)


def put_run(desk: Desk, events: Sequence[Mapping[str, object]], *, state: RunState = "done") -> Path:
    now = desk.now()
    folder = desk.settings.runs / "r_1"
    folder.mkdir(parents=True)
    stamped = ({"at": now.isoformat(), **event} for event in events)
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in stamped))
    run = Run(
        RunId("r_1"), "refresh-generator", state, str(folder), {}, "lea", now, now, now, None, None, 0, None, "", {}
    )
    with desk.store.write() as connection:
        RunTable(connection).add(run)
    return folder


def metric(name: str, step: int, value: float) -> Mapping[str, object]:
    return {"kind": "metric", "name": name, "step": step, "value": value}


def runs_page(desk: Desk) -> AppTest:
    def script(desk: object, actor: object) -> None:
        import importlib

        importlib.import_module("ui.views.runs").render(desk, actor)

    drawn = AppTest.from_function(script, args=(desk, LEA), default_timeout=30)
    drawn.run()
    assert not drawn.exception
    return drawn


def test_metrics_of_one_question_share_a_chart_in_the_order_of_the_page() -> None:
    found = charts_for(["kl", "reward/TC", "validation_loss", "loss", "reward"])

    assert [chart.title for chart in found] == ["Loss", "Reward by dimension", "Distance from the start"]


def test_a_metric_that_no_chart_knows_gets_one_by_its_own_name() -> None:
    (found,) = charts_for(["penalty/copy"])

    assert (found.title, found.lines) == ("penalty, copy", {"penalty/copy": "penalty, copy"})


def test_a_run_shows_its_figures_as_charts_with_the_numbers_behind(desk: Desk) -> None:
    events = [metric("loss", step, 2.0 / step) for step in (1, 2, 4)] + [metric("validation_loss", 4, 0.75)]
    put_run(desk, [*events, metric("learning_rate", 1, 3e-6), {"kind": "message", "level": "info", "text": "began"}])

    drawn = runs_page(desk)

    titles = [element.value for element in drawn.subheader]
    assert titles == ["Loss", "Learning rate"]
    shown = "".join(element.proto.body for element in drawn.get("html"))
    assert '<td class="sd-number">4</td><td class="sd-number">0.50</td><td class="sd-number">0.75</td>' in shown
    assert "3e-06" in shown
    assert "began" in shown
    assert "at step" not in shown  # figures stand in their charts, not again among the messages


def test_a_run_without_figures_shows_no_chart(desk: Desk) -> None:
    put_run(desk, [])

    drawn = runs_page(desk)

    assert not drawn.subheader


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "about 1 s left"),
        (40, "about 40 s left"),
        (180, "about 3 min left"),
        (7_800, "about 2 h 10 min left"),
    ],
)
def test_time_left_is_told_as_a_person_would(seconds: float, words: str) -> None:
    assert time_left(seconds) == words

"""A training's charts: which metrics stand in which, and that none is left out."""

from collections.abc import Mapping

import pytest

from tests.ui.drawn_pages import LEA, page, shown
from tests.ui.learning_desk import put_run
from training.grpo_hooks import GRPO_NAMES
from ui.desk.context import Desk
from ui.views.run_charts import CHARTS, charts_for
from ui.views.run_detail import time_left

pytestmark = pytest.mark.usefixtures("quick_pages")


def metric(name: str, step: int, value: float) -> Mapping[str, object]:
    return {"kind": "metric", "name": name, "step": step, "value": value}


def test_metrics_of_one_question_share_a_chart_in_the_order_of_the_page() -> None:
    found = charts_for(["kl", "reward/TC", "validation_loss", "loss", "reward"])

    assert [chart.title for chart in found] == ["Loss", "Reward by dimension", "Distance from the starting model"]


def test_every_metric_of_a_generator_training_has_a_chart() -> None:
    known = {name for chart in CHARTS for name in chart.lines}

    assert set(GRPO_NAMES.values()) <= known


def test_a_metric_that_no_chart_knows_gets_one_by_its_own_name() -> None:
    (found,) = charts_for(["penalty/copy"])

    assert (found.title, found.lines) == ("penalty, copy", {"penalty/copy": "penalty, copy"})


def test_a_stage_has_charts_of_its_own_before_those_of_the_run_and_minor_ones_come_last() -> None:
    found = charts_for(["loss", "imitation/loss", "imitation/learning_rate", "kl"])

    assert [chart.title for chart in found] == [
        "Loss: SFT",
        "Loss",
        "Distance from the starting model",
        "Learning rate: SFT",
    ]


def test_a_run_shows_its_figures_as_charts_with_the_numbers_behind(desk: Desk) -> None:
    events = [metric("loss", step, 2.0 / step) for step in (1, 2, 4)] + [metric("validation_loss", 4, 0.75)]
    events += [metric("learning_rate", 1, 3e-6), {"kind": "message", "level": "info", "text": "began"}]
    put_run(desk, "r_1", kind="refresh-generator", events=events)

    drawn = page("runs", desk, LEA)

    titles = [element.value for element in drawn.subheader]
    assert titles == ["Loss", "Learning rate"]
    html = shown(drawn)
    assert '<td class="sd-number">4</td><td class="sd-number">0.50</td><td class="sd-number">0.75</td>' in html
    assert "3e-06" in html
    assert "began" in html
    assert "at step" not in html  # figures stand in their charts, not again among the messages


def test_a_run_without_figures_shows_no_chart(desk: Desk) -> None:
    put_run(desk, "r_1", kind="refresh-generator")

    drawn = page("runs", desk, LEA)

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

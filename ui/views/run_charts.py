"""A training's figures while it works: one chart a question that a person asks of it, two in a row, tables behind.

Every metric that a run reports is shown: one that no chart here knows gets a chart by its own name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pandas as pd
import streamlit as st

from data.dimensions import DIMENSIONS
from engine.variant_types.table import VARIANT_TYPES
from ui.desk.usecases.runs import RunMetric
from ui.widgets.charts import lines

_STEP: Final = "step"
_STAGES: Final[Mapping[str, str]] = {"imitation": "SFT", "era": "ERA", "ira": "IRA"}


@dataclass(frozen=True, slots=True)
class Chart:
    """What stands in one chart: metric names and what each line is called; `axis` names quantity and unit.

    Minor ones come after all others.
    """

    key: str
    title: str
    axis: str
    lines: Mapping[str, str]
    says: str = ""
    is_share: bool = False
    is_minor: bool = False


_TYPE_LINES: Final = {f"reward/{kind.key}": kind.name for kind in VARIANT_TYPES.values()}
_DIMENSION_LINES: Final = {f"reward/{dimension.key}": dimension.name for dimension in DIMENSIONS}

CHARTS: Final[tuple[Chart, ...]] = (
    Chart("loss", "Loss", "loss (nats per token)", {"loss": "training", "validation_loss": "validation"}),
    Chart(
        "reward_dimension",
        "Reward by dimension",
        "mean reward",
        {"reward": "total", **_DIMENSION_LINES},
        "The mean reward per candidate, and the reward verifier's mean probability on each dimension.",
    ),
    Chart("reward_type", "Reward by type", "mean reward", _TYPE_LINES),
    Chart(
        "shares",
        "Candidates",
        "share of candidates",
        {
            "accepted_share": "judged valid",
            "contract_share": "passes its contract",
            "parse_share": "readable",
            "judged_share": "judged",
            "duplicate_share": "duplicate",
        },
        is_share=True,
    ),
    Chart(
        "probe",
        "Probe set",
        "log-likelihood gap (nats per token)",
        {"probe": "probe"},
        "How much more likely the model finds variants that people accepted than variants that they rejected. If this "
        "falls while the reward rises, the run stops.",
    ),
    Chart("kl", "Distance from the starting model", "KL (nats per token)", {"kl": "KL"}),
    Chart("entropy", "Entropy", "entropy (nats per token)", {"entropy": "entropy"}),
    Chart(
        "zero_variance",
        "Groups without a signal",
        "share of groups",
        {"zero_variance_share": "groups"},
        "All candidates in such a group got the same reward, so nothing is learned from it.",
        is_share=True,
    ),
    Chart("length", "Reply length", "tokens", {"completion_tokens": "tokens"}),
    Chart(
        "distinct",
        "Variety",
        "distinct-2",
        {"distinct_2": "distinct-2"},
        "The share of distinct word pairs; it falls when replies become alike.",
    ),
    Chart("learning_rate", "Learning rate", "learning rate", {"learning_rate": "learning rate"}, is_minor=True),
    Chart("grad_norm", "Gradient norm", "norm", {"grad_norm": "norm"}, is_minor=True),
)
_SHARED: Final = frozenset({"loss", "learning_rate", "grad_norm"})
"""Keys of those charts that every training has."""


def charts(metrics: Sequence[RunMetric], *, key: str) -> None:
    """Draw what the run has reported so far; nothing where it has reported nothing."""
    by_name = _by_name(metrics)
    shown = charts_for(list(by_name))
    for start in range(0, len(shown), 2):
        for column, chart in zip(st.columns(2, gap="large"), shown[start : start + 2], strict=False):
            with column:
                _chart(chart, by_name, key)


def charts_for(names: Sequence[str]) -> list[Chart]:
    """The charts that have at least one line, in their order; then one for each name that none of them knows.

    A figure of a stage, `STAGE/loss`, stands in that stage's own chart, before those of the run.
    """
    known = {name for chart in CHARTS for name in chart.lines}
    stages = dict.fromkeys(stage for stage, _, name in (name.partition("/") for name in names) if name in known)
    staged = [_of_stage(chart, stage) for stage in stages for chart in CHARTS]
    is_practice = bool(stages) and "reward" in names
    of_the_run = [_of_practice(chart) if is_practice and chart.key in _SHARED else chart for chart in CHARTS]
    found = [chart for chart in (*staged, *of_the_run) if any(name in names for name in chart.lines)]
    drawn = {name for chart in found for name in chart.lines}
    others = sorted(name for name in names if name not in drawn)
    return [
        *sorted(found, key=lambda chart: chart.is_minor),
        *(Chart(f"other_{n}", _spaced(name), _spaced(name), {name: _spaced(name)}) for n, name in enumerate(others)),
    ]


def _of_practice(chart: Chart) -> Chart:
    return replace(chart, title=f"{chart.title}: GRPO")


def _of_stage(chart: Chart, stage: str) -> Chart:
    return replace(
        chart,
        key=f"{stage}_{chart.key}",
        title=f"{chart.title}: {_STAGES.get(stage, stage)}",
        lines={f"{stage}/{name}": label for name, label in chart.lines.items()},
    )


def _by_name(metrics: Sequence[RunMetric]) -> dict[str, dict[int, float]]:
    """Name -> step -> value."""
    by_name: dict[str, dict[int, float]] = {}
    for metric in metrics:
        by_name.setdefault(metric.name, {})[metric.step] = metric.value
    return by_name


def _chart(chart: Chart, by_name: Mapping[str, Mapping[int, float]], key: str) -> None:
    present = {name: label for name, label in chart.lines.items() if name in by_name}
    steps = sorted({step for name in present for step in by_name[name]})
    frame = pd.DataFrame(
        {_STEP: steps, **{label: [by_name[name].get(step) for step in steps] for name, label in present.items()}}
    )
    st.subheader(chart.title, anchor=False, help=chart.says or None)
    lines(
        frame.astype(dict.fromkeys(present.values(), "float64")),
        x=_STEP,
        series=list(present.values()),
        title=chart.axis,
        key=f"{key}_{chart.key}",
        is_share=chart.is_share,
    )


def _spaced(name: str) -> str:
    return name.replace("_", " ").replace("/", ", ")

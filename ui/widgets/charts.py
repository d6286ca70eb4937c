"""Lines over steps, with the same numbers as a table behind them. Few colours, named axes, light and dark alike."""

from collections.abc import Sequence
from typing import Final

import altair as alt
import pandas as pd
import streamlit as st

from ui.widgets.page import MOST_ROWS, table

MOST_POINTS: Final = 300
"""A line with more is drawn through the means of equal stretches: a message to the browser stays small."""

_HEIGHT: Final = 270  # the same with a legend and without, so that two beside each other are in line
_LEGEND_COLUMNS: Final = 4
_POINTS_SEEN: Final = 40


def lines(frame: pd.DataFrame, *, x: str, series: Sequence[str], title: str, key: str, is_share: bool = False) -> None:
    """One line a column of `series` over the column `x` (whole numbers, rising); a gap where a column has no value.

    Args:
        title: of the vertical axis, with its unit. Shares stand in percent, from 0 to 100.
    """
    thinned = _thinned(frame, x, series)
    long = thinned.melt(id_vars=[x], value_vars=list(series), var_name="line", value_name="value").dropna()
    axis = alt.Axis(format=".0%", tickCount=5) if is_share else alt.Axis(tickCount=5)
    scale = alt.Scale(domain=[0, 1]) if is_share else alt.Scale(zero=False, nice=True)
    legend = alt.Legend(orient="top", columns=_LEGEND_COLUMNS, symbolType="stroke", offset=6, padding=0, labelLimit=145)
    chart = (
        alt.Chart(long)
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=24) if len(thinned) <= _POINTS_SEEN else False)
        .encode(
            x=alt.X(f"{x}:Q", title=x, axis=alt.Axis(format="d", tickMinStep=1, grid=False)),
            y=alt.Y("value:Q", title=title, scale=scale, axis=axis),
            color=alt.Color(
                "line:N",
                sort=list(series),
                scale=alt.Scale(domain=list(series)),
                title=None,
                legend=legend if len(series) > 1 else None,
            ),
            tooltip=[alt.Tooltip(f"{x}:Q", format="d"), "line:N", alt.Tooltip("value:Q", format=".4g")],
        )
        .properties(height=_HEIGHT, padding={"top": 4, "bottom": 0, "left": 0, "right": 4})
    )
    with st.container(key=f"chart_{key}"):
        st.altair_chart(chart, key=f"altair_{key}", alt=f"{title} by {x}: {', '.join(series)}")
        with st.expander("Show the numbers"):
            shown = frame.iloc[::-1].head(MOST_ROWS)
            table(
                [x, *series],
                [[int(row[0]), *(_number(value) for value in row[1:])] for row in shown[[x, *series]].to_numpy()],
                caption="" if len(frame) <= MOST_ROWS else f"The last {MOST_ROWS} of {len(frame):,} steps.",
            )


def _thinned(frame: pd.DataFrame, x: str, series: Sequence[str]) -> pd.DataFrame:
    if len(frame) <= MOST_POINTS:
        return frame[[x, *series]]
    stretch = -(-len(frame) // MOST_POINTS)
    groups = pd.Series(range(len(frame)), index=frame.index) // stretch
    means = frame[[x, *series]].groupby(groups).mean()
    means[x] = frame[x].groupby(groups).max()
    return means


def _number(value: float) -> float | None:
    return None if pd.isna(value) else float(value)

"""The furniture of every page: style, head, figures, empty states, errors, literal tables, charts with their table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from html import escape
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import altair as alt
import pandas as pd
import streamlit as st

from data.errors import SagedeskError
from ui.widgets.texts import literal

_STYLE: Final = Path(__file__).with_name("style.css")
MOST_ROWS: Final = 200
_NUMBER: Final = ' class="sd-number"'


def style() -> None:
    """Once a page."""
    st.html(_STYLE)


def head(title: str, what: str) -> None:
    """Both are our own words."""
    st.html(f'<h1 class="sd-title">{escape(title)}</h1><p class="sd-what">{escape(what)}</p>')


def empty(title: str, what_next: str) -> None:
    """Nothing is here yet: what to do about it."""
    st.html(f'<div class="sd-empty"><h3>{escape(title)}</h3><p>{escape(what_next)}</p></div>')


def notice(text: str, *, kind: str = "info") -> None:
    """One literal line; `kind` is info, warn, error or done."""
    notices([text], kind=kind)


def notices(texts: Sequence[str], *, kind: str = "info") -> None:
    """Literal lines of one kind in one place; nothing where there are none."""
    icon = {"info": "ℹ", "warn": "!", "error": "✕", "done": "✓"}[kind]
    lines = "".join(f"<span>{literal(text)}</span>" for text in texts)
    if lines:
        st.html(f'<div class="sd-message sd-message-{kind}" role="status"><b>{icon}</b><div>{lines}</div></div>')


@contextmanager
def refusals_shown() -> Iterator[None]:
    """What a use case refuses is shown where it happened, as it is worded; a bug keeps its traceback."""
    try:
        yield
    except SagedeskError as exc:
        notice(str(exc), kind="error")


def figures(pairs: Sequence[tuple[str, str]]) -> None:
    """Large numbers with a word under each."""
    if not pairs:
        return
    cells = "".join(
        f'<div class="sd-card"><b>{literal(value)}</b><span class="sd-faint">{literal(name)}</span></div>'
        for name, value in pairs
    )
    st.html(f'<div class="sd-figures">{cells}</div>')


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, caption: str = "") -> None:
    """At most MOST_ROWS rows of literal text; numbers stand right."""
    first = rows[0] if rows else ()
    headings = "".join(
        f"<th{_NUMBER if number < len(first) and _is_number(first[number]) else ''}>{literal(name)}</th>"
        for number, name in enumerate(columns)
    )
    top = f"<thead><tr>{headings}</tr></thead>" if any(columns) else ""
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    more = "" if len(rows) <= MOST_ROWS else f"Showing the first {MOST_ROWS} of {len(rows):,}."
    below = f'<p class="sd-faint">{literal(f"{caption} {more}".strip())}</p>' if caption or more else ""
    st.html(f'<div class="sd-scroll"><table class="sd-table">{top}<tbody>{body}</tbody></table></div>{below}')


def bars(frame: pd.DataFrame, *, name: str, series: Sequence[str], title: str, key: str) -> None:
    """One group of bars a row of `frame`, one bar a column of `series`; the same numbers as a table behind."""
    long = frame.melt(id_vars=[name], value_vars=list(series), var_name="stage", value_name="count")
    chart = (
        alt.Chart(long)
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            y=alt.Y(f"{name}:N", title=None, sort=None, axis=alt.Axis(labelLimit=220, labelFontSize=13)),
            yOffset=alt.YOffset("stage:N", sort=list(series)),
            x=alt.X("count:Q", title=title, axis=alt.Axis(format="d", tickMinStep=1)),
            color=alt.Color("stage:N", sort=list(series), title=None, legend=alt.Legend(orient="top")),
            tooltip=[name, "stage", "count"],
        )
        .properties(height=110 + len(frame) * (11 * len(series) + 12))
    )
    with st.container(key=f"chart_{key}"):
        st.altair_chart(chart, key=f"altair_{key}")
        with st.expander("Show the numbers"):
            table([name, *series], frame[[name, *series]].to_numpy().tolist())


def clock(at: datetime | None) -> str:
    """hh:mm:ss where the reader is."""
    return "never" if at is None else f"{at.astimezone(_zone()):%H:%M:%S}"


def day_and_time(at: datetime | None) -> str:
    return "" if at is None else f"{at.astimezone(_zone()):%Y-%m-%d %H:%M}"


def _zone() -> tzinfo:
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):  # no time zone data on this machine, or a browser's odd name
        return UTC


def _two_digits(value: float) -> str:
    """Two decimals, or two digits for what they would hide: 0.25, 0.0031, 1e-06."""
    return f"{value:.2f}" if value == 0 or abs(value) >= 0.095 else f"{value:.2g}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, int):
        return f"<td{_NUMBER}>{value:,}</td>"
    if isinstance(value, float):
        return f"<td{_NUMBER}>{_two_digits(value)}</td>"
    return f'<td dir="auto">{literal("" if value is None else str(value))}</td>'

"""A table of literal text whose rows can be opened by click or key. At most a page of rows: the caller pages."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import streamlit as st

_NAME: Final = "sagedesk_row_list"


class Row(NamedTuple):
    """`row_id` is handed back when the row is opened."""

    row_id: str
    cells: Sequence[str]


# Not isolated, so that it takes its looks from the page's own tables.
_list = st.components.v2.component(
    _NAME,
    html=(
        '<div class="sd-scroll sd-rows-open">'
        '<table class="sd-table"><thead><tr></tr></thead><tbody></tbody></table></div>'
    ),
    js=Path(__file__).with_suffix(".js").read_text("utf-8"),
    isolate_styles=False,
)


def row_list(
    columns: Sequence[str],
    rows: Sequence[Row],
    *,
    key: str,
    on_open: Callable[[str], None],
    chosen: str | None = None,
    numbers: Sequence[int] = (),
) -> None:
    """Draw the rows; `on_open` runs before the next drawing. `numbers` are the columns that stand right."""

    def opened() -> None:
        row_id = st.session_state[key]["open"]
        if row_id in {row.row_id for row in rows}:
            on_open(str(row_id))

    _list(
        key=key,
        data={
            "columns": list(columns),
            "rows": [{"id": row.row_id, "cells": list(row.cells)} for row in rows],
            "chosen": chosen,
            "numbers": list(numbers),
        },
        on_open_change=opened,
    )

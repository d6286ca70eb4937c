"""Runs: what is running and what came of it; live progress, log, cancel, resume."""

from typing import Final

import streamlit as st

from data.records import RUN_STATES, Run
from ui.usecases import runs
from ui.usecases.context import Actor, Desk
from ui.views.run_detail import run_detail
from ui.widgets.page import day_and_time, empty, head, told

_EVERY_KIND: Final = "every kind"
_LIST_ROWS: Final = 100


def render(desk: Desk, actor: Actor) -> None:
    head("Runs", "Each run keeps its inputs, settings, log and outputs in one folder, and can be resumed.")
    with told():
        left, right = st.columns(2)
        state = right.selectbox("State", [None, *RUN_STATES], format_func=lambda it: it or "every state")
        found = runs.list_runs(desk, actor, state=state, limit=_LIST_ROWS)
        kinds = sorted({run.kind for run in found})
        kind = left.selectbox("Kind", [_EVERY_KIND, *kinds])
        shown = [run for run in found if kind in (_EVERY_KIND, run.kind)]
        if not shown:
            empty("No runs", "Importing, generating and verifying each make one; they show here while they work.")
            return
        run_id = _choose(shown)
        if run_id is not None:
            run_detail(desk, actor, run_id)


def _choose(shown: list[Run]) -> str | None:
    """A list to pick from; the choice lives in the address."""
    picked = st.dataframe(
        {
            "run": [run.run_id for run in shown],
            "kind": [run.kind for run in shown],
            "state": [run.state for run in shown],
            "done": [_share(run) for run in shown],
            "by": [run.submitted_by for run in shown],
            "queued": [day_and_time(run.created_at) for run in shown],
            "message": [run.message for run in shown],
        },
        hide_index=True,
        width="stretch",
        height=min(320, 38 + 35 * len(shown)),
        on_select="rerun",
        selection_mode="single-row",
        key="runs_list",
    )
    rows = picked.selection.rows
    if rows and rows[0] < len(shown):
        st.query_params["run"] = shown[rows[0]].run_id
    return st.query_params.get("run") or shown[0].run_id


def _share(run: Run) -> str:
    return f"{run.done:,}" if run.total is None else f"{run.done:,} of {run.total:,}"

"""Runs: what is running and what came of it; live progress, log, cancel, resume."""

from typing import Final

import streamlit as st

from data.records import RUN_STATES, Run
from ui.usecases import runs
from ui.usecases.context import Actor, Desk
from ui.views.run_detail import run_detail
from ui.widgets.page import day_and_time, empty, head, told
from ui.widgets.row_list import Row, row_list

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
        asked = st.query_params.get("run")
        run_id = asked if asked is not None else shown[0].run_id
        _list(shown, run_id)
        run_detail(desk, actor, run_id)


def _list(shown: list[Run], chosen: str) -> None:
    with st.container(key="runs_list_box"):
        row_list(
            ["kind", "state", "done", "by", "queued", "run", "message"],
            [
                Row(
                    run.run_id,
                    [
                        run.kind,
                        run.state,
                        _share(run),
                        run.submitted_by,
                        day_and_time(run.created_at),
                        run.run_id,
                        run.message,
                    ],
                )
                for run in shown
            ],
            key="runs_list",
            on_open=_open,
            chosen=chosen,
            numbers=[2],
        )


def _open(run_id: str) -> None:
    st.query_params["run"] = run_id


def _share(run: Run) -> str:
    return f"{run.done:,}" if run.total is None else f"{run.done:,} of {run.total:,}"

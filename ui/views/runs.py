"""Runs: what is running and what came of it; live progress, log, cancel, resume."""

from typing import Final

import streamlit as st

from data.records import RUN_STATES, Run, RunState
from ui.desk.context import Actor, Desk
from ui.desk.usecases import runs
from ui.views.run_detail import OPEN_STATES, run_detail
from ui.widgets.page import day_and_time, empty, head, refusals_shown
from ui.widgets.presence import still
from ui.widgets.row_list import Row, row_list

_REFRESH_S: Final = 2.0
_LIST_ROWS: Final = 100


def render(desk: Desk, actor: Actor) -> None:
    head("Runs", "Each run keeps its inputs, settings, log and outputs in its own folder and can be resumed.")
    with refusals_shown():
        left, right = st.columns(2)
        state = right.selectbox("State", [None, *RUN_STATES], format_func=lambda it: it or "all states")
        found = runs.list_runs(desk, actor, state=state, limit=_LIST_ROWS)
        kinds = sorted({run.kind for run in found})
        chosen_kind = left.selectbox("Kind", [None, *kinds], format_func=lambda it: it or "all kinds")
        shown = _of_kind(found, chosen_kind)
        if not shown:
            empty("No runs", "Importing, generating, verifying and training each start a run; runs appear here.")
            return
        asked = st.query_params.get("run")
        run_id = asked if asked is not None else shown[0].run_id
        is_open = any(run.state in OPEN_STATES for run in shown)
        live = st.fragment(_live_list, run_every=_REFRESH_S if is_open else None)
        live(desk, actor, state, chosen_kind, run_id, is_open)
        run_detail(desk, actor, run_id)


def _live_list(desk: Desk, actor: Actor, state: RunState | None, kind: str | None, chosen: str, was_open: bool) -> None:
    """Fresh while something in it works; the whole page follows when another run is opened, or all have ended."""
    with refusals_shown():
        shown = _of_kind(runs.list_runs(desk, still(actor), state=state, limit=_LIST_ROWS), kind)
        _list(shown, chosen)
        has_ended = was_open and not any(run.state in OPEN_STATES for run in shown)
        if has_ended or st.query_params.get("run", chosen) != chosen:
            st.rerun()


def _of_kind(found: list[Run], kind: str | None) -> list[Run]:
    return [run for run in found if kind in (None, run.kind)]


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

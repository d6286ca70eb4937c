"""One run, live while it works: state, time left, charts, log, what came of it; cancel and resume."""

from collections.abc import Mapping
from html import escape
from typing import Final

import streamlit as st

from data.records import Run, RunState
from ui.desk.context import Actor, Desk
from ui.desk.usecases import runs
from ui.views.run_charts import charts
from ui.views.run_result import result
from ui.widgets.go import go_to
from ui.widgets.page import day_and_time, notice, refusals_shown, table
from ui.widgets.presence import still
from ui.widgets.texts import literal

OPEN_STATES: Final[tuple[RunState, ...]] = ("queued", "running")
_REFRESH_S: Final = 1.0
_SLOW_REFRESH_S: Final = 4.0
_STOPPING: Final = "run_stopping"
_LOG_BYTES: Final = 8_000
_MESSAGES_SHOWN: Final = 50
_ICONS: Final[Mapping[RunState, tuple[str, str]]] = {
    "queued": ("◌", "sd-faint"),
    "running": ("▶", "sd-wait"),
    "away": ("↗", "sd-wait"),
    "done": ("✓", "sd-good"),
    "failed": ("✕", "sd-bad"),
    "cancelled": ("■", "sd-faint"),
    "lost": ("?", "sd-bad"),
}


def run_detail(desk: Desk, actor: Actor, run_id: str) -> None:
    """Refreshes itself until the run has ended: state every second, charts and log less often."""
    is_open = runs.show_run(desk, actor, run_id=run_id).state in OPEN_STATES
    st.fragment(_live, run_every=_REFRESH_S if is_open else None)(desk, actor, run_id, is_open)
    for part in (_figures, _rest):
        st.fragment(part, run_every=_SLOW_REFRESH_S if is_open else None)(desk, actor, run_id)


def _live(desk: Desk, actor: Actor, run_id: str, was_open: bool) -> None:
    with refusals_shown():
        actor = still(actor)
        progress = runs.run_progress(desk, actor, run_id=run_id)
        if was_open and progress.run.state not in OPEN_STATES:
            st.rerun()  # the list above shows the new state, and this stops asking
        _state(progress)
        _actions(desk, actor, progress.run)


def _figures(desk: Desk, actor: Actor, run_id: str) -> None:
    with refusals_shown():
        charts(runs.run_metrics(desk, still(actor), run_id=run_id), key="run")


def _rest(desk: Desk, actor: Actor, run_id: str) -> None:
    with refusals_shown():
        actor = still(actor)
        run = runs.show_run(desk, actor, run_id=run_id)
        result(desk, actor, run)
        _log(desk, actor, run)


def _state(progress: runs.RunProgress) -> None:
    run = progress.run
    icon, colour = _ICONS[run.state]
    has_failed = run.state in ("failed", "lost")
    share = run.done / run.total if run.total else 0.0
    bar = f'<span class="sd-bar"><i style="width:{share:.1%}"></i></span>' if run.total else ""
    count = f"{run.done:,} of {run.total:,}" if run.total else f"{run.done:,}" if run.done else ""
    left = "" if progress.time_left_s is None else f'<span class="sd-chip">{time_left(progress.time_left_s)}</span>'
    st.html(
        f'<div class="sd-line"><b>{literal(run.kind)}</b><span class="sd-faint">{literal(run.run_id)}</span>'
        f'<span class="{colour}">{icon} {escape(run.state)}</span>{bar}<span>{count}</span>{left}'
        f'<span class="sd-faint">{"" if progress.why else literal(run.message)}</span>'
        f'<span class="sd-push sd-faint">{escape(day_and_time(run.started_at))} – {escape(day_and_time(run.ended_at))}'
        "</span></div>"
    )
    if progress.why:
        notice(progress.why, kind="error" if has_failed else "info")


def time_left(seconds: float) -> str:
    """For a person: `about 40 s left`, `about 3 min left`, `about 2 h 10 min left`."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s left"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"about {minutes} min left"
    return f"about {minutes // 60} h {minutes % 60} min left"


def _actions(desk: Desk, actor: Actor, run: Run) -> None:
    with st.container(horizontal=True, key="run_actions"):
        is_stopping = st.session_state.get(_STOPPING) == run.run_id
        is_cancellable = run.state in OPEN_STATES or run.state == "away"
        if is_cancellable and st.button("Cancel run", key="run_cancel", disabled=is_stopping):
            runs.cancel_run(desk, actor, run_id=run.run_id)
            st.session_state[_STOPPING] = run.run_id
            st.rerun()
        if run.state in OPEN_STATES and is_stopping:
            notice("Stopping. Completed work is kept.")
        resume = "Run it here instead" if run.state == "away" else "Resume run"
        if run.state in ("lost", "failed", "cancelled", "away") and st.button(resume, key="run_resume"):
            runs.resume_run(desk, actor, run_id=run.run_id)
            st.session_state.pop(_STOPPING, None)
            st.rerun()
        model_id = _model_of(run)
        if model_id and st.button("Open the model", key="run_model"):
            go_to("Models", model=model_id)


def _model_of(run: Run) -> str:
    """The model that the run made or that it judged; empty where there is none."""
    made = run.settings.get("challenger_id") if run.kind == "gate-verifier" else run.result.get("model_id")
    return str(made or "")


def _log(desk: Desk, actor: Actor, run: Run) -> None:
    log = runs.run_log(desk, actor, run_id=run.run_id, max_bytes=_LOG_BYTES)
    messages = runs.run_messages(desk, actor, run_id=run.run_id, limit=_MESSAGES_SHOWN)
    with st.expander("Log", expanded=run.state in ("running", "failed", "lost")):
        if messages:
            table(["at", "level", "message"], [[it.at[11:19], it.level, it.text] for it in messages])
        if log.text.strip():
            cut = "… " if log.is_cut else ""
            st.html(f'<pre class="sd-log">{cut}{literal(log.text)}</pre>')
        elif not messages:
            st.html('<p class="sd-faint">Nothing logged yet.</p>')

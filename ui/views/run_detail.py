"""One run, live while it works: state, time left, charts, log, what came of it; cancel and resume."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final

import pandas as pd
import streamlit as st

from data.dimensions import DIMENSIONS
from data.errors import SagedeskError
from data.records import Run, RunState
from engine.variant_types.table import VARIANT_TYPES
from ui.usecases import runs
from ui.usecases.context import Actor, Desk
from ui.usecases.imports import refusals
from ui.views.run_charts import charts
from ui.widgets.go import go_to
from ui.widgets.page import bars, day_and_time, figures, notice, table, told
from ui.widgets.presence import still
from ui.widgets.texts import literal

OPEN_STATES: Final[tuple[RunState, ...]] = ("queued", "running")
_REFRESH_S: Final = 1.0
_SLOW_REFRESH_S: Final = 4.0
_STOPPING: Final = "run_stopping"
_LOG_BYTES: Final = 8_000
# Metrics stand among the events and outnumber the messages; they have their charts.
_EVENTS_READ: Final = 100_000
_EVENTS_SHOWN: Final = 50
_ICONS: Final[Mapping[RunState, tuple[str, str]]] = {
    "queued": ("◌", "sd-faint"),
    "running": ("▶", "sd-wait"),
    "away": ("↗", "sd-wait"),
    "done": ("✓", "sd-good"),
    "failed": ("✕", "sd-bad"),
    "cancelled": ("■", "sd-faint"),
    "lost": ("?", "sd-bad"),
}
# Those counts of a run that a person asks for first, where the run has them.
_HEADLINES: Final = (
    "questions new",
    "questions same",
    "questions changed",
    "refused",
    "requested",
    "made",
    "passed",
    "variants new",
    "verdicts",
    "queued",
)
# What should have followed the run and did not, in words.
_NOT_DONE: Final = ("not_verified", "not_compared")
_STAGES: Final = ("requested", "made", "passed")
# What stands in a row of a verification's or a training's targets, in this order, and how it is called.
_TARGET_COLUMNS: Final[Mapping[str, str]] = {
    "yes": "yes",
    "no": "no",
    "unparsed": "unparsed",
    "n": "labels",
    "base_rate": "share of yes",
    "balanced_accuracy": "balanced accuracy",
    "majority_balanced_accuracy": "of always yes",
    "fail_pr_auc": "PR AUC of no",
    "majority_fail_pr_auc": "of chance",
    "roc_auc": "ROC AUC",
    "ece": "calibration error",
}
_LOSSES: Final[Mapping[str, str]] = {
    "unsupported": "the backend makes no such variant of such a question",
    "failed": "no answer came",
    "malformed": "the answer was no variant",
    "duplicates": "the variant was there already",
}


def run_detail(desk: Desk, actor: Actor, run_id: str) -> None:
    """Refreshes itself until the run has ended: state every second, charts and log less often."""
    is_open = runs.show_run(desk, actor, run_id=run_id).state in OPEN_STATES
    st.fragment(_live, run_every=_REFRESH_S if is_open else None)(desk, actor, run_id, is_open)
    for part in (_figures, _rest):
        st.fragment(part, run_every=_SLOW_REFRESH_S if is_open else None)(desk, actor, run_id)


def _live(desk: Desk, actor: Actor, run_id: str, was_open: bool) -> None:
    with told():
        actor = still(actor)
        progress = runs.run_progress(desk, actor, run_id=run_id)
        if was_open and progress.run.state not in OPEN_STATES:
            st.rerun()  # the list above shows the new state, and this stops asking
        _state(progress)
        _actions(desk, actor, progress.run)


def _figures(desk: Desk, actor: Actor, run_id: str) -> None:
    with told():
        charts(runs.run_metrics(desk, still(actor), run_id=run_id), key="run")


def _rest(desk: Desk, actor: Actor, run_id: str) -> None:
    with told():
        actor = still(actor)
        run = runs.show_run(desk, actor, run_id=run_id)
        _result(desk, actor, run)
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
        if run.state in OPEN_STATES and st.button("Cancel this run", key="run_cancel", disabled=is_stopping):
            runs.cancel_run(desk, actor, run_id=run.run_id)
            st.session_state[_STOPPING] = run.run_id
            st.rerun()
        if run.state in OPEN_STATES and is_stopping:
            notice("Asked to stop; it keeps what is complete.")
        if run.state in ("lost", "failed", "cancelled") and st.button("Resume this run", key="run_resume"):
            runs.resume_run(desk, actor, run_id=run.run_id)
            st.session_state.pop(_STOPPING, None)
            st.rerun()
        model_id = _model_of(run)
        if model_id and st.button("Open the model", key="run_model"):
            go_to("Models", model=model_id)


def _model_of(run: Run) -> str:
    """The model that the run made or that it judged; empty where there is none."""
    if run.kind == "gate-verifier":
        return Path(str(run.settings.get("challenger", ""))).name
    return str(run.result.get("model_id", ""))


def _result(desk: Desk, actor: Actor, run: Run) -> None:
    if not run.result:
        return
    error = run.result.get("error")
    if isinstance(error, str) and error:
        notice(error, kind="error")
    for name in _NOT_DONE:
        if isinstance(why := run.result.get(name), str):
            notice(why, kind="warn")
    counts = dict(_flat(run.result))
    for name in ("error", *_NOT_DONE):
        counts.pop(name.replace("_", " "), None)
    figures([(name, f"{counts[name]:,}") for name in _HEADLINES if isinstance(counts.get(name), int)])
    types = run.result.get("types")
    if run.kind == "generate" and isinstance(types, Mapping) and types:
        _yields(types)
    targets = run.result.get("targets")
    if isinstance(targets, Mapping) and targets:
        _targets(targets)
    if run.kind == "import" and run.state == "done":
        _refused(desk, actor, run)
    if counts:
        with st.expander("All counts"):
            table(["what", "how many"], [[name, str(count)] for name, count in counts.items()])


def _yields(types: Mapping[str, object]) -> None:
    st.subheader("Yield by type", anchor=False)
    of_types = [(key, counts) for key in VARIANT_TYPES if isinstance(counts := types.get(key), Mapping)]
    columns = [*_STAGES, *(loss for loss in _LOSSES if any(counts.get(loss) for _, counts in of_types))]
    frame = pd.DataFrame(
        {
            "type": [_type_name(name) for name, _ in of_types],
            **{column: [int(counts.get(column, 0)) for _, counts in of_types] for column in columns},
        }
    )
    bars(frame, name="type", series=columns, title="candidates", key="run_yields")
    said = [f"{name}: {_LOSSES[name]}" for name in columns if name in _LOSSES]
    if said:
        st.html(f'<p class="sd-faint sd-small">{escape("; ".join(said))}.</p>')
    reasons = [
        [reason, count]
        for _, counts in of_types
        for reason, count in sorted(dict(counts.get("unsupported_reasons", {})).items(), key=lambda it: -it[1])
    ]
    if reasons:
        st.subheader("Why some could not be made", anchor=False)
        table(["reason", "candidates"], reasons)
    failed = [
        [_type_name(name), check.replace("_", " "), count]
        for name, counts in of_types
        for check, count in sorted(dict(counts.get("failed_checks", {})).items(), key=lambda it: -it[1])
    ]
    if failed:
        st.subheader("Checks that did not hold", anchor=False)
        table(
            ["type", "check", "variants"],
            failed,
            caption="A variant passes when its required checks hold; those that are advice are counted here too.",
        )


def _targets(targets: Mapping[str, object]) -> None:
    """What a verification said, or a training measured, a row a dimension."""
    rows = {name: counts for name, counts in targets.items() if isinstance(counts, Mapping)}
    columns = [key for key in _TARGET_COLUMNS if any(key in counts for counts in rows.values())]
    names: dict[str, str] = {dimension.key: dimension.name for dimension in DIMENSIONS}
    names["valid"] = "all three"
    table(
        ["", *(_TARGET_COLUMNS[key] for key in columns)],
        [[name, *(rows[key].get(column) for column in columns)] for key, name in names.items() if key in rows],
        caption="Measured on questions that the verifier had not seen." if "balanced_accuracy" in columns else "",
    )


def _refused(desk: Desk, actor: Actor, run: Run) -> None:
    try:
        found = refusals(desk, actor, run_id=run.run_id)
    except SagedeskError:  # an import that refused nothing may have no such list
        return
    if found.total == 0:
        notice("No row was refused.", kind="done")
        return
    refused = "1 row was" if found.total == 1 else f"{found.total:,} rows were"
    notice(f"{refused} refused; the others are in.", kind="warn")
    table(["file", "row", "why", "begins"], [[one.file, one.row, one.reason, one.text[:160]] for one in found.rows])


def _log(desk: Desk, actor: Actor, run: Run) -> None:
    log = runs.run_log(desk, actor, run_id=run.run_id, max_bytes=_LOG_BYTES)
    events = [
        event
        for event in runs.run_events(desk, actor, run_id=run.run_id, limit=_EVENTS_READ)
        if event.kind == "message"
    ]
    events = events[-_EVENTS_SHOWN:]
    with st.expander("Log", expanded=run.state in ("running", "failed", "lost")):
        if events:
            table(["at", "level", "message"], [[event.at[11:19], event.level, event.text] for event in events])
        if log.text.strip():
            cut = "… " if log.is_cut else ""
            st.html(f'<pre class="sd-log">{cut}{literal(log.text)}</pre>')
        elif not events:
            st.html('<p class="sd-faint">Nothing written yet.</p>')


def _type_name(key: str) -> str:
    return next((kind.name for kind in VARIANT_TYPES.values() if kind.key == key), key)


def _flat(result: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Nested counts as `outer inner`; types and targets have a chart or a table of their own."""
    rows: list[tuple[str, object]] = []
    for name, value in result.items():
        words = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            if name not in ("types", "targets"):
                rows += _flat(value, words + " ")
        elif isinstance(value, list):
            rows.append((words, ", ".join(map(str, value))))
        else:
            rows.append((words, value))
    return rows

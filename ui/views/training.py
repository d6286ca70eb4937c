"""Training: what a run of either role would use, starting it, and when the desk may propose or start one."""

from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st

from data.records import ModelRole, Run, RunState
from engine.jobs.kinds import TRAINING_KINDS
from ui.desk.context import Actor, Desk
from ui.desk.usecases import runs, schedules, training_data
from ui.views.training_forms import generator_form, verifier_form
from ui.views.training_preview import preview, sentence
from ui.views.training_schedule import proposals, schedule_form
from ui.widgets.go import go_to
from ui.widgets.page import head, notice, refusals_shown
from ui.widgets.presence import still

ROLES: Final[Mapping[ModelRole, str]] = {"verifier": "Verifier", "generator": "Generator"}
_WHAT: Final[Mapping[ModelRole, str]] = {
    "verifier": "The verifier judges variants before people do. It learns from people's labels. A gate then compares "
    "the new verifier with the current one, on blind labels that no verifier is trained on.",
    "generator": "The generator writes variants. It is fine-tuned on accepted variants, then reinforced with a "
    "verifier as the reward. A comparison on the same questions shows whether more of its variants are accepted.",
}
_BUSY_STATES: Final[tuple[RunState, ...]] = ("running", "queued", "away")
_ROLE: Final = "training_role"
_REFRESH_S: Final = 2.0


def render(desk: Desk, actor: Actor) -> None:
    head(
        "Training",
        "Labels improve the verifier, and the verifier improves the generator. A lead decides which model is used.",
    )
    with refusals_shown():
        proposals(schedules.due(desk, actor), on_open=_open_role)
        role = _role()
        st.html(f'<p class="sd-what">{_WHAT[role]}</p>')
        busy = busy_run(desk, actor, role)
        if busy is not None:
            st.fragment(_busy, run_every=_REFRESH_S)(desk, actor, role)
        st.subheader("Training data", anchor=False)
        found = training_data.preview_training(desk, actor, role=role)
        blockers = () if busy is not None else found.blockers
        preview(found, blockers=blockers)
        st.subheader(f"Train a {role}", anchor=False)
        why_not = _why_not(blockers, busy)
        if role == "verifier":
            validation = sum(part.labels for part in found.parts if part.part == "validation")
            verifier_form(
                desk, lambda: still(actor), labels=found.labels, validation_labels=validation, why_not=why_not
            )
        else:
            generator_form(desk, lambda: still(actor), why_not=why_not)
        st.subheader("Schedule", anchor=False)
        schedule_form(desk, actor, role)


def busy_run(desk: Desk, actor: Actor, role: ModelRole) -> Run | None:
    """The run that trains this role now or next: a second is refused."""
    for state in _BUSY_STATES:
        if found := runs.list_runs(desk, actor, kind=TRAINING_KINDS[role], state=state, limit=1):
            return found[0]
    return None


def _role() -> ModelRole:
    """In the address, so that a refresh and a link keep it."""
    if st.session_state.get(_ROLE) is None:
        st.session_state[_ROLE] = "generator" if st.query_params.get("role") == "generator" else "verifier"
    chosen: ModelRole | None = st.segmented_control(
        "Role", list(ROLES), format_func=ROLES.__getitem__, key=_ROLE, label_visibility="collapsed", required=True
    )
    role = chosen or "verifier"
    if st.query_params.get("role") != role:
        st.query_params["role"] = role
    return role


def _open_role(role: ModelRole) -> None:
    """Before the switch is drawn."""
    st.session_state[_ROLE] = role


def _busy(desk: Desk, actor: Actor, role: ModelRole) -> None:
    """Refreshes itself; the whole page follows once the run has ended."""
    with refusals_shown():
        run = busy_run(desk, still(actor), role)
        if run is None:
            st.rerun()
            return
        share = f", {run.done:,} of {run.total:,}" if run.total else ""
        where = {"away": "is training on another machine", "queued": "is queued"}.get(run.state, "is training")
        with st.container(horizontal=True, vertical_alignment="center", key="training_busy"):
            notice(f"A {role} {where}: run {run.run_id}{share}. {run.message}")
            if st.button("Open the run", key="training_open_run"):
                go_to("Runs", run=run.run_id)


def _why_not(blockers: Sequence[str], busy: Run | None) -> str:
    if busy is not None:
        return f"Run {busy.run_id} is {busy.state}, and only one can train at a time. Wait for it or cancel it."
    return " ".join(map(sentence, blockers))

"""What a lead may do with a model: compare it, promote it with a note, roll back; and who signed what before."""

from collections.abc import Sequence

import streamlit as st

from data.records import ModelRole, Run, SignOff
from ui.desk.context import Actor, Desk
from ui.desk.usecases import gates, model_promotion, runs
from ui.desk.usecases.models import ModelDetail
from ui.views.run_started import run_started
from ui.widgets.go import go_to
from ui.widgets.once import Done, act_once, show_words
from ui.widgets.page import day_and_time, notice, table
from ui.widgets.presence import still


def what_was_done(model_id: str) -> None:
    """Once, at the drawing after it, when the form is gone."""
    show_words(_promotion(model_id))
    show_words(_way_back(model_id))


def compare(desk: Desk, actor: Actor, found: ModelDetail) -> None:
    """The gate run against the current champion: the first, or another on the labels given since."""
    if "champion" in found.info.aliases:
        if found.gate is None:
            notice("This verifier is in use. A gate run compares challengers with it.")
        return
    last = _last_gate_run(desk, actor, found.info.model_id)
    with st.container(horizontal=True, vertical_alignment="center", key="model_compare_line"):
        if last is not None and last.state in ("queued", "running", "away"):
            notice(f"A gate run is comparing it with the champion: run {last.run_id} is {last.state}.")
            if st.button("Open the run", key="model_compare_run"):
                go_to("Runs", run=last.run_id)
            return
        if last is not None and last.state != "done":
            notice(f"Its gate run {last.run_id} is {last.state}: {last.message}", kind="warn")
        elif found.gate is None:
            notice(
                "It has not been compared with the current champion. A gate run compares them on people's blind labels."
            )
        act_once(
            st.button,
            "Compare with the champion" if found.gate is None else "Compare again",
            lambda: run_started(gates.compare_models(desk, still(actor), model_id=found.info.model_id)),
            key=f"model_compare_{found.info.model_id}",
        )


def _last_gate_run(desk: Desk, actor: Actor, model_id: str) -> Run | None:
    newest = runs.list_runs(desk, actor, kind="gate-verifier")
    return next((run for run in newest if run.settings.get("challenger_id") == model_id), None)


def promote(desk: Desk, actor: Actor, found: ModelDetail) -> None:
    """With a note, always; past a gate that did not pass only by saying so."""
    info = found.info
    if "champion" in info.aliases or not info.is_at_hand:
        return
    has_passed = _has_passed(found)
    with st.form(f"promote_{info.model_id}", border=True):
        st.html("<b>Promote this model</b>")
        note = st.text_area("Reason (kept in the history)", key=f"promote_note_{info.model_id}", height=80)
        despite = not has_passed and st.checkbox(
            "Promote without a passed gate" if info.role == "verifier" else "Promote without a comparison",
            help=_hindrance(found),
            key=f"promote_despite_{info.model_id}",
        )
        left, right = st.columns([1, 3], vertical_alignment="center")
        if not has_passed:
            with right:
                notice(_hindrance(found), kind="warn")

        def sign() -> Done:
            model_promotion.promote_model(
                desk, still(actor), model_id=info.model_id, note=note, despite_gate=bool(despite)
            )
            return Done(
                f"{info.model_id} is now the champion. It judges the review queue again, which is then reordered."
                if info.role == "verifier"
                else f"{info.model_id} is now the champion. Generate uses it unless another model is named."
            )

        act_once(
            left.form_submit_button,
            "Promote to champion",
            sign,
            key=_promotion(info.model_id),
            type="primary",
            width="stretch",
        )


def roll_back(desk: Desk, actor: Actor, found: ModelDetail, *, has_previous: bool) -> None:
    """Champion and previous change places; a generator may go back to the desk's own, without a registered one."""
    info = found.info
    role: ModelRole = "generator" if info.role == "generator" else "verifier"
    if "champion" not in info.aliases or not (has_previous or role == "generator"):
        return
    with st.form(f"rollback_{role}", border=True):
        st.html("<b>Roll back to the previous champion</b>")
        left, right = st.columns([3, 1], vertical_alignment="bottom")
        note = left.text_input("Reason (kept in the history)", key=f"rollback_note_{info.model_id}")

        def sign() -> Done:
            champion = model_promotion.rollback_model(desk, still(actor), role=role, note=note)
            return Done(
                f"Rolled back: no registered {role} is in use now."
                if champion is None
                else f"Rolled back: {champion.model_id} is the champion again."
            )

        act_once(right.form_submit_button, "Roll back", sign, key=_way_back(info.model_id), width="stretch")


def sign_offs(history: Sequence[SignOff]) -> None:
    if not history:
        return
    st.subheader("Sign-offs", anchor=False)
    table(
        ["at", "by", "action", "gate", "reason"],
        [[day_and_time(one.signed_at), one.signed_by, one.action, one.outcome or "", one.note] for one in history],
    )


def _promotion(model_id: str) -> str:
    return f"promote_{model_id}_send"


def _way_back(model_id: str) -> str:
    return f"rollback_{model_id}_send"


def _has_passed(found: ModelDetail) -> bool:
    if found.info.role == "generator":
        return found.comparison is not None
    return found.gate is not None and found.gate.outcome == "passes"


def _hindrance(found: ModelDetail) -> str:
    if found.info.role == "generator":
        return "It has not been compared with the model it was trained from."
    if found.gate is None:
        return "It has not been compared with the current champion."
    said = "cannot say yet" if found.gate.outcome == "cannot_say" else "was not passed"
    return f"The gate {said}; the reasons are above."

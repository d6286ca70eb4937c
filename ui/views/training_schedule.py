"""When a role's training is due: after so many decisions or at an hour of the week; proposed, or started."""

from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st

from data.records import ModelRole
from ui.desk.context import Actor, Desk
from ui.desk.usecases import schedules
from ui.desk.usecases.schedules import Due
from ui.widgets.page import day_and_time, notice, refusals_shown
from ui.widgets.presence import still

WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DECISIONS: Final = 200


def proposals(due: Sequence[Due], *, on_open: Callable[[ModelRole], None]) -> None:
    """What the desk proposes to train, each with the way to its form; nothing where nothing is due."""
    for one in due:
        with st.container(horizontal=True, vertical_alignment="center", key=f"proposal_{one.role}"):
            notice(f"Training the {one.role} is due: {one.reason}", kind="warn")
            if st.button(f"Open {one.role} training", key=f"proposal_open_{one.role}"):
                on_open(one.role)


def schedule_form(desk: Desk, actor: Actor, role: ModelRole) -> None:
    """Saved as a whole; with neither condition the desk keeps still."""
    standing = schedules.get_schedule(desk, actor, role=role)
    decisions = None if standing is None else standing.after_decisions
    weekday = None if standing is None else standing.weekday
    hour = None if standing is None else standing.hour
    with st.form(f"schedule_{role}", border=True):
        first, second, third = st.columns([1.2, 1.6, 1.2], gap="large")
        with first:
            is_counted = st.checkbox("After new decisions", value=decisions is not None, key=f"schedule_{role}_counts")
            count = st.number_input(
                "Number of decisions", 1, 1_000_000, decisions or _DECISIONS, key=f"schedule_{role}_decisions"
            )
        with second:
            is_weekly = st.checkbox("Every week", value=weekday is not None, key=f"schedule_{role}_weekly")
            left, right = st.columns(2)
            day = left.selectbox(
                "Day", range(7), weekday or 0, format_func=WEEKDAYS.__getitem__, key=f"schedule_{role}_day"
            )
            at = right.selectbox(
                "Time (UTC)",
                range(24),
                2 if hour is None else hour,
                format_func=lambda it: f"{it:02d}:00",
                key=f"schedule_{role}_hour",
            )
        with third:
            may_start = st.checkbox(
                "Start automatically",
                value=standing is not None and standing.may_start,
                help="Otherwise the desk proposes the run, here and on the Overview page. People decide on promotion.",
                key=f"schedule_{role}_starts",
            )
            wants = st.form_submit_button("Save schedule", width="stretch")
        if standing is not None:
            st.caption(f"Last changed by {standing.updated_by}, {day_and_time(standing.updated_at)}.")
        if wants:
            with refusals_shown():
                schedules.set_schedule(
                    desk,
                    still(actor),
                    role=role,
                    after_decisions=int(count) if is_counted else None,
                    weekday=day if is_weekly else None,
                    hour=at if is_weekly else None,
                    may_start=may_start,
                )
                notice(_saved_text(role, is_set=is_counted or is_weekly, may_start=may_start), kind="done")


def _saved_text(role: ModelRole, *, is_set: bool, may_start: bool) -> str:
    if not is_set:
        return f"Saved: the {role} is trained only when someone starts a run."
    return f"Saved: the desk now {'starts' if may_start else 'proposes'} training of the {role} when it is due."

"""The overview: how far the work has come, yield by type, what waits, how the sync is; the blind share for leads."""

import pandas as pd
import streamlit as st

from data.records import VariantTypeKey
from engine.variant_types.table import VARIANT_TYPES
from ui.desk.context import Actor, Desk
from ui.desk.sync_status import SyncStatus
from ui.desk.usecases import review, schedules
from ui.desk.usecases.learning import retrain_verifier
from ui.desk.usecases.models import list_models
from ui.desk.usecases.overview import Overview, overview
from ui.desk.usecases.sync import sync_now
from ui.desk.usecases.verification import start_verification
from ui.views.run_started import run_started
from ui.views.training_schedule import proposals
from ui.widgets.go import go_to
from ui.widgets.once import act_once
from ui.widgets.page import bars, day_and_time, empty, figures, head, notice, refusals_shown, table
from ui.widgets.presence import still


def render(desk: Desk, actor: Actor) -> None:
    head("Overview", "Progress, yields by type, what is waiting, and the sync with Label Studio.")
    with refusals_shown():
        whole = overview(desk, actor)
        if whole.funnel.questions == 0:
            empty(
                "The desk is empty",
                "Open Questions and import a benchmark, then generate variants from it."
                if actor.role == "lead"
                else "A lead has to import questions first.",
            )
        funnel = whole.funnel
        stages = [
            ("questions", funnel.questions),
            ("generated", funnel.generated),
            ("passed contract", funnel.contract_passed),
            ("verified", funnel.verified),
            ("reviewed", funnel.reviewed),
            ("accepted", funnel.accepted),
            ("released", funnel.released),
        ]
        figures([(name, f"{count:,}") for name, count in stages])
        if actor.role == "lead":
            proposals(schedules.due(desk, actor), on_open=lambda role: go_to("Training", role=role))
        if actor.role == "lead" and whole.unverified:
            _unverified(desk, actor, whole.unverified)
        left, right = st.columns([1.5, 1], gap="large")
        with left:
            _yields(whole)
        with right:
            _queue(desk, actor)
            _sync(desk, actor, whole.sync)
            if whole.benchmarks:
                st.subheader("Benchmarks", anchor=False)
                table(["benchmark", "questions"], [[one.name, one.questions] for one in whole.benchmarks])


def _unverified(desk: Desk, actor: Actor, count: int) -> None:
    """Variants made while there was no verifier wait here, and nobody reviews them before they are judged."""
    has_verifier = any(model.role == "verifier" and model.is_champion for model in list_models(desk, actor))
    waiting = "1 variant is" if count == 1 else f"{count:,} variants are"
    with st.container(border=True, key="unverified"):
        if has_verifier:
            notice(
                f"{waiting} not verified yet. Those that pass their contract are queued for review once they are.",
                kind="warn",
            )
            act_once(
                st.button,
                "Verify now",
                lambda: run_started(start_verification(desk, still(actor))),
                key="verify_now",
            )
        else:
            notice(f"{waiting} not verified yet, and there is no verifier: train one first.", kind="warn")
            act_once(
                st.button,
                "Train a verifier on the sample labels",
                lambda: run_started(retrain_verifier(desk, still(actor))),
                key="train_now",
            )


def _yields(whole: Overview) -> None:
    yields = whole.yields
    st.subheader("Yield by type", anchor=False)
    if not yields:
        empty("No variants yet", "Generate variants to see how many of each type are accepted.")
        return
    order = list(VARIANT_TYPES)
    yields = tuple(sorted(yields, key=lambda one: order.index(one.variant_type)))
    frame = pd.DataFrame(
        {
            "type": [_name(one.variant_type) for one in yields],
            "generated": [one.generated for one in yields],
            "passed contract": [one.contract_passed for one in yields],
            "judged valid": [one.judged_valid for one in yields],
            "accepted": [one.accepted for one in yields],
            "rejected": [one.rejected for one in yields],
        }
    )
    bars(frame, name="type", series=list(frame.columns[1:]), title="variants", key="yields")


def _queue(desk: Desk, actor: Actor) -> None:
    status = review.queue_status(desk, actor)
    st.subheader("Review queue", anchor=False)
    table(
        ["", "items"],
        [
            ["in the queue", status.total],
            ["answered", status.done],
            ["waiting for you", status.waiting],
            ["answered by you", status.mine],
            ["answered by you today", status.mine_today],
        ],
    )
    if actor.role != "lead":
        return
    with st.form("blind_share", border=False):
        percent = st.slider(
            "Blind share of new queue items (%)",
            0,
            100,
            round(status.blind_share * 100),
            step=5,
            help="Blind items are drawn at random. Their verdicts stay hidden until they are answered, and only their "
            "labels are used to evaluate the verifier. Items already in the queue are not affected.",
        )
        if st.form_submit_button("Set blind share"):
            with refusals_shown():
                review.set_blind_share(desk, still(actor), share=percent / 100)
                notice(f"The blind share of new items is now {percent} %.", kind="done")


def _sync(desk: Desk, actor: Actor, sync: SyncStatus) -> None:
    st.subheader("Label Studio", anchor=False)
    if not sync.is_configured:
        notice("No Label Studio is connected. Labels are saved here and pushed once one is; see `sagedesk doctor`.")
    elif sync.stale_since is not None:
        at, why = day_and_time(sync.stale_since), f" ({sync.last_error})" if sync.last_error else ""
        notice(
            f"Out of sync since {at}{why}. Go on reviewing: labels are saved here and pushed later.",
            kind="warn",
        )
    elif sync.last_delta_at is None:
        notice("Connecting: nothing has been read from Label Studio yet.")
    elif sync.outbox_open:
        waiting = "1 label is" if sync.outbox_open == 1 else f"{sync.outbox_open:,} labels are"
        notice(f"{waiting} waiting to be pushed to Label Studio.")
    else:
        notice("In sync with Label Studio.", kind="done")
    rows: list[list[object]] = [
        ["server", sync.server or "none yet"],
        ["last read", day_and_time(sync.last_delta_at) or "never"],
        ["last full comparison", day_and_time(sync.last_sweep_at) or "never"],
        ["labels to push", sync.outbox_open],
        ["in quarantine", sync.quarantined],
    ]
    table(["", ""], rows)
    if sync.counts:
        with st.expander("Result of the last full comparison"):
            table(["", "count"], [[name.replace("_", " "), count] for name, count in sync.counts.items()])
    if actor.role == "lead" and sync.is_configured and st.button("Sync now", key="sync_now"):
        with refusals_shown():
            sync_now(desk, still(actor))
            st.rerun()


def _name(key: VariantTypeKey) -> str:
    return VARIANT_TYPES[key].name

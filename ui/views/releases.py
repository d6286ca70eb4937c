"""Releases: freeze what is accepted under a name, list what was released, prove that a folder is still that."""

import streamlit as st

from engine.variant_types.table import VARIANT_TYPES
from ui.desk.context import Actor, Desk
from ui.desk.usecases import releases
from ui.desk.usecases.overview import overview
from ui.widgets.once import Done, act_once
from ui.widgets.page import day_and_time, empty, figures, head, notice, refusals_shown, table
from ui.widgets.presence import still


def render(desk: Desk, actor: Actor) -> None:
    head(
        "Releases",
        "A release is a frozen, numbered set of accepted variants. It never changes, and its name is never reused.",
    )
    with refusals_shown():
        accepted = overview(desk, actor).funnel.accepted
        _create(desk, actor, accepted)
        made = releases.list_releases(desk, actor)
        if not made:
            ready = "1 accepted variant is" if accepted == 1 else f"{accepted:,} accepted variants are"
            empty(
                "No release yet",
                f"{ready} ready: name the release above to create it."
                if accepted
                else "A release consists of accepted variants, and none has been accepted yet. Review some first.",
            )
            return
        table(
            ["number", "name", "items", "created by", "created", "folder", "manifest"],
            [
                [
                    one.number,
                    one.name,
                    one.items,
                    one.created_by,
                    day_and_time(one.created_at),
                    one.folder,
                    one.manifest_sha256[:12],
                ]
                for one in made
            ],
        )
        _one(desk, actor, [one.name for one in made])


def _create(desk: Desk, actor: Actor, accepted: int) -> None:
    with st.form("release_create", border=True):
        left, right = st.columns([4, 1], vertical_alignment="bottom")
        name = left.text_input("New release", placeholder="hellaswag-robust-1", max_chars=80)
        st.caption("Includes every variant accepted so far, with its evidence.")

        def create() -> Done:
            made = releases.create_release(desk, still(actor), name=name.strip())
            return Done(
                f"Created release {made.release.name} (number {made.release.number}): {made.variants:,} variants "
                f"of {made.questions:,} questions in {made.release.folder}"
            )

        act_once(
            right.form_submit_button,
            "Create release",
            create,
            key="release_create_send",
            disabled=accepted == 0,
            type="primary",
            width="stretch",
        )


def _one(desk: Desk, actor: Actor, names: list[str]) -> None:
    left, right = st.columns([4, 1], vertical_alignment="bottom")
    name = left.selectbox("Release", names, key="release_name")
    wants_proof = right.button("Verify", key="release_verify", width="stretch")
    if name is None:
        return
    if wants_proof:
        proof = releases.verify_release(desk, still(actor), name=name)
        if proof.is_intact:
            notice(f"{name} is intact: every file matches the manifest.", kind="done")
        else:
            notice(f"{name} has been changed: {'; '.join(proof.problems)}", kind="error")
    detail = releases.show_release(desk, actor, name=name)
    figures([("variants", f"{detail.variants:,}"), ("questions", f"{detail.questions:,}")])
    type_names: dict[str, str] = {kind.key: kind.name for kind in VARIANT_TYPES.values()}
    rows = [[type_names.get(key, key), key, count] for key, count in detail.by_type.items()]
    table(["type", "configuration", "variants"], rows)
    st.code(f'datasets.load_dataset("{detail.release.folder}")', language=None)

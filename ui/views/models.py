"""Models: which there are by role, and of one where it comes from, how it compares, and whether it comes into use."""

from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st

from ui.desk.context import Actor, Desk
from ui.desk.model_info import ModelInfo
from ui.desk.usecases import gates, models
from ui.desk.usecases.models import ModelDetail
from ui.views.model_comparison import comparison
from ui.views.model_gate import flips, gate
from ui.views.model_signing import compare, promote, roll_back, sign_offs, what_was_done
from ui.views.verifier_figures import training_figures
from ui.widgets.go import go_to
from ui.widgets.page import day_and_time, empty, head, notice, refusals_shown, table
from ui.widgets.row_list import Row, row_list

_ROLES: Final = ("verifier", "generator")
_ALIASES: Final[Mapping[str, str]] = {
    "champion": "✓ champion",
    "challenger": "◇ challenger",
    "previous": "previous",
}
# Parts of an origin that have a table above.
_DRAWN: Final = frozenset({"targets", "types", "comparison", "methods", "calibration", "held_out", "run_id", "parent"})


def render(desk: Desk, actor: Actor) -> None:
    head(
        "Models",
        "The champion is in use. A lead promotes a challenger after looking at its comparison, and signs for it.",
    )
    with refusals_shown():
        found = models.list_models(desk, actor)
        registered = [model for model in found if model.model_id and model.role in _ROLES]
        if not registered:
            empty(
                "No model is trained yet",
                "Open Training and train a verifier. It takes a minute on the sample's labels.",
            )
        asked = st.query_params.get("model")
        model_id = asked if asked is not None else _first(registered)
        for role in _ROLES:
            _list(role, [model for model in registered if model.role == role], model_id)
        _embedded([model for model in found if not model.model_id])
        if model_id is not None:
            _detail(desk, actor, model_id, registered)


def _first(registered: Sequence[ModelInfo]) -> str | None:
    """Whom a lead most likely comes for: a challenger, else a champion."""
    for alias in ("challenger", "champion"):
        for model in registered:
            if alias in model.aliases:
                return model.model_id
    return registered[0].model_id if registered else None


def _list(role: str, of_role: Sequence[ModelInfo], chosen: str | None) -> None:
    if not of_role:
        return
    st.subheader(f"{role.title()}s", anchor=False)
    with st.container(key=f"models_{role}_box"):
        row_list(
            ["status", "kind", "version", "created", "model", "run"],
            [
                Row(
                    model.model_id,
                    [
                        ", ".join(_ALIASES[alias] for alias in model.aliases if alias in _ALIASES),
                        model.kind,
                        model.version,
                        day_and_time(model.created_at),
                        model.model_id,
                        model.run_id or "",
                    ],
                )
                for model in sorted(of_role, key=_order)
            ],
            key=f"models_{role}",
            on_open=_open,
            chosen=chosen,
        )


def _order(model: ModelInfo) -> tuple[int, float]:
    place = min((list(_ALIASES).index(alias) for alias in model.aliases if alias in _ALIASES), default=len(_ALIASES))
    return place, 0.0 if model.created_at is None else -model.created_at.timestamp()


def _open(model_id: str) -> None:
    st.query_params["model"] = model_id


def _embedded(found: Sequence[ModelInfo]) -> None:
    if not found:
        return
    with st.expander("Unregistered models: embedded, or named in the settings"):
        table(
            ["role", "model", "in use", "available", "folder"],
            [[model.role, model.version, bool(model.aliases), model.is_at_hand, model.folder] for model in found],
        )


def _detail(desk: Desk, actor: Actor, model_id: str, registered: Sequence[ModelInfo]) -> None:
    found = models.show_model(desk, actor, model_id=model_id)
    info = found.info
    named = ", ".join(_ALIASES[alias] for alias in info.aliases if alias in _ALIASES)
    st.subheader(f"{info.role.title()} {info.model_id}", anchor=False)
    with st.container(horizontal=True, vertical_alignment="center", key="model_actions"):
        st.text(named or "not in use")
        for label, run_id in (("Open the training run", info.run_id), ("Open the gate run", found.gate_run_id)):
            if run_id and st.button(label, key=f"model_{label}"):
                go_to("Runs", run=run_id)
    if not info.is_at_hand:
        notice("Its files are missing or have changed since registration, so it cannot be used.", kind="error")
    what_was_done(info.model_id)
    for line in found.unreadable:
        notice(line, kind="error")
    if info.role == "generator":
        _comparison(found)
    else:
        if found.gate is not None:
            gate(found.gate, found.conclusion)
        compare(desk, actor, found)
    promote(desk, actor, found)
    has_previous = any(model.role == info.role and "previous" in model.aliases for model in registered)
    roll_back(desk, actor, found, has_previous=has_previous)
    if found.gate is not None and found.gate_run_id is not None and found.gate.labels:
        with refusals_shown():
            flips(gates.flipped(desk, actor, run_id=found.gate_run_id, limit=gates.MAX_FLIPS))
    sign_offs(found.sign_offs)
    if found.training is not None:
        st.subheader("Training results", anchor=False)
        training_figures(found.training)
    _lineage(found)


def _comparison(found: ModelDetail) -> None:
    if found.comparison is None:
        notice("It was not compared with the model it was trained from. A training that finishes does that.")
    else:
        comparison(found.comparison)


def _lineage(found: ModelDetail) -> None:
    """Where it comes from: run, parent, data, seed, and whatever else was written down when it was registered."""
    with st.expander("Origin and files"):
        info = found.info
        rows: list[list[object]] = [
            ["version", info.version],
            ["kind", info.kind],
            ["champion at the time of training", info.parent or "none"],
            ["folder", info.folder],
        ]
        rows += [[name, text] for name, text in _flat(found.origin) if text]
        table(["", ""], rows)
        table(["file", "SHA-256"], [[name, digest] for name, digest in sorted(found.files.items())])


def _flat(origin: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in sorted(origin.items()):
        if name in _DRAWN:
            continue
        words = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            rows += _flat(value, words + ", ")
        elif isinstance(value, list | tuple):
            rows.append((words, ", ".join(map(str, value))))
        else:
            rows.append((words, "" if value is None else str(value)))
    return rows

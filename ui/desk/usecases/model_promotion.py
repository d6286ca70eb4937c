"""Promotion and rollback by a lead, with a note. Refuses a promotion that the comparison does not support.

The sign-off is written to the store first, then the aliases change, then the review queue is judged again. A desk that
stops in between completes this at its next start: the newest sign-off says which model is in use.
"""

import threading
from typing import Final, NamedTuple

from data.errors import ConflictError, InputError, ReportError
from data.records import MODEL_ROLES, ModelRole, RunId, SignOffAction
from data.store import Connection
from data.tables.sign_offs import SignOffTable
from training.registry import (
    RegisteredModel,
    after_rollback,
    aliases,
    find_model,
    open_model,
    promote,
    roll_back,
    verified,
)
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.gate_results import standing_gate
from ui.desk.model_info import ModelInfo, model_info
from ui.desk.run_reports import comparison_of_model
from ui.desk.sign_offs import follow_change

MAX_NOTE_CHARACTERS: Final = 2_000

# Sign-offs are serialised, so that the aliases match the newest one.
_signing = threading.Lock()


class _Evidence(NamedTuple):
    """`outcome` is the result of comparison `run_id`; `lack` says why it does not support a promotion, or is empty."""

    run_id: RunId | None
    outcome: str
    lack: str


def promote_model(desk: Desk, actor: Actor, *, model_id: str, note: str, despite_gate: bool = False) -> ModelInfo:
    """Makes a registered model the champion; the old one stays as `previous`. The queue is then judged again.

    Args:
        note: the lead's reason, stored in the sign-off.
        despite_gate: promote although the gate did not pass or, for a generator, without a comparison; recorded.

    Raises:
        PermissionDeniedError, NotFoundError.
        InputError: no note.
        ConflictError: it is already champion, or its comparison with the champion does not support it.
        ModelError: its files are not what was registered; the champion stays.
        JobError: it is champion, but the run that judges the queue cannot start.
    """
    require_lead(desk, actor, "model.promote", model_id)
    words = _note(note)
    with _signing:
        model = find_model(desk.settings.models, model_id)
        before = aliases(desk.settings.models, model.role).get("champion")
        if before == model_id:
            raise ConflictError(f"{model.role} {model_id} is already the champion")
        verified(model)
        with desk.store.read() as connection:
            evidence = _evidence(connection, model, before)
        if evidence.lack and not despite_gate:
            raise ConflictError(f"{model.role} {model_id} {evidence.lack}, or promote it despite the gate")
        _sign(
            desk,
            actor,
            role=model.role,
            action="promote",
            model_id=model_id,
            previous_id=before,
            evidence=evidence,
            note=words,
        )
        promote(desk.settings.models, model.role, model_id)
    follow_change(desk, actor, model.role)
    with desk.store.read() as connection:
        return model_info(desk, connection, model)


def rollback_model(desk: Desk, actor: Actor, *, role: ModelRole, note: str) -> ModelInfo | None:
    """Champion and previous change places; doing it twice restores the original state. The queue is then judged again.

    Returns:
        The champion; None if no registered generator is in use any longer.

    Raises:
        PermissionDeniedError.
        InputError: no note, or no such role.
        ConflictError: there is nothing to go back to.
        ModelError: the previous model's files have changed; the champion stays.
        JobError: it is done, but the run that judges the queue cannot start.
    """
    require_lead(desk, actor, "model.rollback", role)
    if role not in MODEL_ROLES:
        raise InputError(f"role {role!r}: use one of {', '.join(MODEL_ROLES)}")
    words = _note(note)
    models = desk.settings.models
    with _signing:
        back_to = after_rollback(models, role)
        if back_to is not None:
            open_model(models, role, back_to)
        _sign(
            desk,
            actor,
            role=role,
            action="rollback",
            model_id=back_to,
            previous_id=aliases(models, role).get("champion"),
            evidence=_Evidence(None, "", ""),
            note=words,
        )
        model = roll_back(models, role)
    follow_change(desk, actor, role)
    if model is None:
        return None
    with desk.store.read() as connection:
        return model_info(desk, connection, model)


def _evidence(connection: Connection, model: RegisteredModel, champion_id: str | None) -> _Evidence:
    try:
        return _readable_evidence(connection, model, champion_id)
    except ReportError as exc:
        again = f"`sagedesk model compare {model.model_id}`" if model.role == "verifier" else "refresh it"
        return _Evidence(None, "", f"has no evidence that can be read: {exc}; {again} again")


def _readable_evidence(connection: Connection, model: RegisteredModel, champion_id: str | None) -> _Evidence:
    """Raises ReportError."""
    if model.role == "generator":
        run_id = model.origin.get("run_id")
        if comparison_of_model(model) is None:
            return _Evidence(None, "", "has no comparison with its predecessor; refresh it again")
        return _Evidence(None if run_id is None else RunId(str(run_id)), "compared", "")
    if champion_id is None:
        return _Evidence(None, "", "")
    gate = standing_gate(connection, model.model_id, champion_id)
    if gate is None:
        lack = f"has not been compared with the current champion; run `sagedesk model compare {model.model_id}`"
        return _Evidence(None, "", lack)
    outcome = gate.report.outcome
    if outcome == "passes":
        return _Evidence(gate.run_id, outcome, "")
    reasons = "; ".join(reason.rstrip(".") for reason in gate.report.reasons)
    return _Evidence(gate.run_id, outcome, f"did not pass the gate ({outcome}): {reasons}; train on more labels")


def _note(note: str) -> str:
    words = note.strip()
    if not words:
        raise InputError("write a note saying why; it is recorded in the sign-off")
    if len(words) > MAX_NOTE_CHARACTERS:
        raise InputError(f"the note has {len(words):,} characters; shorten it to {MAX_NOTE_CHARACTERS:,}")
    return words


def _sign(
    desk: Desk,
    actor: Actor,
    *,
    role: ModelRole,
    action: SignOffAction,
    model_id: str | None,
    previous_id: str | None,
    evidence: _Evidence,
    note: str,
) -> None:
    now = desk.now()
    with desk.store.write() as connection:
        SignOffTable(connection).add(
            role=role,
            action=action,
            model_id=model_id,
            previous_id=previous_id,
            run_id=evidence.run_id,
            outcome=evidence.outcome,
            note=note,
            signed_by=actor.name,
            signed_at=now,
        )
        audit(
            desk,
            actor,
            f"model.{action}",
            model_id or role,
            within=connection,
            at=now,
            role=role,
            previous=previous_id,
            gate=evidence.outcome,
            note=note,
        )

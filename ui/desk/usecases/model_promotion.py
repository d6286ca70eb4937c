"""Which model is in use: a lead promotes one with a note, or goes back. Refuses what its comparison does not carry.

A sign-off is written to the store first, then the aliases change, then what waits for review is judged anew. A desk
that ends in between does the rest at its next start: the newest sign-off says which model is in use.
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

# Two leads sign one after the other, so that the aliases end as the newest sign-off says.
_signing = threading.Lock()


class _Evidence(NamedTuple):
    """`outcome` is what comparison `run_id` said; `lack` why it does not carry a promotion, empty where it does."""

    run_id: RunId | None
    outcome: str
    lack: str


def promote_model(desk: Desk, actor: Actor, *, model_id: str, note: str, despite_gate: bool = False) -> ModelInfo:
    """Make a registered model the champion; the one before stays as `previous`. Afterwards the queue is judged anew.

    Args:
        note: why, in the lead's words; it stands in the sign-off.
        despite_gate: although the gate did not pass, or (a generator) nothing was compared; the sign-off says so.

    Raises:
        PermissionDeniedError, NotFoundError.
        InputError: no note.
        ConflictError: it is champion already, or its comparison with the champion does not carry it.
        ModelError: its files are not what was registered; the champion stays.
        JobError: it is champion, but the run that judges the queue cannot start.
    """
    require_lead(desk, actor, "model.promote", model_id)
    words = _note(note)
    with _signing:
        model = find_model(desk.settings.models, model_id)
        before = aliases(desk.settings.models, model.role).get("champion")
        if before == model_id:
            raise ConflictError(f"{model.role} {model_id} is the champion already")
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
    """Champion and previous change places; done twice, all is as before. Afterwards the queue is judged anew.

    Returns:
        The champion; None where no registered generator is in use any more.

    Raises:
        PermissionDeniedError.
        InputError: no note, or no such role.
        ConflictError: there is nothing to go back to.
        ModelError: the files of the one before are not what was registered; the champion stays.
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
            return _Evidence(None, "", "was never compared with the one before; refresh it again")
        return _Evidence(None if run_id is None else RunId(str(run_id)), "compared", "")
    if champion_id is None:
        return _Evidence(None, "", "")
    gate = standing_gate(connection, model.model_id, champion_id)
    if gate is None:
        lack = f"was not compared with the champion of now; `sagedesk model compare {model.model_id}` does"
        return _Evidence(None, "", lack)
    outcome = gate.report.outcome
    if outcome == "passes":
        return _Evidence(gate.run_id, outcome, "")
    reasons = "; ".join(reason.rstrip(".") for reason in gate.report.reasons)
    return _Evidence(gate.run_id, outcome, f"did not pass the gate ({outcome}): {reasons}; train on more labels")


def _note(note: str) -> str:
    words = note.strip()
    if not words:
        raise InputError("write a note: why this model; it stands in the sign-off")
    if len(words) > MAX_NOTE_CHARACTERS:
        raise InputError(f"the note has {len(words):,} characters; {MAX_NOTE_CHARACTERS:,} are kept at most")
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

"""Carries out sign-offs: puts the model into use and has it judge the queue.

Decides nothing: the use cases decide whether a model may be promoted.
"""

import logging

from data.errors import JobError, SagedeskError
from data.records import MODEL_ROLES, ModelRole, Run, SignOff
from data.tables.queue import QueueTable
from data.tables.runs import RunTable
from data.tables.sign_offs import SignOffTable
from training.registry import (
    after_rollback,
    aliases,
    promote,
    roll_back,
)
from ui.desk.context import OPERATOR, Actor, Desk, audit
from ui.desk.submissions import verification_submission

logger = logging.getLogger(__name__)


def follow_change(desk: Desk, actor: Actor, role: ModelRole) -> None:
    """Follows up a change of champion: a new verifier judges the review queue, which reorders it.

    Raises:
        JobError: the run cannot start, although the champion has changed.
    """
    if role != "verifier":
        return
    try:
        _judge_queue(desk, actor)
    except SagedeskError as exc:
        raise JobError(
            f"the champion has changed, but it could not judge the review queue: {exc}; fix that, then run "
            f"`sagedesk variant verify`"
        ) from exc


def settle_sign_offs(desk: Desk) -> None:
    """At start, completes the newest sign-off if the desk stopped before putting it into use or judging the queue.

    If that fails it is logged, and the desk starts with the champion it had.
    """
    for role in MODEL_ROLES:
        with desk.store.read() as connection:
            newest = next(iter(SignOffTable(connection).of_role(role)), None)
        if newest is None:
            continue
        try:
            if aliases(desk.settings.models, role).get("champion") != newest.model_id:
                _put_in_use(desk, newest)
            elif role == "verifier" and not _has_verified_since(desk, newest):
                _judge_queue(desk, OPERATOR)
        except SagedeskError as exc:
            logger.warning("sign-off %s of %s cannot be carried out: %s", newest.sign_off_id, newest.signed_by, exc)


def _judge_queue(desk: Desk, actor: Actor) -> Run | None:
    """Has the champion judge undecided queue items, and reorders the queue by the result.

    Returns:
        The run; None if nothing is waiting.

    Raises:
        ModelError: the champion is not what was registered.
    """
    with desk.store.read() as connection:
        waiting = QueueTable(connection).undecided()
        if not waiting:
            return None
        wanted = verification_submission(connection, desk.settings, verifier="champion", variant_ids=waiting)
    run = desk.supervisor.submit(wanted, submitted_by=actor.name)
    audit(desk, actor, "verification.start", run.run_id, verifier="champion", variants=len(waiting))
    return run


def _has_verified_since(desk: Desk, signed: SignOff) -> bool:
    with desk.store.read() as connection:
        newest = RunTable(connection).newest(limit=1, kind="verify")
    return any(run.created_at >= signed.signed_at for run in newest)


def _put_in_use(desk: Desk, signed: SignOff) -> None:
    if signed.action == "promote" and signed.model_id is not None:
        promote(desk.settings.models, signed.role, signed.model_id)
    elif signed.action == "rollback" and after_rollback(desk.settings.models, signed.role) == signed.model_id:
        roll_back(desk.settings.models, signed.role)
    else:
        return
    logger.info(
        "%s %s is now in use, signed off by %s",
        signed.role,
        signed.model_id or "without registration",
        signed.signed_by,
    )
    if signed.role == "verifier":
        _judge_queue(desk, OPERATOR)

"""Starting a verification: which variants, with which verifier; by default the champion."""

from collections.abc import Sequence
from typing import Final

from data.errors import InputError, NotFoundError
from data.records import Run, RunId, VariantId
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.submissions import SCOPES, VERIFIERS, Scope, VerifierChoice, to_verify, verification_submission

MAX_LIMIT: Final = 10_000_000


def start_verification(
    desk: Desk,
    actor: Actor,
    *,
    verifier: VerifierChoice = "champion",
    scope: Scope = "unverified",
    run_id: RunId | None = None,
    variant_ids: Sequence[VariantId] | None = None,
    limit: int | None = None,
    model: str | None = None,
    then_queue: bool = True,
) -> Run:
    """Queues a verification.

    Args:
        verifier: the champion, or a feature verifier or language model named by `model`.
        scope: variants without a verdict of this verifier, or all; narrowed by `run_id`, `variant_ids`, `limit`.
            The sample's training variants are judged only if named, because verifiers know their answers.
        model: the folder of a feature verifier, None for the champion's; the folder or hub id of a language model, None
            for the desk's own. For one not downloaded yet it is unknown what it has judged, so `unverified` means all.
            Must be None with the champion.
        then_queue: afterwards, queue what passes its contract for review; never training variants.

    Raises:
        PermissionDeniedError, InputError (an invalid setting), NotFoundError (nothing to verify, no verifier, no
        such variant or run).
    """
    require_lead(desk, actor, "verification.start", verifier)
    if verifier not in VERIFIERS or scope not in SCOPES:
        raise InputError(
            f"use one of {', '.join(VERIFIERS)} as the verifier and one of {', '.join(SCOPES)} as the scope"
        )
    if verifier == "champion" and model is not None:
        raise InputError(
            f"the champion takes no model; with {model!r} use one of {', '.join(VERIFIERS[1:])} as the verifier"
        )
    if limit is not None and not 1 <= limit <= MAX_LIMIT:
        raise InputError(f"limit {limit}: verify 1 to {MAX_LIMIT:,} variants, or leave the limit out")
    if run_id is not None:
        desk.supervisor.get(run_id)
    with desk.store.read() as connection:
        ids = to_verify(
            connection,
            desk.settings,
            verifier=verifier,
            scope=scope,
            run_id=run_id,
            variant_ids=variant_ids,
            limit=limit,
            model=model,
        )
        if not ids:
            raise NotFoundError("no variants left to verify; generate some, or verify again with the scope `all`")
        wanted = verification_submission(
            connection, desk.settings, verifier=verifier, variant_ids=ids, model=model, then_queue=then_queue
        )
    run = desk.supervisor.submit(wanted, submitted_by=actor.name)
    audit(desk, actor, "verification.start", run.run_id, verifier=verifier, variants=len(ids))
    return run

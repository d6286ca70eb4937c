"""Verification as a person starts it: which variants, by which verifier."""

from collections.abc import Sequence
from typing import Final, Literal, get_args

from data.errors import InputError, NotFoundError
from data.records import Run, RunId, VariantId, VerdictMethod
from data.store import Connection
from data.tables.contract_checks import ContractCheckTable
from data.tables.questions import QuestionTable
from data.tables.variants import VariantTable
from training.registry import verified
from ui.jobs import Submission
from ui.settings import Settings
from ui.usecases.context import Actor, Desk, audit, require_lead
from ui.usecases.models import champion_verifier

Scope = Literal["unverified", "all"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
NO_VERIFIER: Final = "no verifier is trained yet; `sagedesk model train` trains the first from the sample labels"
VERIFIERS: Final[tuple[VerdictMethod, ...]] = get_args(VerdictMethod)


def start_verification(
    desk: Desk,
    actor: Actor,
    *,
    verifier: VerdictMethod = "feature",
    scope: Scope = "unverified",
    run_id: RunId | None = None,
    variant_ids: Sequence[VariantId] | None = None,
    limit: int | None = None,
    model: str | None = None,
    then_queue: bool = True,
) -> Run:
    """Queue a verification.

    Args:
        scope: variants without a verdict of this verifier, or all; narrowed by `run_id`, `variant_ids`, `limit`.
        model: of a language-model verifier; the desk's own model if None.
        then_queue: put what passes its contract before people afterwards.

    Raises:
        PermissionDeniedError, InputError (a setting that cannot be), NotFoundError (nothing to verify, no verifier).
    """
    require_lead(desk, actor, "verification.start", verifier)
    if verifier not in VERIFIERS or scope not in SCOPES:
        raise InputError(f"use a verifier of {', '.join(VERIFIERS)} and a scope of {', '.join(SCOPES)}")
    champion = champion_verifier(desk.settings) if verifier == "feature" else None
    if verifier == "feature" and champion is None:
        raise NotFoundError(NO_VERIFIER)
    with desk.store.read() as connection:
        ids = VariantTable(connection).arrow(
            ids=variant_ids,
            run_id=run_id,
            unverified_by=champion.version if champion is not None and scope == "unverified" else None,
            limit=limit,
        )["variant_id"]
        if len(ids) == 0:
            raise NotFoundError("no variant left to verify; generate some, or verify again with scope `all`")
        wanted = verification_submission(
            connection,
            desk.settings,
            verifier=verifier,
            variant_ids=[VariantId(one) for one in ids.to_pylist()],
            model=model,
            then_queue=then_queue,
        )
    run = desk.supervisor.submit(wanted, submitted_by=actor.name)
    audit(desk, actor, "verification.start", run.run_id, verifier=verifier, variants=len(ids))
    return run


def verification_submission(
    connection: Connection,
    settings: Settings,
    *,
    verifier: VerdictMethod,
    variant_ids: Sequence[VariantId],
    model: str | None = None,
    then_queue: bool = True,
) -> Submission:
    """The run that judges these variants, with their questions and contract checks along.

    Raises:
        ModelError: the champion's files are not what was registered.
    """
    variants = VariantTable(connection).arrow(ids=variant_ids)
    questions = QuestionTable(connection).arrow(ids=variants["question_id"].unique().to_pylist())
    checks = ContractCheckTable(connection).arrow(variant_ids)
    if verifier == "feature":
        champion = champion_verifier(settings)
        named = None if champion is None else str(verified(champion).folder)
    else:
        named = model or settings.model
    return Submission(
        "verify",
        {"verifier": verifier, "model": named},
        {"variants": variants, "questions": questions, "contract_checks": checks},
        seed=0,
        afterwards={"then_queue": then_queue},
    )

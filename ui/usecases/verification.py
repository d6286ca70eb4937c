"""Verification as a person starts it: which variants, by which verifier."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, get_args

from data.errors import InputError, NotFoundError
from data.records import Run, RunId, VariantId, VerdictMethod
from data.store import Connection
from data.tables.contract_checks import ContractCheckTable
from data.tables.questions import QuestionTable
from data.tables.variants import Judge, VariantTable
from engine.embedded import EMBEDDED_GENERATOR, embedded_folder
from engine.verify import language_verifier_version
from training.examples import learnt_from_sample
from training.registry import verified
from ui.settings import Settings
from ui.submission import Submission
from ui.usecases.context import Actor, Desk, audit, require_lead
from ui.usecases.models import champion_verifier

Scope = Literal["unverified", "all"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
NO_VERIFIER: Final = "no verifier is trained yet; `sagedesk model train` trains the first from the sample labels"
MAX_LIMIT: Final = 10_000_000
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
            What the feature verifier learnt from is judged only when it is named: it knows the answers.
        model: of a language-model verifier; the desk's own model if None. Of one that has yet to be downloaded it is
            not known what it judged, so `unverified` is all.
        then_queue: put what passes its contract before people afterwards; never what a verifier learnt from.

    Raises:
        PermissionDeniedError, InputError (a setting that cannot be), NotFoundError (nothing to verify, no verifier, no
        such variant or run).
    """
    require_lead(desk, actor, "verification.start", verifier)
    if verifier not in VERIFIERS or scope not in SCOPES:
        raise InputError(f"use a verifier of {', '.join(VERIFIERS)} and a scope of {', '.join(SCOPES)}")
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
            raise NotFoundError("no variant left to verify; generate some, or verify again with scope `all`")
        wanted = verification_submission(
            connection, desk.settings, verifier=verifier, variant_ids=ids, model=model, then_queue=then_queue
        )
    run = desk.supervisor.submit(wanted, submitted_by=actor.name)
    audit(desk, actor, "verification.start", run.run_id, verifier=verifier, variants=len(ids))
    return run


def to_verify(
    connection: Connection,
    settings: Settings,
    *,
    verifier: VerdictMethod,
    scope: Scope,
    run_id: RunId | None = None,
    variant_ids: Sequence[VariantId] | None = None,
    limit: int | None = None,
    model: str | None = None,
) -> list[VariantId]:
    """What `start_verification` judges, by type and id. Raises NotFoundError: no verifier, or no such variant."""
    version = _version_at_hand(settings, verifier, model)
    _refuse_unknown(connection, variant_ids or ())
    found = VariantTable(connection).arrow(
        ids=variant_ids,
        run_id=run_id,
        unverified_by=Judge(version, verifier) if version is not None and scope == "unverified" else None,
        leaving_out=learnt_from_sample() if verifier == "feature" and variant_ids is None else (),
        limit=limit,
    )
    return [VariantId(one) for one in found["variant_id"].to_pylist()]


def count_unverified(connection: Connection) -> int:
    """Variants that no verifier has judged, without those that the feature verifier learnt from."""
    return VariantTable(connection).count_unverified(leaving_out=learnt_from_sample())


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


def _version_at_hand(settings: Settings, verifier: VerdictMethod, model: str | None) -> str | None:
    """None for a language model that the job has yet to find. Raises NotFoundError before the first is trained."""
    if verifier == "feature":
        champion = champion_verifier(settings)
        if champion is None:
            raise NotFoundError(NO_VERIFIER)
        return champion.version
    named = model or settings.model
    folder = embedded_folder(EMBEDDED_GENERATOR) if named is None else Path(named).expanduser()
    return language_verifier_version(folder) if folder is not None and folder.is_dir() else None


def _refuse_unknown(connection: Connection, variant_ids: Sequence[VariantId]) -> None:
    known = VariantTable(connection).by_ids(variant_ids)
    if unknown := [one for one in variant_ids if one not in known]:
        raise NotFoundError(f"there is no variant {unknown[0]}; `sagedesk variant list` shows them")

"""Verification as a person starts it: which variants, by which verifier; the champion if none is named."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, cast, get_args

from data.errors import InputError, NotFoundError
from data.records import Run, RunId, VariantId, VerdictMethod
from data.store import Connection
from data.tables.contract_checks import ContractCheckTable
from data.tables.questions import QuestionTable
from data.tables.variants import Judge, VariantTable
from engine.embedded import EMBEDDED_GENERATOR, embedded_folder
from engine.verifiers import verifier_method, verifier_version
from engine.verify import language_verifier_version
from training.examples import learnt_from_sample
from training.registry import RegisteredModel, verified
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.runs.submission import Submission
from ui.desk.settings import Settings
from ui.desk.usecases.models import champion_verifier

Scope = Literal["unverified", "all"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
VerifierChoice = Literal["champion", "feature", "era_packed", "era_separate", "ira"]
"""The champion, or a way to judge with a model that is named."""
VERIFIERS: Final[tuple[VerifierChoice, ...]] = get_args(VerifierChoice)
NO_VERIFIER: Final = "no verifier is trained yet; `sagedesk model retrain` trains the first from the sample labels"
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
    """Queue a verification.

    Args:
        verifier: the champion, or a feature verifier or a language model that `model` names.
        scope: variants without a verdict of this verifier, or all; narrowed by `run_id`, `variant_ids`, `limit`.
            What a trained verifier learnt from the sample is judged only when it is named: it knows the answers.
        model: the folder of a feature verifier, the champion's if None; the folder or hub id of a language model, the
            desk's own if None. Of one that has yet to be downloaded it is not known what it judged, so `unverified`
            is all. None with the champion.
        then_queue: put what passes its contract before people afterwards; never what a verifier learnt from.

    Raises:
        PermissionDeniedError, InputError (a setting that cannot be), NotFoundError (nothing to verify, no verifier, no
        such variant or run).
    """
    require_lead(desk, actor, "verification.start", verifier)
    if verifier not in VERIFIERS or scope not in SCOPES:
        raise InputError(f"use a verifier of {', '.join(VERIFIERS)} and a scope of {', '.join(SCOPES)}")
    if verifier == "champion" and model is not None:
        raise InputError(f"the champion is no other model; with {model!r} use one of {', '.join(VERIFIERS[1:])}")
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
    verifier: VerifierChoice,
    scope: Scope,
    run_id: RunId | None = None,
    variant_ids: Sequence[VariantId] | None = None,
    limit: int | None = None,
    model: str | None = None,
) -> list[VariantId]:
    """What `start_verification` judges, by type and id.

    Raises:
        NotFoundError: no verifier, or no such variant.
        InputError, ModelError: the model that is named is no such verifier.
    """
    judge = _judge_at_hand(settings, verifier, model)
    _refuse_unknown(connection, variant_ids or ())
    found = VariantTable(connection).arrow(
        ids=variant_ids,
        run_id=run_id,
        unverified_by=judge if scope == "unverified" else None,
        leaving_out=learnt_from_sample() if verifier in ("champion", "feature") and variant_ids is None else (),
        limit=limit,
    )
    return [VariantId(one) for one in found["variant_id"].to_pylist()]


def count_unverified(connection: Connection) -> int:
    """Variants that no verifier has judged, without those of the sample that trained verifiers learnt from."""
    return VariantTable(connection).count_unverified(leaving_out=learnt_from_sample())


def verification_submission(
    connection: Connection,
    settings: Settings,
    *,
    verifier: VerifierChoice,
    variant_ids: Sequence[VariantId],
    model: str | None = None,
    then_queue: bool = True,
) -> Submission:
    """The run that judges these variants, with their questions and contract checks along.

    Raises:
        NotFoundError: no verifier is trained yet.
        InputError, ModelError: the model is no such verifier, or the champion's files are not what was registered.
    """
    variants = VariantTable(connection).arrow(ids=variant_ids)
    questions = QuestionTable(connection).arrow(ids=variants["question_id"].unique().to_pylist())
    checks = ContractCheckTable(connection).arrow(variant_ids)
    judging: dict[str, object]
    if verifier in ("champion", "feature"):
        judging = {"verifier": "registered", "model": str(_trained_folder(settings, verifier, model))}
    else:
        judging = {"verifier": verifier, "model": model or settings.model}
    return Submission(
        "verify",
        judging,
        {"variants": variants, "questions": questions, "contract_checks": checks},
        seed=0,
        afterwards={"then_queue": then_queue},
    )


def champion_judge(champion: RegisteredModel) -> Judge:
    """Under which version and method the champion's verdicts stand."""
    return Judge(champion.version, cast("VerdictMethod", champion.kind))  # a verifier's kind is how it judges


def _judge_at_hand(settings: Settings, verifier: VerifierChoice, model: str | None) -> Judge | None:
    """None for a language model that the job has yet to find. Raises NotFoundError before the first is trained."""
    if verifier == "champion" or (verifier == "feature" and model is None):
        return champion_judge(_champion(settings, verifier))
    if verifier == "feature":
        return Judge(verifier_version(_trained_folder(settings, verifier, model)), "feature")
    named = model or settings.model
    folder = embedded_folder(EMBEDDED_GENERATOR) if named is None else Path(named).expanduser()
    return Judge(language_verifier_version(folder), verifier) if folder is not None and folder.is_dir() else None


def _trained_folder(settings: Settings, verifier: VerifierChoice, model: str | None) -> Path:
    """Of the champion, its files hashed again, or of the feature verifier that is named."""
    if model is None:
        return verified(_champion(settings, verifier)).folder
    folder = Path(model).expanduser().absolute()
    if verifier_method(folder) != "feature":
        raise InputError(f"{folder} holds a language model's verifier; make it champion to judge with it")
    return folder


def _champion(settings: Settings, verifier: VerifierChoice) -> RegisteredModel:
    champion = champion_verifier(settings)
    if champion is None:
        raise NotFoundError(NO_VERIFIER)
    if verifier == "feature" and champion.kind != "feature":
        raise InputError(f"the champion judges by {champion.kind}; use it as `champion`, or name a feature verifier")
    return champion


def _refuse_unknown(connection: Connection, variant_ids: Sequence[VariantId]) -> None:
    known = VariantTable(connection).by_ids(variant_ids)
    if unknown := [one for one in variant_ids if one not in known]:
        raise NotFoundError(f"there is no variant {unknown[0]}; `sagedesk variant list` shows them")

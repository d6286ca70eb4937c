"""What may be submitted as a verification or gate run, and with which inputs."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, Literal, get_args

from annotation.agreement import human_agreement
from data.errors import InputError, NotFoundError
from data.records import RunId, VariantId
from data.store import Connection
from data.tables.contract_checks import ContractCheckTable
from data.tables.questions import QuestionTable
from data.tables.variants import Judge, VariantTable
from engine.embedded import EMBEDDED_GENERATOR, embedded_folder
from engine.verifiers import verifier_method, verifier_version
from engine.verify import language_verifier_version
from training.examples import learnt_from_sample
from training.registry import RegisteredModel, verified
from ui.desk.models_in_use import NO_VERIFIER, champion_judge, champion_verifier
from ui.desk.runs.submission import Submission
from ui.desk.settings import Settings
from ui.desk.training_inputs import gate_inputs

GATE_TARGET: Final = "valid"
GATE_MARGIN: Final = 0.03
Scope = Literal["unverified", "all"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
VerifierChoice = Literal["champion", "feature", "era_packed", "era_separate", "ira"]
"""The champion, or a kind of verifier whose model is named."""
VERIFIERS: Final[tuple[VerifierChoice, ...]] = get_args(VerifierChoice)


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
    """The variants that `start_verification` judges, by type and id.

    Raises:
        NotFoundError: no verifier, or no such variant.
        InputError, ModelError: the named model is not such a verifier.
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
    """Number of variants that no verifier has judged, not counting the sample's training variants."""
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
    """The run that judges these variants, with their questions and contract checks.

    Raises:
        NotFoundError: no verifier is trained yet.
        InputError, ModelError: the model is not such a verifier, or the champion's files have changed.
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


def _judge_at_hand(settings: Settings, verifier: VerifierChoice, model: str | None) -> Judge | None:
    """None for a language model that is not downloaded yet. Raises NotFoundError before the first is trained."""
    if verifier == "champion" or (verifier == "feature" and model is None):
        return champion_judge(_champion(settings, verifier))
    if verifier == "feature":
        return Judge(verifier_version(_trained_folder(settings, verifier, model)), "feature")
    named = model or settings.model
    folder = embedded_folder(EMBEDDED_GENERATOR) if named is None else Path(named).expanduser()
    return Judge(language_verifier_version(folder), verifier) if folder is not None and folder.is_dir() else None


def _trained_folder(settings: Settings, verifier: VerifierChoice, model: str | None) -> Path:
    """The folder of the champion, its files hashed again, or of the named feature verifier."""
    if model is None:
        return verified(_champion(settings, verifier)).folder
    folder = Path(model).expanduser().absolute()
    if verifier_method(folder) != "feature":
        raise InputError(f"{folder} is a language-model verifier; promote it to champion to judge with it")
    return folder


def _champion(settings: Settings, verifier: VerifierChoice) -> RegisteredModel:
    champion = champion_verifier(settings)
    if champion is None:
        raise NotFoundError(NO_VERIFIER)
    if verifier == "feature" and champion.kind != "feature":
        raise InputError(
            f"the champion is an {champion.kind} verifier; use `champion`, or name a feature verifier's folder"
        )
    return champion


def _refuse_unknown(connection: Connection, variant_ids: Sequence[VariantId]) -> None:
    known = VariantTable(connection).by_ids(variant_ids)
    if unknown := [one for one in variant_ids if one not in known]:
        raise NotFoundError(f"no variant {unknown[0]}; `sagedesk variant list` shows all variants")


def gate_submission(connection: Connection, *, champion: RegisteredModel, challenger: RegisteredModel) -> Submission:
    """The run that compares two verifiers on the current gate labels; the caller has checked their files."""
    return Submission(
        "gate-verifier",
        {
            "champion": str(champion.folder),
            "challenger": str(challenger.folder),
            "target": GATE_TARGET,
            "margin": GATE_MARGIN,
            "human_agreement": {target: asdict(one) for target, one in human_agreement(connection).items()},
        },
        gate_inputs(connection),
        seed=0,
        afterwards={"champion_id": champion.model_id, "challenger_id": challenger.model_id},
    )

"""The sample project: initial content for an empty store, and the first verifier trained on it.

Its labels only train that verifier: they never become annotations or decisions. No verdicts are shown on its training
variants; only variants of held-out questions are queued for review.
"""

from collections.abc import Callable
from dataclasses import dataclass

from data.errors import ConflictError, JobError
from data.records import Run
from data.samples import BENCHMARK, sample_questions, sample_variants
from data.tables.contract_checks import ContractCheckTable
from data.tables.questions import QuestionTable
from data.tables.queue import QueueTable
from data.tables.runs import RunTable
from data.tables.variants import VariantTable
from engine.variant_types.table import contract_checks
from training.examples import HELD_OUT_SHARE, SAMPLE_SPLIT_SEED, sample_split
from training.registry import RegisteredModel
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.models_in_use import champion_verifier
from ui.desk.run_reports import verifier_training_of_model
from ui.desk.usecases.learning import retrain_verifier
from ui.desk.usecases.verification import start_verification


@dataclass(frozen=True, slots=True)
class SampleProject:
    """What was loaded: the verifier was trained on `learnt_from` variants, `held_out` were judged, `queued` for review.

    `with_embeddings` is False if the sentence encoder was not available; `training_run` is empty if a verifier was
    already in use.
    """

    questions: int
    variants: int
    learnt_from: int
    held_out: int
    queued: int
    verifier_version: str
    with_embeddings: bool
    training_run: str
    verification_run: str


def wants_sample_project(desk: Desk, actor: Actor) -> bool:
    """Whether the store is empty, or has a sample project interrupted before its queue was filled."""
    with desk.store.read() as connection:
        benchmarks = {name for name, _ in QuestionTable(connection).benchmarks()}
        queued = QueueTable(connection).counts("", overlap=1, since=desk.now()).total
    return benchmarks <= {BENCHMARK} and queued == 0


def load_sample_project(desk: Desk, actor: Actor, *, on_progress: Callable[[Run], None] | None = None) -> SampleProject:
    """Loads our own questions and variants, trains a first verifier on 70 % of them, judges and queues the rest.

    Takes about a minute, in two runs shown on the Runs page. If interrupted, it continues when called again.

    Raises:
        PermissionDeniedError.
        ConflictError: the store has other content.
        JobError: training or verification failed; the questions and variants are kept.
    """
    require_lead(desk, actor, "sample.load")
    if not wants_sample_project(desk, actor):
        raise ConflictError(
            "the sample project can only be loaded into an empty store; set SAGEDESK_STATE to a new folder"
        )
    _bring_in(desk, actor)
    training = train_first_verifier(desk, actor, on_progress=on_progress)
    split = sample_split()
    ids = [it.variant.variant_id for it in split.held_out]
    verification = _done(desk, start_verification(desk, actor, variant_ids=ids, scope="all"), on_progress)
    champion = _champion(desk)
    return SampleProject(
        questions=len(sample_questions()),
        variants=len(sample_variants()),
        learnt_from=len(split.learnt),
        held_out=len(split.held_out),
        queued=int(str(verification.result.get("queued", 0))),
        verifier_version=champion.version,
        with_embeddings=_has_embeddings(champion),
        training_run="" if training is None else training.run_id,
        verification_run=verification.run_id,
    )


def train_first_verifier(desk: Desk, actor: Actor, *, on_progress: Callable[[Run], None] | None = None) -> Run | None:
    """If no verifier is in use: trains one on the sample labels, or waits for a training already in progress.

    Returns the run; None if there is a champion.

    Raises:
        PermissionDeniedError, JobError (the training failed).
    """
    if champion_verifier(desk.settings) is not None:
        return None
    with desk.store.read() as connection:
        going_on = [
            run for run in RunTable(connection).in_states(["queued", "running"]) if run.kind == "train-verifier"
        ]
    return _done(desk, going_on[0] if going_on else retrain_verifier(desk, actor), on_progress)


def _bring_in(desk: Desk, actor: Actor) -> None:
    questions = {question.question_id: question for question in sample_questions()}
    variants = [labelled.variant for labelled in sample_variants()]
    checks = [check for variant in variants for check in contract_checks(questions[variant.question_id], variant)]
    with desk.store.write() as connection:
        QuestionTable(connection).upsert(questions.values(), now=desk.now())
        VariantTable(connection).upsert(variants)
        ContractCheckTable(connection).upsert(checks)
    audit(
        desk,
        actor,
        "sample.load",
        BENCHMARK,
        questions=len(questions),
        variants=len(variants),
        split_seed=SAMPLE_SPLIT_SEED,
        held_out_share=HELD_OUT_SHARE,
    )


def _done(desk: Desk, run: Run, on_progress: Callable[[Run], None] | None) -> Run:
    ended = desk.supervisor.wait(run.run_id, on_progress=on_progress)
    if ended.state != "done":
        raise JobError(f"{ended.kind} {ended.state}: {ended.message}; see `sagedesk run log {ended.run_id}`")
    return ended


def _champion(desk: Desk) -> RegisteredModel:
    champion = champion_verifier(desk.settings)
    if champion is None:
        raise JobError("no verifier is in use after the training; run `sagedesk model retrain`")
    return champion


def _has_embeddings(model: RegisteredModel) -> bool:
    training = verifier_training_of_model(model)
    return training is not None and bool(training.with_embeddings)

"""The gate: comparing a challenger with the champion on the reserved blind labels, and showing where they differ.

Owns starting a comparison and finding it again. What it measures and when it passes is in `training.gate`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from annotation.queue import ANNOTATORS_PER_ITEM
from data.errors import ConflictError, InputError, ReportError
from data.records import Run, VariantId, VariantTypeKey, VerdictTarget
from data.store import Connection
from data.tables.questions import QuestionTable
from data.tables.queue import QueueTable
from data.tables.variants import VariantTable
from engine.jobs.folder import RunFolder
from training.registry import aliased, find_model, verified
from ui.desk.context import OPERATOR, Actor, Desk, audit, require_lead
from ui.desk.submissions import gate_submission

MAX_FLIPS: Final = 500
_FLIP_COLUMNS: Final = ["variant_id", "target", "truth", "champion", "challenger"]


@dataclass(frozen=True, slots=True)
class FlippedVariant:
    """A labelled variant on which the verifiers disagree about `target`, with its text.

    `truth` is the human answer, the others are the verifiers'; None if one gave none.
    """

    variant_id: VariantId
    target: VerdictTarget
    truth: bool
    champion: bool | None
    challenger: bool | None
    question_context: str
    original_options: tuple[str, ...]
    variant_context: str
    options: tuple[str, ...]
    answer_index: int
    variant_type: VariantTypeKey


def compare_models(desk: Desk, actor: Actor, *, model_id: str) -> Run:
    """Starts the gate: compares this verifier with the champion.

    Raises:
        PermissionDeniedError, NotFoundError.
        InputError: it is a generator, which its training compares.
        ConflictError: there is no champion, or this is the champion.
        ModelError: one of them is not what was registered.
    """
    require_lead(desk, actor, "model.compare", model_id)
    challenger = find_model(desk.settings.models, model_id)
    if challenger.role != "verifier":
        raise InputError(
            f"{model_id} is a {challenger.role}, which its training has compared; `sagedesk model show` has the figures"
        )
    champion = aliased(desk.settings.models, "verifier", "champion")
    if champion is None or champion.model_id == model_id:
        raise ConflictError(
            f"there is no other champion to compare verifier {model_id} with; train another verifier first"
        )
    for model in (champion, challenger):
        verified(model)
    with desk.store.read() as connection:
        wanted = gate_submission(connection, champion=champion, challenger=challenger)
    run = desk.supervisor.submit(wanted, submitted_by=actor.name)
    audit(desk, actor, "model.compare", model_id, run_id=run.run_id, champion=champion.model_id)
    return run


def flipped(desk: Desk, actor: Actor, *, run_id: str, limit: int = 100) -> list[FlippedVariant]:
    """Items on which champion and challenger differed in a finished gate run, in its order.

    Items that are blind to the account and still open to it are left out, because leads may review them too.

    Raises:
        PermissionDeniedError: an annotator, who may still have to answer blind items among them.
        NotFoundError, InputError (no gate run), ConflictError (it has not ended), ReportError (they cannot be read).
    """
    require_lead(desk, actor, "model.flips", run_id)
    run = desk.supervisor.get(run_id)
    if run.kind != "gate-verifier":
        raise InputError(f"run {run_id} is a {run.kind} run; give a gate-verifier run")
    if run.state != "done":
        raise ConflictError(f"run {run_id} is {run.state}; its flips are available once it is done")
    try:
        rows = RunFolder(Path(run.folder)).read_output("flips").select(_FLIP_COLUMNS).to_pylist()
    except (OSError, pa.ArrowException, KeyError) as exc:
        raise ReportError(
            f"the flips of run {run_id} ({run.folder}/outputs/flips.parquet) cannot be read: {exc}"
        ) from exc
    with desk.store.read() as connection:
        hidden = _hidden(connection, actor, [VariantId(row["variant_id"]) for row in rows])
        rows = [row for row in rows if row["variant_id"] not in hidden][: max(1, min(limit, MAX_FLIPS))]
        variants = VariantTable(connection).by_ids([VariantId(row["variant_id"]) for row in rows])
        questions = QuestionTable(connection).by_ids([variant.question_id for variant in variants.values()])
    flips = []
    for row in rows:
        variant = variants.get(VariantId(row["variant_id"]))
        question = None if variant is None else questions.get(variant.question_id)
        if variant is not None and question is not None:
            flips.append(
                FlippedVariant(
                    variant_id=variant.variant_id,
                    target=row["target"],
                    truth=row["truth"],
                    champion=row["champion"],
                    challenger=row["challenger"],
                    question_context=question.context,
                    original_options=question.options,
                    variant_context=variant.context,
                    options=variant.options,
                    answer_index=variant.answer_index,
                    variant_type=variant.variant_type,
                )
            )
    return flips


def _hidden(connection: Connection, actor: Actor, variant_ids: Sequence[VariantId]) -> frozenset[VariantId]:
    if actor == OPERATOR:  # engineers measure on the command line, which cannot label
        return frozenset()
    return QueueTable(connection).blind_to_come(variant_ids, actor.name, overlap=ANNOTATORS_PER_ITEM)

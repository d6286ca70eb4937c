"""The inputs of the training jobs, as written into the run's folder when it starts."""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from data.arrow import QUESTION_SCHEMA, VARIANT_SCHEMA, questions_table, variants_table
from data.errors import ConflictError
from data.records import (
    PARTS,
    Part,
    QuestionId,
    TrainingLabel,
)
from data.store import Connection
from data.tables.cluster_parts import ClusterPartTable
from data.tables.questions import QuestionTable
from data.tables.training_labels import TrainingLabelTable
from data.tables.variants import VariantTable
from training.examples import labels_table
from ui.desk.cluster_parts import parts
from ui.desk.training_set import sample_records, training_set


def verifier_inputs(connection: Connection, *, max_labels: int | None = None, seed: int = 0) -> Mapping[str, pa.Table]:
    """For a train-verifier run: questions, variants, labels. Every question must have a part: see `ensure_parts`.

    Raises:
        InputError: `max_labels` is below the number of first labels that are always kept.
        ConflictError: a question has no part.
    """
    _refuse_without_part(connection)
    found = training_set(connection, parts(connection), max_labels=max_labels, seed=seed)
    return _inputs(connection, found.labels)


def gate_inputs(connection: Connection) -> Mapping[str, pa.Table]:
    """For a gate-verifier run: questions, variants, gate labels, and past_errors among them.

    A past error is a variant on which some verifier contradicted the label. Only questions with a stored part count.
    """
    standing = ClusterPartTable(connection).standing()
    labels = [label for label in training_set(connection, parts(connection)).gate if label.group in standing]
    misjudged = TrainingLabelTable(connection).misjudged([label.variant_id for label in labels])
    return {**_inputs(connection, labels), "past_errors": _ids("variant_id", misjudged)}


def generator_inputs(connection: Connection) -> Mapping[str, pa.Table]:
    """For a refresh-generator run. Every question must have a part: see `ensure_parts`.

    accepted: variants of train questions for SFT. prompts: train questions for GRPO. held_out: gate questions for the
    comparison, none of whose labels or variants are in the inputs. probe: labelled variants of validation questions.
    labels: all of train, validation and calibration.

    Raises:
        ConflictError: a question has no part.
    """
    _refuse_without_part(connection)
    cluster_parts = parts(connection)
    found = training_set(connection, cluster_parts)
    asked = questions_by_part(connection, cluster_parts)
    return {
        **_inputs(connection, found.labels, and_questions=[*asked["train"], *asked["gate"]]),
        "accepted": _ids("variant_id", [label.variant_id for label in found.accepted()]),
        "prompts": _ids("question_id", asked["train"]),
        "held_out": _ids("question_id", asked["gate"]),
        "probe": _ids("variant_id", [label.variant_id for label in found.part("validation")]),
    }


def _refuse_without_part(connection: Connection) -> None:
    if ClusterPartTable(connection).without_part():
        raise ConflictError("questions were imported while the training was being prepared; start it again")


def _inputs(
    connection: Connection, labels: Iterable[TrainingLabel], *, and_questions: Iterable[QuestionId] = ()
) -> dict[str, pa.Table]:
    """Labels with their variants and questions, from the store or else from the sample."""
    chosen = list(labels)
    sample_questions, sample_variants = sample_records()
    stored = VariantTable(connection).by_ids([label.variant_id for label in chosen])
    variants = [stored.get(label.variant_id) or sample_variants[label.variant_id] for label in chosen]
    wanted = dict.fromkeys([*(variant.question_id for variant in variants), *and_questions])
    known = QuestionTable(connection).by_ids(wanted)
    questions = [known.get(question_id) or sample_questions[question_id] for question_id in wanted]
    return {
        "questions": questions_table(questions).cast(QUESTION_SCHEMA),
        "variants": variants_table(variants).cast(VARIANT_SCHEMA),
        "labels": labels_table(chosen),
    }


def _ids(name: str, ids: Iterable[str]) -> pa.Table:
    return pa.table({name: pa.array(list(ids), pa.string())})


def questions_by_part(connection: Connection, cluster_parts: Mapping[str, Part]) -> dict[Part, list[QuestionId]]:
    found: dict[Part, list[QuestionId]] = {part: [] for part in PARTS}
    for question_id, cluster in TrainingLabelTable(connection).promptable_questions().items():
        found[cluster_parts[cluster]].append(question_id)
    return found

"""A generator refresh's training and comparison data, read from a run folder. Refuses to mix the two.

inputs/questions.parquet, variants.parquet
inputs/labels.parquet       LABEL_SCHEMA: all labels that may be used
inputs/accepted.parquet     variant_id: what supervised training uses
inputs/prompts.parquet      question_id: what reinforcement uses
inputs/held_out.parquet     question_id: what old and new generator are compared on
inputs/probe.parquet        variant_id: labelled items that the probe scores
"""

from collections.abc import Mapping
from dataclasses import dataclass

from data.arrow import questions_from, variants_from
from data.errors import JobError
from data.records import Answers, Question, VariantTypeKey
from engine.jobs.folder import RunFolder
from engine.verify import Pair
from training.examples import LABEL_SCHEMA, group_of
from training.labelled_rows import LabelledRows
from training.probe import ProbeItem


@dataclass(frozen=True, slots=True)
class RefreshInputs:
    """`accepted` is for supervised training; `validation`, accepted variants of other questions, for early stopping.

    `judge_labels` come from the parts that no verifier is trained on.
    """

    accepted: list[Pair]
    validation: list[Pair]
    prompts: list[Question]
    held_out: list[Question]
    probe: list[ProbeItem]
    judge_labels: LabelledRows


def refresh_inputs(folder: RunFolder, types: frozenset[VariantTypeKey]) -> RefreshInputs:
    """The inputs of the given types, in order.

    Raises:
        JobError: an id missing from the inputs, a gate label, or a held-out question among the training data.
    """
    questions = {str(question.question_id): question for question in questions_from(folder.read_input("questions"))}
    pairs = _pairs(folder, questions)
    labels = folder.read_input("labels").select(LABEL_SCHEMA.names).to_pylist()
    parts = {row["variant_id"]: row["part"] for row in labels}
    if "gate" in parts.values():
        raise JobError(
            "refresh-generator: the inputs contain gate labels, which are never used for training; start the run again"
        )
    answers = {row["variant_id"]: Answers(row["tc"], row["lc"], row["au"]) for row in labels}
    accepted = [pairs[variant_id] for variant_id in _ids(folder, "accepted", "variant_id", pairs)]
    of_judge = [row for row in labels if row["part"] in ("validation", "calibration") and row["variant_id"] in pairs]
    inputs = RefreshInputs(
        accepted=_of_types(accepted, types),
        validation=_of_types(
            [
                pairs[variant_id]
                for variant_id, part in parts.items()
                if part == "validation" and answers[variant_id].is_valid and variant_id in pairs
            ],
            types,
        ),
        prompts=[questions[question_id] for question_id in _ids(folder, "prompts", "question_id", questions)],
        held_out=[questions[question_id] for question_id in _ids(folder, "held_out", "question_id", questions)],
        probe=[
            ProbeItem(*pairs[variant_id], is_accepted=bool(answers[variant_id].is_valid))
            for variant_id in _ids(folder, "probe", "variant_id", pairs)
            if variant_id in answers and answers[variant_id].is_valid is not None
        ],
        judge_labels=LabelledRows(
            [pairs[row["variant_id"]] for row in of_judge],
            [answers[row["variant_id"]] for row in of_judge],
            [row["group"] for row in of_judge],
        ),
    )
    _refuse_overlap(inputs)
    return inputs


def _refuse_overlap(inputs: RefreshInputs) -> None:
    learnt = {group_of(question) for question in inputs.prompts}
    learnt |= {group_of(question) for question, _ in (*inputs.accepted, *inputs.validation)}
    for question in inputs.held_out:
        if group_of(question) in learnt:
            raise JobError(
                f"refresh-generator: question {question.question_id} is both held out for the comparison and used for "
                f"training; start the run again from the desk"
            )


def _pairs(folder: RunFolder, questions: Mapping[str, Question]) -> dict[str, Pair]:
    return {
        str(variant.variant_id): (questions[variant.question_id], variant)
        for variant in variants_from(folder.read_input("variants"))
        if variant.question_id in questions
    }


def _ids(folder: RunFolder, name: str, column: str, known: Mapping[str, object]) -> list[str]:
    ids = [str(one) for one in folder.read_input(name).column(column).to_pylist()]
    unknown = next((one for one in ids if one not in known), None)
    if unknown is not None:
        raise JobError(
            f"refresh-generator: {name} names {unknown}, which is missing or incomplete in the run's inputs; "
            f"start the run again from the desk"
        )
    return ids


def _of_types(pairs: list[Pair], types: frozenset[VariantTypeKey]) -> list[Pair]:
    return [pair for pair in pairs if pair[1].variant_type in types]

"""From people's answers to a training run's labels: which are used, in which part, and which are left out and why.

The sample's own labels are always included. Refuses to draw a question's part: see `ui.desk.cluster_parts`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from data.records import Part, Question, QuestionId, TrainingLabel, Variant, VariantId, VariantTypeKey
from data.samples import sample_questions
from data.store import Connection
from data.tables.training_labels import AnsweredVariant, Maker, Standing, TrainingLabelTable
from engine.variant_types.table import contract_checks, contract_passes
from training.examples import sample_labels, sample_split, select

KEPT_FOR_JUDGING: Final = "gate question (reserved for the gate)"
SEEN_AT_THE_GATE: Final = "gate question labelled with the verdicts visible (used for neither the gate nor training)"
OVER_THE_MOST: Final = "over the maximum number of labels"
INCOMPLETE: Final = "answers incomplete"
_WORDS: Final[Mapping[Standing, str]] = {
    "skipped": "skipped",
    "undecided": "people disagree, and no lead has decided yet",
    "incomplete": INCOMPLETE,
    "deleted": "deleted",
    "bulk": "decided in bulk, without individual review",
}


@dataclass(frozen=True, slots=True)
class LabelledFact:
    """What counts and generator training need to know about a labelled variant."""

    question_id: QuestionId
    variant_type: VariantTypeKey
    maker: Maker
    passes_contract: bool


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """`labels` are in train, validation and calibration; `gate` are the blind ones of gate questions.

    `facts` covers all of them. `left_out` counts labels by reason, in words. Of the `first` labels in train,
    `first_kept` are used. `newest_maker` generated the newest variant; people rejected `newest_rejected` of its
    variants in the training data.
    """

    labels: tuple[TrainingLabel, ...]
    gate: tuple[TrainingLabel, ...]
    facts: Mapping[VariantId, LabelledFact]
    left_out: Mapping[str, int]
    first: int
    first_kept: int
    newest_maker: Maker | None
    newest_rejected: int

    def part(self, part: Part) -> list[TrainingLabel]:
        return list(self.gate) if part == "gate" else [label for label in self.labels if label.part == part]

    def accepted(self) -> list[TrainingLabel]:
        """What a generator may learn from: valid variants of train questions that pass their contract."""
        return [
            label
            for label in self.part("train")
            if label.answers.is_valid and self.facts[label.variant_id].passes_contract
        ]


def training_set(
    connection: Connection, parts: Mapping[str, Part], *, max_labels: int | None = None, seed: int = 0
) -> TrainingSet:
    """The labels for a run started now.

    Args:
        parts: by question cluster.
        max_labels: limits the train labels; validation, calibration and gate keep theirs.

    Raises:
        InputError: `max_labels` is below the number of first labels that are always kept.
    """
    table = TrainingLabelTable(connection)
    labels, facts = dict(_sample_labels()), dict(_sample_facts())
    left_out: Counter[str] = Counter()
    gate: list[TrainingLabel] = []
    for answered in table.answered():
        reason = _reason(answered)
        if reason is not None:
            left_out[reason] += 1
            continue
        label = _label(answered, parts[answered.cluster])
        if label.part == "gate":
            left_out[KEPT_FOR_JUDGING if label.is_blind else SEEN_AT_THE_GATE] += 1
            if not label.is_blind:
                continue
            gate.append(label)
        else:
            labels[label.variant_id] = label
        facts[label.variant_id] = LabelledFact(
            answered.question_id, answered.variant_type, answered.maker, answered.passes_contract
        )
    learnt = [label for label in labels.values() if label.part == "train"]
    chosen = select(learnt, max_labels=max_labels, seed=seed)
    left_out[OVER_THE_MOST] += len(learnt) - len(chosen.chosen)
    used = [*chosen.chosen, *(label for label in labels.values() if label.part != "train")]
    used.sort(key=lambda label: (label.labelled_at, label.variant_id))
    maker = table.newest_maker()
    return TrainingSet(
        labels=tuple(used),
        gate=tuple(gate),
        facts=facts,
        left_out={reason: count for reason, count in left_out.items() if count},
        first=chosen.first,
        first_kept=chosen.first_kept,
        newest_maker=maker,
        newest_rejected=sum(
            label.source != "sample" and label.answers.is_valid is False and facts[label.variant_id].maker == maker
            for label in chosen.chosen
        ),
    )


@cache
def sample_records() -> tuple[Mapping[QuestionId, Question], Mapping[VariantId, Variant]]:
    """The sample's questions and training variants, which need not be in the store."""
    questions = {question.question_id: question for question in sample_questions()}
    return questions, {it.variant.variant_id: it.variant for it in sample_split().learnt}


@cache
def _sample_labels() -> Mapping[VariantId, TrainingLabel]:
    questions, _ = sample_records()
    return {label.variant_id: label for label in sample_labels(sample_split().learnt, questions.values())}


@cache
def _sample_facts() -> Mapping[VariantId, LabelledFact]:
    questions, variants = sample_records()
    return {
        variant.variant_id: LabelledFact(
            variant.question_id,
            variant.variant_type,
            Maker(variant.recipe.backend, variant.recipe.model),
            contract_passes(contract_checks(questions[variant.question_id], variant)),
        )
        for variant in variants.values()
    }


def _reason(answered: AnsweredVariant) -> str | None:
    """Why it cannot be used as a label; None if it can."""
    if answered.standing in ("annotations", "adjudication"):
        return INCOMPLETE if answered.answers.is_empty else None
    return _WORDS[answered.standing]


def _label(answered: AnsweredVariant, part: Part) -> TrainingLabel:
    return TrainingLabel(
        variant_id=answered.variant_id,
        answers=answered.answers,
        group=answered.cluster,
        part=part,
        source="adjudication" if answered.standing == "adjudication" else "annotations",
        is_blind=answered.is_blind,
        labelled_at=answered.labelled_at,
    )

"""What a training run would learn from if it started now: counts, what is left out and why, what blocks it.

Reads only; the inputs themselves are `ui.desk.training.inputs`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from data.dimensions import DIMENSIONS, DimensionKey
from data.errors import InputError
from data.records import (
    MODEL_ROLES,
    PARTS,
    VARIANT_TYPE_KEYS,
    LabelSource,
    ModelRole,
    Part,
    QuestionId,
    TrainingLabel,
    VariantTypeKey,
)
from data.tables.runs import RunTable
from engine.jobs.kinds import TRAINING_KINDS
from training.gate_report import MIN_GATE_LABELS, MIN_GATE_QUESTIONS
from training.registry import aliased
from ui.desk.cluster_parts import parts
from ui.desk.context import Actor, Desk, require_lead
from ui.desk.training_inputs import questions_by_part
from ui.desk.training_set import TrainingSet, training_set

_LABEL_SOURCES: Final[tuple[LabelSource, ...]] = ("sample", "annotations", "adjudication")
_FEWEST_QUESTIONS: Final = 2


@dataclass(frozen=True, slots=True)
class PartCount:
    """`questions` counts clusters: near-duplicates count once."""

    part: Part
    labels: int
    questions: int
    blind: int


@dataclass(frozen=True, slots=True)
class TypeCount:
    """`accepted` counts valid variants that a generator may learn from."""

    variant_type: VariantTypeKey
    labels: int
    accepted: int


@dataclass(frozen=True, slots=True)
class DimensionCount:
    """Answers used for training."""

    dimension: DimensionKey
    yes: int
    no: int


@dataclass(frozen=True, slots=True)
class SourceCount:
    source: LabelSource
    labels: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """`reason` in words."""

    reason: str
    labels: int


@dataclass(frozen=True, slots=True)
class TrainingPreview:
    """The data of a run of the role, if it started now.

    `labels`, `questions`, `blind`, `assisted`, `types` and `sources` count the data for training, early stopping and
    calibration; `dimensions` only for training. `gate_labels` judge the result. `blockers` prevent a start, `warnings`
    do not.
    """

    role: ModelRole
    labels: int
    questions: int
    blind: int
    assisted: int
    parts: tuple[PartCount, ...]
    types: tuple[TypeCount, ...]
    dimensions: tuple[DimensionCount, ...]
    sources: tuple[SourceCount, ...]
    left_out: tuple[LeftOut, ...]
    first_labels: int
    first_labels_kept: int
    current_generator_negatives: int
    gate_labels: int
    prompt_questions: int
    held_out_questions: int
    blockers: tuple[str, ...]
    warnings: tuple[str, ...]


def preview_training(desk: Desk, actor: Actor, *, role: ModelRole, max_labels: int | None = None) -> TrainingPreview:
    """Counts what a run would use, without drawing or storing anything.

    Raises:
        PermissionDeniedError.
        InputError: no such role, or `max_labels` is below the number of first labels that are always kept.
        ModelError: the verifier in use is damaged.
    """
    require_lead(desk, actor, "training.preview", role)
    if role not in MODEL_ROLES:
        raise InputError(f"role {role!r}: use one of {', '.join(MODEL_ROLES)}")
    has_champion = aliased(desk.settings.models, "verifier", "champion") is not None
    with desk.store.read() as connection:
        cluster_parts = parts(connection)
        found = training_set(connection, cluster_parts, max_labels=max_labels)
        asked = questions_by_part(connection, cluster_parts)
        is_running = any(
            run.kind == TRAINING_KINDS[role] for run in RunTable(connection).in_states(["queued", "running", "away"])
        )
    blockers = [f"the {role} is already being trained; wait for that run or cancel it"] if is_running else []
    if role == "verifier":
        blockers += _verifier_blockers(found)
    else:
        blockers += _generator_blockers(found, asked, has_champion=has_champion)
    return TrainingPreview(
        role=role,
        labels=len(found.labels),
        questions=_questions(found.labels),
        blind=sum(label.is_blind for label in found.labels),
        assisted=sum(not label.is_blind for label in found.labels),
        parts=tuple(_part_count(part, found.part(part)) for part in PARTS),
        types=_type_counts(found),
        dimensions=_dimension_counts(found.part("train")),
        sources=tuple(
            SourceCount(source, count) for source in _LABEL_SOURCES if (count := _from(source, found.labels))
        ),
        left_out=tuple(LeftOut(*it) for it in Counter(found.left_out).most_common()),
        first_labels=found.first,
        first_labels_kept=found.first_kept,
        current_generator_negatives=found.newest_rejected,
        gate_labels=len(found.gate),
        prompt_questions=len(asked["train"]),
        held_out_questions=len(asked["gate"]),
        blockers=tuple(blockers),
        warnings=_warnings(role, found),
    )


def _questions(labels: Iterable[TrainingLabel]) -> int:
    return len({label.group for label in labels})


def _from(source: LabelSource, labels: Iterable[TrainingLabel]) -> int:
    return sum(label.source == source for label in labels)


def _part_count(part: Part, labels: list[TrainingLabel]) -> PartCount:
    return PartCount(part, len(labels), _questions(labels), sum(label.is_blind for label in labels))


def _type_counts(found: TrainingSet) -> tuple[TypeCount, ...]:
    labelled = Counter(found.facts[label.variant_id].variant_type for label in found.labels)
    accepted = Counter(found.facts[label.variant_id].variant_type for label in found.accepted())
    return tuple(TypeCount(kind, labelled[kind], accepted[kind]) for kind in VARIANT_TYPE_KEYS if labelled[kind])


def _dimension_counts(labels: list[TrainingLabel]) -> tuple[DimensionCount, ...]:
    answers = {one.key: Counter(label.answers.of(one.key) for label in labels) for one in DIMENSIONS}
    return tuple(DimensionCount(key, given[True], given[False]) for key, given in answers.items())


def _verifier_blockers(found: TrainingSet) -> list[str]:
    learnt = found.part("train")
    if not learnt:
        return ["no labels yet; review some variants first"]
    blockers = [
        f"{count.dimension}: all {count.yes + count.no} labels say {'yes' if count.yes else 'no'}; "
        "a verifier needs both answers"
        for count in _dimension_counts(learnt)
        if not count.yes or not count.no
    ]
    if _questions(learnt) < _FEWEST_QUESTIONS:
        blockers.append("all training labels belong to one question; label variants of another")
    return blockers


def _generator_blockers(found: TrainingSet, asked: Mapping[Part, list[QuestionId]], *, has_champion: bool) -> list[str]:
    blockers = []
    if not found.accepted():
        blockers.append("no accepted variants to start from; accept some in review")
    if not has_champion:
        blockers.append("no verifier is in use, which GRPO needs as its reward; train one first")
    if not asked["train"]:
        blockers.append("no questions for GRPO; import more")
    if not asked["gate"]:
        blockers.append("no held-out questions for the comparison; import more")
    return blockers


def _warnings(role: ModelRole, found: TrainingSet) -> tuple[str, ...]:
    warnings = []
    if role == "verifier":
        asked = _questions(found.gate)
        if len(found.gate) < MIN_GATE_LABELS or asked < MIN_GATE_QUESTIONS:
            warnings.append(
                f"{len(found.gate)} blind labels on {asked} gate questions: with fewer than {MIN_GATE_LABELS} on "
                f"{MIN_GATE_QUESTIONS} questions the gate cannot say which verifier is better"
            )
        if not found.part("validation"):
            warnings.append("no validation labels: a language model cannot use early stopping")
        if not found.part("calibration"):
            warnings.append("no calibration labels: probabilities are calibrated only by cross-validation")
        if found.newest_maker is not None and found.newest_rejected == 0:
            warnings.append(
                "the training labels include no rejected variant from the newest generator "
                f"({' '.join(filter(None, found.newest_maker))}), so the verifier cannot learn its current mistakes; "
                "review some of its variants first"
            )
    elif {label.answers.is_valid for label in found.part("validation")} < {True, False}:
        warnings.append(
            "the validation labels do not include both accepted and rejected variants: reward hacking may go unnoticed"
        )
    return tuple(warnings)

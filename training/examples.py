"""Training rows: which labels a verifier learns from, their groups, and which are held out. Splits by question only.

The sample project's labels train the first verifier. A fixed share of its questions is never used for training: their
variants are queued for people, who then see verdicts from a verifier that has not seen them.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from math import ceil
from typing import Final, NamedTuple

import pyarrow as pa

from data.errors import InputError
from data.ids import cluster_id, row_seed
from data.records import Question, TrainingLabel, VariantId
from data.samples import CREATED_AT, LabelledVariant, sample_questions, sample_variants

LABEL_SCHEMA: Final = pa.schema(
    [
        ("variant_id", pa.string()),
        ("tc", pa.bool_()),
        ("lc", pa.bool_()),
        ("au", pa.bool_()),
        ("group", pa.string()),
        ("part", pa.string()),
        ("source", pa.string()),
        ("is_blind", pa.bool_()),
        ("labelled_at", pa.timestamp("us", tz="UTC")),
    ]
)
"""One row per `TrainingLabel`; all rows of a `group` have the same `part`, which jobs never redraw."""

SAMPLE_SPLIT_SEED: Final = 1
HELD_OUT_SHARE: Final = 0.3
FIRST_LABELS: Final = 300
FIRST_LABELS_KEPT: Final = 0.3


class SampleSplit(NamedTuple):
    """The sample's variants, split by whether a verifier may learn from them; no question cluster is in both."""

    learnt: list[LabelledVariant]
    held_out: list[LabelledVariant]


def sample_split() -> SampleSplit:
    """Always the same split: HELD_OUT_SHARE of the question clusters is held out, drawn by SAMPLE_SPLIT_SEED."""
    groups = {question.question_id: group_of(question) for question in sample_questions()}
    held_out = held_out_groups(groups.values(), share=HELD_OUT_SHARE, seed=SAMPLE_SPLIT_SEED)
    split = SampleSplit([], [])
    for it in sample_variants():
        (split.held_out if groups[it.variant.question_id] in held_out else split.learnt).append(it)
    return split


@cache
def learnt_from_sample() -> frozenset[VariantId]:
    """Variants every verifier is trained on: verdicts on them mean nothing, and nobody is asked to review them."""
    return frozenset(it.variant.variant_id for it in sample_split().learnt)


@cache
def learnt_groups() -> frozenset[str]:
    """The question clusters of `learnt_from_sample`."""
    return _groups(sample_split().learnt)


def sample_labels(labelled: Sequence[LabelledVariant], questions: Iterable[Question]) -> list[TrainingLabel]:
    """Our own answers, in order: not blind, since we made the defects, and used for training only."""
    groups = {question.question_id: group_of(question) for question in questions}
    return [
        TrainingLabel(
            variant_id=it.variant.variant_id,
            answers=it.answers,
            group=groups[it.variant.question_id],
            part="train",
            source="sample",
            is_blind=False,
            labelled_at=CREATED_AT,
        )
        for it in labelled
    ]


class Selection(NamedTuple):
    """`chosen` labels, in order; how many first labels there were, and how many of them were chosen."""

    chosen: list[TrainingLabel]
    first: int
    first_kept: int


def select(labels: Sequence[TrainingLabel], *, max_labels: int | None, seed: int) -> Selection:
    """At most `max_labels` training labels: a share of the first labels always, then the newest of the others.

    The first labels are the sample's, otherwise the oldest FIRST_LABELS; at least FIRST_LABELS_KEPT of them are kept,
    drawn by content and seed, so that a verifier does not drift with what it accepted itself.

    Raises:
        InputError: `max_labels` is less than that share.
    """
    first = [label for label in labels if label.source == "sample"] or _oldest(labels)[:FIRST_LABELS]
    if max_labels is None or len(labels) <= max_labels:
        return Selection(list(labels), len(first), len(first))
    least = ceil(FIRST_LABELS_KEPT * len(first))
    if max_labels < least:
        raise InputError(
            f"a maximum of {max_labels} labels is too low: {least} of the {len(first)} first labels are always kept; "
            f"allow at least {least}"
        )
    first_ids = {label.variant_id for label in first}
    later = _oldest([label for label in labels if label.variant_id not in first_ids])
    newest = later[max(0, len(later) - (max_labels - least)) :]
    drawn = sorted(first, key=lambda label: (row_seed("first labels", seed, label.variant_id), label.variant_id))
    kept = drawn[: max_labels - len(newest)]
    ids = {label.variant_id for label in (*kept, *newest)}
    return Selection([label for label in labels if label.variant_id in ids], len(first), len(kept))


def group_of(question: Question) -> str:
    """The unit of every split: near-duplicate questions share it."""
    return cluster_id(question.context, question.options)


def held_out_groups(groups: Iterable[str], *, share: float, seed: int) -> frozenset[str]:
    """`share` of the distinct groups, drawn by content and seed, independent of row order and counts."""
    distinct = sorted(set(groups), key=lambda group: (row_seed("held out", seed, group), group))
    return frozenset(distinct[: round(share * len(distinct))])


def labels_table(labels: Iterable[TrainingLabel]) -> pa.Table:
    """LABEL_SCHEMA, one row per label, in order."""
    rows = [
        {
            "variant_id": label.variant_id,
            "tc": label.answers.tc,
            "lc": label.answers.lc,
            "au": label.answers.au,
            "group": label.group,
            "part": label.part,
            "source": label.source,
            "is_blind": label.is_blind,
            "labelled_at": label.labelled_at,
        }
        for label in labels
    ]
    return pa.Table.from_pylist(rows, schema=LABEL_SCHEMA)


def _oldest(labels: Iterable[TrainingLabel]) -> list[TrainingLabel]:
    return sorted(labels, key=lambda label: (label.labelled_at, label.variant_id))


def _groups(labelled: Iterable[LabelledVariant]) -> frozenset[str]:
    groups = {question.question_id: group_of(question) for question in sample_questions()}
    return frozenset(groups[it.variant.question_id] for it in labelled)

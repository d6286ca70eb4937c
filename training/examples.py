"""Training rows: which labels a verifier learns from, in which group, and which are held out. Splits by question only.

The sample project's labels seed the first verifier. A fixed share of its questions is never learnt from: their
variants wait for people, who then see verdicts of a verifier that does not know them.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

import pyarrow as pa

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
"""One row a `TrainingLabel`: rows of one `group` are in one `part`, which jobs read and never draw anew."""

SAMPLE_SPLIT_SEED: Final = 1
HELD_OUT_SHARE: Final = 0.3


class SampleSplit(NamedTuple):
    """The sample's variants by whether a verifier may learn from them; no question cluster is in both."""

    learnt: list[LabelledVariant]
    held_out: list[LabelledVariant]


def sample_split() -> SampleSplit:
    """The same split always: by SAMPLE_SPLIT_SEED, HELD_OUT_SHARE of the question clusters held out."""
    groups = {question.question_id: group_of(question) for question in sample_questions()}
    held_out = held_out_groups(groups.values(), share=HELD_OUT_SHARE, seed=SAMPLE_SPLIT_SEED)
    split = SampleSplit([], [])
    for it in sample_variants():
        (split.held_out if groups[it.variant.question_id] in held_out else split.learnt).append(it)
    return split


@cache
def learnt_from_sample() -> frozenset[VariantId]:
    """What every verifier has learnt from: its verdicts on them say nothing, and nobody is asked about them."""
    return frozenset(it.variant.variant_id for it in sample_split().learnt)


def sample_labels(labelled: Sequence[LabelledVariant], questions: Iterable[Question]) -> list[TrainingLabel]:
    """Our own answers, in order: not blind, for we had made the defects, and only ever learnt from."""
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


def group_of(question: Question) -> str:
    """The unit of every split: near-duplicate questions share it."""
    return cluster_id(question.context, question.options)


def held_out_groups(groups: Iterable[str], *, share: float, seed: int) -> frozenset[str]:
    """`share` of the distinct groups, drawn by content and seed: order and other groups' rows do not matter."""
    distinct = sorted(set(groups), key=lambda group: (row_seed("held out", seed, group), group))
    return frozenset(distinct[: round(share * len(distinct))])


def labels_table(labels: Iterable[TrainingLabel]) -> pa.Table:
    """LABEL_SCHEMA, one row a label, in order."""
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

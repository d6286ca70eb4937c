"""Training rows: which labels a verifier learns from, in which group, and which are held out. Splits by question only.

The sample project's labels seed the first verifier. A fixed share of its questions is never learnt from: their
variants wait for people, who then see verdicts of a verifier that does not know them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import pyarrow as pa

from data.ids import cluster_id, row_seed
from data.records import Answers, Question, VariantId
from data.samples import LabelledVariant, sample_questions, sample_variants
from engine.jobs.train_verifier import LABEL_SCHEMA

SAMPLE_SPLIT_SEED: Final = 1
HELD_OUT_SHARE: Final = 0.3


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled variant; `group` is its question's cluster."""

    variant_id: VariantId
    answers: Answers
    group: str


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


def examples_of(labelled: Sequence[LabelledVariant], questions: Iterable[Question]) -> list[Example]:
    groups = {question.question_id: group_of(question) for question in questions}
    return [Example(it.variant.variant_id, it.answers, groups[it.variant.question_id]) for it in labelled]


def group_of(question: Question) -> str:
    """The unit of every split: near-duplicate questions share it."""
    return cluster_id(question.context, question.options)


def held_out_groups(groups: Iterable[str], *, share: float, seed: int) -> frozenset[str]:
    """`share` of the distinct groups, drawn by content and seed: order and other groups' rows do not matter."""
    distinct = sorted(set(groups), key=lambda group: (row_seed("held out", seed, group), group))
    return frozenset(distinct[: round(share * len(distinct))])


def labels_table(examples: Sequence[Example]) -> pa.Table:
    """LABEL_SCHEMA, one row an example, in order."""
    rows = [
        {
            "variant_id": example.variant_id,
            "tc": example.answers.tc,
            "lc": example.answers.lc,
            "au": example.answers.au,
            "group": example.group,
        }
        for example in examples
    ]
    return pa.Table.from_pylist(rows, schema=LABEL_SCHEMA)

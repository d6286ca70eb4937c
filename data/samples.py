"""The sample project: our own questions and labelled variants, read from the package's files.

Refuses to be a benchmark or a source of annotations: its labels only train the first verifier.
What the labels mean, and their limits: `data/samples/README.md`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

from data.ids import question_id, variant_id
from data.records import VARIANT_TYPE_KEYS, Answers, Question, Recipe, Variant

BENCHMARK: Final = "sample"
SOURCE_NOTE: Final = "written for this project"
CREATED_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""One fixed time for all: a sample variant is the same record in every store."""

_RECIPE: Final = Recipe(backend="sample", model="", prompt_version="", sampling="{}", seed=0)


@dataclass(frozen=True, slots=True)
class LabelledVariant:
    """`defect` names what is wrong (None if all three answers are yes); `reason` explains the answers to a reader.

    Neither may be given to a verifier as input.
    """

    variant: Variant
    answers: Answers
    defect: str | None
    reason: str


def sample_questions() -> list[Question]:
    """In file order; the source key is the question's key in the files."""
    return list(_questions_by_key().values())


def sample_variants() -> list[LabelledVariant]:
    """Grouped by type in the types' order, then in file order."""
    questions = _questions_by_key()
    return [
        _labelled(row, questions[row["question"]])
        for variant_type in VARIANT_TYPE_KEYS
        for row in _rows(f"variants-{variant_type}.jsonl")
    ]


@cache
def _questions_by_key() -> Mapping[str, Question]:
    return {row["key"]: _question(row) for row in _rows("questions.jsonl")}


def _question(row: Mapping[str, Any]) -> Question:
    return Question(
        question_id=question_id(row["context"], row["options"], row["answer"]),
        context=row["context"],
        options=tuple(row["options"]),
        answer_index=row["answer"],
        benchmark=BENCHMARK,
        source_key=row["key"],
        subject=row["subject"],
        source_note=SOURCE_NOTE,
    )


def _labelled(row: Mapping[str, Any], question: Question) -> LabelledVariant:
    variant = Variant(
        variant_id=variant_id(question.question_id, row["type"], row["context"], row["options"], row["answer"]),
        question_id=question.question_id,
        variant_type=row["type"],
        context=row["context"],
        options=tuple(row["options"]),
        answer_index=row["answer"],
        is_control=row.get("is_control", False),
        shuffle_seed=None,
        recipe=_RECIPE,
        run_id=None,
        created_at=CREATED_AT,
    )
    return LabelledVariant(variant, Answers(row["tc"], row["lc"], row["au"]), row["defect"], row["reason"])


def _rows(name: str) -> Iterator[dict[str, Any]]:  # our own JSON; tests read every row
    with files("data").joinpath("samples", name).open("r", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)

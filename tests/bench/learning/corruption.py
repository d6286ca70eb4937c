"""Labelled rows without a person: the published HellaSwag-Pro variants, and mechanical corruptions of them.

A published variant that passes its contract counts as right on all three dimensions; a corruption is wrong on the one
that it breaks. That is a stand-in for people's labels and says nothing of how often published rows are wrong.
Rows are read from ../shared/data and never written into the repository.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, Literal

from data.ids import variant_id
from data.imports.files import read_rows
from data.imports.hellaswag import TYPE_OF_REPOSITORY_KEY, parse_pro_variants
from data.imports.items import Parsed
from data.records import VARIANT_TYPE_KEYS, Answers, Question, Variant
from engine.candidate import is_abstain
from engine.variant_types.table import contract_checks, contract_passes

Corruption = Literal["none", "wrong_key", "second_right", "duplicate", "wrong_type", "unchanged_context"]
CORRUPTIONS: Final[tuple[Corruption, ...]] = (
    *("wrong_key", "second_right", "duplicate", "wrong_type", "unchanged_context"),
)
BENCHMARK: Final = "hellaswag-pro"
_FOLDER: Final = Path(__file__).parents[4] / "shared" / "data" / "hellaswag_pro"
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
ANSWERS: Final[dict[Corruption, Answers]] = {
    "none": Answers(True, True, True),
    "wrong_key": Answers(True, False, True),
    "second_right": Answers(True, True, False),
    "duplicate": Answers(True, True, False),
    "wrong_type": Answers(False, True, True),
    "unchanged_context": Answers(False, None, None),
}
_SECOND_RIGHT_ENDINGS: Final = ("once more", "as before", "in the same way", "at that moment")


@dataclass(frozen=True, slots=True)
class Labelled:
    """`question_id` is the group: all rows of a question stand on one side of a split."""

    question: Question
    variant: Variant
    answers: Answers
    corruption: Corruption


@cache
def published() -> tuple[tuple[Question, Variant], ...]:
    """All published English variants whose question has an answer, those that break their contract included.

    Raises:
        InputError: the folder is not there.
    """
    found = []
    for key in TYPE_OF_REPOSITORY_KEY:
        rows = read_rows(_FOLDER / f"en_{key}.jsonl")
        for item in parse_pro_variants(rows, BENCHMARK, _NOW):
            if isinstance(item, Parsed) and item.variant is not None and item.question.answer_index is not None:
                found.append((item.question, item.variant))
    return tuple(found)


@cache
def accepted() -> tuple[tuple[Question, Variant], ...]:
    """The published variants that pass their contract."""
    return tuple(pair for pair in published() if contract_passes(contract_checks(*pair)))


@cache
def question_ids(seed: int = 0) -> tuple[str, ...]:
    """Ids of the questions that have a published variant of every type, shuffled once: slices of it are disjoint."""
    types: dict[str, set[str]] = {}
    for question, variant in published():
        types.setdefault(question.question_id, set()).add(variant.variant_type)
    ids = sorted(question for question, found in types.items() if len(found) == len(VARIANT_TYPE_KEYS))
    Random(seed).shuffle(ids)
    return tuple(ids)


def of_questions(pairs: Sequence[tuple[Question, Variant]], ids: Sequence[str]) -> list[tuple[Question, Variant]]:
    """Those of `pairs` whose question is among `ids`, questions in the order of `ids`."""
    place = {question_id: i for i, question_id in enumerate(ids)}
    kept = [pair for pair in pairs if pair[0].question_id in place]
    return sorted(kept, key=lambda pair: (place[pair[0].question_id], pair[1].variant_type))


def labelled(ids: Sequence[str], *, seed: int) -> list[Labelled]:
    """About half of the accepted variants of `ids` as they are, the others corrupted, in a shuffled order.

    Every corruption is as frequent as the others where a type allows it; the same seed gives the same rows.
    """
    rng = Random(seed)
    rows = []
    for question, variant in of_questions(accepted(), ids):
        if rng.random() < 0.5:
            rows.append(Labelled(question, variant, ANSWERS["none"], "none"))
            continue
        for corruption in rng.sample(CORRUPTIONS, len(CORRUPTIONS)):
            broken = corrupted(question, variant, corruption, rng)
            if broken is not None:
                rows.append(Labelled(question, broken, ANSWERS[corruption], corruption))
                break
    rng.shuffle(rows)
    return rows


def corrupted(question: Question, variant: Variant, corruption: Corruption, rng: Random) -> Variant | None:
    """`variant` with one mechanical fault, or None where the type does not allow it."""
    options, answer = list(variant.options), variant.answer_index
    movable = [i for i, option in enumerate(options) if i != answer and not is_abstain(option)]
    if corruption == "wrong_key":
        answer = rng.choice(movable)
    elif corruption == "second_right":
        if is_abstain(options[answer]) or variant.variant_type == "ordering":
            return None
        options[rng.choice(movable)] = f"{options[answer].rstrip('. ')} {rng.choice(_SECOND_RIGHT_ENDINGS)}."
    elif corruption == "duplicate":
        first, second = rng.sample(movable, 2)
        options[first] = options[second]
    elif corruption == "wrong_type":
        others = [kind for kind in VARIANT_TYPE_KEYS if kind != variant.variant_type]
        return _renamed(replace(variant, variant_type=rng.choice(others), is_control=False))
    elif corruption == "unchanged_context":
        return _renamed(replace(variant, context=question.context))
    return _renamed(replace(variant, options=tuple(options), answer_index=answer))


def _renamed(variant: Variant) -> Variant:
    return replace(
        variant,
        variant_id=variant_id(
            variant.question_id, variant.variant_type, variant.context, variant.options, variant.answer_index
        ),
    )


def rows_by_corruption(rows: Sequence[Labelled]) -> Iterator[tuple[Corruption, int]]:
    for corruption in ("none", *CORRUPTIONS):
        yield corruption, sum(row.corruption == corruption for row in rows)

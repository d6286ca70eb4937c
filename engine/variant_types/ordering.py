"""Sentence ordering: the story's sentences, numbered and shuffled, to be put in order."""

import re
from collections.abc import Sequence
from itertools import permutations
from random import Random
from typing import Final

from data.records import Question
from engine.candidate import Candidate
from engine.variant_types.contract import CheckOutcome, asks, required
from engine.variant_types.story import ending, is_story, scene
from engine.variant_types.variant_type import Refusal, VariantType
from engine.wording import coverage

TAIL: Final = "Which is the correct order?"
LEAST_STORY_COVERAGE: Final = 0.8
"""Published rows keep 87 % of the context's and 90 % of the ending's word stems in 99 of 100 cases."""
_FEWEST: Final = 3
_MOST: Final = 4
_OPTIONS: Final = 4
_NUMBERED: Final = re.compile(r"(?:(?<=^)|(?<=\s))(\d{1,2})[.)]\s+")
_CLOSING: Final = re.compile(r"\bWhich[^?.]*\?\W*$")
_NUMBER: Final = re.compile(r"[0-9]{1,2}")
_ASKS_FOR_ORDER: Final = re.compile(r"\border\b[^?]*\?\W*$", re.IGNORECASE)
_SEPARATOR: Final = re.compile(r"\s*(?:-|–|—|,|→|->|\s)\s*")


def own_checks(question: Question, answer_index: int, candidate: Candidate) -> tuple[CheckOutcome, ...]:
    shown = numbered_sentences(candidate.context)
    orders = [_order(option) for option in candidate.options]
    wanted = list(range(1, len(shown) + 1))
    numbers = [number for number, _ in shown]
    share = coverage(f"{question.context} {question.options[answer_index]}", candidate.context)
    answer = orders[candidate.answer_index]
    permuted = len(shown) >= _FEWEST and all(sorted(order) == wanted for order in orders)
    return (
        required("asks_for_order", asks(_ASKS_FOR_ORDER, candidate.context), f"expected {TAIL!r} or similar"),
        required(
            "sentences_numbered", numbers == wanted and len(shown) >= _FEWEST, f"numbered {numbers}, expected from 1 up"
        ),
        required("options_are_orders", permuted, f"each option must be a permutation of 1 to {len(shown)}"),
        required(
            "story_kept",
            share >= LEAST_STORY_COVERAGE,
            f"{share:.0%} of the word stems of context and right option, at least {LEAST_STORY_COVERAGE:.0%} required",
        ),
        _restores_order(question, answer_index, shown, answer),
        required(
            "shown_order_is_not_answer", answer != wanted, f"the answer is {'-'.join(map(str, answer)) or 'no order'}"
        ),
    )


def write(question: Question, _foreign: Sequence[Question], rng: Random) -> Candidate | Refusal:
    """The story's sentences, shuffled. The order shown is never an option, as it could be ruled out unread.

    Whether another order would also make sense is left to the verifier and to people.
    """
    if question.answer_index is None or not is_story(question):
        return Refusal("the context is not a story whose sentences have an order")
    story = (*scene(question), ending(question, question.options[question.answer_index]))
    if len(story) < _FEWEST:
        return Refusal("context and right option have fewer than three sentences")
    if len(story) > _MOST:
        return Refusal("context and right option have more than four sentences")
    if len(set(story)) < len(story):
        return Refusal("two sentences of the story are the same")
    size = len(story)
    orders = [order for order in permutations(range(1, size + 1)) if order != tuple(range(1, size + 1))]
    answer = rng.choice(orders)
    # The answer lists the shown sentences in story order: the one shown as number answer[k] is the story's k-th.
    shown = [story[answer.index(number)] for number in range(1, size + 1)]
    wrong = rng.sample([order for order in orders if order != answer], _OPTIONS - 1)
    return Candidate(
        " ".join([*(f"{number}. {text}" for number, text in enumerate(shown, 1)), TAIL]),
        tuple("-".join(map(str, order)) for order in (answer, *wrong)),
        0,
        False,
    )


def numbered_sentences(context: str) -> tuple[tuple[int, str], ...]:
    """(number, text) from "1. ... 2. ... Which is the correct order?", in the order shown; without the question."""
    parts = _NUMBERED.split(context)[1:]
    texts = [_CLOSING.sub("", text).strip() for text in parts[1::2]]
    return tuple(zip(map(int, parts[::2]), texts, strict=True))


def _order(option: str) -> list[int]:
    parts = _SEPARATOR.split(option.strip().rstrip("."))
    return [int(part) for part in parts] if all(_NUMBER.fullmatch(part) for part in parts) else []


def _restores_order(
    question: Question, answer_index: int, shown: Sequence[tuple[int, str]], answer: Sequence[int]
) -> CheckOutcome:
    """The answer puts those of the original's sentences that can be found into their original order."""
    texts = dict(shown)
    if not shown or sorted(answer) != sorted(texts):
        return required("answer_restores_order", False, "the answer's numbers are not the ones shown")
    read = [texts[number] for number in answer]
    story = (*(scene(question) or (question.context,)), ending(question, question.options[answer_index]))
    places = [max(range(len(read)), key=lambda i, line=line: _likeness(line, read[i])) for line in story]  # type: ignore[misc]
    in_order = places == sorted(places)
    return required(
        "answer_restores_order",
        in_order,
        f"original sentences are at positions {[p + 1 for p in places]}, matched by word stems",
    )


def _likeness(line: str, shown: str) -> float:
    return coverage(line, shown) + coverage(shown, line)


ORDERING: Final = VariantType(
    key="ordering",
    name="sentence ordering",
    definition="The sentences of context and right ending are numbered and shuffled, and their order is asked for.",
    bloom_level="analyse",
    rubric=(
        "The variant shows the sentences of the original story, with its right ending, numbered and out of order, and "
        "asks for the order. The marked answer restores the original order, and time or cause leaves no other."
    ),
    instructions=(
        "Write the context and the right option as three or four full sentences, number them in a shuffled order as "
        f'"1. ... 2. ... 3. ...", then ask: "{TAIL}" Give four options such as "2-3-1", each naming every number once; '
        "the answer is the order in which the story happens. It must not be the order shown."
    ),
    demonstration=Candidate(
        "1. He walks along the street to the bus stop. 2. The man waits under the umbrella until the bus comes. "
        f"3. A man opens his umbrella because it has begun to rain. {TAIL}",
        ("1-3-2", "2-3-1", "3-2-1", "3-1-2"),
        3,
        False,
    ),
    option_count=lambda _: _OPTIONS,
    own_checks=own_checks,
    write=write,
)

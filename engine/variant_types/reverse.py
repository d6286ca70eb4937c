"""Reverse conversion: from what happened back to a context where it could happen."""

import re
from collections.abc import Sequence
from random import Random
from typing import Final

from data.records import Question
from engine.candidate import Candidate
from engine.variant_types.contract import CheckOutcome, advisory, asks, quoted, required
from engine.variant_types.demonstration import ORIGINAL
from engine.variant_types.story import ending, is_story, scene
from engine.variant_types.variant_type import Refusal, VariantType
from engine.wording import content_stems, coverage, similarity

TAIL: Final = "Which could be the possible context for this action?"
LEAST_ENDING_COVERAGE: Final = 0.85
LEAST_ANSWER_SIMILARITY: Final = 0.5
"""Published rows: 90 % of the answers are at least this similar to the original context, half of them 0.96."""
DUPLICATE_SIMILARITY: Final = 0.75
"""From this similarity on, another option counts as a duplicate of the original context."""
MOST_BORROWED_SIMILARITY: Final = 0.5
"""99 % of the published distractors stay below it, as do those that the recipe borrows."""
FOREIGN_WANTED: Final = 24
_NEAREST_IN_LENGTH: Final = 8
_DISTRACTORS: Final = 3
_LEAST_ENDING_STEMS: Final = 3
_ASKS_FOR_CONTEXT: Final = re.compile(r"\b(?:context|scene|situation|scenario)\b[^?]*\?\W*$", re.IGNORECASE)


def own_checks(question: Question, answer_index: int, candidate: Candidate) -> tuple[CheckOutcome, ...]:
    covered = coverage(question.options[answer_index], candidate.context)
    answer = candidate.options[candidate.answer_index]
    kept = max(similarity(answer, question.context), coverage(answer, question.context))
    others = [o for i, o in enumerate(candidate.options) if i != candidate.answer_index]
    rival = max(others, key=lambda other: similarity(other, question.context), default="")
    near = similarity(rival, question.context)
    return (
        required("asks_for_context", asks(_ASKS_FOR_CONTEXT, candidate.context), f"expected {TAIL!r} or similar"),
        required(
            "ending_in_context",
            covered >= LEAST_ENDING_COVERAGE,
            f"{covered:.0%} of the right option's word stems, at least {LEAST_ENDING_COVERAGE:.0%} required",
        ),
        required(
            "original_context_is_answer",
            kept >= LEAST_ANSWER_SIMILARITY,
            f"stem similarity {kept:.2f}, at least {LEAST_ANSWER_SIMILARITY} required",
        ),
        required(
            "one_original_context",
            near < DUPLICATE_SIMILARITY,
            f"closest other option {quoted(rival)}: stem similarity {near:.2f}, must be below {DUPLICATE_SIMILARITY}",
        ),
        _answer_not_longest(candidate),
    )


def write(question: Question, foreign: Sequence[Question], rng: Random) -> Candidate | Refusal:
    """Asks about the ending, with the question's own scene as the answer and other questions' scenes as distractors.

    Whether a borrowed scene could also precede the ending is left to the verifier and to people.
    """
    if question.answer_index is None or not is_story(question):
        return Refusal("the context sets no scene that a sentence could follow")
    action = ending(question, question.options[question.answer_index])
    if len(content_stems(action)) < _LEAST_ENDING_STEMS:
        return Refusal("the correct option says too little to identify its context")
    own = " ".join(scene(question))
    lent = {" ".join(scene(other)) for other in foreign if is_story(other)}
    differing = [text for text in lent if all(_differs(text, one) for one in (own, question.context))]
    # Of similar length, or the answer would be the longest option (67 % of the published rows).
    alike = sorted(differing, key=lambda text: (abs(len(text) - len(own)), text))[:_NEAREST_IN_LENGTH]
    rng.shuffle(alike)
    borrowed: list[str] = []
    for text in alike:
        if len(borrowed) < _DISTRACTORS and all(_differs(text, one) for one in borrowed):
            borrowed.append(text)
    if len(borrowed) < _DISTRACTORS:
        return Refusal("fewer than three other questions have a scene that differs enough")
    return Candidate(f"{action} {TAIL}", (own, *borrowed), 0, False)


def _differs(one: str, other: str) -> bool:
    return similarity(one, other) < MOST_BORROWED_SIMILARITY


def _answer_not_longest(candidate: Candidate) -> CheckOutcome:
    answer = len(candidate.options[candidate.answer_index])
    longest = max((len(o) for i, o in enumerate(candidate.options) if i != candidate.answer_index), default=0)
    return advisory("answer_not_longest", answer <= 1.5 * longest, f"{answer} characters, the next longest {longest}")


REVERSE: Final = VariantType(
    key="reverse",
    name="reverse conversion",
    definition="The right ending is given and its context is asked for; the original context is the answer.",
    bloom_level="analyse",
    rubric=(
        "The variant states the original right option as something that happened and asks for its context. The marked "
        "answer is the original context, and telling it from the others needs the same knowledge as the original."
    ),
    instructions=(
        "State the right option as one full sentence, with its subject taken from the context, then ask: "
        f'"{TAIL}" Give four options: the original context as one or more full sentences, without its unfinished end, '
        "is the answer; the three others are contexts of about the same length in which the action could not happen."
    ),
    demonstration=Candidate(
        f"The man waits under the umbrella until the bus comes. {TAIL}",
        (
            "A woman cuts a lemon in half on a wooden board. She squeezes it over a plate of grilled fish.",
            "Two children build a tower of blocks on the carpet. Their dog lies asleep beside the warm stove.",
            " ".join(scene(ORIGINAL)),
            "A mechanic rolls a van into his garage. He loosens the wheel nuts and takes off the left front wheel.",
        ),
        2,
        False,
    ),
    option_count=lambda _: 4,
    own_checks=own_checks,
    write=write,
    foreign_wanted=FOREIGN_WANTED,
)

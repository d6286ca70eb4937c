"""Negative transformation: the variant asks what will not happen."""

import re
from typing import Final

from data.records import Question
from engine.candidate import Candidate
from engine.variant_types.contract import CheckOutcome, required
from engine.variant_types.demonstration import ORIGINAL
from engine.variant_types.story import scene
from engine.variant_types.variant_type import VariantType
from engine.wording import best_match, content_stems, coverage, match, overlap, sentences

LEAST_CONTEXT_COVERAGE: Final = 0.4
"""99 % of the published rows keep 61 % of the context's word stems; a one-line question may keep fewer."""
LEAST_ANSWER_OVERLAP: Final = 0.6
"""Share of the original answer's content-word stems in one option; word order is free ("cooling" first or last)."""
_NEGATION: Final = re.compile(
    r"\b(?:not|never|cannot|no longer|nobody|nothing|unlikely|least|except|incorrect|false)\b|n['’]t\b", re.IGNORECASE
)


def own_checks(question: Question, answer_index: int, candidate: Candidate) -> tuple[CheckOutcome, ...]:
    last = (sentences(candidate.context) or ("",))[-1]
    before = (sentences(question.context) or ("",))[-1]
    original = question.options[answer_index]
    others = [o for i, o in enumerate(candidate.options) if i != candidate.answer_index]
    nearest = best_match(original, others)[1]
    found = max((_same_meaning_bearers(original, other) for other in others), default=0.0)
    answer = match(original, candidate.options[candidate.answer_index])
    kept = coverage(question.context, candidate.context)
    negations = len(_NEGATION.findall(last)) - len(_NEGATION.findall(before))
    return (
        required("negation_present", negations % 2 == 1, f"{negations:+d} negations in the last sentence"),
        required(
            "original_answer_among_others",
            nearest.is_same or found >= LEAST_ANSWER_OVERLAP,
            f"compared by {nearest}; {found:.0%} of its content-word stems in one option",
        ),
        required("answer_is_another", not answer.is_same, f"compared with the original answer: {answer}"),
        required(
            "context_kept",
            kept >= LEAST_CONTEXT_COVERAGE,
            f"{kept:.0%} of the context's word stems, at least {LEAST_CONTEXT_COVERAGE:.0%} required",
        ),
    )


def _same_meaning_bearers(original: str, option: str) -> float:
    return overlap(original, option) if content_stems(original) else float(match(original, option).is_same)


NEGATION: Final = VariantType(
    key="negation",
    name="negative transformation",
    definition="The question asks what will not happen or does not hold; the least plausible option is the answer.",
    bloom_level="evaluate",
    rubric=(
        "The context is kept and its end is negated. The original right option stands among the others, where it is "
        "now wrong, and the marked answer is the one option that would not happen or does not hold."
    ),
    instructions=(
        'Keep the context and negate its end: an unfinished sentence ends in "will not", a question asks which is not. '
        'Give four options that fit the negated end (base form after "will not"). Keep the right option among them; '
        "it is now wrong, as are two others that are plausible. The answer is the one that clearly will not happen or "
        "is not true."
    ),
    demonstration=Candidate(
        f"{' '.join(scene(ORIGINAL))} The man will not",
        (
            "wait under the umbrella until the bus comes.",
            "look down the street for the bus.",
            "step around the puddles on the pavement.",
            "spread a towel on the ground and lie in the sun.",
        ),
        3,
        False,
    ),
    option_count=lambda _: 4,
    own_checks=own_checks,
    write=None,
    write_refusal="a program cannot tell which options stay plausible under the negation",
)

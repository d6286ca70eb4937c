"""Causal inference: the variant tells the whole story and asks for its reason."""

import re
from typing import Final

from data.records import Question
from engine.candidate import Candidate
from engine.variant_types.contract import CheckOutcome, asks, quoted, required
from engine.variant_types.demonstration import ORIGINAL
from engine.variant_types.story import ending, scene
from engine.variant_types.variant_type import VariantType
from engine.wording import best_match, coverage

TAIL: Final = "Which could be the possible reason for this action?"
LEAST_CONTEXT_COVERAGE: Final = 0.8
LEAST_ENDING_COVERAGE: Final = 0.8
"""Published rows keep 83 % of the context's word stems and 88 % of the ending's, or more, in 99 of 100 cases."""
MOST_ENDING_SIMILARITY: Final = 0.7
"""No published reason has a similarity above 0.62 to an original option."""
_ASKS_FOR_REASON: Final = re.compile(r"\b(?:reason|cause|why|explains?)\b[^?]*\?\W*$", re.IGNORECASE)


def own_checks(question: Question, answer_index: int, candidate: Candidate) -> tuple[CheckOutcome, ...]:
    scene_kept = coverage(question.context, candidate.context)
    ending_kept = coverage(question.options[answer_index], candidate.context)
    nearest = [best_match(option, question.options)[1] for option in candidate.options]
    worst = max(range(len(nearest)), key=lambda i: nearest[i].similarity)
    return (
        required("asks_for_reason", asks(_ASKS_FOR_REASON, candidate.context), f"expected {TAIL!r} or similar"),
        required(
            "context_kept",
            scene_kept >= LEAST_CONTEXT_COVERAGE,
            f"{scene_kept:.0%} of the context's word stems, at least {LEAST_CONTEXT_COVERAGE:.0%} required",
        ),
        required(
            "ending_in_context",
            ending_kept >= LEAST_ENDING_COVERAGE,
            f"{ending_kept:.0%} of the right option's word stems, at least {LEAST_ENDING_COVERAGE:.0%} required",
        ),
        required(
            "options_are_reasons",
            nearest[worst].similarity < MOST_ENDING_SIMILARITY,
            f"closest to an original option: {quoted(candidate.options[worst])}, {nearest[worst]}",
        ),
    )


CAUSAL: Final = VariantType(
    key="causal",
    name="causal inference",
    definition="The context and its right ending are told, and the reason for what happens is asked for.",
    bloom_level="analyse",
    rubric=(
        "The variant tells the original context with its right ending and asks why. The options are reasons, not "
        "endings, and finding the right one needs the knowledge that the original tests."
    ),
    instructions=(
        "Repeat the context, complete its last sentence with the right option, then ask: "
        f'"{TAIL}" Give four options, each one full sentence that states a reason. One is the plain, likely reason and '
        "is the answer; the other three are clearly unlikely here. No option repeats the story."
    ),
    demonstration=Candidate(
        f"{' '.join(scene(ORIGINAL))} {ending(ORIGINAL, ORIGINAL.options[0])} {TAIL}",
        (
            "He hopes that the rain will clean the umbrella.",
            "He wants to get onto the bus without getting wet.",
            "He is guarding the bus stop for the night.",
            "He thinks that the umbrella will bring the sun back.",
        ),
        1,
        False,
    ),
    option_count=lambda _: 4,
    own_checks=own_checks,
    write=None,
    write_refusal="a program cannot invent reasons",
)

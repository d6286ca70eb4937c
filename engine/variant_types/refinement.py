"""Scenario refinement: the smallest edit of the context that makes a wrong option right."""

from typing import Final

from data.records import Question
from engine.candidate import Candidate
from engine.variant_types.contract import CheckOutcome, advisory, quoted, required, stays_near
from engine.variant_types.demonstration import OPTIONS
from engine.variant_types.variant_type import VariantType
from engine.wording import CLOSE_SIMILARITY, best_match, similarity, unmatched

LEAST_CONTEXT_SIMILARITY: Final = 0.2
"""98 % of the published edits have this stem similarity or more."""
LEAST_CONTENT_KEPT: Final = 0.2
"""99 % of the published edits keep 23 % of the content-word stems or more."""
SMALL_EDIT_SIMILARITY: Final = 0.5
"""Three in four published edits are at least this small; a larger one is worth checking."""


def own_checks(question: Question, answer_index: int, candidate: Candidate) -> tuple[CheckOutcome, ...]:
    lost = unmatched(question.options, candidate.options)
    # Compared with every original option: two of them may be close enough to match each other.
    origin, moved = best_match(candidate.options[candidate.answer_index], question.options)
    near = similarity(question.context, candidate.context)
    by = f"compared with a tolerance: stem similarity {CLOSE_SIMILARITY} or more"
    return (
        required("option_set_kept", not lost, f"{quoted(lost[0])} is missing; {by}" if lost else by),
        required(
            "answer_moved",
            not (origin == answer_index and moved.is_same),
            f"the answer is closest to original option {origin}: {moved}; the original answer is {answer_index}",
        ),
        stays_near(
            "edit_bounded",
            question,
            candidate,
            least_similarity=LEAST_CONTEXT_SIMILARITY,
            least_content=LEAST_CONTENT_KEPT,
        ),
        advisory(
            "edit_small",
            near >= SMALL_EDIT_SIMILARITY,
            f"stem similarity of the contexts {near:.2f}, at least {SMALL_EDIT_SIMILARITY} recommended",
        ),
    )


REFINEMENT: Final = VariantType(
    key="refinement",
    name="scenario refinement",
    definition="The smallest edit of the context makes an option right that was wrong; the options stay.",
    bloom_level="evaluate",
    rubric=(
        "A small edit of the context turns one of the wrong options into the right one and the original answer into a "
        "wrong one. The options are the same, and the scene is still recognisably the original's."
    ),
    instructions=(
        "Choose one of the wrong options. Change as little of the context as you can so that this option becomes the "
        "only right one and the old answer becomes wrong. Do not say the answer in the context. Copy all options "
        "exactly, in the same order; the answer is the option that you chose."
    ),
    demonstration=Candidate(
        "A man closes his umbrella because it has stopped raining and the sun is out. He walks along the street to "
        "the beach. The man",
        OPTIONS,
        1,
        False,
    ),
    option_count=lambda question: len(question.options),
    own_checks=own_checks,
    write=None,
    write_refusal="a program cannot know which edit makes a wrong option right",
)

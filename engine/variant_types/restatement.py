"""Problem restatement: the context and the correct option reworded, the wrong options unchanged."""

from typing import Final

from data.ids import normal_form
from data.records import Question
from engine.candidate import Candidate
from engine.variant_types.contract import CheckOutcome, quoted, required, stays_near
from engine.variant_types.demonstration import OPTIONS
from engine.variant_types.variant_type import VariantType
from engine.wording import CLOSE_SIMILARITY, similarity, unmatched

LEAST_SIMILARITY: Final = 0.15
MOST_SIMILARITY: Final = 0.95
"""Stem similarity of a paraphrase to its original; published ones range from 0.21 to 0.95, half from 0.47 to 0.65."""
LEAST_CONTENT_KEPT: Final = 0.1
"""99 % of the published restatements keep 15 % of the content-word stems or more."""


def own_checks(question: Question, answer_index: int, candidate: Candidate) -> tuple[CheckOutcome, ...]:
    return (*paraphrase_checks(question, candidate), other_options_kept(question, answer_index, candidate))


def paraphrase_checks(question: Question, candidate: Candidate) -> tuple[CheckOutcome, ...]:
    """The context has changed, and its similarity is in the range of a paraphrase."""
    near = similarity(question.context, candidate.context)
    changed = normal_form(question.context) != normal_form(candidate.context)
    return (
        required("context_changed", changed, "compared in normal form"),
        required(
            "context_in_other_words",
            near <= MOST_SIMILARITY,
            f"stem similarity of the contexts {near:.2f}, at most {MOST_SIMILARITY} allowed",
        ),
        stays_near(
            "context_similarity",
            question,
            candidate,
            least_similarity=LEAST_SIMILARITY,
            least_content=LEAST_CONTENT_KEPT,
        ),
    )


def other_options_kept(question: Question, answer_index: int, candidate: Candidate) -> CheckOutcome:
    """Every wrong option of the original is among the candidate's wrong options, small repairs allowed."""
    before = [option for i, option in enumerate(question.options) if i != answer_index]
    after = [option for i, option in enumerate(candidate.options) if i != candidate.answer_index]
    lost = unmatched(before, after)
    detail = f"compared with a tolerance: stem similarity {CLOSE_SIMILARITY} or more"
    return required("other_options_kept", not lost, f"{quoted(lost[0])} is missing; {detail}" if lost else detail)


RESTATEMENT: Final = VariantType(
    key="restatement",
    name="problem restatement",
    definition="The context and the right option say the same in other words; the wrong options stay as they were.",
    bloom_level="understand",
    rubric=(
        "The context is a paraphrase: same people, things, actions and order of events, other words. The right "
        "option is rephrased without change of meaning, the wrong options are kept, and every option still continues "
        "the context."
    ),
    instructions=(
        "Rewrite the context in other words without changing what happens; where it ends in an unfinished sentence, "
        "end yours in one that the options can still continue. Rewrite the right option in other words. Copy the wrong "
        "options exactly. Keep the order of the options and the answer."
    ),
    demonstration=Candidate(
        "Rain is starting to fall, so a man puts up his umbrella. He follows the road as far as the bus stop. The man",
        ("stays beneath it until his bus arrives.", *OPTIONS[1:]),
        0,
        False,
    ),
    option_count=lambda question: len(question.options),
    own_checks=own_checks,
    write=None,
    write_refusal="a program cannot paraphrase a text",
)

"""Critical testing: an edit after which no option fits, and controls, where the original answer still does."""

from collections.abc import Sequence
from random import Random
from typing import Final

from data.ids import normal_form
from data.records import Question
from engine.candidate import Candidate, abstain_option, is_abstain
from engine.variant_types.contract import CheckOutcome, advisory, quoted, required, stays_near
from engine.variant_types.demonstration import OPTIONS
from engine.variant_types.restatement import LEAST_CONTENT_KEPT, LEAST_SIMILARITY, MOST_SIMILARITY, other_options_kept
from engine.variant_types.variant_type import Refusal, VariantType
from engine.wording import CLOSE_SIMILARITY, similarity, unmatched

LEAST_CONTEXT_SIMILARITY: Final = 0.45
"""No published edit has a stem similarity, or a share of kept content-word stems, below 0.47."""


def own_checks(question: Question, answer_index: int, candidate: Candidate) -> tuple[CheckOutcome, ...]:
    last = candidate.options[-1]
    abstain = (
        required("abstain_is_last", is_abstain(last), f"the last option is {quoted(last)}; punctuation is ignored"),
        required(
            "one_abstain",
            sum(map(is_abstain, candidate.options)) == 1,
            "exactly one abstain option; compared ignoring punctuation",
        ),
    )
    if candidate.answer_index == len(candidate.options) - 1:
        return (*abstain, *_edit_checks(question, candidate))
    return (*abstain, *_control_checks(question, answer_index, candidate))


def write(question: Question, _foreign: Sequence[Question], _rng: Random) -> Candidate | Refusal:
    """A control: the original plus the abstain option, with the same answer.

    The published controls are also restatements; a program cannot restate, so the context stays unchanged and the
    advisory check `context_restated` marks it.
    """
    if question.answer_index is None or any(map(is_abstain, question.options)):
        return Refusal("the original already has an abstain option")
    options = (*question.options, abstain_option(len(question.options)))
    return Candidate(question.context, options, question.answer_index, True)


def _edit_checks(question: Question, candidate: Candidate) -> tuple[CheckOutcome, ...]:
    lost = unmatched(question.options, candidate.options[:-1])
    changed = normal_form(question.context) != normal_form(candidate.context)
    by = f"compared with a tolerance: stem similarity {CLOSE_SIMILARITY} or more"
    return (
        required("option_set_kept", not lost, f"{quoted(lost[0])} is missing; {by}" if lost else by),
        required("context_changed", changed, "compared in normal form"),
        stays_near(
            "edit_bounded",
            question,
            candidate,
            least_similarity=LEAST_CONTEXT_SIMILARITY,
            least_content=LEAST_CONTEXT_SIMILARITY,
        ),
    )


def _control_checks(question: Question, answer_index: int, candidate: Candidate) -> tuple[CheckOutcome, ...]:
    """A control keeps the wrong options; its context is a paraphrase, or unchanged if a program made it."""
    own = Candidate(candidate.context, candidate.options[:-1], candidate.answer_index, candidate.is_control)
    near = similarity(question.context, candidate.context)
    changed = normal_form(question.context) != normal_form(candidate.context)
    return (
        required("marked_as_control", candidate.is_control, "a control's answer is not the abstain option"),
        other_options_kept(question, answer_index, own),
        stays_near(
            "context_similarity",
            question,
            candidate,
            least_similarity=LEAST_SIMILARITY,
            least_content=LEAST_CONTENT_KEPT,
        ),
        advisory(
            "context_restated",
            changed and near <= MOST_SIMILARITY,
            f"stem similarity of the contexts {near:.2f}, at most {MOST_SIMILARITY} in a restatement",
        ),
    )


CRITICAL: Final = VariantType(
    key="critical",
    name="critical testing",
    definition=(
        "A small edit of the context leaves no option fitting, so the last one, which says so, is right; "
        "controls keep the original answer right beside it."
    ),
    bloom_level="evaluate",
    rubric=(
        "Either a small edit of the context makes every original option wrong and the abstain option is marked, or, in "
        "a control, context and right option are only restated and the right option stays marked. The abstain option "
        "is last, and the tested knowledge is the original's."
    ),
    instructions=(
        "Change as little of the context as you can, for example by a sudden event, so that none of the options "
        "fits any more. Copy all options exactly, in the same order, and add the abstain option as the last one. "
        "It is the answer."
    ),
    demonstration=Candidate(
        "A man opens his umbrella because it has begun to rain. He walks along the street to the bus stop, but a gust "
        "of wind tears the umbrella out of his hand and carries it away. The man",
        (*OPTIONS, abstain_option(4)),
        4,
        False,
    ),
    option_count=lambda question: len(question.options) + 1,
    own_checks=own_checks,
    write=write,
    allows_abstain=True,
)

CONTROL_INSTRUCTIONS: Final = (
    "Rewrite the context and the right option in other words without changing what happens, so that the same option "
    "stays right. Copy the wrong options exactly, keep the order, and add the abstain option as the last one. "
    "The answer is still the right option, not the abstain option."
)
CONTROL_DEMONSTRATION: Final = Candidate(
    "Rain is starting to fall, so a man puts up his umbrella. He follows the road as far as the bus stop. The man",
    ("stays beneath it until his bus arrives.", *OPTIONS[1:], abstain_option(4)),
    0,
    True,
)

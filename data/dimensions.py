"""The three dimensions of a variant: order, names, questions, rubrics. Source: SAGE, arXiv 2605.12022."""

from dataclasses import dataclass
from typing import Final, Literal

DimensionKey = Literal["TC", "LC", "AU"]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension; `question` is put to people, `rubric` goes into a verifier's prompt."""

    key: DimensionKey
    name: str
    question: str
    rubric: str


TC: Final = Dimension(
    key="TC",
    name="Type consistency",
    question="Does the variant keep the tested knowledge and satisfy its type?",
    rubric=(
        "Type consistency: the variant still tests the knowledge of the original question, does not give "
        "the answer away, and changes the question in the way that its type demands."
    ),
)
LC: Final = Dimension(
    key="LC",
    name="Label correctness",
    question="Is the marked answer right for the variant's own context and options?",
    rubric="Label correctness: the marked answer is the right one for the variant's own context and options.",
)
AU: Final = Dimension(
    key="AU",
    name="Answer uniqueness",
    question="Is exactly one option right, with no duplicate and no irrelevant option?",
    rubric=(
        "Answer uniqueness: exactly one option is right, and no other option duplicates another or is "
        "irrelevant to the question."
    ),
)
DIMENSIONS: Final = (TC, LC, AU)

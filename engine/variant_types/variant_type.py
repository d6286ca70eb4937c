"""What a variant type is: its words for people and models, its contract, and, where honest, its rule-based recipe."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from data.records import Question, VariantTypeKey
from engine.candidate import Candidate
from engine.variant_types.contract import CheckOutcome, common_checks

BloomLevel = Literal["remember", "understand", "apply", "analyse", "evaluate", "create"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a recipe makes nothing of a question: a fixed sentence, so that refusals can be counted by reason."""

    reason: str


OwnChecks = Callable[[Question, int, Candidate], tuple[CheckOutcome, ...]]
"""(original, its answer index, candidate with an answer in range) -> the type's own checks."""

WriteRecipe = Callable[[Question, Sequence[Question], Random], Candidate | Refusal]
"""(original with an answer, other questions to borrow from, randomness) -> a candidate, options not yet shuffled."""


@dataclass(frozen=True, slots=True)
class VariantType:
    """One type. `definition` is for annotators, `rubric` says what TC means here, `instructions` go to a model.

    `demonstration` is one example of our own writing: (original, its variant). `write` is None where a program
    cannot make the type honestly; `write_refusal` then says why. `foreign_wanted`: how many other questions
    `write` is lent.
    """

    key: VariantTypeKey
    name: str
    definition: str
    bloom_level: BloomLevel
    rubric: str
    instructions: str
    demonstration: Candidate
    option_count: Callable[[Question], int]
    own_checks: OwnChecks
    write: WriteRecipe | None
    write_refusal: str = ""
    foreign_wanted: int = 0
    allows_abstain: bool = False

    def check(self, question: Question, candidate: Candidate) -> tuple[CheckOutcome, ...]:
        """The whole contract: the checks that every type shares, then its own.

        Its own are left out where the answer is out of range or the original has none: they would mean nothing.
        """
        shared = common_checks(
            question, candidate, option_count=self.option_count(question), allows_abstain=self.allows_abstain
        )
        if question.answer_index is None or not 0 <= candidate.answer_index < len(candidate.options):
            return shared
        return shared + self.own_checks(question, question.answer_index, candidate)

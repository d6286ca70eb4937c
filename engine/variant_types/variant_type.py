"""What makes up a variant type: its texts for people and models, its contract, and a rule-based recipe if possible."""

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
    """Why a recipe cannot use a question; a fixed sentence, so that refusals can be counted by reason."""

    reason: str


OwnChecks = Callable[[Question, int, Candidate], tuple[CheckOutcome, ...]]
"""(original, its answer index, candidate with a valid answer) -> the type's own checks."""

WriteRecipe = Callable[[Question, Sequence[Question], Random], Candidate | Refusal]
"""(original with an answer, other questions to borrow from, random numbers) -> an unshuffled candidate."""


@dataclass(frozen=True, slots=True)
class VariantType:
    """One type. `definition` is for annotators, `rubric` says what TC means here, `instructions` go to a model.

    `demonstration` is one example that we wrote: (original, its variant). `write` is None if a program cannot write
    the type faithfully; `write_refusal` then says why. `foreign_wanted`: how many other questions `write` needs.
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
        """The whole contract: the checks that all types share, then the type's own.

        Its own are left out if the answer is out of range or the original has none: they would be meaningless.
        """
        shared = common_checks(
            question, candidate, option_count=self.option_count(question), allows_abstain=self.allows_abstain
        )
        if question.answer_index is None or not 0 <= candidate.answer_index < len(candidate.options):
            return shared
        return shared + self.own_checks(question, question.answer_index, candidate)

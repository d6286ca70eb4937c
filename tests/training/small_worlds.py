"""One small question with variants of it, and verifiers by hand: for tests of rewards and of trainings by them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from data.ids import variant_id
from data.records import Question, QuestionId, Recipe, Variant, VariantTypeKey, Verdict, VerdictMethod, VerdictTarget
from engine.candidate import Candidate, abstain_option, reply_text
from engine.prompts import GenerationRequest
from engine.verify import Pair

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OPTIONS = ("falls asleep.", "flies away.", "reads a book.", "sings a song.")
QUESTION = Question(QuestionId("q_cat"), "A cat sits on a mat. It", OPTIONS, 0, "test", "cat")
TARGETS: tuple[VerdictTarget, ...] = ("TC", "LC", "AU", "valid")
CONTROL_SEED = 1
EDIT_SEED = 2

CONTROL = Candidate("On a mat a cat sits. It", ("goes to sleep.", *OPTIONS[1:], abstain_option(4)), 0, True)
"""A critical control that passes its contract."""
BROKEN = Candidate("On a mat a cat sits. It", ("goes to sleep.", *OPTIONS[1:3], abstain_option(4)), 0, True)
"""It lacks an option, so it does not."""


def request(variant_type: VariantTypeKey = "critical", seed: int = CONTROL_SEED) -> GenerationRequest:
    return GenerationRequest(f"g_{variant_type}_{seed}", QUESTION, variant_type, seed)


def reply(context: str = CONTROL.context, options: Sequence[str] = CONTROL.options, answer: int = 0) -> str:
    return reply_text(Candidate(context, tuple(options), answer, False))


def variant_of(candidate: Candidate, variant_type: VariantTypeKey = "critical") -> Variant:
    named = variant_id(QUESTION.question_id, variant_type, candidate.context, candidate.options, candidate.answer_index)
    return Variant(
        named,
        QUESTION.question_id,
        variant_type,
        candidate.context,
        candidate.options,
        candidate.answer_index,
        candidate.is_control,
        None,
        Recipe("test", "", "", "{}", 0),
        None,
        NOW,
    )


@dataclass
class FakeVerifier:
    """Says `probability(variant)` of each dimension, or nothing where that is None."""

    probability: Callable[[Variant], float | None] = lambda _: 0.8
    version: str = "fake:1"
    asked: list[Variant] = field(default_factory=list)
    method: VerdictMethod = "feature"

    def judge(self, pairs: Sequence[Pair], *, now: datetime) -> list[Verdict]:
        found = []
        for _, variant in pairs:
            self.asked.append(variant)
            p = self.probability(variant)
            for target in TARGETS:
                said = p if p is None or target != "valid" else p**3
                label = None if p is None else p >= 0.5
                found.append(Verdict(variant.variant_id, target, said, label, self.version, self.method, None, now))
        return found

"""Training rows of a language-model verifier: the item as `engine.verify` reads it, then the human answer.

ERA: one row per answered dimension. IRA: one row per variant with known validity. The answer is one token, the one
whose probability is read at inference. Refuses tokenizers that split it. Source: SAGE, arXiv 2605.12022 (ERA, IRA).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from data.dimensions import DIMENSIONS
from data.records import Answers, VerdictTarget
from engine.rubric_prompts import NO, YES
from engine.verifier_metrics import target_truth
from engine.verify import Pair, prompt_tokens
from engine.verify_passes import answer_tokens
from training.feature_verifier import require_both_answers
from training.sft import TokenRow
from training.verifier_report import TrainingMethod

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MOST_WEIGHT: Final = 10.0
"""The largest weight of a rare answer's row: above it, a handful of labels would dominate their steps."""


@dataclass(frozen=True, slots=True)
class ClassWeights:
    """The weight of a row with each answer, chosen so that a target's two answers have equal total weight."""

    yes: float
    no: float

    def of(self, truth: bool) -> float:
        return self.yes if truth else self.no


def method_targets(method: TrainingMethod) -> tuple[VerdictTarget, ...]:
    """The targets the model judges."""
    return ("valid",) if method == "ira" else tuple(dimension.key for dimension in DIMENSIONS)


def class_weights(
    answers: Sequence[Answers], groups: Sequence[str], method: TrainingMethod
) -> dict[VerdictTarget, ClassWeights]:
    """By target: 1 on average over its rows, and at most ten per row.

    Raises:
        InputError: a target has only one answer, or its answers come from too few question groups.
    """
    weights: dict[VerdictTarget, ClassWeights] = {}
    for target in method_targets(method):
        truths = [target_truth(answer, target) for answer in answers]
        require_both_answers(target, truths, groups)
        yes, no = truths.count(True), truths.count(False)
        weights[target] = ClassWeights(*(min((yes + no) / (2 * count), _MOST_WEIGHT) for count in (yes, no)))
    return weights


def era_rows(
    pairs: Sequence[Pair],
    answers: Sequence[Answers],
    tokenizer: "PreTrainedTokenizerBase",
    weights: Mapping[VerdictTarget, ClassWeights],
) -> list[TokenRow]:
    """One row for each answered dimension of each variant, in that order.

    Raises:
        ModelError: yes or no is not a single token.
    """
    return list(_rows(pairs, answers, tokenizer, weights, "era"))


def ira_rows(
    pairs: Sequence[Pair],
    answers: Sequence[Answers],
    tokenizer: "PreTrainedTokenizerBase",
    weights: Mapping[VerdictTarget, ClassWeights],
) -> list[TokenRow]:
    """One row for each variant with known validity. Raises ModelError like `era_rows`."""
    return list(_rows(pairs, answers, tokenizer, weights, "ira"))


def _rows(
    pairs: Sequence[Pair],
    answers: Sequence[Answers],
    tokenizer: "PreTrainedTokenizerBase",
    weights: Mapping[VerdictTarget, ClassWeights],
    method: TrainingMethod,
) -> Iterator[TokenRow]:
    tokens_of = answer_tokens(tokenizer, yes=YES, no=NO)
    for (question, variant), answer in zip(pairs, answers, strict=True):
        prompt = prompt_tokens(tokenizer, question, variant, "ira" if method == "ira" else "era_separate")
        for target, suffix in zip(method_targets(method), prompt.suffixes, strict=True):
            truth = target_truth(answer, target)
            if truth is not None:
                tokens = (*prompt.body, *suffix, tokens_of.yes if truth else tokens_of.no)
                yield TokenRow(tokens, len(tokens) - 1, weights[target].of(truth))

"""What a policy can do to please a verifier without making a better variant, each as a share in 0..1.

Programs without a model, so the policy cannot argue with them (ADR 9). Refuses to judge whether a variant is right.
Where the answer stands in the reply is no artefact: options are shuffled when a variant is made, the abstain option
aside, and that one is what `not_as_asked` looks at.
"""

from collections.abc import Sequence
from typing import Final

from data.ids import normal_form
from data.records import Question, Variant
from engine.wording import content_stems, match, similarity, unmatched

_COPY_FROM: Final = 0.8
"""Stem similarity of two contexts from which a restatement counts as copied in part; published ones end at 0.95."""
_MUCH_LONGER: Final = 0.5
"""The excess of the answer over the longest other option that costs the whole penalty."""


def copied(question: Question, variant: Variant) -> float:
    """How much of what the type wants new is the question's own text.

    A restatement and a critical control want context and right option in other words; an edit (refinement, critical)
    wants at least one meaning-bearing word changed. Types that must keep the text (causal, reverse, ordering,
    negation) are held to what is new in them by their contracts.
    """
    if variant.variant_type == "restatement" or variant.is_control:
        near = similarity(question.context, variant.context)
        answer = normal_form(variant.options[variant.answer_index])
        is_same_answer = answer in map(normal_form, question.options)
        return (_ramp(near, _COPY_FROM, 1.0) + is_same_answer) / 2
    if variant.variant_type in ("refinement", "critical"):
        return float(content_stems(question.context) == content_stems(variant.context))
    return 0.0


def longer_answer(question: Question, variant: Variant) -> float:
    """How far the answer stands out by length, less what the question's own answer does already."""
    before = 0.0 if question.answer_index is None else _excess(question.options, question.answer_index)
    return _ramp(_excess(variant.options, variant.answer_index) - before, 0.0, _MUCH_LONGER)


def not_as_asked(variant: Variant, *, asked_for_control: bool) -> float:
    """1.0 for a critical variant whose answer abstains where a control was asked for, or the other way round.

    Else the easier of the two would win every group, and the policy would learn always to abstain, or never.
    """
    return float(variant.variant_type == "critical" and variant.is_control != asked_for_control)


def is_near_duplicate(one: Variant, other: Variant, *, least: float) -> bool:
    """Whether context, answer and options agree by a stem similarity of `least` in word order, or closer.

    High on purpose: edits of one context share most of their words, and another edit is another variant.
    """
    return (
        match(one.context, other.context, least=least).is_same
        and match(one.options[one.answer_index], other.options[other.answer_index], least=least).is_same
        and not unmatched(one.options, other.options, least=least)
    )


def _excess(options: Sequence[str], answer_index: int) -> float:
    longest = max((len(option) for i, option in enumerate(options) if i != answer_index), default=0)
    return len(options[answer_index]) / longest - 1 if longest else 0.0


def _ramp(value: float, start: float, end: float) -> float:
    return min(max((value - start) / (end - start), 0.0), 1.0)

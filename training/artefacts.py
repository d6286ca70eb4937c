"""Ways in which a policy can please a verifier without writing better variants, each as a share in 0..1.

Computed without a model, so the policy cannot fool them (ADR 9). Refuses to judge whether a variant is correct. The
position of the answer in the reply is not an artefact, because options are shuffled when a variant is made; only the
abstain option keeps its place, and `not_as_asked` deals with that.
"""

from collections.abc import Sequence
from typing import Final

from data.ids import normal_form
from data.records import Question, Variant
from engine.wording import content_stems, match, similarity, unmatched

_COPY_FROM: Final = 0.8
"""Stem similarity of contexts above which a restatement counts as partly copied; published ones reach 0.95."""
_MUCH_LONGER: Final = 0.5
"""How much longer than every other option the answer must be to cost the full penalty."""


def copied(question: Question, variant: Variant) -> float:
    """How much of the text that should be new is copied from the question.

    A restatement and a critical control should reword the context and the correct option; an edit (refinement,
    critical) should change at least one content word. For types that must keep the text (causal, reverse, ordering,
    negation), the contracts check what has to be new.
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
    """How much the answer stands out by its length, beyond what the original answer already does."""
    before = 0.0 if question.answer_index is None else _excess(question.options, question.answer_index)
    return _ramp(_excess(variant.options, variant.answer_index) - before, 0.0, _MUCH_LONGER)


def not_as_asked(variant: Variant, *, asked_for_control: bool) -> float:
    """1.0 for a critical variant that abstains although a control was asked for, or the other way round.

    Otherwise the easier of the two would win every group, and with it "always abstain" or "never abstain".
    """
    return float(variant.variant_type == "critical" and variant.is_control != asked_for_control)


def is_near_duplicate(one: Variant, other: Variant, *, least: float) -> bool:
    """Whether context, answer and options all have a stem similarity of at least `least`, in word order.

    The threshold is high on purpose: edits of one context share most of their words but are different variants.
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

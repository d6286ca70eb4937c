"""One review item as HTML: original beside variant, keys marked by icon, word and colour, and the contract's checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from data.records import ContractCheck, Question, Variant
from ui.widgets.texts import MarkText, block, folded, letter, literal, marked_pair, paired_options

_KEY_TAG = '<span class="sd-tag">✓ key</span>'


@dataclass(frozen=True, slots=True)
class Side:
    """One of two texts that stand beside each other. `heading` and `below` are HTML; `key` is the answer's place."""

    context: str
    options: Sequence[str]
    key: int | None
    heading: str
    below: str = ""


def item_html(
    question: Question, variant: Variant, *, type_name: str, type_definition: str, checks: Sequence[ContractCheck]
) -> str:
    """Both sides with their differences marked; which of them show is the page's switch."""
    unlabelled = (
        "" if question.answer_index is not None else '<span class="sd-faint">the source has no answer key</span>'
    )
    control = " · control: the original answer stays correct" if variant.is_control else ""
    return pair_html(
        Side(
            question.context,
            question.options,
            question.answer_index,
            f"Original <em>{literal(_source(question))}</em>",
            unlabelled,
        ),
        Side(
            variant.context,
            variant.options,
            variant.answer_index,
            f"Variant <strong>{escape(type_name)}</strong> <em>{escape(type_definition)}{control}</em>",
            checks_html(checks),
        ),
    )


def pair_html(original: Side, variant: Side) -> str:
    """Original beside variant, their differences marked, every text literal."""
    contexts = marked_pair(original.context, variant.context)
    original_options = "".join(
        _option(index, block(option), is_key=index == original.key) for index, option in enumerate(original.options)
    )
    variant_options = "".join(
        _option(index, folded(MarkText(option, html), option), is_key=index == variant.key)
        for index, (option, html) in enumerate(
            zip(variant.options, paired_options(original.options, variant.options), strict=True)
        )
    )
    return (
        '<div class="sd-pair">'
        f'<section class="sd-side" aria-label="Original"><h4>{original.heading}</h4>'
        f"{folded(MarkText(original.context, contexts.original), original.context)}"
        f'<ol class="sd-options">{original_options}</ol>{original.below}</section>'
        f'<section class="sd-side" aria-label="Variant"><h4>{variant.heading}</h4>'
        f"{folded(MarkText(variant.context, contexts.variant), variant.context)}"
        f'<ol class="sd-options">{variant_options}</ol>{variant.below}</section></div>'
    )


def checks_html(checks: Sequence[ContractCheck]) -> str:
    """`n of m` and, where one fails, which and why; the rest on demand."""
    if not checks:
        return '<div class="sd-checks sd-faint">contract: not checked</div>'
    held = sum(check.holds for check in checks)
    failing = [check for check in checks if not check.holds]
    is_passed = not any(check.is_required for check in failing)
    colour = "sd-good" if not failing else "sd-wait" if is_passed else "sd-bad"
    icon = "✓" if is_passed else "✕"
    named = f"; failed: {', '.join(_check_name(check) for check in failing)}" if failing else ""
    advisory = " (advisory only)" if failing and is_passed else ""
    lines = "".join(
        f"<li>{'✓' if check.holds else '✕'} {_check_name(check)}"
        f"{'' if check.is_required else ' <span class=sd-faint>(advisory)</span>'}"
        f"{' — ' + literal(check.detail) if check.detail else ''}</li>"
        for check in sorted(checks, key=lambda check: check.holds)
    )
    return (
        f'<details class="sd-checks"><summary><span class="{colour}">{icon}</span> '
        f"contract: {held} of {len(checks)} checks passed{named}{advisory}</summary><ul>{lines}</ul></details>"
    )


def option_list(options: Sequence[str], answer_index: int | None) -> str:
    return (
        '<ol class="sd-options">'
        + "".join(_option(index, block(option), is_key=index == answer_index) for index, option in enumerate(options))
        + "</ol>"
    )


def _option(index: int, html: str, *, is_key: bool) -> str:
    return f'<li class="{"sd-key" if is_key else ""}"><b>{letter(index)}</b>{html}{_KEY_TAG if is_key else ""}</li>'


def _check_name(check: ContractCheck) -> str:
    return literal(check.check.replace("_", " "))


def _source(question: Question) -> str:
    return " · ".join(part for part in (question.benchmark, question.subject) if part)

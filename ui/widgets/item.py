"""One review item as HTML: original beside variant, keys marked by icon, word and colour, and the contract's checks."""

from collections.abc import Sequence
from html import escape

from data.records import ContractCheck, Question, Variant
from ui.widgets.texts import MarkText, block, folded, letter, literal, marked_pair, paired_options

_KEY_TAG = '<span class="sd-tag">✓ key</span>'


def item_html(
    question: Question, variant: Variant, *, type_name: str, type_definition: str, checks: Sequence[ContractCheck]
) -> str:
    """Both sides with their differences marked; which of them show is the page's switch."""
    contexts = marked_pair(question.context, variant.context)
    original_context = folded(MarkText(question.context, contexts.original), question.context)
    variant_context = folded(MarkText(variant.context, contexts.variant), variant.context)
    original_options = "".join(
        _option(index, block(option), is_key=index == question.answer_index)
        for index, option in enumerate(question.options)
    )
    variant_options = "".join(
        _option(index, folded(MarkText(option, html), option), is_key=index == variant.answer_index)
        for index, (option, html) in enumerate(
            zip(variant.options, paired_options(question.options, variant.options), strict=True)
        )
    )
    unlabelled = "" if question.answer_index is not None else '<span class="sd-faint">no key in the source</span>'
    control = " · control: the original answer stays right" if variant.is_control else ""
    return (
        '<div class="sd-pair">'
        f'<section class="sd-side" aria-label="Original"><h4>Original <em>{literal(_source(question))}</em></h4>'
        f'{original_context}<ol class="sd-options">{original_options}</ol>{unlabelled}</section>'
        f'<section class="sd-side" aria-label="Variant"><h4>Variant '
        f"<strong>{escape(type_name)}</strong> <em>{escape(type_definition)}{control}</em></h4>"
        f'{variant_context}<ol class="sd-options">{variant_options}</ol>{checks_html(checks)}</section></div>'
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
    named = f": {', '.join(_words(check) for check in failing)}" if failing else ""
    fails = " fail" if len(failing) > 1 else " fails" if failing else ""
    fails += " (advice only)" if failing and is_passed else ""
    lines = "".join(
        f"<li>{'✓' if check.holds else '✕'} {_words(check)}"
        f"{'' if check.is_required else ' <span class=sd-faint>(advice)</span>'}"
        f"{' — ' + literal(check.detail) if check.detail else ''}</li>"
        for check in sorted(checks, key=lambda check: check.holds)
    )
    return (
        f'<details class="sd-checks"><summary><span class="{colour}">{icon}</span> '
        f"contract: {held} of {len(checks)} checks hold{named}{fails}</summary><ul>{lines}</ul></details>"
    )


def option_list(options: Sequence[str], answer_index: int | None) -> str:
    return (
        '<ol class="sd-options">'
        + "".join(_option(index, block(option), is_key=index == answer_index) for index, option in enumerate(options))
        + "</ol>"
    )


def _option(index: int, html: str, *, is_key: bool) -> str:
    return f'<li class="{"sd-key" if is_key else ""}"><b>{letter(index)}</b>{html}{_KEY_TAG if is_key else ""}</li>'


def _words(check: ContractCheck) -> str:
    return literal(check.check.replace("_", " "))


def _source(question: Question) -> str:
    return " · ".join(part for part in (question.benchmark, question.subject) if part)

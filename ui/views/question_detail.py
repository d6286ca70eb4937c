"""One question with all that was made of it: contract, verdicts unless they are blind to the reader, text as it is."""

from html import escape

import streamlit as st

from data.dimensions import DIMENSIONS
from data.records import QuestionId
from engine.variant_types.table import VARIANT_TYPES
from ui.desk.context import Actor, Desk
from ui.desk.usecases import questions
from ui.desk.usecases.questions import CurrentLabel, VariantDetail
from ui.widgets.item import checks_html, option_list
from ui.widgets.page import day_and_time, empty
from ui.widgets.texts import block, literal


def question_detail(desk: Desk, actor: Actor, question_id: QuestionId) -> None:
    """Raises NotFoundError."""
    detail = questions.show_question(desk, actor, question_id=question_id)
    question = detail.question
    about = " · ".join(part for part in (question.benchmark, question.subject, question.source_key) if part)
    source = " · ".join(part for part in (question.source_note, question.question_id) if part)
    no_key = "" if question.answer_index is not None else '<p class="sd-faint">The source has no answer key.</p>'
    st.html(
        f'<div class="sd-card"><p class="sd-faint sd-small">{literal(about)}</p>{block(question.context)}'
        f"{option_list(question.options, question.answer_index)}{no_key}"
        f'<p class="sd-faint sd-small">{literal(source)}</p></div>'
    )
    st.subheader(f"Variants ({len(detail.variants)})", anchor=False)
    if not detail.variants:
        empty("No variants of this question", "A lead can create some on the Generate page.")
    for variant in detail.variants:
        st.html(_variant_html(variant))


def _variant_html(detail: VariantDetail) -> str:
    variant = detail.variant
    passes = {
        True: '<span class="sd-good">✓ contract</span>',
        False: '<span class="sd-bad">✕ contract</span>',
        None: '<span class="sd-faint">◌ contract not checked</span>',
    }[detail.passes_contract]
    control = '<span class="sd-faint">control</span>' if variant.is_control else ""
    made = " · ".join(part for part in (variant.recipe.backend, variant.recipe.model) if part)
    decided = f'<b class="{_tone(detail)}">{_outcome(detail)}</b>' if detail.labels else ""
    return (
        f'<details class="sd-card"><summary class="sd-line"><b>{escape(VARIANT_TYPES[variant.variant_type].name)}</b>'
        f"{passes}{_verdicts_html(detail)}{control}{decided}"
        f'<span class="sd-push sd-faint">{literal(made)}</span></summary>'
        f"{block(variant.context)}{option_list(variant.options, variant.answer_index)}{checks_html(detail.checks)}"
        f"{_labels_html(detail)}"
        f'<p class="sd-faint sd-small">{literal(variant.variant_id)}</p></details>'
    )


def _labels_html(detail: VariantDetail) -> str:
    """What people said, one line each, and what follows from it."""
    if not detail.labels:
        return ""
    lines = (_label_line(label) for label in detail.labels)
    return f'<div class="sd-line"><b>Labels</b><span class="{_tone(detail)}">{_outcome(detail)}</span></div>' + "".join(
        lines
    )


def _outcome(detail: VariantDetail) -> str:
    return detail.decision.outcome if detail.decision else "undecided"


def _tone(detail: VariantDetail) -> str:
    return {"accepted": "sd-good", "rejected": "sd-bad"}.get(_outcome(detail), "sd-wait")


def _label_line(label: CurrentLabel) -> str:
    said = label.annotation
    if said.is_skipped:
        answers = '<span class="sd-faint">skipped</span>'
    else:
        answers = "".join(_answer_html(dimension.key, said.answers.of(dimension.key)) for dimension in DIMENSIONS)
    place = "console" if said.origin == "console" else "Label Studio"
    marks = [day_and_time(said.updated_at), f"in {place}", "blind" if said.is_blind else "assisted"]
    marks.append("synced" if label.synced_at or said.origin == "label_studio" else "not synced yet")
    if said.updated_by != said.annotator:
        marks.append(f"changed by {said.updated_by}")
    comment = f"<span>{literal(said.comment)}</span>" if said.comment else ""
    return (
        f'<div class="sd-line"><span>{literal(said.annotator)}</span>{answers}'
        f'<span class="sd-faint">{literal(" · ".join(marks))}</span>{comment}</div>'
    )


def _answer_html(dimension: str, answer: bool | None) -> str:
    if answer is None:
        return f'<span class="sd-faint">◌ {dimension}</span>'
    return f'<span class="{"sd-good" if answer else "sd-bad"}">{"✓" if answer else "✕"} {dimension}</span>'


def _verdicts_html(detail: VariantDetail) -> str:
    if detail.is_blind:
        return '<span class="sd-faint">◌ verdicts hidden until you answer</span>'
    if not detail.verdicts:
        return '<span class="sd-faint">◌ not verified</span>'
    words = []
    for verdict in detail.verdicts:
        if verdict.probability is None:
            words.append(f'<span class="sd-wait">? {escape(verdict.target)} unparsed</span>')
            continue
        is_yes = verdict.probability >= 0.5 if verdict.label is None else verdict.label
        words.append(
            f'<span class="{"sd-good" if is_yes else "sd-bad"}" title="{escape(verdict.verifier_version)}">'
            f"{'✓' if is_yes else '✕'} {escape(verdict.target)} {verdict.probability:.2f}</span>"
        )
    return "".join(words)

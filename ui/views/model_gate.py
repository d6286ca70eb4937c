"""A verifier's gate: champion against challenger on labels that neither has seen, and the items they differ on."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, Literal

import streamlit as st

from data.dimensions import DIMENSIONS
from engine.variant_types.table import VARIANT_TYPES
from ui.desk.usecases.gates import Flip
from ui.views.report_values import count, interval, mapping, number, percent, signed, texts
from ui.widgets.item import Side, pair_html
from ui.widgets.page import empty, figures, notice, table

_TARGETS: Final[Mapping[str, str]] = {
    **{dimension.key: dimension.name for dimension in DIMENSIONS},
    "valid": "all three",
}
_MEASURES: Final[Mapping[str, str]] = {
    "balanced_accuracy": "balanced accuracy",
    "fail_pr_auc": "PR AUC of no",
    "ece": "calibration error (lower is better)",
    "kappa": "agreement with people (kappa)",
}
_OUTCOMES: Final[Mapping[str, tuple[str, str]]] = {
    "passes": ("done", "It passes the gate: nowhere worse than the champion, and better where it should be."),
    "fails": ("error", "It does not pass the gate."),
    "cannot_say": ("warn", "The gate cannot say whether it is better."),
}
_CONFUSION: Final[Mapping[str, str]] = {
    "true_yes": "yes, rightly",
    "false_yes": "yes, wrongly",
    "true_no": "no, rightly",
    "false_no": "no, wrongly",
}
_PAGE: Final = 20

Direction = Literal["every", "challenger", "champion"]
_DIRECTIONS: Final[Mapping[Direction, str]] = {
    "every": "Every flip",
    "challenger": "New one right",
    "champion": "Old one right",
}


def outcome(report: Mapping[str, object]) -> None:
    """In one line, and why. `report` is what the gate run wrote (outputs/gate.json)."""
    kind, words = _OUTCOMES[str(report["outcome"])]
    notice(words, kind=kind)
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in texts(report.get("reasons")))
    if reasons:
        st.html(f'<ul class="sd-reasons">{reasons}</ul>')


def gate(report: Mapping[str, object]) -> None:
    """Outcome, figures of both verifiers beside each other, and their confusions."""
    outcome(report)
    if not count(report, "labels"):
        return
    past = mapping(report.get("past_errors"))
    figures(
        [
            ("blind labels", f"{count(report, 'labels'):,}"),
            ("questions", f"{count(report, 'questions'):,}"),
            ("past errors", f"{count(past, 'count'):,}"),
            ("of them the champion repeats", f"{count(past, 'champion_wrong'):,}"),
            ("of them the challenger repeats", f"{count(past, 'challenger_wrong'):,}"),
        ]
    )
    targets = {name: mapping(value) for name, value in mapping(report.get("targets")).items()}
    if not targets:
        return
    margin = number(report.get("margin"))
    table(
        ["", "measure", "champion", "challenger", "difference", "95 % interval", "no worse", "people agree"],
        [row for name in _TARGETS if name in targets for row in _rows(name, targets[name], report)],
        caption=f"No worse: the interval of balanced accuracy stays above -{margin}. People agree: how often two who "
        "answered blind say the same, and kappa, which takes chance out. Where the champion's own kappa is at least "
        "that, a challenger that is no worse need not be better.",
    )
    _confusions(targets)


def flips(found: Sequence[Flip]) -> None:
    """The items on which the two verifiers say different things, with their text; a page at a time."""
    st.subheader("Where they differ", anchor=False)
    if not found:
        empty("They differ nowhere", "On every gate label both verifiers give the same answer.")
        return
    counts = {direction: len(_of(found, direction)) for direction in _DIRECTIONS}
    left, middle, right = st.columns([2, 1.4, 0.8], vertical_alignment="bottom")
    chosen: Direction = (
        left.segmented_control(
            "Which was right",
            list(_DIRECTIONS),
            default="every",
            format_func=lambda it: f"{_DIRECTIONS[it]} ({counts[it]:,})",
            key="flips_direction",
        )
        or "every"
    )
    targets = [name for name in _TARGETS if any(flip.target == name for flip in found)]
    target = middle.selectbox(
        "Question", [None, *targets], format_func=lambda it: "every question" if it is None else _TARGETS[it]
    )
    shown = [flip for flip in _of(found, chosen) if target in (None, flip.target)]
    pages = max(1, -(-len(shown) // _PAGE))
    page = int(right.number_input(f"Page of {pages:,}", 1, pages, 1, key=f"flips_page_{chosen}_{target}"))
    if not shown:
        notice("No item of this kind.")
    st.html("".join(_flip(flip) for flip in shown[(page - 1) * _PAGE : page * _PAGE]))


def _of(found: Sequence[Flip], direction: Direction) -> list[Flip]:
    """A flip is right on one side only: the two differ on a yes or no."""
    if direction == "every":
        return list(found)
    return [flip for flip in found if (flip.challenger == flip.truth) == (direction == "challenger")]


def _flip(flip: Flip) -> str:
    right = "new one right" if flip.challenger == flip.truth else "old one right"
    colour = "sd-good" if flip.challenger == flip.truth else "sd-bad"
    icon = "✓" if flip.challenger == flip.truth else "✕"
    type_name = VARIANT_TYPES[flip.variant_type].name
    summary = (
        f'<summary class="sd-line"><span class="{colour}">{icon} {right}</span><b>{_TARGETS[flip.target]}</b>'
        f"<span>people: {_yes(flip.truth)}</span><span>champion: {_yes(flip.champion)}</span>"
        f"<span>challenger: {_yes(flip.challenger)}</span>"
        f'<span class="sd-push sd-faint">{escape(type_name)} · {escape(flip.variant_id)}</span></summary>'
    )
    pair = pair_html(
        Side(flip.question_context, flip.original_options, None, "Original"),
        Side(flip.variant_context, flip.options, flip.answer_index, f"Variant <strong>{escape(type_name)}</strong>"),
    )
    return f'<details class="sd-flip" open>{summary}{pair}</details>'


def _rows(name: str, target: Mapping[str, object], report: Mapping[str, object]) -> list[list[object]]:
    champion, challenger = mapping(target.get("champion")), mapping(target.get("challenger"))
    differences = mapping(target.get("difference"))
    labels = f"{_TARGETS[name]}, {count(target, 'labels'):,} labels"
    first_cells = {
        "balanced_accuracy": (
            labels + (" (to improve)" if name == report.get("target") else ""),
            _no_worse(target),
            _agreement(mapping(target.get("human_agreement"))),
        ),
        "fail_pr_auc": (_unjudged(count(target, "unjudged")), "", ""),
    }
    rows: list[list[object]] = []
    for measure, words in _MEASURES.items():
        if measure not in champion and measure not in challenger:
            continue
        difference = mapping(differences.get(measure))
        begins, no_worse, people = first_cells.get(measure, ("", "", ""))
        values = (number(champion.get(measure)), number(challenger.get(measure)), signed(difference.get("mean")))
        rows.append([begins, words, *values, interval(difference), no_worse, people])
    return rows or [[labels, "nothing that both have judged", "", "", "", "", _no_worse(target), ""]]


def _no_worse(target: Mapping[str, object]) -> str:
    return "✓ yes" if target.get("is_non_inferior") else "✕ not shown"


def _unjudged(missing: int) -> str:
    return "" if missing == 0 else f"{missing:,} more without a verdict of both"


def _confusions(targets: Mapping[str, Mapping[str, object]]) -> None:
    with st.expander("What each of them said, rightly and wrongly"):
        rows: list[list[object]] = []
        for name in _TARGETS:
            for side in ("champion", "challenger"):
                confusion = mapping(mapping(targets.get(name, {}).get(side)).get("confusion"))
                if confusion:
                    rows.append([_TARGETS[name], side, *(count(confusion, key) for key in _CONFUSION)])
        table(["", "verifier", *_CONFUSION.values()], rows)


def _agreement(agreement: Mapping[str, object]) -> str:
    if not agreement:
        return "no item answered twice, blind"
    return (
        f"{percent(agreement.get('share'))}, kappa {number(agreement.get('kappa'))}, "
        f"{count(agreement, 'pairs'):,} pairs"
    )


def _yes(answer: bool | None) -> str:
    return "no answer" if answer is None else "yes" if answer else "no"

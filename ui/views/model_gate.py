"""A verifier's gate: what follows from it, champion beside challenger on labels neither has seen, where they differ."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, Literal

import streamlit as st

from data.records import VerdictTarget
from engine.variant_types.table import VARIANT_TYPES
from training.gate_report import GateOutcome, GateReport, HumanAgreement, JudgedTarget, TargetComparison
from ui.desk.usecases.gates import FlippedVariant
from ui.views.measures import TARGET_NAMES, difference, figure, percent
from ui.widgets.item import Side, pair_html
from ui.widgets.page import empty, notice, table

_KINDS: Final[Mapping[GateOutcome, str]] = {"passes": "done", "fails": "error", "cannot_say": "warn"}
_ACCURACY: Final = "balanced accuracy"
_RANKING: Final = "PR-AUC (failing variants)"
_PAGE: Final = 20

Direction = Literal["every", "challenger", "champion"]
_DIRECTIONS: Final[Mapping[Direction, str]] = {
    "every": "All differences",
    "challenger": "Challenger right",
    "champion": "Champion right",
}


def outcome(report: GateReport, conclusion: str) -> None:
    """What follows from it, in one line; why is folded."""
    notice(conclusion, kind=_KINDS[report.outcome])
    if report.reasons:
        with st.expander("Reasons"):
            _reasons(report)


def gate(report: GateReport, conclusion: str) -> None:
    """What follows from it, both verifiers beside each other, and the details folded."""
    notice(conclusion, kind=_KINDS[report.outcome])
    targets = {key: report.targets[key] for key in _order(report) if report.targets[key].labels}
    if targets:
        table(
            [
                *("", "measure", "champion", "challenger", "difference (95 % interval)", "no worse"),
                *("baseline (always yes)", "chance level"),
            ],
            [row for key, one in targets.items() for row in _rows(key, one)],
            caption=f"Measured on people's blind labels of {report.questions:,} held-out questions. "
            f"No worse: the interval of balanced accuracy stays above -{report.margin:g}.",
        )
    with st.expander("Details"):
        _reasons(report)
        if targets:
            _calibration_and_agreement(targets)
            _confusions(targets)


def _reasons(report: GateReport) -> None:
    st.html(f'<ul class="sd-reasons">{"".join(f"<li>{escape(reason)}</li>" for reason in report.reasons)}</ul>')


def _order(report: GateReport) -> list[VerdictTarget]:
    """What has to improve first, then the dimensions."""
    return [report.target, *(key for key in TARGET_NAMES if key in report.targets and key != report.target)]


def _rows(key: VerdictTarget, one: TargetComparison) -> list[list[object]]:
    name = f"{TARGET_NAMES[key]}, {one.labels:,} blind labels"
    champion, challenger = one.champion, one.challenger
    if champion is None or challenger is None:
        return [[name, "no variant was judged by both", "", "", "", "", "", ""]]
    return [
        [
            *(name, _ACCURACY, figure(champion.balanced_accuracy), figure(challenger.balanced_accuracy)),
            *(difference(one.difference.balanced_accuracy), _no_worse(one)),
            *(figure(champion.majority_balanced_accuracy), ""),
        ],
        [
            *("", _RANKING, figure(champion.fail_pr_auc), figure(challenger.fail_pr_auc)),
            *(difference(one.difference.fail_pr_auc), ""),
            *("", figure(champion.majority_fail_pr_auc)),
        ],
    ]


def _no_worse(one: TargetComparison) -> str:
    if one.is_non_inferior:
        return "✓ yes"
    found = one.difference.balanced_accuracy
    return "✕ worse" if found is not None and found.high < 0 else "? not shown"


def _calibration_and_agreement(targets: Mapping[VerdictTarget, TargetComparison]) -> None:
    rows: list[list[object]] = []
    for key, one in targets.items():
        if one.champion is None or one.challenger is None:
            continue
        rows.append(
            [
                *(
                    TARGET_NAMES[key],
                    figure(one.champion.ece),
                    figure(one.challenger.ece),
                    difference(one.difference.ece),
                ),
                *(figure(one.champion.kappa), figure(one.challenger.kappa), _agreement(one.human_agreement)),
                one.unjudged,
            ]
        )
    table(
        [
            *("", "ECE, champion", "ECE, challenger", "difference (95 % interval)"),
            *("kappa, champion", "kappa, challenger", "people among themselves", "labels left out"),
        ],
        rows,
        caption="ECE: calibration error, lower is better. Kappa: agreement with people's blind labels beyond chance. "
        "Where the champion's kappa is at least that of two people on the same items, a challenger that is no worse "
        "need not be better. Labels left out lack a verdict from one of the two.",
    )


def _confusions(targets: Mapping[VerdictTarget, TargetComparison]) -> None:
    rows = [
        [TARGET_NAMES[key], side, *_confusion(judged)]
        for key, one in targets.items()
        for side, judged in (("champion", one.champion), ("challenger", one.challenger))
        if judged is not None
    ]
    table(
        ["", "verifier", "right yes", "wrong yes", "right no", "wrong no", "precision of yes"],
        rows,
        caption="Verdicts against people's blind labels. A wrong yes lets a failing variant through.",
    )


def _confusion(judged: JudgedTarget) -> list[object]:
    it = judged.confusion
    accepted = it.true_yes + it.false_yes
    precision = percent(it.true_yes / accepted if accepted else None)
    return [it.true_yes, it.false_yes, it.true_no, it.false_no, precision]


def _agreement(people: HumanAgreement | None) -> str:
    if people is None:
        return "no item labelled twice, blind"
    return f"{percent(people.share)} equal, kappa {figure(people.kappa)}, {people.pairs:,} items"


def flips(found: Sequence[FlippedVariant]) -> None:
    """The variants that the two verifiers judge differently, with their text; a page at a time."""
    st.subheader("Where they differ", anchor=False)
    if not found:
        empty("No differences", "Both verifiers give the same answer on every blind label.")
        return
    counts = {direction: len(_of(found, direction)) for direction in _DIRECTIONS}
    left, middle, right = st.columns([2, 1.4, 0.8], vertical_alignment="bottom")
    chosen: Direction = (
        left.segmented_control(
            "Which verifier was right",
            list(_DIRECTIONS),
            default="every",
            format_func=lambda it: f"{_DIRECTIONS[it]} ({counts[it]:,})",
            key="flips_direction",
        )
        or "every"
    )
    targets = [name for name in TARGET_NAMES if any(flip.target == name for flip in found)]
    target = middle.selectbox(
        "Dimension", [None, *targets], format_func=lambda it: "all" if it is None else TARGET_NAMES[it]
    )
    shown = [flip for flip in _of(found, chosen) if target in (None, flip.target)]
    pages = max(1, -(-len(shown) // _PAGE))
    page = int(right.number_input(f"Page of {pages:,}", 1, pages, 1, key=f"flips_page_{chosen}_{target}"))
    if not shown:
        notice("No such difference.")
    st.html("".join(_flip(flip) for flip in shown[(page - 1) * _PAGE : page * _PAGE]))


def _of(found: Sequence[FlippedVariant], direction: Direction) -> list[FlippedVariant]:
    """A flip is right on one side only: the two differ on a yes or no."""
    if direction == "every":
        return list(found)
    return [flip for flip in found if (flip.challenger == flip.truth) == (direction == "challenger")]


def _flip(flip: FlippedVariant) -> str:
    right = "challenger right" if flip.challenger == flip.truth else "champion right"
    colour = "sd-good" if flip.challenger == flip.truth else "sd-bad"
    icon = "✓" if flip.challenger == flip.truth else "✕"
    type_name = VARIANT_TYPES[flip.variant_type].name
    summary = (
        f'<summary class="sd-line"><span class="{colour}">{icon} {right}</span><b>{TARGET_NAMES[flip.target]}</b>'
        f"<span>people: {_yes(flip.truth)}</span><span>champion: {_yes(flip.champion)}</span>"
        f"<span>challenger: {_yes(flip.challenger)}</span>"
        f'<span class="sd-push sd-faint">{escape(type_name)} · {escape(flip.variant_id)}</span></summary>'
    )
    pair = pair_html(
        Side(flip.question_context, flip.original_options, None, "Original"),
        Side(flip.variant_context, flip.options, flip.answer_index, f"Variant <strong>{escape(type_name)}</strong>"),
    )
    return f'<details class="sd-flip" open>{summary}{pair}</details>'


def _yes(answer: bool | None) -> str:
    return "no answer" if answer is None else "yes" if answer else "no"

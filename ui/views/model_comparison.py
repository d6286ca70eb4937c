"""A generator before and after its training, on the same questions: by type and overall, with intervals."""

from typing import Final

import streamlit as st

from engine.variant_types.table import VARIANT_TYPES
from training.comparison_report import GeneratorComparison, GeneratorFigures, Slice
from training.paired_bootstrap import Interval
from ui.views.measures import difference, figure, percent
from ui.widgets.page import figures, notice, table

_SLICES: Final[dict[Slice, str]] = {"all": "all types", **{key: kind.name for key, kind in VARIANT_TYPES.items()}}
_COUNTS: Final = ("requested", "parsed", "contract passed", "judged valid", "generated tokens")
_VARIETY: Final = (
    "distinct words",
    "distinct word pairs",
    "distinct word triples",
    "similarity within a question",
    "variety of openings",
)
_PLAYERS: Final = ("chance level", "always first", "longest option", "most shared words")


def comparison(report: GeneratorComparison) -> None:
    """Rates with intervals; counts, variety and shortcut players folded."""
    st.subheader("Before and after training, on the same questions", anchor=False)
    slices = {key: name for key, name in _SLICES.items() if key in report.before and key in report.after}
    if "all" not in slices:
        notice("The comparison holds no figures.", kind="warn")
        return
    before, after = report.before["all"], report.after["all"]
    figures(
        [
            ("held-out questions", f"{report.questions:,}"),
            (
                "contract passed, before → after",
                f"{percent(before.contract_pass_rate)} → {percent(after.contract_pass_rate)}",
            ),
            ("accepted per 1,000 tokens, before → after", f"{_accepted(before)} → {_accepted(after)}"),
        ]
    )
    if report.judge is None:
        notice(
            "There was no verifier other than the reward to judge the variants, so none counts as accepted.",
            kind="warn",
        )
    judged = f" Accepted: judged valid by verifier {report.judge}, which was not the reward." if report.judge else ""
    table(
        [
            "",
            "contract passed, before",
            "after",
            "difference in points (95 % interval)",
            "accepted per 1,000 tokens, before",
            "after",
            "difference (95 % interval)",
        ],
        [[name, *_rates(key, report)] for key, name in slices.items()],
        caption=f"Same questions, types and seeds for both generators.{judged}",
    )
    sides = [
        (name, side, of_slice[key])
        for key, name in slices.items()
        for side, of_slice in (("before", report.before), ("after", report.after))
    ]
    with st.expander("Counts"):
        table(["", "generator", *_COUNTS], [[name, side, *_counts(it)] for name, side, it in sides])
    with st.expander("Variety and shortcut players"):
        table(
            ["", "generator", *_VARIETY, *_PLAYERS],
            [[name, side, *_variety(it)] for name, side, it in sides],
            caption="Variants that pass their contract; every figure is 0 to 1. The last four are the accuracy of "
            "players that do not read for meaning: one above the chance level shows that answers give themselves away.",
        )


def _rates(key: Slice, report: GeneratorComparison) -> list[str]:
    before, after, changed = report.before[key], report.after[key], report.difference.get(key)
    return [
        percent(before.contract_pass_rate),
        percent(after.contract_pass_rate),
        _in_points(None if changed is None else changed.contract_pass_rate),
        _accepted(before),
        _accepted(after),
        difference(None if changed is None else changed.accepted_per_1000_tokens, digits=2),
    ]


def _accepted(side: GeneratorFigures) -> str:
    return figure(side.accepted_per_1000_tokens, digits=2)


def _in_points(found: Interval | None) -> str:
    """A difference of shares, in percentage points."""
    if found is None:
        return difference(None)
    return difference(Interval(100 * found.mean, 100 * found.low, 100 * found.high), digits=0)


def _counts(it: GeneratorFigures) -> list[object]:
    return [it.requested, it.parsed, it.contract_passed, it.accepted, it.generated_tokens]


def _variety(it: GeneratorFigures) -> list[str]:
    found = it.shortcuts
    players = (
        (None,) * len(_PLAYERS)
        if found is None
        else (found.chance, found.always_first, found.longest_option, found.most_overlap)
    )
    texts = (it.distinct_1, it.distinct_2, it.distinct_3, it.self_similarity, it.opening_entropy)
    return [figure(one) for one in (*texts, *players)]

"""A generator before and after its training, on the same questions: by type and in all, with intervals."""

from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st

from engine.variant_types.table import VARIANT_TYPES
from ui.views.report_values import count, interval, mapping, number, percent, signed
from ui.widgets.page import figures, notice, table

_SIDES: Final = ("before", "after")
_COUNTS: Final[Mapping[str, str]] = {
    "requested": "asked for",
    "parsed": "readable",
    "contract_passed": "contract holds",
    "accepted": "judged valid",
    "generated_tokens": "generated tokens",
}
_VARIETY: Final[Mapping[str, str]] = {
    "distinct_1": "distinct words",
    "distinct_2": "distinct pairs",
    "distinct_3": "distinct triples",
    "self_similarity": "likeness within a question",
    "opening_entropy": "variety of openings",
}
_PLAYERS: Final[Mapping[str, str]] = {
    "chance": "a blind guess",
    "always_first": "always the first",
    "longest_option": "the longest",
    "most_overlap": "most words in common",
}


def comparison(report: Mapping[str, object]) -> None:
    """`report` is what the training wrote (outputs/comparison.json)."""
    st.subheader("Before and after, on the same questions", anchor=False)
    before, after = (_of("all", report, side) for side in _SIDES)
    if not before or not after:
        notice("The comparison holds no figures.", kind="warn")
        return
    figures(
        [
            ("questions held out", f"{count(report, 'questions'):,}"),
            (
                "contract holds, before and after",
                " → ".join(percent(it.get("contract_pass_rate")) for it in (before, after)),
            ),
            ("accepted a 1,000 tokens, before and after", " → ".join(_each(it) for it in (before, after))),
        ]
    )
    judge = report.get("judge")
    if not judge:
        notice("No verifier was there that had not been the reward, so nothing is called accepted.", kind="warn")
    told = f"Accepted: by verifier {judge}, which was not the reward." if judge else ""
    slices = [("all", "all types"), *((key, kind.name) for key, kind in VARIANT_TYPES.items())]
    slices = [(key, name) for key, name in slices if _of(key, report, "before")]
    table(
        [
            "",
            "contract holds, before",
            "after",
            "points, 95 %",
            "accepted a 1,000 tokens, before",
            "after",
            "difference, 95 %",
        ],
        [_row(key, name, report) for key, name in slices],
        caption=f"The same questions, types and seeds for both. {told}",
    )
    sides = [(key, name, side) for key, name in slices for side in _SIDES]
    with st.expander("How many of each"):
        table(
            ["", "generator", *_COUNTS.values()],
            [[name, side, *(_of(key, report, side).get(one) for one in _COUNTS)] for key, name, side in sides],
        )
    with st.expander("Variety, and what players score that look at no meaning"):
        table(
            ["", "generator", *_VARIETY.values(), *_PLAYERS.values()],
            [[name, side, *_variety(_of(key, report, side))] for key, name, side in sides],
            caption="Of variants whose contract holds, 0 to 1. The last four are shares of right answers: a player "
            "above the blind guess shows that the answer gives itself away.",
        )


def _of(key: str, report: Mapping[str, object], side: str) -> Mapping[str, object]:
    return mapping(mapping(report.get(side)).get(key))


def _row(key: str, name: str, report: Mapping[str, object]) -> Sequence[object]:
    before, after = (_of(key, report, side) for side in _SIDES)
    difference = _of(key, report, "difference")
    return [
        name,
        *(percent(it.get("contract_pass_rate")) for it in (before, after)),
        _in_points(mapping(difference.get("contract_pass_rate"))),
        *(_each(it) for it in (before, after)),
        _difference(mapping(difference.get("accepted_per_1000_tokens"))),
    ]


def _each(side: Mapping[str, object]) -> str:
    return number(side.get("accepted_per_1000_tokens"), digits=2)


def _difference(found: Mapping[str, object], *, digits: int = 2) -> str:
    if not found:
        return "undefined"
    return f"{signed(found.get('mean'), digits=digits)} ({interval(found, digits=digits)})"


def _in_points(found: Mapping[str, object]) -> str:
    """A difference of shares, in percentage points."""
    return _difference({name: 100 * value for name, value in found.items() if isinstance(value, float)}, digits=0)


def _variety(side: Mapping[str, object]) -> list[str]:
    shortcuts = mapping(side.get("shortcuts"))
    return [*(number(side.get(one)) for one in _VARIETY), *(number(shortcuts.get(one)) for one in _PLAYERS)]

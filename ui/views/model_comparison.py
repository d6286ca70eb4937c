"""A generator before and after its training, on the same questions: by type and in all, with intervals."""

from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st

from engine.variant_types.table import VARIANT_TYPES
from ui.views.report_values import interval, mapping, number, signed
from ui.widgets.page import notice, table

_MAIN: Final[Mapping[str, str]] = {
    "contract_pass_rate": "contract holds, share",
    "accepted_per_1000_tokens": "accepted a 1,000 generated tokens",
}
_COUNTS: Final[Mapping[str, str]] = {
    "requested": "asked for",
    "parsed": "readable",
    "contract_passed": "contract holds",
    "accepted": "judged valid",
    "generated_tokens": "generated tokens",
}
_VARIETY: Final[Mapping[str, str]] = {
    "distinct_1": "distinct words",
    "distinct_2": "distinct word pairs",
    "distinct_3": "distinct word triples",
    "self_similarity": "likeness of one question's variants",
    "opening_entropy": "variety of openings (bits)",
    "always_first": "always the first option, right",
    "longest_option": "the longest option, right",
    "most_overlap": "the option with most of the question's words, right",
}


def comparison(report: Mapping[str, object]) -> None:
    """`report` is what the training wrote (outputs/comparison.json)."""
    st.subheader("Before and after, on the same questions", anchor=False)
    parts = _parts(report)
    if not parts:
        notice("The comparison holds no figures.", kind="warn")
        return
    table(
        ["", "measure", "before", "after", "difference", "95 % interval"],
        [row for name, part in parts for row in _compared(name, part, _MAIN)],
        caption="Held-out questions, written by both and judged by a verifier that was not the reward.",
    )
    with st.expander("How many of each"):
        table(["", "generator", *_COUNTS.values()], [row for name, part in parts for row in _counted(name, part)])
    with st.expander("Variety, and what players that know no answer score (chance is right)"):
        table(
            ["", "measure", "before", "after", "difference", "95 % interval"],
            [row for name, part in parts for row in _compared(name, part, _VARIETY)],
        )


def _parts(report: Mapping[str, object]) -> list[tuple[str, Mapping[str, object]]]:
    """All types together, then each type, as far as there are figures."""
    types = mapping(report.get("types"))
    found = [("all types", mapping(report.get("overall")))]
    found += [(kind.name, mapping(types.get(key))) for key, kind in VARIANT_TYPES.items()]
    return [(name, part) for name, part in found if part]


def _compared(name: str, part: Mapping[str, object], measures: Mapping[str, str]) -> list[Sequence[object]]:
    before, after, differences = (mapping(part.get(key)) for key in ("before", "after", "difference"))
    rows: list[Sequence[object]] = []
    for measure, words in measures.items():
        if measure not in before and measure not in after:
            continue
        difference = mapping(differences.get(measure))
        told = (number(before.get(measure)), number(after.get(measure)))
        rows.append(["" if rows else name, words, *told, signed(difference.get("mean")), interval(difference)])
    return rows


def _counted(name: str, part: Mapping[str, object]) -> list[Sequence[object]]:
    return [
        [name, side, *(mapping(part.get(side)).get(measure) for measure in _COUNTS)] for side in ("before", "after")
    ]

"""What came of a run: its headline figures, yields, targets, refused rows, the gate's word, and every count behind."""

from collections.abc import Mapping
from html import escape
from typing import Final

import pandas as pd
import streamlit as st

from data.errors import SagedeskError
from data.records import Run
from engine.variant_types.table import VARIANT_TYPES
from ui.desk.context import Actor, Desk
from ui.desk.usecases.imports import refusals
from ui.views.model_gate import outcome
from ui.views.verifier_figures import verifier_figures
from ui.widgets.page import bars, figures, notice, table

# Those counts of a run that a person asks for first, where the run has them.
_HEADLINES: Final = (
    "questions new",
    "questions same",
    "questions changed",
    "refused",
    "requested",
    "made",
    "passed",
    "variants new",
    "verdicts",
    "queued",
)
# What should have followed the run and did not, in words.
_NOT_DONE: Final = ("not_verified", "not_compared")
_STAGES: Final = ("requested", "made", "passed")
_LOSSES: Final[Mapping[str, str]] = {
    "unsupported": "the backend makes no such variant of such a question",
    "failed": "no answer came",
    "malformed": "the answer was no variant",
    "duplicates": "the variant was there already",
}
# Parts of a result that have a chart, a table or a page of their own.
_DRAWN: Final = ("types", "targets", "gate", "comparison", "methods", "calibration", "held_out")


def result(desk: Desk, actor: Actor, run: Run) -> None:
    """What a person asks of it first, then all counts; nothing while there is nothing."""
    if not run.result:
        return
    error = run.result.get("error")
    if isinstance(error, str) and error:
        notice(error, kind="error")
    for name in _NOT_DONE:
        if isinstance(why := run.result.get(name), str):
            notice(why, kind="warn")
    counts = dict(_flat(run.result))
    for name in ("error", *_NOT_DONE):
        counts.pop(name.replace("_", " "), None)
    figures([(name, f"{counts[name]:,}") for name in _HEADLINES if isinstance(counts.get(name), int)])
    types = run.result.get("types")
    if run.kind == "generate" and isinstance(types, Mapping) and types:
        _yields(types)
    verifier_figures(run.result)
    if run.kind == "gate-verifier" and isinstance(report := run.result.get("gate"), Mapping):
        outcome(report)
    if run.kind == "import" and run.state == "done":
        _refused(desk, actor, run)
    if counts:
        with st.expander("All counts"):
            table(["what", "how many"], [[name, str(count)] for name, count in counts.items()])


def _yields(types: Mapping[str, object]) -> None:
    st.subheader("Yield by type", anchor=False)
    of_types = [(key, counts) for key in VARIANT_TYPES if isinstance(counts := types.get(key), Mapping)]
    columns = [*_STAGES, *(loss for loss in _LOSSES if any(counts.get(loss) for _, counts in of_types))]
    frame = pd.DataFrame(
        {
            "type": [_type_name(name) for name, _ in of_types],
            **{column: [int(counts.get(column, 0)) for _, counts in of_types] for column in columns},
        }
    )
    bars(frame, name="type", series=columns, title="candidates", key="run_yields")
    said = [f"{name}: {_LOSSES[name]}" for name in columns if name in _LOSSES]
    if said:
        st.html(f'<p class="sd-faint sd-small">{escape("; ".join(said))}.</p>')
    reasons = [
        [reason, count]
        for _, counts in of_types
        for reason, count in sorted(dict(counts.get("unsupported_reasons", {})).items(), key=lambda it: -it[1])
    ]
    if reasons:
        st.subheader("Why some could not be made", anchor=False)
        table(["reason", "candidates"], reasons)
    failed = [
        [_type_name(name), check.replace("_", " "), count]
        for name, counts in of_types
        for check, count in sorted(dict(counts.get("failed_checks", {})).items(), key=lambda it: -it[1])
    ]
    if failed:
        st.subheader("Checks that did not hold", anchor=False)
        table(
            ["type", "check", "variants"],
            failed,
            caption="A variant passes when its required checks hold; those that are advice are counted here too.",
        )


def _refused(desk: Desk, actor: Actor, run: Run) -> None:
    try:
        found = refusals(desk, actor, run_id=run.run_id)
    except SagedeskError:  # an import that refused nothing may have no such list
        return
    if found.total == 0:
        notice("No row was refused.", kind="done")
        return
    refused = "1 row was" if found.total == 1 else f"{found.total:,} rows were"
    notice(f"{refused} refused; the others are in.", kind="warn")
    table(["file", "row", "why", "begins"], [[one.file, one.row, one.reason, one.text[:160]] for one in found.rows])


def _type_name(key: str) -> str:
    return next((kind.name for kind in VARIANT_TYPES.values() if kind.key == key), key)


def _flat(result: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Nested counts as `outer inner`; types and targets have a chart or a table of their own."""
    rows: list[tuple[str, object]] = []
    for name, value in result.items():
        words = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            if name not in _DRAWN:
                rows += _flat(value, words + " ")
        elif isinstance(value, list):
            rows.append((words, ", ".join(map(str, value))))
        else:
            rows.append((words, value))
    return rows

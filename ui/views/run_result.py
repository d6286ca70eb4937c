"""What a run came to: headline figures, yields, verdicts, refused rows, the gate's conclusion, and every count."""

from collections.abc import Mapping
from html import escape
from typing import Final

import pandas as pd
import streamlit as st

from data.errors import SagedeskError
from data.records import Run, VariantTypeKey
from engine.generate import GenerationYield
from engine.variant_types.table import VARIANT_TYPES
from training.gate_conclusion import conclusion
from ui.desk import run_reports
from ui.desk.context import Actor, Desk
from ui.desk.usecases.imports import refusals
from ui.views.model_gate import outcome
from ui.views.verifier_figures import training_figures, verdict_figures
from ui.widgets.page import bars, figures, notice, refusals_shown, table

# The counts that a person asks for first, where the run has them.
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
    "unsupported": "the backend cannot make this type from the question",
    "failed": "the backend gave no reply",
    "malformed": "the reply was not a valid variant",
    "duplicates": "the variant exists already",
}
# Parts of a result that have a chart, a table or a page of their own.
_DRAWN: Final = ("types", "targets", "gate", "comparison", "methods", "calibration", "held_out")


def result(desk: Desk, actor: Actor, run: Run) -> None:
    """Headline figures, reports, then all counts; nothing while there is nothing."""
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
    with refusals_shown():
        _reports(run)
    if run.kind == "import" and run.state == "done":
        _refused(desk, actor, run)
    if counts:
        with st.expander("All counts"):
            table(["count", "value"], [[name, str(count)] for name, count in counts.items()])


def _reports(run: Run) -> None:
    """What has a chart or a table of its own. Raises ReportError for what cannot be read."""
    if yields := run_reports.yields_of_run(run):
        _yields(yields)
    if (verdicts := run_reports.verdicts_of_run(run)) is not None:
        verdict_figures(verdicts)
    if (training := run_reports.verifier_training_of_run(run)) is not None:
        training_figures(training)
    if (gate := run_reports.gate_of_run(run)) is not None:
        outcome(gate, conclusion(gate))


def _yields(types: Mapping[VariantTypeKey, GenerationYield]) -> None:
    st.subheader("Yield by type", anchor=False)
    of_types = [(key, types[key]) for key in VARIANT_TYPES if key in types]
    columns = [*_STAGES, *(loss for loss in _LOSSES if any(getattr(counts, loss) for _, counts in of_types))]
    frame = pd.DataFrame(
        {
            "type": [_type_name(name) for name, _ in of_types],
            **{column: [getattr(counts, column) for _, counts in of_types] for column in columns},
        }
    )
    bars(frame, name="type", series=columns, title="candidates", key="run_yields")
    said = [f"{name}: {_LOSSES[name]}" for name in columns if name in _LOSSES]
    if said:
        st.html(f'<p class="sd-faint sd-small">{escape("; ".join(said))}.</p>')
    reasons = [[reason, count] for _, counts in of_types for reason, count in counts.unsupported_reasons.most_common()]
    if reasons:
        st.subheader("Why some types were not possible", anchor=False)
        table(["reason", "candidates"], reasons)
    failed = [
        [_type_name(name), check.replace("_", " "), count]
        for name, counts in of_types
        for check, count in counts.failed_checks.most_common()
    ]
    if failed:
        st.subheader("Failed checks", anchor=False)
        table(
            ["type", "check", "variants"],
            failed,
            caption="A variant passes when all required checks hold. Failed advisory checks are counted here too.",
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
    notice(f"{refused} refused; the other rows were imported.", kind="warn")
    table(
        ["file", "row", "reason", "row begins with"],
        [[one.file, one.row, one.reason, one.text[:160]] for one in found.rows],
    )


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

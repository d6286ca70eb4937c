"""What a training run would use if it started now: counts by type, dimension, source and part, and what is left out."""

from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st

from data.dimensions import DIMENSIONS
from data.records import LabelSource, Part
from engine.variant_types.table import VARIANT_TYPES
from ui.desk.usecases.training_data import TrainingPreview
from ui.widgets.page import empty, figures, notices, table

_PARTS: Final[Mapping[Part, str]] = {
    "train": "trains the model",
    "validation": "decides when to stop",
    "calibration": "calibrates probabilities",
    "gate": "evaluates the result; never trained on",
}
_SOURCES: Final[Mapping[LabelSource, str]] = {
    "sample": "sample project",
    "annotations": "people's answers",
    "adjudication": "a lead's decision where people disagreed",
}


def preview(found: TrainingPreview, *, blockers: Sequence[str]) -> None:
    """Read only; what prevents a start comes first."""
    notices(list(map(sentence, blockers)), kind="error")
    notices(list(map(sentence, found.warnings)), kind="warn")
    if found.labels == 0:
        empty("No labels yet", "Review some variants: models are trained on people's answers.")
        _left_out(found)
        return
    figures(_headlines(found))
    left, right = st.columns(2, gap="large")
    with left:
        _types(found)
        _dimensions(found)
    with right:
        _parts(found)
        _sources(found)
    _left_out(found)


def sentence(text: str) -> str:
    """A use case's words, which start small, as a sentence."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _headlines(found: TrainingPreview) -> list[tuple[str, str]]:
    counts = [
        ("usable labels", found.labels),
        ("questions", found.questions),
        ("blind", found.blind),
        ("not blind", found.assisted),
    ]
    if found.role == "verifier":
        counts.append(("blind labels for the gate", found.gate_labels))
    else:
        counts += [
            ("questions for GRPO", found.prompt_questions),
            ("held-out questions", found.held_out_questions),
        ]
    return [(name, f"{count:,}") for name, count in counts]


def _types(found: TrainingPreview) -> None:
    rows = {row.variant_type: row for row in found.types}
    table(
        ["type", "labels", "accepted"],
        [[kind.name, rows[key].labels, rows[key].accepted] for key, kind in VARIANT_TYPES.items() if key in rows],
    )


def _dimensions(found: TrainingPreview) -> None:
    rows = {row.dimension: row for row in found.dimensions}
    table(
        ["dimension", "yes", "no"],
        [[one.name, rows[one.key].yes, rows[one.key].no] for one in DIMENSIONS if one.key in rows],
    )


def _parts(found: TrainingPreview) -> None:
    table(
        ["part", "purpose", "labels", "questions", "blind"],
        [[row.part, _PARTS[row.part], row.labels, row.questions, row.blind] for row in found.parts],
        caption="A question stays in its part permanently, together with its variants and near-duplicates.",
    )


def _sources(found: TrainingPreview) -> None:
    rows: list[list[object]] = [[_SOURCES[row.source], row.labels] for row in found.sources]
    rows.append(["of which rejected variants of the newest generator", found.current_generator_negatives])
    rows.append([f"of which from the first {found.first_labels:,} labels", found.first_labels_kept])
    table(["source", "labels"], rows)


def _left_out(found: TrainingPreview) -> None:
    if not found.left_out:
        return
    st.html('<p class="sd-faint">Excluded labels</p>')
    table(["reason", "labels"], [[row.reason, row.labels] for row in found.left_out])

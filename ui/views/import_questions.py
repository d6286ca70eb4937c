"""Importing: choose a source, look at how it would be read, correct the mapping, start, read the report."""

from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st

from data.imports.answers import ANSWER_SCHEMES, AnswerScheme
from data.imports.files import SUFFIXES
from data.imports.table import FORMATS, FormatName
from ui.desk.context import Actor, Desk
from ui.desk.usecases import imports
from ui.desk.usecases.imports import SourcePreview
from ui.views.run_detail import run_detail
from ui.widgets.item import option_list
from ui.widgets.once import Done, act_once
from ui.widgets.page import empty, notice, refusals_shown, table
from ui.widgets.presence import still
from ui.widgets.texts import block, literal

_KEPT: Final = "import_kept"
_RUN: Final = "run"
_UPLOADED: Final = "import_uploaded"
_SHOWN_QUESTIONS: Final = 3
_UPLOAD: Final = "Upload a file"
_AS_FOUND: Final = "detect automatically"
_SCHEMES: Final[Mapping[AnswerScheme, str]] = {
    "auto": _AS_FOUND,
    "letter": "letters",
    "index0": "numbers from 0",
    "index1": "numbers from 1",
    "text": "the option's text",
}


def import_questions(desk: Desk, actor: Actor) -> None:
    with refusals_shown():
        kept: dict[str, str] = st.session_state.setdefault(_KEPT, {})
        started = kept.get(_RUN)
        if started is not None:
            if st.button("Import something else", key="import_again"):
                del kept[_RUN]
                st.rerun()
            run_detail(desk, actor, started)
            return
        location = _location(desk, actor)
        if location is None:
            empty(
                "Choose what to import",
                "HellaSwag, or any JSONL, CSV or Parquet file. You see a preview before anything is imported.",
            )
            return
        left, right = st.columns(2)
        format_name: FormatName | None = left.selectbox(
            "Format", [None, *FORMATS], format_func=lambda it: it or _AS_FOUND, key="import_format"
        )
        named = right.text_input("Benchmark name", placeholder="taken from the file name", key="import_benchmark")
        benchmark = named.strip() or None
        seen = imports.preview_import(desk, actor, location=location, format_name=format_name, benchmark=benchmark)
        mapping = _mapping(seen.sources[0]) if len(seen.sources) == 1 else None
        if mapping is not None:
            seen = imports.preview_import(
                desk, actor, location=location, format_name=format_name, benchmark=benchmark, mapping=mapping
            )
        for source in seen.sources:
            _preview(source)
        is_readable = any(source.is_readable for source in seen.sources)
        words = f"Import as {_quoted(seen.benchmark)}"

        def start() -> Done:
            run = imports.start_import(
                desk,
                still(actor),
                location=location,
                format_name=format_name,
                benchmark=benchmark,
                mapping=mapping,
            )
            kept[_RUN] = run.run_id
            return Done("")

        act_once(st.button, words, start, key="import_start", disabled=not is_readable, type="primary")


def _location(desk: Desk, actor: Actor) -> str | None:
    how = st.radio(
        "Source", [_UPLOAD, "Path on the desk's machine or Hugging Face id"], horizontal=True, key="import_from"
    )
    if how != _UPLOAD:
        return st.text_input("Path or hf:ID", key="import_path").strip() or None
    uploaded = st.file_uploader("File", type=[suffix.lstrip(".") for suffix in SUFFIXES], key="import_file")
    if uploaded is None:
        return None
    kept: dict[str, str] = st.session_state.setdefault(_UPLOADED, {})
    if uploaded.file_id not in kept:
        kept[uploaded.file_id] = imports.keep_upload(
            desk, still(actor), name=uploaded.name, content=uploaded.getvalue()
        )
    return kept[uploaded.file_id]


def _mapping(source: SourcePreview) -> Mapping[str, object] | None:
    """The guess, as far as it was corrected; None for formats that need none."""
    if source.format_name != "generic" or not source.columns:
        return None
    guess = source.mapping or {}
    columns = list(source.columns)
    or_none = [None, *columns]
    with st.container(border=True, key="import_mapping"):
        st.html('<b>Column mapping</b> <span class="sd-faint">guessed; correct it here and the preview follows</span>')
        first, second, third = st.columns([1, 2, 1])
        context = first.selectbox("Question", columns, index=_position(columns, guess.get("context")))
        options = second.multiselect(
            "Options: one list column, or one column per option",
            columns,
            default=[name for name in _names(guess.get("options")) if name in columns],
        )
        answer = third.selectbox("Answer", or_none, index=_position(or_none, guess.get("answer")), format_func=_or_none)
        fourth, fifth, sixth = st.columns(3)
        scheme = fourth.selectbox(
            "Answer format",
            ANSWER_SCHEMES,
            index=_position(ANSWER_SCHEMES, guess.get("answer_scheme")),
            format_func=lambda scheme: _SCHEMES[scheme],
        )
        key = fifth.selectbox("Source key", or_none, index=_position(or_none, guess.get("key")), format_func=_or_none)
        subject = sixth.selectbox(
            "Subject", or_none, index=_position(or_none, guess.get("subject")), format_func=_or_none
        )
    if context is None:
        return None
    return {
        "context": context,
        "options": tuple(options),
        "answer": answer,
        "key": key,
        "subject": subject,
        "answer_scheme": scheme,
    }


def _preview(source: SourcePreview) -> None:
    with st.container(border=True):
        notes = "".join(f"<li>{literal(note)}</li>" for note in source.notes)
        st.html(
            f'<b>{literal(source.name)}</b> <span class="sd-faint">read as {source.format_name}</span>'
            f'<ul class="sd-faint">{notes}</ul>'
        )
        for suspicion in source.suspicions:
            notice(suspicion, kind="warn")
        if not source.is_readable:
            notice("None of the first rows can be read this way; choose another format or mapping.", kind="error")
        for question in source.questions[:_SHOWN_QUESTIONS]:
            options = option_list(question.options, question.answer_index)
            st.html(f'<div class="sd-card">{block(question.context)}{options}</div>')
        if source.refused:
            st.html('<p class="sd-faint">Rows refused in this preview:</p>')
            table(["row", "reason", "text"], [[row.row, row.reason, row.text[:160]] for row in source.refused])


def _position(names: Sequence[str | None], wanted: object) -> int:
    return next((number for number, name in enumerate(names) if name == wanted), 0)


def _or_none(column: str | None) -> str:
    return "none" if column is None else column


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list | tuple) else []


def _quoted(name: str) -> str:
    """For a button, whose label is markdown: its marks are taken out."""
    return "“" + "".join(character for character in name if character.isalnum() or character in " -.") + "”"

"""Questions: browse and search what is imported, read one with its variants; leads import from here."""

from typing import Final

import streamlit as st

from data.records import Question, QuestionId
from ui.desk.context import Actor, Desk
from ui.desk.usecases import questions
from ui.views.import_questions import import_questions
from ui.views.question_detail import question_detail
from ui.widgets.page import empty, head, refusals_shown
from ui.widgets.row_list import Row, row_list
from ui.widgets.texts import named

_SEARCH: Final = "questions_search"
_BENCHMARK: Final = "questions_benchmark"
_PAGE: Final = "questions_page"
_PAGE_ROWS: Final = 50
_SHOWN_CHARACTERS: Final = 220


def render(desk: Desk, actor: Actor) -> None:
    _keep_search()
    asked = st.query_params.get("question")
    if asked is not None:
        if st.button("← Back to the list", key="question_back"):
            del st.query_params["question"]
            st.rerun()
        with refusals_shown():
            question_detail(desk, actor, QuestionId(asked))
        return
    head("Questions", "The benchmark items that variants are made from. Texts are shown exactly as imported.")
    if actor.role != "lead":
        _browse(desk, actor)
        return
    browse, bring_in = st.tabs(["Browse", "Import"])
    with browse:
        _browse(desk, actor)
    with bring_in:
        import_questions(desk, actor)


def _keep_search() -> None:
    """Streamlit forgets a widget that is not drawn, and while one question is read the search is not."""
    for key in (_SEARCH, _BENCHMARK, _PAGE):
        if key in st.session_state:
            st.session_state[key] = st.session_state[key]


def _browse(desk: Desk, actor: Actor) -> None:
    with refusals_shown():
        everything = questions.search_questions(desk, actor, limit=1)
        if everything.total == 0:
            empty(
                "No questions yet",
                "Import a benchmark on the Import tab."
                if actor.role == "lead"
                else "A lead has to import a benchmark first.",
            )
            return
        left, middle, right = st.columns([3, 1.5, 1])
        search = left.text_input("Search", placeholder="text, subject, source key or id", key=_SEARCH)
        benchmark = middle.selectbox(
            "Benchmark",
            [None, *(one.name for one in everything.benchmarks)],
            format_func=lambda it: it or "all benchmarks",
            key=_BENCHMARK,
        )
        matches = questions.search_questions(desk, actor, search=search, benchmark=benchmark, limit=1).total
        pages = max(1, -(-matches // _PAGE_ROWS))
        st.session_state[_PAGE] = min(st.session_state.get(_PAGE, 1), pages)
        number = int(right.number_input(f"Page (of {pages:,})", 1, pages, key=_PAGE))
        found = questions.search_questions(
            desk, actor, search=search, benchmark=benchmark, offset=(number - 1) * _PAGE_ROWS, limit=_PAGE_ROWS
        )
        if not found.items:
            empty("Nothing matches", "Try fewer words, or search all benchmarks.")
            return
        count = "1 question" if found.total == 1 else f"{found.total:,} questions"
        st.html(f'<p class="sd-faint">{count}. Select one to see it with its variants.</p>')
        _list(found.items)


def _list(items: tuple[Question, ...]) -> None:
    row_list(
        ["question", "options", "subject", "benchmark", "source key"],
        [
            Row(
                question.question_id,
                [
                    _short(question.context),
                    str(len(question.options)),
                    _short(question.subject),
                    _short(question.benchmark),
                    _short(question.source_key),
                ],
            )
            for question in items
        ],
        key="questions_list",
        on_open=_open,
        numbers=[1],
    )


def _open(question_id: str) -> None:
    st.query_params["question"] = question_id


def _short(text: str) -> str:
    return named(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")

"""Any table of questions, by a column mapping: multiple choice, or open questions with a final answer."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from data.errors import InputError
from data.ids import normal_form, question_id
from data.imports.answers import answer_index, final_answer
from data.imports.files import RawItem
from data.imports.items import Notice, Parsed, RawRow, Refusal, shown
from data.imports.mapping import ColumnMapping, require_columns
from data.imports.options import Options, options_from_cell, options_from_cells
from data.records import Question


def parse_rows(
    rows: Iterable[RawItem], mapping: ColumnMapping, benchmark: str, *, is_one_of_several: bool = False
) -> Iterator[Parsed | Refusal | Notice]:
    """One item per row, in order, then a notice if the answers look as if they were counted from 1.

    A source key is the row's own key, otherwise the file's name and the row number: a benchmark may have several files.
    With `is_one_of_several` the file's name goes before keys too, since each file may start numbering again.
    """
    lowest_seen: int | None = None
    beyond_end = 0
    file = ""
    for row in rows:
        if not isinstance(row, RawRow):
            yield row
            continue
        file = row.file
        number = _integer(row.values.get(mapping.answer or ""))
        if number is not None:
            lowest_seen = number if lowest_seen is None else min(lowest_seen, number)
        try:
            yield _parsed(row, mapping, benchmark, is_one_of_several=is_one_of_several)
        except InputError as exc:
            beyond_end += "declare --map answer_scheme=index1" in str(exc)
            yield Refusal(row.file, row.number, str(exc), shown(str(row.values.get(mapping.context, row.values))))
    if lowest_seen and beyond_end and mapping.answer_scheme != "index1":
        yield Notice(
            file,
            f"{file}: no answer is 0 and {beyond_end} are one past the last option, so answers probably count from 1; "
            f"import again with --map answer_scheme=index1",
        )


def suspicions_of(options: Options, index: int | None) -> tuple[str, ...]:
    """What somebody should look at in a question that is imported nevertheless."""
    forms = [normal_form(text) for text in options.texts]
    twice = sorted({forms.index(form) for form in forms if forms.count(form) > 1})
    if not twice:
        return ()
    keyed = index is not None and forms.count(forms[index]) > 1
    text = shown(options.texts[twice[0]])
    return (
        f"two options are the same ({text!r}){', one marked as the answer' if keyed else ''}: check answer uniqueness",
    )


def _parsed(row: RawRow, mapping: ColumnMapping, benchmark: str, *, is_one_of_several: bool) -> Parsed:
    require_columns(mapping, row)
    context = row.values[mapping.context]
    if not isinstance(context, str) or not context.strip():
        raise InputError(f"the question ({mapping.context!r}) is empty or not text; fill it in or remove the row")
    cell = row.values.get(mapping.answer) if mapping.answer else None
    key = _text_of(row, mapping.key)
    if not key or is_one_of_several:
        key = f"{Path(row.file).stem}/{key or row.number}"
    subject = _text_of(row, mapping.subject)
    if not mapping.options:
        answer = None if cell is None or not str(cell).strip() else final_answer(str(cell))
        question = Question(
            question_id(context, (), None, answer), context, (), None, benchmark, key, subject, "", answer
        )
        return Parsed(row.file, row.number, question)
    options = _options(row, mapping)
    index = answer_index(cell, options, mapping.answer_scheme)
    question = Question(
        question_id(context, options.texts, index), context, options.texts, index, benchmark, key, subject
    )
    return Parsed(row.file, row.number, question, suspicions=suspicions_of(options, index))


def _options(row: RawRow, mapping: ColumnMapping) -> Options:
    if len(mapping.options) == 1:
        return options_from_cell(row.values[mapping.options[0]])
    options = options_from_cells([(name, row.values[name]) for name in mapping.options])
    names = [name.strip()[-1:].upper() for name in mapping.options[: len(options.texts)]]
    lettered = names == [chr(ord("A") + position) for position in range(len(names))]
    return options if lettered else Options(options.texts)


def _text_of(row: RawRow, column: str | None) -> str:
    """Empty if there is no such column or cell; 0 is a cell."""
    cell = None if column is None else row.values.get(column)
    return "" if cell is None else str(cell).strip()


def _integer(cell: object) -> int | None:
    if isinstance(cell, bool):
        return None
    if isinstance(cell, int):
        return cell
    return int(cell) if isinstance(cell, str) and cell.strip().isdecimal() else None

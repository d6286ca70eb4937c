"""Which column means what: guessed from names and first rows, and shown to the user before it is applied."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from data.errors import InputError
from data.imports.answers import ANSWER_SCHEMES, AnswerScheme
from data.imports.items import RawRow

_CONTEXT_NAMES: Final = (
    "context",
    "question",
    "stem",
    "ctx",
    "prompt",
    "problem",
    "query",
    "input",
    "题目",
    "问题",
    "問題",
)
_OPTIONS_NAMES: Final = ("options", "choices", "endings", "answers", "candidates", "选项", "選項")
_ANSWER_NAMES: Final = (
    "answer", "label", "answer_index", "answerkey", "answer_key", "gold", "correct_answer", "correct", "target", "key",
    "cop", "答案",
)  # fmt: skip
_KEY_NAMES: Final = ("id", "qid", "question_id", "ind", "idx", "index", "uid", "source_id", "编号")
_SUBJECT_NAMES: Final = ("subject", "category", "topic", "activity_label", "subject_name", "科目")
_OPTION_COLUMN_PATTERNS: Final = (
    ("{upper}",), ("{lower}",), ("option_{lower}", "option {lower}", "option{lower}"), ("op{lower}",),
    ("opt_{lower}", "opt {lower}", "opt{lower}"), ("opt_{one}", "opt {one}", "opt{one}"),
    ("choice_{lower}", "choice {lower}", "choice{lower}"), ("option_{one}", "option {one}", "option{one}"),
    ("choice_{one}", "choice {one}", "choice{one}"), ("option{zero}", "option_{zero}"),
    ("choice{zero}", "choice_{zero}"),
    ("ending{zero}", "ending_{zero}"), ("选项{lower}",), ("选项{upper}",),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Column names. `options` is one column with a list, or one column per option; empty for open questions."""

    context: str
    options: tuple[str, ...]
    answer: str | None
    key: str | None = None
    subject: str | None = None
    answer_scheme: AnswerScheme = "auto"

    @classmethod
    def from_settings(cls, settings: Mapping[str, object], guess: "ColumnMapping | None" = None) -> "ColumnMapping":
        """From JSON settings; fields left out keep the guess.

        Raises:
            InputError: an unknown field or scheme, a value of the wrong type, or no context column, guessed or named.
        """
        known = set(cls.__dataclass_fields__)
        unknown = sorted(set(settings) - known)
        if unknown:
            raise InputError(f"mapping: unknown field {', '.join(unknown)}; use one of {', '.join(sorted(known))}")
        named = (asdict(guess) if guess is not None else {}) | dict(settings)
        if "answer" in settings and "answer_scheme" not in settings:
            named.pop("answer_scheme", None)  # the guess was for another column
        scheme = named.get("answer_scheme", "auto")
        if scheme not in ANSWER_SCHEMES:
            raise InputError(f"mapping: unknown answer_scheme {scheme!r}; use one of {', '.join(ANSWER_SCHEMES)}")
        options = named.get("options", ())
        if isinstance(options, str):
            options = (options,)
        if not isinstance(options, Sequence) or not isinstance(named.get("context"), str):
            raise InputError("mapping: `context` must name one column and `options` one or more; correct the mapping")
        optional = {name: named.get(name) for name in ("answer", "key", "subject")}
        return cls(
            context=str(named["context"]),
            options=tuple(str(name) for name in options),
            answer_scheme=scheme,
            **{name: None if value is None else str(value) for name, value in optional.items()},
        )


@dataclass(frozen=True, slots=True)
class MappingGuess:
    """`mapping` is None if no context column was found; `notes` say what was guessed, and from what."""

    mapping: ColumnMapping | None
    columns: tuple[str, ...]
    notes: tuple[str, ...]


def guess_mapping(rows: Sequence[RawRow]) -> MappingGuess:
    """From the first rows of a file; at least one row."""
    columns = tuple(dict.fromkeys(name for row in rows for name in row.values))
    lowered = {name.strip().lower(): name for name in columns}
    context = _first_of(_CONTEXT_NAMES, lowered)
    if context is None:
        return MappingGuess(None, columns, (f"none of the columns looks like a question: {', '.join(columns)}",))
    options = _options(columns, lowered, rows)
    answer = _first_of([name for name in _ANSWER_NAMES if lowered.get(name) not in options], lowered)
    counts_from_0 = answer is not None and bool(options) and _are_indexes(answer, options, rows)
    mapping = ColumnMapping(
        context=context,
        options=options,
        answer=answer,
        key=_first_of(_KEY_NAMES, lowered),
        subject=_first_of(_SUBJECT_NAMES, lowered),
        answer_scheme="index0" if counts_from_0 else "auto",
    )
    notes = [f"question from {context!r}"]
    notes.append(f"options from {', '.join(map(repr, options))}" if options else "no options: open questions")
    if answer is None:
        notes.append("no answer column: rows are imported without answers")
    else:
        notes.append(f"answer from {answer!r}{', counting from 0' if counts_from_0 else ''}")
    left = [name for name in columns if name not in {context, answer, mapping.key, mapping.subject, *options}]
    if left:
        notes.append(f"not used: {', '.join(map(repr, left))}")
    return MappingGuess(mapping, columns, tuple(notes))


def require_columns(mapping: ColumnMapping, row: RawRow) -> None:
    """Raises InputError if the row lacks a mapped column, naming it."""
    wanted = [mapping.context, *mapping.options, *filter(None, (mapping.answer,))]
    lacking = [name for name in wanted if name not in row.values]
    if lacking:
        raise InputError(
            f"the row has no column {', '.join(map(repr, lacking))}; it has {', '.join(map(repr, row.values))}"
        )


def _first_of(names: Sequence[str], lowered: Mapping[str, str]) -> str | None:
    return next((lowered[name] for name in names if name in lowered), None)


def _are_indexes(answer: str, options: Sequence[str], rows: Sequence[RawRow]) -> bool:
    """Whether all answers are integers, one is 0 and some match no option's text: then none is meant as text."""
    cells = [(str(row.values.get(answer)).strip(), row) for row in rows if row.values.get(answer) not in (None, "")]
    if not cells or not all(cell.isdecimal() for cell, _ in cells) or "0" not in {cell for cell, _ in cells}:
        return False
    return any(cell not in str([row.values.get(name) for name in options]) for cell, row in cells)


def _options(columns: Sequence[str], lowered: Mapping[str, str], rows: Sequence[RawRow]) -> tuple[str, ...]:
    one = _first_of(_OPTIONS_NAMES, lowered)
    if one is not None and any(not isinstance(row.values.get(one), int | float | None) for row in rows):
        return (one,)
    for spellings in _OPTION_COLUMN_PATTERNS:
        for spelling in spellings:
            found: list[str] = []
            for position in range(26):
                name = spelling.format(
                    upper=chr(65 + position), lower=chr(97 + position), one=position + 1, zero=position
                )
                match = name if name in columns else lowered.get(name) if "{upper}" not in spelling else None
                if match is None:
                    break
                found.append(match)
            if len(found) >= 2:
                return tuple(found)
    return ()

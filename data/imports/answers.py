"""Answer cells to an option index or a final answer. An ambiguous cell is refused, never guessed."""

import re
import unicodedata
from typing import Final, Literal, get_args

from data.errors import InputError
from data.ids import normal_form
from data.imports.items import shown
from data.imports.options import Options

AnswerScheme = Literal["auto", "letter", "index0", "index1", "text"]
ANSWER_SCHEMES: Final[tuple[AnswerScheme, ...]] = get_args(AnswerScheme)

_LETTER: Final = re.compile(r"[(\[]?([A-Za-z])[)\].:]?")
_LETTER_AND_TEXT: Final = re.compile(r"[(\[]?([A-Za-z])[)\].:]\s+(.+)", re.DOTALL)
_MARKED: Final = re.compile(r"####\s*(.+)")
_BOXED: Final = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_NUMBER: Final = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s*/\s*\d+)?")


def answer_index(cell: object, options: Options, scheme: AnswerScheme) -> int | None:
    """0-based index of the answer among `options`; None for an unlabelled row (null, empty).

    "auto" tries, in this order: the file's own option labels, a letter ("B", "(B)", " b", full-width "Ｂ"), "B. text",
    an integer counted from 0, an option's text.

    Raises:
        InputError: no option matches, or two readings disagree.
    """
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return None
    if isinstance(cell, bool):
        raise InputError(f"answer {cell} is true or false; give an index, a letter or an option's text")
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if isinstance(cell, int):
        return _from_number(cell, options, scheme)
    if not isinstance(cell, str):
        raise InputError(
            f"answer {shown(cell)} is a {type(cell).__name__}; give an index, a letter or an option's text"
        )
    return _from_text(cell, options, scheme)


def final_answer(text: str) -> str:
    r"""The number that ends a worked answer, as plain digits.

    "#### 1,234" and "\boxed{$9{,}500}" give 1234 and 9500. The last of several marks counts; "72, altogether"
    gives 72; "1/2" stays a fraction; "1,2" is not a number.

    Raises:
        InputError: no number.
    """
    marked = _MARKED.findall(text) or _BOXED.findall(text)
    candidate = marked[-1] if marked else text
    candidate = unicodedata.normalize("NFKC", candidate).replace("{,}", ",").replace("\\!", "").replace("−", "-")
    candidate = candidate.strip().lstrip("$€£ ").rstrip(".%$ ")
    match = _NUMBER.match(candidate)
    rest = candidate[match.end() :] if match else ""
    if match is None or re.match(r"[.,]?\d", rest):
        raise InputError(f"answer {shown(text[-80:])!r} does not end in a number; correct or remove the row")
    return re.sub(r"\s", "", match[0]).replace(",", "").removeprefix("+")


def _from_number(number: int, options: Options, scheme: AnswerScheme) -> int:
    if scheme == "text":
        return _from_text(str(number), options, scheme)
    if scheme == "letter":
        raise InputError(f"answer {number} is a number, but answer_scheme is letter; use another answer_scheme")
    if str(number) in options.labels:
        return options.labels.index(str(number))
    index = number - 1 if scheme == "index1" else number
    count = len(options.texts)
    if not 0 <= index < count:
        hint = (
            "; declare --map answer_scheme=index1 if answers count from 1"
            if index == count and scheme != "index1"
            else ""
        )
        raise InputError(f"answer {number} is out of range for {count} options{hint}")
    return index


def _from_text(cell: str, options: Options, scheme: AnswerScheme) -> int:
    value = unicodedata.normalize("NFKC", cell).strip()
    by_text = _by_text(cell, options)
    if scheme == "text":
        if by_text is None:
            raise InputError(f"answer {shown(cell)!r} matches no option")
        return by_text
    by_name = _by_name(value, options, scheme)
    if by_name is None:
        if by_text is None:
            raise InputError(f"answer {shown(cell)!r} matches no option, nor the letter or index of one")
        return by_text
    if by_text is not None and by_text != by_name and scheme == "auto":
        raise InputError(
            f"answer {shown(cell)!r} is both the text of option {by_text + 1} and the label of option {by_name + 1}; "
            f"declare --map answer_scheme=text, letter, index0 or index1"
        )
    return by_name


def _by_name(value: str, options: Options, scheme: AnswerScheme) -> int | None:
    """By the file's own label, a letter, a letter with its text, or an integer written as text."""
    if scheme in {"auto", "letter"}:
        if value in options.labels:
            return options.labels.index(value)
        letter = _LETTER.fullmatch(value)
        if letter:
            return _from_letter(letter[1].upper(), options)
        both = _LETTER_AND_TEXT.fullmatch(value)
        if both and _by_text(value, options) is None:
            index = _from_letter(both[1].upper(), options)
            if normal_form(both[2]) != normal_form(options.texts[index]):
                raise InputError(f"answer {shown(value)!r}: its letter and its text point to different options")
            return index
    if scheme != "letter" and re.fullmatch(r"\d+", value):
        return _from_number(int(value), options, scheme)
    return None


def _from_letter(letter: str, options: Options) -> int:
    if options.labels:
        names = [name.strip().upper() for name in options.labels]
        if letter in names:
            return names.index(letter)
        raise InputError(f"answer {letter!r} is not one of the option labels {', '.join(options.labels)}")
    index = ord(letter) - ord("A")
    if not 0 <= index < len(options.texts):
        raise InputError(f"answer {letter!r} is out of range for {len(options.texts)} options")
    return index


def _by_text(cell: str, options: Options) -> int | None:
    """The first option with exactly this text, otherwise with the same normal form."""
    if cell in options.texts:
        return options.texts.index(cell)
    wanted = normal_form(cell)
    return next((index for index, text in enumerate(options.texts) if normal_form(text) == wanted), None)

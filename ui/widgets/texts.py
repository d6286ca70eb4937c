"""Item text as literal HTML: every token escaped, direction by content, long texts folded, hidden characters shown.

Data never passes through markdown here: dollars, backticks, tags and links show as they were written.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from typing import Final, NamedTuple

FOLD_CHARACTERS: Final = 900
MOST_CHARACTERS: Final = 200_000
MOST_DIFF_TOKENS: Final = 3_000
# Under this share of common words a word diff is noise: the text counts as rewritten.
LEAST_LIKENESS: Final = 0.3

# Words; single ideographs, which have no spaces between them; runs of space; anything else by the character.
_TOKEN: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|\s+|."
)
# Characters that change or hide what is seen. The joiners U+200C and U+200D stay: emoji and Persian need them.
_INVISIBLE: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
_NAMES: Final = {
    "\x00": "NUL",
    "\r": "CR",
    "\u00ad": "SHY",
    "\u200b": "ZWSP",
    "\u200e": "LRM",
    "\u200f": "RLM",
    "\u2028": "LSEP",
    "\u2029": "PSEP",
    "\u202a": "LRE",
    "\u202b": "RLE",
    "\u202c": "PDF",
    "\u202d": "LRO",
    "\u202e": "RLO",
    "\u2060": "WJ",
    "\u2066": "LRI",
    "\u2067": "RLI",
    "\u2068": "FSI",
    "\u2069": "PDI",
    "\ufeff": "BOM",
}


class Pair(NamedTuple):
    """HTML of an original and of what was made of it, changed words marked in both."""

    original: str
    variant: str


def literal(text: str) -> str:
    """`text` as HTML that shows it and does nothing else."""
    text = _newlines(text)
    pieces: list[str] = []
    end = 0
    for match in _INVISIBLE.finditer(text):
        pieces.append(escape(text[end : match.start()]))
        pieces.append(_visible(match[0]))
        end = match.end()
    pieces.append(escape(text[end:]))
    return "".join(pieces)


def named(text: str) -> str:
    """`text` as plain text for a list: hidden characters by their names, in angle brackets."""
    return _INVISIBLE.sub(lambda match: f"⟨{_name(match[0])}⟩", _newlines(text))


def block(text: str, *, css_class: str = "") -> str:
    """A paragraph of literal text; what is longer than a screen's worth folds."""
    return folded(literal, text, css_class=css_class)


def folded(mark: Callable[[str], str], text: str, *, css_class: str = "") -> str:
    """As `block`, with the text's HTML made by `mark`, which is handed the part that is shown."""
    shown = text[:MOST_CHARACTERS]
    cut = "" if len(text) <= MOST_CHARACTERS else _note(f"cut at {MOST_CHARACTERS:,} of {len(text):,} characters")
    classes = f"sd-text {css_class}".strip()
    if len(shown) <= FOLD_CHARACTERS:
        return f'<div class="{classes}" dir="auto">{mark(shown)}{cut}</div>'
    return (
        f'<details class="sd-fold"><summary><div class="{classes}" dir="auto">'
        f"{literal(shown[:FOLD_CHARACTERS])}…</div>"
        f'<span class="sd-more">show all {len(text):,} characters</span></summary>'
        f'<div class="{classes}" dir="auto">{mark(shown)}{cut}</div></details>'
    )


def marked_pair(original: str, variant: str) -> Pair:
    """Both texts, with words that only one of them has in `<del>` or `<ins>`; unmarked where all is new or too long."""
    before, after = _TOKEN.findall(_newlines(original)), _TOKEN.findall(_newlines(variant))
    if max(len(before), len(after)) > MOST_DIFF_TOKENS:
        return Pair(literal(original), literal(variant))
    matcher = SequenceMatcher(None, [_key(token) for token in before], [_key(token) for token in after], autojunk=False)
    common = sum(
        not token.isspace()
        for block in matcher.get_matching_blocks()
        for token in before[block.a : block.a + block.size]
    )
    words = sum(not token.isspace() for token in [*before, *after])
    if 2 * common < LEAST_LIKENESS * words:
        return Pair(literal(original), literal(variant))
    left: list[str] = []
    right: list[str] = []
    for is_same, old, new in _smoothed(matcher, before, after):
        left.append(_run(old, "" if is_same else "del"))
        right.append(_run(new, "" if is_same else "ins"))
    return Pair("".join(left), "".join(right))


def paired_options(original: Sequence[str], variant: Sequence[str]) -> Iterator[str]:
    """For each variant option its HTML, marked against the original option that it is most like.

    Options may have been shuffled, so likeness decides and not the letter; one that is like none stays unmarked.
    """
    for option in variant:
        nearest = max(original, key=lambda candidate: _likeness(candidate, option), default="")
        yield marked_pair(nearest, option).variant


def letter(index: int) -> str:
    """A, B, ... Z, then numbers from 27."""
    return chr(ord("A") + index) if index < 26 else str(index + 1)


class MarkText:
    """Makes HTML of a text: `literal`, or the marked text of a pair when the whole text is asked for."""

    def __init__(self, whole: str, html: str) -> None:
        self._whole = whole
        self._html = html

    def __call__(self, text: str) -> str:
        return self._html if text == self._whole else literal(text)


def _smoothed(
    matcher: SequenceMatcher[str], before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[bool, list[str], list[str]]]:
    """(same in both, tokens before, tokens after), where a lone space between two changes belongs to them."""
    old: list[str] = []
    new: list[str] = []
    codes = matcher.get_opcodes()
    for number, (operation, i1, i2, j1, j2) in enumerate(codes):
        is_gap = i2 - i1 == 1 and before[i1].isspace() and 0 < number < len(codes) - 1
        if operation != "equal" or is_gap:
            old += before[i1:i2]
            new += after[j1:j2]
            continue
        if old or new:
            yield False, old, new
            old, new = [], []
        yield True, list(before[i1:i2]), list(after[j1:j2])
    if old or new:
        yield False, old, new


def _run(tokens: Sequence[str], tag: str) -> str:
    """The tokens' HTML, their words in `tag`; spaces at the ends stay outside, where a mark would only look torn."""
    text = "".join(tokens)
    words = text.strip()
    if not tag or not words:
        return literal(text)
    start = text.index(words)
    before, after = text[:start], text[start + len(words) :]
    return f"{literal(before)}<{tag}>{literal(words)}</{tag}>{literal(after)}"


def _key(token: str) -> str:
    return " " if token.isspace() else token.casefold()


def _newlines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _likeness(first: str, second: str) -> float:
    if first == second:
        return 1.0
    words = [{word.casefold() for word in re.findall(r"\w+", text)} for text in (first, second)]
    union = words[0] | words[1]
    return len(words[0] & words[1]) / len(union) if union else 0.0


def _visible(character: str) -> str:
    name = _name(character)
    title = unicodedata.name(character, "control character").lower()
    line = "<br>" if character in "\u2028\u2029" else ""
    return f'<span class="sd-mark" title="U+{ord(character):04X} {escape(title)}">{name}</span>{line}'


def _name(character: str) -> str:
    return _NAMES.get(character, f"U+{ord(character):04X}")


def _note(text: str) -> str:
    return f'<span class="sd-more">{escape(text)}</span>'

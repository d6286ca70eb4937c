"""Compares texts by words, stems and sentences, and says how closely they agree. Refuses meaning: no model here.

Stems come from a light English suffix stripper, enough to bring "finishes", "finished" and "finish" together; words in
other scripts are unchanged, and each CJK character counts as a word.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final, Literal

from data.ids import normal_form

CLOSE_SIMILARITY: Final = 0.8
"""Stem similarity above which two texts count as the same apart from small repairs."""

_MOST_ORDERED: Final = 4_000_000
"""Product of word counts up to which order counts: ordered comparison is quadratic, and a field may have 1.2 MB."""
_LETTERS_LOOKED_AT: Final = 2000

MatchKind = Literal["letter", "normal form", "word stems", "tolerance", "none"]

_WORD: Final = re.compile(r"[぀-ヿ㐀-鿿가-힯]|(?<!\w)[−-]\d+|[^\W_]+(?:['’][^\W\d_]+)*")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+|(?<=[。！？])")
_ABBREVIATION: Final = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|st|prof|vs|etc|e\.g|i\.e|no|fig|approx)|\b[a-z])\.$", re.IGNORECASE
)
_IRREGULAR: Final = {
    **dict.fromkeys(("am", "is", "are", "was", "were", "been", "being", "'s", "'re"), "be"),
    **dict.fromkeys(("has", "had", "having"), "have"),
    **dict.fromkeys(("does", "did", "doing", "done"), "do"),
    **dict.fromkeys(("goes", "went", "gone"), "go"),
}
_FUNCTION_WORDS: Final = """
a an and as at be but by do for from have he her him his i in into it its of off on or out over she so that the their
them then there they this to up was what when where which while who will with you your we our not
"""
_STOP_WORDS: Final = frozenset(_FUNCTION_WORDS.split())
_NEGATIONS: Final = frozenset(("not", "no", "never", "none", "without", "cannot"))


@dataclass(frozen=True, slots=True)
class Match:
    """How closely two texts agree: the strictest level reached, and the similarity of their stems in 0..1."""

    kind: MatchKind
    similarity: float

    @property
    def is_same(self) -> bool:
        return self.kind != "none"

    def __str__(self) -> str:
        return f"{self.kind}, stem similarity {self.similarity:.2f}"


def words(text: str) -> tuple[str, ...]:
    """The words of `text`, case-folded, in order, without punctuation."""
    return tuple(_WORD.findall(unicodedata.normalize("NFC", text).replace("’", "'").casefold()))


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A crude stem: equal for the common inflections of one English word, `word` itself for other scripts."""
    word = _IRREGULAR.get(word, word).removesuffix("'s")
    if len(word) <= 3 or not word.isascii():
        return word
    for suffix, least in (
        ("ingly", 3),
        ("edly", 3),
        ("ing", 3),
        ("ies", 2),
        ("ied", 2),
        ("ed", 2),
        ("es", 3),
        ("s", 3),
    ):
        if word.endswith(suffix) and len(word) - len(suffix) >= least and not word.endswith("ss"):
            word = word.removesuffix(suffix) + ("y" if suffix in ("ies", "ied") else "")
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


def stems(text: str) -> tuple[str, ...]:
    """The stems of the words of `text`, in order."""
    return tuple(map(stem, words(text)))


def content_stems(text: str) -> frozenset[str]:
    """The stems of `text` without function words."""
    return frozenset(stems(text)) - _STOP_WORDS


def similarity(left: str, right: str) -> float:
    """Share of stems in common, in order, 0..1 (Ratcliff and Obershelp over words); 0.0 if neither has words.

    Texts of more than a few thousand words are compared ignoring order (Dice over counted stems).
    """
    one, other = stems(left), stems(right)
    if len(one) * len(other) > _MOST_ORDERED:
        return 2 * (Counter(one) & Counter(other)).total() / (len(one) + len(other))
    return SequenceMatcher(None, one, other, autojunk=False).ratio() if one or other else 0.0


def overlap(part: str, whole: str) -> float:
    """Share of the content stems of `part` that occur in `whole`; 0.0 if `part` has none."""
    wanted = content_stems(part)
    return len(wanted & content_stems(whole)) / len(wanted) if wanted else 0.0


def coverage(part: str, whole: str) -> float:
    """Share of the stems of `part`, with repetitions, that occur in `whole`; 0.0 where `part` has none."""
    wanted, given = Counter(stems(part)), Counter(stems(whole))
    return (wanted & given).total() / wanted.total() if wanted else 0.0


def match(left: str, right: str, *, least: float = CLOSE_SIMILARITY) -> Match:
    """The strictest level at which the two agree; "tolerance" means a stem similarity of `least` or more.

    Texts that differ in a number, a negation or a mathematical sign never agree by stems or tolerance.
    """
    if left == right:
        return Match("letter", 1.0)
    if normal_form(left) == normal_form(right):
        return Match("normal form", 1.0)
    close = similarity(left, right)
    if _decisive(left) != _decisive(right):
        return Match("none", close)
    if close == 1.0:
        return Match("word stems", 1.0)
    return Match("tolerance" if close >= least else "none", close)


def _decisive(text: str) -> Counter[str]:
    """What changes a text's meaning however small it is: numbers, negations, mathematical signs."""
    return Counter(
        w for w in words(text) if any(map(str.isdigit, w)) or w in _NEGATIONS or w.endswith("n't")
    ) + Counter(c for c in text if unicodedata.category(c) == "Sm")


def best_match(text: str, others: Sequence[str], *, least: float = CLOSE_SIMILARITY) -> tuple[int, Match]:
    """Index of the closest of `others` to `text`, and how close; (-1, none) if `others` is empty."""
    order: tuple[MatchKind, ...] = ("none", "tolerance", "word stems", "normal form", "letter")
    found = (-1, Match("none", 0.0))
    for index, other in enumerate(others):
        here = match(text, other, least=least)
        if (order.index(here.kind), here.similarity) > (order.index(found[1].kind), found[1].similarity) or index == 0:
            found = (index, here)
    return found


def unmatched(texts: Sequence[str], others: Sequence[str], *, least: float = CLOSE_SIMILARITY) -> tuple[str, ...]:
    """Those of `texts` left over after pairing texts and `others` one to one, closest levels first."""
    left, free = list(texts), list(others)
    for step in ("letter", "normal form", "word stems", "tolerance"):
        for text in list(left):
            partner = next((other for other in free if match(text, other, least=least).kind == step), None)
            if partner is not None:
                left.remove(text)
                free.remove(partner)
    return tuple(left)


def sentences(text: str) -> tuple[str, ...]:
    """`text` split after . ! ? and their CJK forms, but not after common abbreviations and initials."""
    found: list[list[str]] = []
    for piece in filter(None, (p.strip() for p in _SENTENCE_END.split(text))):
        if found and _ABBREVIATION.search(found[-1][-1]):
            found[-1].append(piece)
        else:
            found.append([piece])
    return tuple(" ".join(pieces) for pieces in found)


def script(text: str) -> str:
    """The writing system of most letters at the start of `text` ("LATIN", "CJK", ...); "" if it has no letters."""
    names = Counter(unicodedata.name(c, "?").split()[0] for c in text[:_LETTERS_LOOKED_AT] if c.isalpha())
    return names.most_common(1)[0][0] if names else ""

"""Item text as HTML: literal whatever it holds, folded when long, marked where it changed."""

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui.widgets.texts import (
    FOLD_CHARACTERS,
    MOST_CHARACTERS,
    block,
    letter,
    literal,
    marked_pair,
    named,
    paired_options,
)

OURS = {"div", "span", "details", "summary", "ins", "del", "br"}


class Reader(HTMLParser):
    """The tags of a piece of HTML, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_text_ever_makes_a_tag_that_is_not_ours(first: str, second: str) -> None:
    pair = marked_pair(first, second)

    for html in (literal(first), block(first), pair.original, pair.variant, *paired_options([first], [second])):
        assert set(Reader(html).tags) <= OURS


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=200))
def test_plain_text_reads_back_to_the_letter(text: str) -> None:
    assert Reader(literal(text)).text == text
    assert Reader(marked_pair(text, text).variant).text == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb\u202c", "aRLObPDF"),
        ("zero\u200bwidth", "zeroZWSPwidth"),
        ("nul\x00bell\x07", "nulNULbellU+0007"),
        ("line\u2028end", "lineLSEPend"),
        ("crlf\r\nlone\rend", "crlf\nloneCRend"),
        ("👩\u200d🍳 می\u200cخواهم", "👩\u200d🍳 می\u200cخواهم"),
    ],
)
def test_hidden_characters_are_named_and_those_that_a_script_needs_stay(text: str, shown: str) -> None:
    assert Reader(literal(text)).text == shown


def test_a_list_names_hidden_characters_too() -> None:
    assert named("a\u202eb\x00 <i>") == "a⟨RLO⟩b⟨NUL⟩ <i>"


def test_words_that_changed_are_marked_on_both_sides() -> None:
    pair = marked_pair("The man will walk the dog.", "The man will not walk the black cat.")

    assert pair.original == "The man will walk the <del>dog</del>."
    assert pair.variant == "The man will <ins>not</ins> walk the <ins>black cat</ins>."


def test_chinese_is_marked_by_the_character() -> None:
    assert marked_pair("他打开门", "他打开窗").variant == "他打开<ins>窗</ins>"


def test_a_rewritten_text_is_not_marked_word_by_word() -> None:
    assert "<ins>" not in marked_pair("A man runs home.", "Which context could explain this?").variant


def test_shuffled_options_are_compared_with_the_one_they_come_from() -> None:
    (first, second) = paired_options(["walks the dog.", "eats a lamp."], ["eats a lamp.", "walks the cat."])

    assert first == "eats a lamp."
    assert second == "walks the <ins>cat</ins>."


def test_a_long_text_folds_and_a_huge_one_is_cut_and_says_so() -> None:
    long, huge = "word " * FOLD_CHARACTERS, "x" * 1_200_000

    started = time.thread_time()  # of this thread's own work, whatever else the machine does
    folded, cut = block(long), block(huge)
    marked_pair(huge, huge + "y")

    assert "show all 4,500 characters" in folded
    assert long in Reader(folded).text
    assert len(cut) < 1.1 * MOST_CHARACTERS
    assert re.search(r"cut at 200,000 of 1,200,000 characters", cut)
    assert time.thread_time() - started < 2


def test_letters_go_on_after_z() -> None:
    assert [letter(index) for index in (0, 4, 25, 26)] == ["A", "E", "Z", "27"]

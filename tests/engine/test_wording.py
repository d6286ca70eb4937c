import pytest

from engine.wording import best_match, match, overlap, script, sentences, similarity, stem, unmatched, words


@pytest.mark.parametrize(
    ("one", "other"),
    [("finishes", "finish"), ("stopping", "stopped"), ("carries", "carry"), ("takes", "take"), ("was", "is")],
)
def test_inflections_of_a_word_share_a_stem(one, other):
    assert stem(one) == stem(other)


@pytest.mark.parametrize(("one", "other"), [("class", "clad"), ("five", "fire"), ("sing", "sting")])
def test_different_words_keep_different_stems(one, other):
    assert stem(one) != stem(other)


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        ("He stops.", "He stops.", "letter"),
        ("he  STOPS.", "He stops.", "normal form"),
        ("Caf\u00e9", "Cafe\u0301", "normal form"),
        ("finishes the race, waving", "finish the races waving", "word stems"),
        ("hits it back and fourth as he calls", "hits it back and forth as he calls", "tolerance"),
        ("hits it back", "reads a book", "none"),
    ],
)
def test_the_strictest_step_that_holds_is_named(left, right, kind):
    assert match(left, right).kind == kind


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("the cart reaches a speed of 12 metres a second", "the cart reaches a speed of 13 metres a second"),
        ("the man will open the heavy door for her", "the man will not open the heavy door for her"),
        ("a < b", "a > b"),
        ("-5", "5"),
        ("+", "-"),
    ],
)
def test_a_number_a_negation_or_a_sign_is_never_tolerated(left, right):
    assert not match(left, right).is_same


def test_each_text_needs_a_partner_of_its_own():
    assert unmatched(["stays", "stays", "goes"], ["stays", "goes", "runs"]) == ("stays",)


def test_an_exact_partner_is_not_taken_by_a_near_one():
    near, exact = "walks to the old red barn today", "walks to the old red barns today"

    assert unmatched([near, exact], [exact, near]) == ()


def test_the_best_match_of_nothing_is_none():
    assert best_match("a", [])[0] == -1


def test_sentences_end_at_stops_but_not_at_abbreviations():
    assert sentences("Dr. Lee waits. She nods! Why? He") == ("Dr. Lee waits.", "She nods!", "Why?", "He")
    assert sentences("他停下。她点头。") == ("他停下。", "她点头。")


def test_overlap_counts_meaning_bearing_words_only():
    assert overlap("the dog is in it", "a dog") == 1.0
    assert overlap("of the", "of the") == 0.0


def test_texts_without_words_are_not_alike():
    assert similarity("???", "!!!") == 0.0


def test_signs_belong_to_numbers_and_not_to_orders():
    assert words("-5 and 2-3") == ("-5", "and", "2", "3")


def test_the_script_of_most_letters_counts():
    assert (script("Der Mann 他"), script("他停下 ok"), script("12 + 3")) == ("LATIN", "CJK", "")

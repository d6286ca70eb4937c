from dataclasses import replace
from datetime import UTC, datetime

import pytest

from data.records import QuestionId, Recipe, Variant, VariantId
from engine.shortcuts import ShortcutAccuracies, shortcut_accuracies

RECIPE = Recipe("test", "", "", "{}", 0)


def variant(context, options, answer):
    ids, made_at = (VariantId("v"), QuestionId("q")), datetime(2026, 1, 1, tzinfo=UTC)
    return Variant(*ids, "negation", context, options, answer, False, 0, RECIPE, None, made_at)


def accuracies(variants: list[Variant]) -> ShortcutAccuracies:
    found = shortcut_accuracies(variants)
    assert found is not None
    return found


def test_a_set_whose_answer_is_always_first_is_won_by_the_player_that_takes_the_first():
    made = [variant("c", ("yes", "no, not at all"), 0)] * 3

    found = accuracies(made)

    assert (found.variants, found.chance) == (3, 0.5)
    assert found.always_first == 1.0
    assert found.longest_option == 0.0


def test_the_longest_option_wins_where_the_answer_says_most():
    made = [variant("c", ("a", "b", "the one that is right"), 2), variant("c", ("a long one", "b", "c"), 1)]

    assert accuracies(made).longest_option == 0.5


def test_a_player_that_cannot_decide_is_credited_with_a_guess():
    tied = variant("nothing shared", ("aa", "bb", "cc", "dd"), 1)

    found = accuracies([tied])

    assert found.longest_option == pytest.approx(0.25)
    assert found.most_overlap == pytest.approx(0.25)


def test_the_option_that_repeats_the_context_wins_where_it_is_the_answer():
    told = variant("A man waits for the bus.", ("waits for the bus", "eats a lemon"), 0)

    assert accuracies([told]).most_overlap == 1.0
    assert accuracies([replace(told, answer_index=1)]).most_overlap == 0.0


def test_no_variants_are_no_measure():
    assert shortcut_accuracies([]) is None

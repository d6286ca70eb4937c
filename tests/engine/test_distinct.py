import pytest

from engine.distinct import distinct_n, opening_entropy, self_similarity


def test_distinct_n_counts_different_word_groups_over_all():
    assert distinct_n(["a dog runs", "a dog sits"], 1) == pytest.approx(4 / 6)
    assert distinct_n(["a dog runs", "a dog sits"], 2) == pytest.approx(3 / 4)
    assert distinct_n(["a dog runs", "a dog sits"], 3) == 1.0


def test_a_text_repeated_lowers_every_distinct_n():
    texts = ["the man waits for the bus", "a woman cuts a lemon"]

    for n in (1, 2, 3):
        once = distinct_n(texts, n)
        assert once is not None
        assert distinct_n([*texts, *texts], n) == pytest.approx(once / 2)


def test_texts_too_short_for_an_n_gram_have_no_measure():
    assert distinct_n(["one"], 2) is None
    assert distinct_n([], 1) is None


def test_similarity_is_of_pairs_inside_a_group_only():
    apart = [["the man waits"], ["the man waits"]]

    assert self_similarity(apart) is None
    assert self_similarity([["the man waits", "the man waits"], ["other"]]) == 1.0
    assert self_similarity([["the man waits", "a lemon falls"]]) == 0.0


def test_openings_that_are_all_alike_have_no_entropy_and_all_different_ones_the_greatest():
    assert opening_entropy(["The man is here", "the man is away"]) == 0.0
    assert opening_entropy(["The man is here", "A woman is here"]) == pytest.approx(1.0)
    mixed = opening_entropy(["The man is a", "The man is b", "A woman is c"])
    assert mixed is not None
    assert 0 < mixed < 1
    assert opening_entropy(["alone"]) is None

from dataclasses import replace

import pytest

from engine.candidate import Candidate, abstain_option
from tests.training.small_worlds import CONTROL, OPTIONS, QUESTION, variant_of
from training.artefacts import copied, is_near_duplicate, longer_answer, not_as_asked

STORY = replace(QUESTION, context="A cat sits on a mat beside the stove while rain falls on the roof. It")


def restated(context, answer="goes to sleep."):
    return variant_of(Candidate(context, (answer, *OPTIONS[1:]), 0, False), "restatement")


def test_a_restatement_in_other_words_copies_nothing():
    assert copied(STORY, restated("Near the oven, a kitten rests; outside there is a downpour. It")) == 0.0


def test_a_restatement_that_keeps_the_words_and_the_answer_is_a_copy():
    near = "A cat sits on a mat beside the stove while rain falls on a roof. It"

    assert copied(STORY, restated(near)) > 0.3
    assert copied(STORY, restated(near, answer=OPTIONS[0])) > copied(STORY, restated(near))


@pytest.mark.parametrize("variant_type", ["refinement", "critical"])
def test_an_edit_that_changes_no_word_of_meaning_is_a_copy(variant_type):
    same = Candidate("The cat sits on the mat beside a stove while the rain falls on its roof. It", OPTIONS, 1, False)
    edited = Candidate("A cat spreads its wings beside the stove while rain falls on the roof. It", OPTIONS, 1, False)

    assert copied(STORY, variant_of(same, variant_type)) == 1.0
    assert copied(STORY, variant_of(edited, variant_type)) == 0.0


def test_types_that_keep_the_text_do_not_copy_by_keeping_it():
    kept = Candidate(STORY.context, OPTIONS, 0, False)

    assert [copied(STORY, variant_of(kept, one)) for one in ("causal", "ordering", "negation", "reverse")] == [0.0] * 4


def test_an_answer_that_stands_out_by_length_is_an_artefact_unless_the_question_has_it_already():
    long = ("falls asleep at once on the soft red mat by the door.", *OPTIONS[1:])
    variant = variant_of(Candidate(STORY.context, long, 0, False), "causal")

    assert longer_answer(STORY, variant) == 1.0
    assert longer_answer(replace(STORY, options=long), variant) == 0.0
    assert longer_answer(STORY, variant_of(Candidate(STORY.context, OPTIONS, 1, False), "causal")) == 0.0


def test_a_control_where_an_edit_was_asked_for_is_not_as_asked_and_the_other_way_round():
    abstaining = variant_of(Candidate("A dog barks. It", (*OPTIONS, abstain_option(4)), 4, False))

    assert not_as_asked(variant_of(CONTROL), asked_for_control=True) == 0.0
    assert not_as_asked(variant_of(CONTROL), asked_for_control=False) == 1.0
    assert not_as_asked(abstaining, asked_for_control=True) == 1.0
    assert not_as_asked(restated("A dog barks. It"), asked_for_control=True) == 0.0


def test_another_edit_another_answer_or_another_option_is_another_variant():
    base = variant_of(Candidate(STORY.context, OPTIONS, 1, False), "refinement")
    others = [
        Candidate("A cat sits on a perch beside the stove while snow falls on the roof. It", OPTIONS, 1, False),
        Candidate(STORY.context, OPTIONS, 2, False),
        Candidate(STORY.context, (*OPTIONS[:3], "bakes bread."), 1, False),
    ]

    assert is_near_duplicate(base, variant_of(Candidate(STORY.context, OPTIONS[::-1], 2, False)), least=0.95)
    assert [is_near_duplicate(base, variant_of(other), least=0.95) for other in others] == [False] * 3

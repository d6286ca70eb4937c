import re
from dataclasses import replace

import pytest

from data.records import VARIANT_TYPE_KEYS, QuestionId
from engine.backends.protocol import Sampling
from engine.backends.rules import RulesBackend
from engine.candidate import candidate_from_reply, is_abstain
from engine.generate import generation_requests
from engine.prompts import GenerationRequest
from engine.variant_types.demonstration import ORIGINAL


def reply_of(question, key, seed=1, foreign=()):
    request = GenerationRequest("g1", question, key, seed, tuple(foreign))
    return next(RulesBackend.open({}).generate([request], Sampling()))


@pytest.mark.parametrize("key", sorted(set(VARIANT_TYPE_KEYS) - {"ordering", "reverse", "critical"}))
def test_types_that_need_invention_are_refused_by_name(key):
    reply = reply_of(ORIGINAL, key)

    assert (reply.failure, reply.text) == ("unsupported", "")
    assert "a program cannot" in reply.detail


def test_it_says_which_types_it_can_make():
    assert RulesBackend.open({}).supported_types() == {"ordering", "reverse", "critical"}


def test_a_control_keeps_the_question_and_adds_the_abstain_option():
    candidate = candidate_from_reply(reply_of(ORIGINAL, "critical").text)

    assert candidate.context == ORIGINAL.context
    assert candidate.options[:-1] == ORIGINAL.options
    assert is_abstain(candidate.options[-1])
    assert candidate.is_control
    assert candidate.answer_index == ORIGINAL.answer_index


def test_an_order_puts_the_story_back_together():
    for seed in range(30):
        candidate = candidate_from_reply(reply_of(ORIGINAL, "ordering", seed).text)
        shown = dict(re.findall(r"(\d)\. (.*?)(?= \d\. | Which is)", candidate.context))
        order = candidate.options[candidate.answer_index].split("-")

        assert [shown[number] for number in order] == [
            "A man opens his umbrella because it has begun to rain.",
            "He walks along the street to the bus stop.",
            "The man waits under the umbrella until the bus comes.",
        ]
        assert "1-2-3" not in candidate.options


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        ("What is the capital of France?", "not a story"),
        ("A man", "not a story"),
        ("A man sits down. The man", "fewer than three sentences"),
        ("One. Two. Three. Four. The man", "more than four sentences"),
        ("He waits. He waits. The man", "the same"),
    ],
)
def test_a_context_without_an_order_is_refused_with_the_reason(context, reason):
    reply = reply_of(replace(ORIGINAL, context=context), "ordering")

    assert reply.failure == "unsupported"
    assert reason in reply.detail


def test_reverse_borrows_scenes_that_differ(sample_questions):
    requests = list(generation_requests(sample_questions, ["reverse"], per_question=1, seed=3))

    replies = list(RulesBackend.open({}).generate(requests, Sampling()))

    pairs = zip(requests, replies, strict=True)
    made = [(request, candidate_from_reply(reply.text)) for request, reply in pairs if reply.text]
    assert len(made) >= 25
    for request, candidate in made:
        assert candidate.options[0] in request.question.context
        assert len(set(candidate.options)) == 4


def test_reverse_never_borrows_a_near_duplicate_of_the_question():
    twin = replace(ORIGINAL, question_id=QuestionId("q_twin"), context=ORIGINAL.context.replace("street", "road"))

    reply = reply_of(ORIGINAL, "reverse", foreign=[twin] * 5)

    assert "fewer than three other questions" in reply.detail


def test_the_same_seed_gives_the_same_reply_and_another_seed_another():
    assert reply_of(ORIGINAL, "ordering", 5) == reply_of(ORIGINAL, "ordering", 5)
    assert len({reply_of(ORIGINAL, "ordering", seed).text for seed in range(8)}) > 1

import json

import pytest

from data.errors import ReplyError
from engine.candidate import Candidate, abstain_option, candidate_from_reply, is_abstain, reply_text

GOOD = {"context": "Rain falls. He", "options": ["opens an umbrella.", "lies in the sun."], "answer": 0}


def test_a_plain_object_becomes_a_candidate():
    candidate = candidate_from_reply(json.dumps(GOOD) + "\n")

    assert candidate == Candidate("Rain falls. He", ("opens an umbrella.", "lies in the sun."), 0, False)


def test_a_candidate_survives_the_way_to_a_reply_and_back():
    candidate = Candidate('Il dit « "oui" »\n$5 and $6', ("ça", "x\\y"), 1, False)

    assert candidate_from_reply(reply_text(candidate)) == candidate


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("", "blank"),
        ("  \n", "blank"),
        ("Sure! " + json.dumps(GOOD), "nothing before it"),
        ("```json\n" + json.dumps(GOOD) + "\n```", "code fence"),
        (json.dumps(GOOD) + " I hope this helps.", "text after its JSON object"),
        (json.dumps(GOOD) + json.dumps(GOOD), "text after its JSON object"),
        (json.dumps(GOOD)[:-8], "cut off"),
        ("[" + json.dumps(GOOD) + "]", "expected an object"),
        ('{"context": "a", "context": "b", "options": ["x", "y"], "answer": 0}', "more than once"),
        (json.dumps({**GOOD, "why": "because"}), "why"),
        (json.dumps({**GOOD, "answer": "0"}), "answer"),
        (json.dumps({**GOOD, "answer": True}), "answer"),
        (json.dumps({**GOOD, "answer": 1.0}), "answer"),
        (json.dumps({**GOOD, "answer": 2}), "count from 0"),
        (json.dumps({**GOOD, "answer": -1}), "answer"),
        (json.dumps({**GOOD, "options": ["only one"]}), "options"),
        (json.dumps({**GOOD, "options": ["x"] * 11}), "options"),
        (json.dumps({**GOOD, "options": ["x", "  "]}), r"options\[1\] is blank"),
        (json.dumps({**GOOD, "options": ["x", "y" * 1001]}), "options"),
        (json.dumps({**GOOD, "context": " "}), "context is blank"),
        (json.dumps({**GOOD, "context": "x" * 4001}), "context"),
        (json.dumps({**GOOD, "context": "nul \x00 here"}), r"U\+0000"),
        ('{"context": "\\ud800", "options": ["x", "y"], "answer": 0}', "context"),
        ('{"context": "a", "options": ["x", "y"], "answer": NaN}', "answer"),
        ("[" * 100_000, "not JSON|cut off"),
        ("{'context': 'a'}", "not JSON"),
    ],
)
def test_anything_else_is_malformed_and_says_why(reply, says):
    with pytest.raises(ReplyError, match=says):
        candidate_from_reply(reply)


def test_an_unmarked_abstain_option_makes_a_control():
    options = ["stays.", "goes.", abstain_option(2)]

    control = candidate_from_reply(json.dumps({"context": "He", "options": options, "answer": 0}))
    abstaining = candidate_from_reply(json.dumps({"context": "He", "options": options, "answer": 2}))

    assert (control.is_control, abstaining.is_control) == (True, False)


def test_the_abstain_option_is_known_by_its_words_not_its_punctuation():
    assert all(map(is_abstain, (abstain_option(4), abstain_option(3), ", none of the above four options are suitable")))
    assert not any(map(is_abstain, ("None of the above.", "The above four options are suitable.", "")))

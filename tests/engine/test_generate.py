import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from data.ids import variant_id
from data.records import VARIANT_TYPE_KEYS, QuestionId
from engine.backends.protocol import Reply, Sampling
from engine.backends.rules import RulesBackend
from engine.candidate import Candidate, abstain_option, reply_text
from engine.generate import (
    NO_ANSWER,
    generation_requests,
    replies_in_order,
    shuffled_options,
    variants_from_replies,
)
from engine.variant_types.demonstration import ORIGINAL
from engine.variant_types.table import VARIANT_TYPES

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class FakeGenerator:
    """Answers with given texts, in order; `failure` marks a reply that is none."""

    name = "fake"
    model = "fake-1"
    prompt_version = "p_fake"

    def __init__(self, texts, failure=""):
        self.texts = texts
        self.failure = failure
        self.asked = []

    def supported_types(self):
        return frozenset(VARIANT_TYPE_KEYS)

    def generate(self, requests, sampling):
        for request, text in zip(requests, self.texts, strict=True):
            self.asked.append(request)
            yield Reply(request.request_id, text, self.failure, self.failure, prompt_tokens=10, generated_tokens=5)


def made_by(backend, questions, types, *, per_question=1, seed=1):
    requests = list(generation_requests(questions, types, per_question=per_question, seed=seed))
    replies = list(replies_in_order(backend, requests, Sampling()))
    return variants_from_replies(
        requests,
        replies,
        backend=backend.name,
        model=backend.model,
        prompt_version=backend.prompt_version,
        sampling=Sampling(),
        run_id=None,
        now=NOW,
    )


def test_the_same_seed_gives_the_same_variants_and_another_seed_others(sample_questions):
    def ids(seed):
        made = made_by(RulesBackend(), sample_questions, ["ordering", "reverse", "critical"], seed=seed)
        return [variant.variant_id for variant in made.variants]

    assert ids(1) == ids(1)
    assert set(ids(1)) != set(ids(2))


def test_order_and_company_of_questions_do_not_change_a_request(sample_questions):
    def seeds(questions):
        requests = generation_requests(questions, ["ordering"], per_question=2, seed=1)
        return {request.request_id: request.seed for request in requests}

    whole, part = seeds(sample_questions), seeds(sample_questions[5:2:-1])

    assert len(whole) == 2 * len(sample_questions)
    assert part.items() <= whole.items()


def test_lent_questions_do_not_depend_on_the_order_of_questions(sample_questions):
    def lent(questions):
        requests = generation_requests(questions, ["reverse"], per_question=1, seed=1)
        return {request.request_id: request.distractor_questions for request in requests}

    assert lent(sample_questions) == lent(sample_questions[::-1])


def test_a_question_is_never_lent_to_itself_or_its_twin():
    twin = replace(ORIGINAL, question_id=QuestionId("q_twin"), context=ORIGINAL.context.upper())
    other = replace(ORIGINAL, question_id=QuestionId("q_other"), context="A cat sleeps on the sofa. The cat")

    requests = list(generation_requests([ORIGINAL, twin, other], ["reverse"], per_question=1, seed=1))

    assert [q.question_id for q in requests[0].distractor_questions] == ["q_other"]


def test_every_request_is_accounted_for(sample_questions):
    made = made_by(RulesBackend(), sample_questions, list(VARIANT_TYPE_KEYS), per_question=2)

    for counts in made.yields.values():
        assert counts.requested == 2 * len(sample_questions)
        lost = counts.unsupported + counts.failed + counts.malformed + counts.duplicates
        assert counts.requested == lost + counts.made
    assert sum(counts.made for counts in made.yields.values()) == len(made.variants) > 0
    assert {check.variant_id for check in made.checks} == {variant.variant_id for variant in made.variants}
    assert made.yields["negation"].unsupported_reasons.total() == made.yields["negation"].unsupported


def test_a_malformed_reply_is_counted_and_kept_with_its_text():
    made = made_by(FakeGenerator(["Sure, here you are!"]), [ORIGINAL], ["negation"])

    assert made.variants == ()
    assert made.yields["negation"].malformed == 1
    assert made.yields["negation"].generated_tokens == 5
    assert [(lost.failure, lost.raw) for lost in made.lost] == [("malformed", "Sure, here you are!")]
    assert "expected a JSON object" in made.lost[0].reason


@pytest.mark.parametrize(("failure", "counted_as"), [("truncated", "malformed"), ("error", "failed")])
def test_a_reply_that_is_none_is_counted_by_its_kind(failure, counted_as):
    made = made_by(FakeGenerator(['{"context": "cut'], failure), [ORIGINAL], ["negation"])

    assert getattr(made.yields["negation"], counted_as) == 1
    assert made.lost[0].failure == failure


def test_exact_duplicates_are_dropped_and_counted_whatever_their_option_order():
    one = VARIANT_TYPES["negation"].demonstration
    turned = Candidate(one.context.upper(), one.options[::-1], 3 - one.answer_index, False)

    made = made_by(FakeGenerator([reply_text(one), reply_text(turned)]), [ORIGINAL], ["negation"], per_question=2)

    assert (made.yields["negation"].made, made.yields["negation"].duplicates) == (1, 1)


def test_a_variant_carries_its_recipe_and_a_derived_id():
    one = VARIANT_TYPES["negation"].demonstration

    variant = made_by(FakeGenerator([reply_text(one)]), [ORIGINAL], ["negation"]).variants[0]

    assert variant.options[variant.answer_index] == one.options[one.answer_index]
    assert (variant.recipe.backend, variant.recipe.model) == ("fake", "fake-1")
    assert json.loads(variant.recipe.sampling) == {"temperature": 0.8, "top_p": 0.95, "max_new_tokens": 256}
    assert variant.variant_id == variant_id(
        ORIGINAL.question_id, "negation", variant.context, variant.options, variant.answer_index
    )


def test_a_contract_failure_is_counted_by_check_and_does_not_pass():
    copied = Candidate(ORIGINAL.context, ORIGINAL.options, 0, False)

    made = made_by(FakeGenerator([reply_text(copied)]), [ORIGINAL], ["restatement"])

    counts = made.yields["restatement"]
    assert (counts.made, counts.passed) == (1, 0)
    assert counts.failed_checks["differs_from_original"] == 1


def test_an_unanswered_question_is_refused_before_the_backend_sees_it():
    backend = FakeGenerator([])

    made = made_by(backend, [replace(ORIGINAL, answer_index=None)], ["negation"])

    assert backend.asked == []
    assert made.yields["negation"].unsupported_reasons == {NO_ANSWER: 1}


def test_replies_out_of_order_are_a_bug_and_not_a_variant():
    requests = list(generation_requests([ORIGINAL], ["negation"], per_question=2, seed=1))
    replies = [Reply(r.request_id, "", "error", "", 0, 0) for r in requests][::-1]

    with pytest.raises(ValueError, match=r"where .* was expected"):
        variants_from_replies(
            requests, replies, backend="f", model="f", prompt_version="p", sampling=Sampling(), run_id=None, now=NOW
        )


def test_shuffling_moves_the_answer_with_its_text_and_spreads_it():
    candidate = Candidate("c", ("a", "b", "c", "d"), 2, False)

    places: Counter[int] = Counter()
    for seed in range(400):
        shuffled = shuffled_options(candidate, seed)
        assert shuffled.options[shuffled.answer_index] == "c"
        assert sorted(shuffled.options) == ["a", "b", "c", "d"]
        places[shuffled.answer_index] += 1

    assert all(70 < places[place] < 130 for place in range(4))


def test_the_abstain_option_stays_last():
    candidate = Candidate("c", ("a", "b", "c", "d", abstain_option(4)), 4, False)

    shuffles = [shuffled_options(candidate, seed) for seed in range(20)]

    assert all(s.options[-1] == abstain_option(4) and s.answer_index == 4 for s in shuffles)
    assert len({s.options for s in shuffles}) > 1

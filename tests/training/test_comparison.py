import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from data.errors import JobCancelledError
from data.records import VARIANT_TYPE_KEYS, Verdict, VerdictMethod
from data.samples import sample_questions
from engine.backends.protocol import Reply, Sampling
from engine.candidate import reply_text
from engine.generate import generation_requests
from engine.jobs.report import Reporter
from engine.variant_types.table import VARIANT_TYPES
from training.comparison import (
    VARIETY_TEXTS,
    compare_generators,
    compared,
    figures,
    generator_trial,
    own_interval,
)
from training.comparison_report import comparison_as_json, comparison_from

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Scripted:
    """Says what `text(request)` gives; None is a truncated reply. Every reply costs 50 tokens."""

    name = "scripted"
    prompt_version = "p_scripted"

    def __init__(self, model, text):
        self.model = model
        self.text = text
        self.asked = 0

    def supported_types(self):
        return frozenset(VARIANT_TYPE_KEYS)

    def generate(self, requests, sampling):
        for request in requests:
            self.asked += 1
            text = self.text(request)
            yield Reply(request.request_id, text or "{", "" if text else "truncated", "", 10, 50)


class Judge:
    """Calls valid what `likes` says."""

    version = "judge-1"
    method: VerdictMethod = "feature"

    def __init__(self, likes=lambda variant: True):
        self.likes = likes

    def judge(self, pairs, *, now):
        return [
            Verdict(v.variant_id, "valid", 0.9, self.likes(v), self.version, "feature", None, now) for _, v in pairs
        ]


def negated(request):
    """A negation that passes its contract: the question's own options, a wrong one as the answer."""
    question = request.question
    right = question.options[question.answer_index]
    others = [option for option in question.options if option != right]
    stem = question.context.rstrip()
    candidate = replace(
        VARIANT_TYPES["negation"].demonstration,
        context=f"{stem} will not",
        options=(right, *others),
        answer_index=1,
    )
    return reply_text(candidate)


def unchanged(request):
    question = request.question
    candidate = replace(
        VARIANT_TYPES["negation"].demonstration,
        context=question.context,
        options=question.options,
        answer_index=question.answer_index,
    )
    return reply_text(candidate)


@pytest.fixture
def stories():
    return [q for q in sample_questions() if len(q.options) == 4 and not q.context.rstrip().endswith((".", "?"))][:8]


@pytest.fixture
def report(tmp_path):
    return Reporter(tmp_path / "events.jsonl")


def trial(text, stories, report, *, judge=None, per_question=1, types=("negation",), **further):
    requests = list(generation_requests(stories, types, per_question=per_question, seed=3))
    return generator_trial(Scripted("m", text), requests, sampling=Sampling(), judge=judge, report=report, **further)


def test_a_generator_that_got_better_is_told_with_an_interval_above_zero(stories, report):
    comparison = compare_generators(
        Scripted("old", unchanged),
        Scripted("new", negated),
        stories,
        ["negation"],
        per_question=1,
        sampling=Sampling(),
        judge=Judge(),
        seed=3,
        report=report,
    )

    before, after = comparison.before["all"], comparison.after["all"]
    assert (comparison.before_model, comparison.after_model, comparison.judge) == ("old", "new", "judge-1")
    assert (before.contract_passed, after.contract_passed) == (0, len(stories))
    assert after.accepted_per_1000_tokens == pytest.approx(20.0)
    change = comparison.difference["all"]
    assert change.contract_pass_rate is not None
    assert change.accepted_per_1000_tokens is not None
    assert change.contract_pass_rate.low > 0
    assert change.accepted_per_1000_tokens.mean == pytest.approx(20.0)
    assert comparison.difference["negation"] == change


def test_the_same_generator_twice_differs_by_nothing(stories, report):
    both = [trial(negated, stories, report, judge=Judge()) for _ in range(2)]

    change = compared(*both, per_question=1, seed=1).difference["all"]

    assert change.contract_pass_rate is not None
    assert change.contract_pass_rate.mean == change.contract_pass_rate.low == change.contract_pass_rate.high == 0.0


def test_without_a_judge_nothing_is_called_accepted(stories, report):
    found = trial(negated, stories, report)

    assert figures(found.outcomes).accepted is None
    assert figures(found.outcomes).accepted_per_1000_tokens is None
    assert own_interval(found.outcomes, "accepted_per_1000_tokens", seed=1) is None


def test_a_generator_of_which_more_passes_does_not_look_as_if_it_had_collapsed(stories, report):
    ten = trial(negated, (stories * VARIETY_TEXTS)[:VARIETY_TEXTS], report).outcomes

    few, once, five_times = figures(ten[:-1]), figures(ten), figures(ten * 5)

    assert few.distinct_2 is few.opening_entropy is None
    assert once.distinct_2 == pytest.approx(five_times.distinct_2)
    assert once.opening_entropy == pytest.approx(five_times.opening_entropy)


def test_what_the_judge_refuses_or_was_said_before_is_not_accepted(stories, report):
    repeated = trial(negated, stories, report, judge=Judge(), per_question=3)
    refused = trial(negated, stories, report, judge=Judge(lambda variant: False))

    assert figures(repeated.outcomes).contract_passed == 3 * len(stories)
    assert figures(repeated.outcomes).accepted == len(stories)
    assert figures(repeated.outcomes).self_similarity == 1.0
    assert figures(refused.outcomes).accepted == 0


def test_a_reply_that_is_none_counts_as_asked_and_paid_for(stories, report):
    found = figures(trial(lambda request: None, stories, report, judge=Judge()).outcomes)

    assert (found.requested, found.parsed, found.contract_passed, found.accepted) == (len(stories), 0, 0, 0)
    assert found.generated_tokens == 50 * len(stories)
    assert found.shortcuts is None


def test_a_failed_contract_names_its_checks(stories, report):
    [first, *_] = trial(unchanged, stories, report).outcomes

    assert "negation_present" in first.failed_checks
    assert first.is_parsed


def test_kept_replies_are_not_asked_for_again(stories, report, tmp_path):
    requests = list(generation_requests(stories, ["negation"], per_question=1, seed=3))
    backend = Scripted("m", negated)

    first, again = (
        generator_trial(backend, requests, sampling=Sampling(), judge=None, report=report, parts=tmp_path / "parts")
        for _ in range(2)
    )

    assert backend.asked == len(requests)
    assert [o.passes_contract for o in first.outcomes] == [o.passes_contract for o in again.outcomes]


def test_a_cancel_stops_between_batches(stories, report):
    report.cancel()

    with pytest.raises(JobCancelledError):
        trial(negated, stories, report)


def test_trials_of_other_requests_are_not_compared(stories, report):
    with pytest.raises(ValueError, match="different requests"):
        compared(trial(negated, stories, report), trial(negated, stories[1:], report), per_question=1, seed=1)


def test_the_comparison_is_json(stories, report):
    one = trial(negated, stories, report, judge=Judge())

    found = compared(one, one, per_question=1, seed=1)
    told = json.loads(json.dumps(comparison_as_json(found), allow_nan=False))

    assert told["after"]["all"]["shortcuts"]["variants"] == len(stories)
    assert told["difference"]["negation"]["contract_pass_rate"]["mean"] == 0.0
    assert comparison_as_json(comparison_from(told, source="it")) == told

import pytest

from tests.training.small_worlds import (
    BROKEN,
    CONTROL,
    EDIT_SEED,
    NOW,
    OPTIONS,
    FakeVerifier,
    reply,
    request,
)
from training.rewards import RewardSettings, Scored, score_groups, teaches, training_rewards

PLAIN = RewardSettings(copy_penalty=0, length_penalty=0, position_penalty=0)


def scored(*texts, verifier=None, settings=PLAIN, asked=None):
    return score_groups([asked or request()], [texts], verifier or FakeVerifier(), settings, now=NOW)[0]


def test_the_reward_is_the_base_and_the_product_of_the_three_probabilities():
    [one] = scored(reply())

    assert one.reward == pytest.approx(0.1 + 0.9 * 0.8**3)
    assert (one.parsed, one.passes_contract, one.is_accepted) == (True, True, True)
    assert one.probabilities == {"TC": 0.8, "LC": 0.8, "AU": 0.8, "valid": pytest.approx(0.8**3)}


def test_what_does_not_parse_or_breaks_its_contract_earns_nothing_and_is_not_judged():
    verifier = FakeVerifier()

    prose, broken = scored("Sure, here it is!", reply(options=BROKEN.options), verifier=verifier)

    assert (prose.reward, prose.parsed) == (0.0, False)
    assert (broken.reward, broken.parsed, broken.passes_contract) == (0.0, True, False)
    assert verifier.asked == []


def test_a_reply_without_a_verdict_is_none_and_never_zero():
    [one] = scored(reply(), verifier=FakeVerifier(lambda _: None))

    assert one.reward is None
    assert one.passes_contract
    assert not one.is_accepted


def test_a_probability_that_is_no_number_is_no_verdict():
    [one] = scored(reply(), verifier=FakeVerifier(lambda _: float("nan")))

    assert (one.reward, one.is_accepted) == (None, False)


def test_one_dimension_near_zero_cannot_be_bought_off_by_the_others():
    class OneSided(FakeVerifier):
        def judge(self, pairs, *, now):
            low = {"TC": 0.99, "LC": 0.99, "AU": 0.01, "valid": 0.01}
            return [
                type(v)(**{**{n: getattr(v, n) for n in v.__dataclass_fields__}, "probability": low[v.target]})
                for v in super().judge(pairs, now=now)
            ]

    [one] = scored(reply(), verifier=OneSided())

    assert one.reward == pytest.approx(0.1 + 0.9 * 0.99 * 0.99 * 0.01)


def test_a_verifier_that_says_validity_alone_is_taken_at_its_word():
    class Ira(FakeVerifier):
        def judge(self, pairs, *, now):
            return [verdict for verdict in super().judge(pairs, now=now) if verdict.target == "valid"]

    [one] = scored(reply(), verifier=Ira())

    assert one.reward == pytest.approx(0.1 + 0.9 * 0.8**3)


def test_the_later_of_two_near_duplicates_earns_nothing_and_is_not_judged():
    verifier = FakeVerifier()
    other = reply(context="On the rug a grey cat has sat down. It")

    first, again, different = scored(reply(), reply(options=CONTROL.options), other, verifier=verifier)

    assert first.reward > 0
    assert (again.reward, again.repeats, again.is_accepted) == (0.0, 0, False)
    assert different.reward > 0
    assert len(verifier.asked) == 2


def test_what_repeats_an_unscorable_reply_is_unscorable_too():
    first, again, broken = scored(reply(), reply(), "prose", verifier=FakeVerifier(lambda _: None))

    assert (first.reward, again.reward, broken.reward) == (None, None, 0.0)


def test_an_answer_that_is_not_as_asked_is_penalised():
    settings = RewardSettings(copy_penalty=0, length_penalty=0, position_penalty=0.5)

    [asked] = scored(reply(), settings=settings)
    [not_asked] = scored(reply(), settings=settings, asked=request(seed=EDIT_SEED))

    assert asked.penalties == {}
    assert not_asked.penalties == {"position": 0.5}
    assert not_asked.reward == pytest.approx(asked.reward - 0.5)


def test_penalties_never_take_a_reward_below_zero():
    settings = RewardSettings(position_penalty=5)

    [one] = scored(reply(), settings=settings, asked=request(seed=EDIT_SEED))

    assert one.reward == 0.0


def test_all_groups_of_a_step_are_judged_in_one_call():
    class Counting(FakeVerifier):
        calls = 0

        def judge(self, pairs, *, now):
            self.calls += 1
            return super().judge(pairs, now=now)

    verifier = Counting()

    groups = score_groups([request(), request(seed=3)], [[reply(), "no"], [reply()]], verifier, PLAIN, now=NOW)

    assert [len(group) for group in groups] == [2, 1]
    assert verifier.calls == 1


def outcome(reward, *, passes=True, accepted=False):
    return Scored(reward, parsed=True, passes_contract=passes, is_accepted=accepted)


def test_a_group_in_which_all_are_accepted_teaches_nothing_however_their_rewards_differ():
    group = [outcome(0.7, accepted=True), outcome(0.9, accepted=True)]

    assert not teaches(group)
    assert training_rewards(group) == pytest.approx([0.8, 0.8])


def test_a_group_in_which_nobody_passes_the_contract_teaches_nothing():
    group = [outcome(0.0, passes=False)] * 3

    assert not teaches(group)
    assert training_rewards(group) == [0.0, 0.0, 0.0]


def test_a_group_in_which_nobody_is_accepted_still_tells_the_nearer_from_the_farther():
    group = [outcome(0.12), outcome(0.3), outcome(0.0, passes=False)]

    assert teaches(group)
    assert training_rewards(group) == [0.12, 0.3, 0.0]


def test_unscorable_replies_stay_none_and_count_for_neither_side():
    assert training_rewards([outcome(None), outcome(0.9, accepted=True)]) == [None, pytest.approx(0.9)]
    assert training_rewards([outcome(None), outcome(None)]) == [None, None]
    assert training_rewards([outcome(None), outcome(0.0, passes=False), outcome(0.5)]) == [None, 0.0, 0.5]
    assert not teaches([outcome(None), outcome(0.9, accepted=True)])


def test_copying_the_source_costs():
    copying = reply(context="A cat sits on the mat. It", options=(*OPTIONS, CONTROL.options[-1]))

    own, copied = scored(reply(), copying, settings=RewardSettings(length_penalty=0))

    assert own.penalties == {}
    assert copied.penalties["copy"] > 0.1
    assert copied.reward < own.reward

import json

import pytest

pytest.importorskip("trl", reason="needs sagedesk[ml]")

from transformers import TrainerState

from tests.training.small_worlds import BROKEN, NOW, FakeVerifier, reply, request
from training.grpo_reward import GroupReward, SampleFile, step_figures
from training.rewards import RewardSettings, score_groups

pytestmark = pytest.mark.model

PROMPTS = [request(), request(seed=3)]


def message(text):
    return [{"role": "assistant", "content": text}]


def called(tmp_path, texts, rows, *, step=0, every=1, verifier=None):
    """The rewards of a flat batch of groups of two, and the metrics that were told."""
    told: dict[str, float] = {}
    reward = GroupReward(
        PROMPTS,
        verifier or FakeVerifier(),
        RewardSettings(),
        group_size=2,
        samples=SampleFile(tmp_path / "samples.jsonl", every=every, after_step=step),
    )
    rewards = reward(
        prompts=[],
        completions=[message(text) for text in texts],
        completion_ids=[],
        request=rows,
        trainer_state=TrainerState(global_step=step),
        log_metric=told.__setitem__,
        log_extra=None,
    )
    return rewards, told


def test_a_flat_batch_becomes_groups_and_one_reward_a_completion(tmp_path):
    rewards, told = called(tmp_path, [reply(), "prose", reply(), reply()], [0, 0, 1, 1])

    assert rewards == [pytest.approx(0.1 + 0.9 * 0.8**3), 0.0, pytest.approx(0.1 + 0.9 * 0.8**3), 0.0]
    assert told["parse_share"] == 0.75
    assert told["duplicate_share"] == 0.25


def test_a_reply_that_could_not_be_scored_reaches_the_trainer_as_none(tmp_path):
    rewards, told = called(tmp_path, [reply(), "prose"], [0, 0], verifier=FakeVerifier(lambda _: None))

    assert rewards == [None, 0.0]
    assert told["judged_share"] == 0.0


def test_the_figures_of_a_step_tell_types_dimensions_and_shares():
    requests, texts = [request(), request("restatement")], [[reply(), reply(options=BROKEN.options)], ["no", "no"]]
    groups = score_groups(requests, texts, FakeVerifier(), RewardSettings(), now=NOW)

    figures = step_figures(requests, texts, groups)

    assert figures["contract_share"] == 0.25
    assert figures["accepted_share"] == 0.25
    assert figures["zero_variance_share"] == 0.5
    assert figures["reward/TC"] == figures["reward/AU"] == 0.8
    assert figures["reward/critical"] == pytest.approx((0.1 + 0.9 * 0.8**3) / 2)
    assert figures["reward/restatement"] == 0.0
    assert 0 < figures["distinct_2"] < 1


def test_figures_without_anything_judged_are_left_out():
    groups = score_groups([request()], [["no", "no"]], FakeVerifier(), RewardSettings(), now=NOW)

    figures = step_figures([request()], [["no", "no"]], groups)
    assert not {"reward/TC", "judged_share"} & set(figures)


def test_samples_are_kept_of_the_first_step_and_every_so_many(tmp_path):
    for step in range(6):
        called(tmp_path, [reply(), "prose"], [0, 0], step=step, every=3)

    rows = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 1, 3, 3, 6, 6]
    assert rows[0]["type"] == "critical"
    assert rows[0]["text"] == reply()
    assert rows[0]["reward"] == pytest.approx(0.1 + 0.9 * 0.8**3)
    assert rows[0]["probabilities"]["TC"] == 0.8
    assert rows[1]["reward"] == 0.0


def test_a_resumed_training_forgets_the_samples_that_it_makes_again(tmp_path):
    file = tmp_path / "samples.jsonl"
    file.write_text('{"step": 1}\n{"step": 3}\n{"step": 6}\n{"step": 6, "tex')

    SampleFile(file, every=3, after_step=4)

    assert file.read_text() == '{"step": 1}\n{"step": 3}\n'

import json
from itertools import islice
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs sagedesk[ml]")

import torch
from safetensors.torch import load_file

from data.errors import JobCancelledError, JobError
from engine.backends.transformers import load_causal_model
from engine.jobs.report import Reporter
from engine.prompts import asks_for_control, tuned_messages
from engine.variant_types.table import VARIANT_TYPES
from tests.training.small_worlds import BROKEN, CONTROL, QUESTION, FakeVerifier, request, variant_of
from training.grpo import grpo_config, prompt_order, train_grpo, vllm_overrides
from training.probe import ProbeItem
from training.rewards import RewardSettings
from training.stop_rules import StopRules

pytestmark = pytest.mark.model

PROMPTS = [request(seed=seed) for seed in (1, 3, 5)]
PROBE = [ProbeItem(QUESTION, variant_of(CONTROL), is_accepted=True), ProbeItem(QUESTION, variant_of(BROKEN), False)]


class KilledError(Exception):
    """Stands for kill -9: nothing of ours runs after it."""


def trained(base, folder, *, verifier=None, lora_rank=None, stop=None, probe=(), report=None, **overrides):
    folder.mkdir(exist_ok=True)
    settings = {"max_steps": 6, "num_generations": 4, "max_completion_length": 80, "save_steps": 2} | overrides
    return train_grpo(
        base,
        PROMPTS,
        verifier or FakeVerifier(),
        config=grpo_config(folder / "work", seed=0, overrides={"learning_rate": 3e-4} | settings),
        settings=RewardSettings(),
        lora_rank=lora_rank,
        stop=stop or StopRules(),
        probe=probe,
        goal=folder / "model",
        samples=folder / "samples.jsonl",
        report=report or Reporter(folder / "events.jsonl"),
        probe_every=2,
    )


def metrics(folder, name):
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [event["value"] for event in events if event["kind"] == "metric" and event["name"] == name]


def weights(folder):
    return load_file(folder / "model" / "model.safetensors")


@pytest.fixture(scope="module")
def whole(writer, tmp_path_factory):
    """A training that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, trained(writer, folder, probe=PROBE)


def test_it_makes_all_steps_and_leaves_a_model_that_can_be_loaded_and_is_another(whole, writer):
    folder, tuned = whole

    assert (tuned.steps, tuned.stop_reason, tuned.resumed_from_step) == (6, "", 0)
    model, tokenizer = load_causal_model(folder / "model")
    assert tokenizer.chat_template is not None
    before = load_file(writer / "model.safetensors")
    after = weights(folder)
    assert any(not torch.equal(before[name], after[name]) for name in after)
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_what_people_watch_is_told_step_by_step(whole):
    folder, tuned = whole

    for name in ("loss", "reward", "kl", "entropy", "completion_tokens", "zero_variance_share", "distinct_2"):
        assert len(metrics(folder, name)) == 6, name
    for name in ("reward/critical", "reward/TC", "reward/LC", "reward/AU", "accepted_share", "learning_rate"):
        assert metrics(folder, name), name
    assert len(metrics(folder, "probe")) == 4
    assert metrics(folder, "probe")[0] == tuned.probe_before
    assert metrics(folder, "probe")[-1] == tuned.probe_after
    steps = [json.loads(line)["step"] for line in (folder / "samples.jsonl").read_text().splitlines()]
    assert sorted(set(steps)) == [1, 2, 4, 6]


def test_the_kl_to_the_start_is_on_and_grows_from_zero(whole):
    folder, _ = whole
    kl = metrics(folder, "kl")

    assert grpo_config(folder, seed=0, overrides={}).beta == 0.02
    assert kl[0] == pytest.approx(0, abs=1e-6)
    assert max(kl) > 1e-5


@pytest.mark.parametrize("lora_rank", [None, 4])
def test_killed_between_checkpoints_it_resumes_and_ends_where_it_would_have(writer, tmp_path, lora_rank, whole):
    class Killer(FakeVerifier):
        def judge(self, pairs, *, now):
            if len(self.asked) >= 4:
                raise KilledError
            return super().judge(pairs, now=now)

    undisturbed = (
        whole if lora_rank is None else (tmp_path / "w", trained(writer, tmp_path / "w", probe=PROBE, lora_rank=4))
    )
    with pytest.raises(KilledError):
        trained(writer, tmp_path / "cut", verifier=Killer(), probe=PROBE, lora_rank=lora_rank)

    resumed = trained(writer, tmp_path / "cut", probe=PROBE, lora_rank=lora_rank)

    assert resumed.resumed_from_step > 0
    assert resumed.steps == undisturbed[1].steps
    assert resumed.probe_before == undisturbed[1].probe_before
    expected, found = weights(undisturbed[0]), weights(tmp_path / "cut")
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert (tmp_path / "cut" / "samples.jsonl").read_text() == (undisturbed[0] / "samples.jsonl").read_text()


def test_adapters_alone_are_trained_and_merged(writer, tmp_path):
    tuned = trained(writer, tmp_path, lora_rank=2, max_steps=2)

    full = sum(value.numel() for value in load_file(writer / "model.safetensors").values())
    assert 0 < tuned.trainable_parameters < full / 5
    assert set(weights(tmp_path)) == set(load_file(writer / "model.safetensors"))


def test_a_cancel_keeps_a_checkpoint_and_leaves_no_model(writer, tmp_path):
    report = Reporter(tmp_path / "events.jsonl")

    class Impatient(FakeVerifier):
        def judge(self, pairs, *, now):
            report.cancel()
            return super().judge(pairs, now=now)

    with pytest.raises(JobCancelledError):
        trained(writer, tmp_path, verifier=Impatient(), report=report, save_steps=100)

    assert not (tmp_path / "model").exists()
    assert trained(writer, tmp_path, save_steps=100).resumed_from_step == 1


def test_nothing_scorable_ends_it_in_one_line_and_leaves_no_model(writer, tmp_path):
    dumb = FakeVerifier(lambda _: None, version="dumb:1")

    with pytest.raises(JobError, match="for 2 steps the verifier dumb:1 gave no verdict") as failed:
        trained(writer, tmp_path, verifier=dumb, stop=StopRules(unscorable_steps=2), max_steps=9)

    assert "\n" not in str(failed.value)
    assert not (tmp_path / "model").exists()


def test_replies_without_a_score_do_not_move_the_policy(writer, tmp_path):
    rules = StopRules(unscorable_steps=99, most_zero_variance_share=None)

    trained(writer, tmp_path, verifier=FakeVerifier(lambda _: None), stop=rules, max_steps=3)

    before, after = load_file(writer / "model.safetensors"), weights(tmp_path)
    assert all(torch.equal(before[name], after[name]) for name in after)
    assert metrics(tmp_path, "zero_variance_share") == [1.0] * 3


def test_a_broken_rule_stops_it_with_its_reason_and_keeps_the_model(writer, tmp_path):
    tuned = trained(writer, tmp_path, stop=StopRules(window=2, most_kl=-1.0))

    assert tuned.steps == 2
    assert tuned.stop_reason.startswith("stopped at step 2: the KL divergence")
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert tuned.stop_reason in (tmp_path / "events.jsonl").read_text()


def test_steps_that_had_signal_and_changed_nothing_are_no_training(writer, tmp_path):
    with pytest.raises(JobError, match="2 steps changed no weight"):
        trained(writer, tmp_path, learning_rate=0.0, max_steps=2)

    assert not (tmp_path / "model").exists()


def test_the_policy_reads_the_tokens_that_inference_reads(writer):
    tokenizer: Any = load_causal_model(writer)[1]
    asked = request()
    messages = tuned_messages(QUESTION, VARIANT_TYPES[asked.variant_type], as_control=asks_for_control(asked))

    # as GRPOTrainer tokenizes prompts, and as the backend does
    by_trainer = tokenizer.apply_chat_template([messages], add_generation_prompt=True, tokenize=True, return_dict=True)
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert by_trainer["input_ids"][0] == tokenizer(text, add_special_tokens=False).input_ids


def test_types_take_turns_and_the_order_is_the_same_each_time():
    prompts = [request(kind, seed) for kind in ("critical", "causal", "ordering") for seed in range(4)]

    order = list(islice(prompt_order(prompts, seed=7), 12))

    assert sorted(order) == list(range(12))
    for turn in range(4):
        assert {prompts[place].variant_type for place in order[3 * turn : 3 * turn + 3]} == {
            "critical",
            "causal",
            "ordering",
        }
    assert order == list(islice(prompt_order(prompts, seed=7), 12))
    assert order != list(islice(prompt_order(prompts, seed=8), 12))


def test_prompts_that_leave_no_room_for_a_reply_are_refused_in_one_line(writer, tmp_path):
    with pytest.raises(JobError, match="no prompt fits into"):
        trained(writer, tmp_path, max_completion_length=100_000)


def test_without_prompts_it_does_not_begin(writer, tmp_path):
    with pytest.raises(JobError, match="no prompt"):
        train_grpo(
            writer,
            [],
            FakeVerifier(),
            config=grpo_config(tmp_path, seed=0, overrides={}),
            settings=RewardSettings(),
            lora_rank=None,
            stop=StopRules(),
            probe=[],
            goal=tmp_path / "model",
            samples=tmp_path / "samples.jsonl",
            report=Reporter(tmp_path / "events.jsonl"),
        )


def test_a_name_that_trl_does_not_know_is_named(tmp_path):
    with pytest.raises(JobError, match="'learning_speed'"):
        grpo_config(tmp_path, seed=0, overrides={"learning_speed": 1})


def test_a_batch_that_cuts_groups_in_two_is_refused(tmp_path):
    with pytest.raises(JobError, match="divisible by num_generations"):
        grpo_config(tmp_path, seed=0, overrides={"num_generations": 8, "per_device_train_batch_size": 3})


def test_vllm_is_named_as_trl_names_it(tmp_path):
    assert vllm_overrides("off", None) == {}
    assert vllm_overrides("colocate", None) == {"use_vllm": True, "vllm_mode": "colocate"}
    config = grpo_config(tmp_path, seed=0, overrides=vllm_overrides("server", "http://gpu:8000"))
    assert (config.use_vllm, config.vllm_mode, config.vllm_server_base_url) == (True, "server", "http://gpu:8000")


@pytest.mark.parametrize(("mode", "url"), [("server", None), ("colocate", "http://gpu:8000"), ("off", "http://gpu:1")])
def test_an_address_belongs_to_a_server_and_only_to_one(mode, url):
    with pytest.raises(JobError, match="address"):
        vllm_overrides(mode, url)


def test_without_vllm_installed_its_use_is_refused_in_one_line(writer, tmp_path):
    with pytest.raises(JobError, match=r"vLLM.*set vllm to off") as refused:
        trained(writer, tmp_path, **vllm_overrides("colocate", None))

    assert "\n" not in str(refused.value)

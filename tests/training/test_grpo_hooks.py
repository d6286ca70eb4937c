import json
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs sagedesk[ml]")

from transformers import TrainerControl, TrainerState

from data.errors import JobError
from engine.jobs.report import Reporter
from training.grpo_hooks import GRPO_NAMES, Watch, figures_of
from training.stop_rules import StopRules

pytestmark = pytest.mark.model

UNREAD: Any = None  # the watch looks at the state and the control only


def logged(tmp_path, history, rules=None):
    """The watch and the trainer's control after the last of these steps was logged."""
    watch = Watch(
        rules or StopRules(), Reporter(tmp_path / "events.jsonl"), probe=None, probe_every=5, verifier="feature:1"
    )
    control = TrainerControl(should_training_stop=False)
    watch.on_log(UNREAD, TrainerState(log_history=history, global_step=history[-1]["step"]), control)
    return watch, control


def test_a_gradient_that_is_no_number_ends_the_training_in_one_line(tmp_path):
    with pytest.raises(JobError, match="the gradient is nan at step 2; resume with a lower learning rate") as failed:
        logged(tmp_path, [{"step": 1, "grad_norm": 0.5}, {"step": 2, "grad_norm": float("nan")}])

    assert "\n" not in str(failed.value)


def test_a_broken_rule_stops_the_trainer_and_is_told_once(tmp_path):
    history = [{"step": step, "kl": 2.0} for step in range(1, 4)]
    watch, control = logged(tmp_path, history, StopRules(window=3))

    watch.on_log(UNREAD, TrainerState(log_history=history, global_step=3), control)

    assert control.should_training_stop
    assert watch.reason.startswith("stopped at step 3: the KL divergence from the start is 2.00 nats per token")
    messages = [json.loads(line)["text"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert messages == [watch.reason]


def test_a_calm_training_goes_on(tmp_path):
    watch, control = logged(tmp_path, [{"step": step, "kl": 0.01} for step in range(1, 30)])

    assert not control.should_training_stop
    assert watch.reason == ""


def test_the_trainers_names_become_the_runs(tmp_path):
    history = [{"step": 1, "completions/mean_length": 80.0, "reward": 0.3, "rewards/x/mean": 0.3, "epoch": 0.1}]

    assert figures_of(TrainerState(log_history=history)) == [{"step": 1, "completion_tokens": 80.0, "reward": 0.3}]
    assert GRPO_NAMES["reward/restatement"] == "reward/restatement"

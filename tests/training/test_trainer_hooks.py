import json
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs sagedesk[ml]")

from transformers import TrainerControl, TrainerState
from trl.trainer.sft_config import SFTConfig

from data.errors import JobCancelledError, JobError
from engine.jobs.report import Reporter
from training.trainer_hooks import CHECKPOINT_MARK, RunHooks, last_checkpoint, trainer_config

pytestmark = pytest.mark.model

UNREAD: Any = None  # the hooks look at the state and the logs only


def events(tmp_path):
    return [json.loads(line) for line in (tmp_path / "events.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture
def report(tmp_path):
    return Reporter(tmp_path / "events.jsonl")


def test_metrics_are_told_under_the_runs_names_and_only_those(tmp_path, report):
    hooks = RunHooks(report, names={"eval_loss": "validation_loss"})

    hooks.on_log(UNREAD, TrainerState(global_step=3), UNREAD, logs={"eval_loss": 1.5, "eval_runtime": 2.0})

    [event] = events(tmp_path)
    assert (event["name"], event["value"], event["step"]) == ("validation_loss", 1.5, 3)


def test_a_loss_that_is_no_number_is_a_warning_and_no_point_of_a_chart(tmp_path, report):
    RunHooks(report).on_log(UNREAD, TrainerState(global_step=3), UNREAD, logs={"loss": float("nan")})

    [event] = events(tmp_path)
    assert (event["kind"], event["level"]) == ("message", "warning")
    assert "step 3" in event["text"]


def test_a_cancel_saves_and_stops_and_is_raised_afterwards(report):
    hooks, control = RunHooks(report), TrainerControl()
    hooks.on_step_end(UNREAD, TrainerState(global_step=1, max_steps=9), control)
    assert not control.should_training_stop
    hooks.raise_if_cancelled()

    report.cancel()
    hooks.on_step_end(UNREAD, TrainerState(global_step=2, max_steps=9), control)

    assert control.should_save
    assert control.should_training_stop
    with pytest.raises(JobCancelledError):
        hooks.raise_if_cancelled()


def test_only_whole_checkpoints_are_continued_and_the_rest_goes(tmp_path):
    for steps in (9, 10, 100):
        (tmp_path / f"checkpoint-{steps}").mkdir()
    for steps in (9, 10):
        (tmp_path / f"checkpoint-{steps}" / CHECKPOINT_MARK).touch()

    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert not (tmp_path / "checkpoint-100").exists()


def test_the_best_checkpoint_is_found_in_a_run_that_moved(tmp_path):
    for steps in (4, 6):
        (tmp_path / f"checkpoint-{steps}").mkdir()
        (tmp_path / f"checkpoint-{steps}" / CHECKPOINT_MARK).touch()
    state = TrainerState(global_step=6, best_model_checkpoint="/elsewhere/work/checkpoint-4", best_metric=0.5)
    state.save_to_json(str(tmp_path / "checkpoint-6" / "trainer_state.json"))

    found = last_checkpoint(tmp_path)

    assert found is not None
    read = TrainerState.load_from_json(str(found / "trainer_state.json"))
    assert read.best_model_checkpoint == str(tmp_path / "checkpoint-4")
    assert (read.global_step, read.best_metric) == (6, 0.5)


def test_no_checkpoint_is_none(tmp_path):
    assert last_checkpoint(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"learning_rat": 1e-4}, "learning_rate"),
        ({"output_dir": "/"}, "set by the run"),
        ({"eval_strategy": "sometimes"}, "sometimes"),
    ],
)
def test_a_setting_that_the_trainer_does_not_know_is_one_line(tmp_path, overrides, message):
    with pytest.raises(JobError, match=message) as caught:
        trainer_config(SFTConfig, tmp_path, seed=1, defaults={"use_cpu": True, "bf16": False}, overrides=overrides)

    assert "\n" not in str(caught.value)


def test_overrides_win_over_defaults(tmp_path):
    defaults = {"use_cpu": True, "bf16": False, "max_steps": 3, "learning_rate": 1.0}

    config = trainer_config(SFTConfig, tmp_path, seed=7, defaults=defaults, overrides={"learning_rate": 0.5})

    assert (config.learning_rate, config.max_steps, config.seed) == (0.5, 3, 7)


def test_a_training_takes_one_of_several_gpus(tmp_path):
    class TwoGpus(SFTConfig):
        """As a machine with two would make it."""

        def __post_init__(self):
            super().__post_init__()
            self._n_gpu = 2

    config = trainer_config(TwoGpus, tmp_path, seed=1, defaults={"use_cpu": True, "bf16": False}, overrides={})

    assert config.n_gpu == 1

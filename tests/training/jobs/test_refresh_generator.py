"""A refresh of the generator in a run folder, on the tiny model that knows two replies by heart."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("trl", reason="needs sagedesk[ml]")

from data.arrow import questions_table, variants_table
from data.errors import JobCancelledError
from data.records import VariantId
from engine.backends.transformers import TransformersBackend
from engine.jobs.__main__ import run_job
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter
from engine.tuned_generator import is_tuned
from tests.engine.sample_pairs import sample_rows
from tests.training.small_worlds import BROKEN, CONTROL, QUESTION, variant_of
from training.examples import LABEL_SCHEMA, group_of
from training.feature_verifier import train
from training.jobs.refresh_generator import run

pytestmark = pytest.mark.model

ROWS = sample_rows()
JUDGED = range(120)
REWARDING = range(120, len(ROWS.pairs))
ACCEPTED, REJECTED = variant_of(CONTROL), variant_of(BROKEN)


@pytest.fixture(scope="session")
def reward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reward")
    first = REWARDING.start
    train(ROWS.pairs[first:], ROWS.answers[first:], ROWS.groups[first:], seed=0, encoder=None).verifier.save(folder)
    return folder


def label(variant_id: str, group: str, part: str, answers: tuple[bool | None, ...]) -> dict[str, object]:
    tc, lc, au = answers
    return {"variant_id": variant_id, "group": group, "part": part, "tc": tc, "lc": lc, "au": au}


def inputs_of(labels: list[dict[str, object]] | None = None) -> Mapping[str, pa.Table]:
    """The small question is learnt from, the sample's are calibration; two of its questions are held out."""
    held_out = list({q.question_id: q for q, _ in (ROWS.pairs[i] for i in REWARDING)}.values())[:2]
    judged = [(ROWS.pairs[i][1], ROWS.answers[i], ROWS.groups[i]) for i in JUDGED]
    questions = {q.question_id: q for q in (QUESTION, *(q for q, _ in ROWS.pairs))}
    told = [
        label(ACCEPTED.variant_id, group_of(QUESTION), "train", (True, True, True)),
        label(REJECTED.variant_id, group_of(QUESTION), "train", (False, True, True)),
        *(label(v.variant_id, group, "calibration", (a.tc, a.lc, a.au)) for v, a, group in judged),
    ]
    probe = [str(variant.variant_id) for variant, _, _ in judged[:40]]
    return {
        "questions": questions_table(questions.values()),
        "variants": variants_table([ACCEPTED, REJECTED, *(variant for _, variant in ROWS.pairs)]),
        "labels": pa.Table.from_pylist(told if labels is None else labels, schema=LABEL_SCHEMA),
        "accepted": pa.table({"variant_id": [str(ACCEPTED.variant_id)]}),
        "prompts": pa.table({"question_id": [str(QUESTION.question_id)]}),
        "held_out": pa.table({"question_id": [str(q.question_id) for q in held_out]}),
        "probe": pa.table({"variant_id": probe}),
    }


def refresh(path: Path, base: Path, reward: Path, inputs: Mapping[str, pa.Table] | None = None, **further) -> RunFolder:
    grpo = {"steps": 2, "group_size": 2, "overrides": {"max_completion_length": 70, "learning_rate": 1e-3}}
    settings = {
        "base_model": str(base),
        "reward_verifier": str(reward),
        "judge": None,
        "types": ["critical"],
        "sft": {"skip": False, "lora_rank": 2, "max_steps": 2, "save_steps": 1, "learning_rate": 1e-3},
        "grpo": grpo,
        "comparison": {"questions": 1, "per_question": 1},
    }
    return RunFolder.create(
        path,
        run_id="r_1",
        kind="refresh-generator",
        settings=settings | further,
        seed=3,
        code_version="test",
        inputs=inputs_of() if inputs is None else inputs,
    )


@pytest.fixture(scope="module")
def done(writer: Path, reward: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = refresh(tmp_path_factory.mktemp("runs") / "r_1", writer, reward)
    assert run_job(folder).error == ""
    return folder


def metrics(folder: RunFolder, name: str) -> list[object]:
    return [event["value"] for _, event in folder.read_events() if event["kind"] == "metric" and event["name"] == name]


def failed(folder: RunFolder) -> str:
    result = run_job(folder)
    assert result.state == "failed"
    assert "\n" not in result.error
    assert not (folder.outputs / "model").exists()
    return result.error


def test_it_leaves_a_generator_that_can_be_asked_and_says_what_it_was_made_from(done: RunFolder) -> None:
    model = done.outputs / "model"

    assert is_tuned(model)
    assert json.loads((model / "generator.json").read_text())["base"] == "model"
    assert TransformersBackend.open({"model": str(model)}).model.startswith("model@")
    assert not (done.path / "work").exists()


def test_the_counts_tell_stages_steps_and_the_comparison(done: RunFolder) -> None:
    result = done.result()
    assert result is not None
    counts: Mapping[str, Any] = result.counts

    assert counts["generator_version"].startswith("generator:")
    assert (counts["steps"], counts["stop_reason"]) == (2, "")
    assert counts["sft"]["steps"] == 2
    assert counts["grpo"]["steps"] == 2
    assert counts["comparison"]["judge"].startswith("feature:")
    assert json.loads((done.outputs / "comparison.json").read_text()) == counts["comparison"]
    assert json.loads((done.outputs / "report.json").read_text()) == counts


def test_both_stages_tell_their_figures_apart_and_samples_are_kept(done: RunFolder) -> None:
    names = {event["name"] for _, event in done.read_events() if event["kind"] == "metric"}

    assert {"imitation/loss", "loss", "reward", "kl", "probe", "zero_variance_share"} <= names
    rows = [json.loads(line) for line in (done.outputs / "samples.jsonl").read_text().splitlines()]
    assert {row["question_id"] for row in rows} == {QUESTION.question_id}


class CancelledIn(Reporter):
    """A person cancels once a step of the stage with this text was made."""

    def __init__(self, folder: RunFolder, text: str) -> None:
        super().__init__(folder.events)
        self._text = text

    def progress(self, done: int, total: int | None, message: str = "") -> None:
        if done == 1 and message.startswith(self._text):
            self.cancel()
        super().progress(done, total, message)


def test_a_finished_stage_is_kept_and_the_next_goes_on_at_its_checkpoint(
    writer: Path, reward: Path, tmp_path: Path
) -> None:
    folder = refresh(tmp_path / "r_1", writer, reward)
    with pytest.raises(JobCancelledError):
        run(folder, CancelledIn(folder, "reinforcement"))
    told = metrics(folder, "imitation/loss")
    assert not (folder.outputs / "model").exists()

    counts: Mapping[str, Any] = run(folder, Reporter(folder.events))

    assert metrics(folder, "imitation/loss") == told
    assert counts["grpo"]["resumed_from_step"] == 1
    assert counts["steps"] == 2


def test_a_cancelled_imitation_leaves_no_stage_and_is_resumed(writer: Path, reward: Path, tmp_path: Path) -> None:
    folder = refresh(tmp_path / "r_1", writer, reward, grpo={"steps": 0})
    with pytest.raises(JobCancelledError):
        run(folder, CancelledIn(folder, "fine-tuning"))

    counts: Mapping[str, Any] = run(folder, Reporter(folder.events))

    assert counts["sft"]["resumed_from_step"] == 1
    assert "grpo" not in counts
    assert counts["steps"] == 0


def _without_chat_template(model: Path, goal: Path) -> Path:
    shutil.copytree(model, goal)
    (goal / "chat_template.jinja").unlink()
    return goal


def test_what_is_not_imitated_or_cannot_stop_it_early_is_told(writer: Path, reward: Path, tmp_path: Path) -> None:
    long = replace(ACCEPTED, variant_id=VariantId("v_long"), context=f"{ACCEPTED.context} {'A word more. ' * 400}")
    inputs = dict(inputs_of())
    inputs["variants"] = pa.concat_tables([inputs["variants"], variants_table([long])])
    inputs["accepted"] = pa.table({"variant_id": [str(ACCEPTED.variant_id), "v_long"]})
    folder = refresh(tmp_path / "r", writer, reward, inputs, grpo={"steps": 0})

    assert run_job(folder).error == ""

    told = [str(event["text"]) for _, event in folder.read_events() if event["kind"] == "message"]
    assert any("1 of 2 accepted variants are longer than 1024 tokens" in text for text in told)
    assert any("supervised training runs without early stopping" in text for text in told)


def test_before_hours_of_training_it_says_what_would_stop_it_later(writer: Path, reward: Path, tmp_path: Path) -> None:
    told: dict[str, dict[str, Any]] = {
        "there is no setting 'learning_speed'": {"grpo": {"steps": 2, "overrides": {"learning_speed": 1}}},
        "there is no setting 'epochs'": {"sft": {"epochs": 2}},
        "both training stages are switched off": {"sft": {"skip": True}, "grpo": {"steps": 0}},
        "is also the reward": {"judge": str(reward)},
        "needs the server's address": {"grpo": {"steps": 2, "vllm": {"mode": "server"}}},
        "setting types": {"types": []},
        "no such folder": {"base_model": str(tmp_path / "nowhere")},
        "there is no verifier": {"reward_verifier": str(tmp_path)},
        "has no chat template": {"base_model": str(_without_chat_template(writer, tmp_path / "no template"))},
    }

    for number, (reason, settings) in enumerate(told.items()):
        assert reason in failed(refresh(tmp_path / str(number), writer, reward, **settings))


def test_a_held_out_question_is_not_learnt_from(writer: Path, reward: Path, tmp_path: Path) -> None:
    inputs = inputs_of()
    mixed = {**inputs, "prompts": pa.table({"question_id": inputs["held_out"]["question_id"]})}

    assert "is both held out for the comparison and used for training" in failed(
        refresh(tmp_path / "r", writer, reward, mixed)
    )


def test_a_gate_label_is_refused(writer: Path, reward: Path, tmp_path: Path) -> None:
    gate = [label(ACCEPTED.variant_id, "g", "gate", (True, True, True))]

    assert "gate labels" in failed(refresh(tmp_path / "r", writer, reward, inputs_of(gate)))


def test_with_nothing_accepted_of_the_types_it_says_so(writer: Path, reward: Path, tmp_path: Path) -> None:
    assert "no accepted variants of these types" in failed(
        refresh(tmp_path / "r", writer, reward, types=["restatement"])
    )

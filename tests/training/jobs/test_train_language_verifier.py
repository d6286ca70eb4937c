"""A language model trained as a verifier, in a run folder; the models are tiny and random."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("trl", reason="needs sagedesk[ml]")

from data.arrow import questions_table, variants_table
from data.errors import JobCancelledError
from data.records import VARIANT_TYPE_KEYS
from engine.calibration import Calibration
from engine.jobs.__main__ import run_job
from engine.jobs.folder import RunFolder, RunResult
from engine.jobs.report import Reporter
from engine.verifiers import METHOD_FILE, open_verifier
from tests.engine.sample_pairs import sample_rows
from training.examples import LABEL_SCHEMA
from training.jobs.train_verifier import run
from training.trainer_hooks import CHECKPOINT_MARK

pytestmark = pytest.mark.model

ROOT = Path(__file__).parents[3]
SAMPLE = sample_rows()
GROUPS = sorted(set(SAMPLE.groups))
PART_OF = {
    group: ("train", "train", "validation", "calibration", "train")[place % 5] for place, group in enumerate(GROUPS)
}
FEW_STEPS = {"max_steps": 6, "eval_steps": 2, "per_device_train_batch_size": 2, "learning_rate": 5e-3}


def labels(groups: int = 15) -> list[dict[str, object]]:
    """Answers that the variant's type decides."""
    rows: list[dict[str, object]] = []
    for (_, variant), group in zip(SAMPLE.pairs, SAMPLE.groups, strict=True):
        if group in GROUPS[:groups]:
            kind = VARIANT_TYPE_KEYS.index(variant.variant_type)
            answers = {"tc": kind % 2 == 0, "lc": kind % 3 != 0, "au": kind < 5}
            rows.append({"variant_id": variant.variant_id, **answers, "group": group, "part": PART_OF[group]})
    return rows


def run_folder(path: Path, base: Path, rows: list[dict[str, object]] | None = None, **settings: object) -> RunFolder:
    rows = labels() if rows is None else rows
    wanted = {row["variant_id"] for row in rows}
    pairs = [pair for pair in SAMPLE.pairs if pair[1].variant_id in wanted]
    return RunFolder.create(
        path,
        run_id="r_1",
        kind="train-verifier",
        settings={"verifier": "language", "base_model": str(base), "lora_rank": 4, "sft": FEW_STEPS, **settings},
        seed=3,
        code_version="test",
        inputs={
            "questions": questions_table({question.question_id: question for question, _ in pairs}.values()),
            "variants": variants_table(variant for _, variant in pairs),
            "labels": pa.Table.from_pylist(rows, schema=LABEL_SCHEMA),
        },
    )


def result_of(folder: RunFolder) -> RunResult:
    result = folder.result()
    assert result is not None
    return result


def counts_of(folder: RunFolder) -> Mapping[str, Any]:
    return result_of(folder).counts


@pytest.fixture(scope="module")
def compared(tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """ERA and IRA on the same rows."""
    folder = run_folder(tmp_path_factory.mktemp("runs") / "r_1", tiny_model_folder, compare_methods=True)
    assert run_job(folder).error == ""
    return folder


def test_the_verifier_that_it_leaves_is_the_one_that_it_reports(compared: RunFolder, tiny_model_folder: Path) -> None:
    counts = counts_of(compared)

    verifier = open_verifier(compared.outputs / "model", encoder=None)

    assert verifier.version == counts["verifier_version"]
    assert verifier.method == "era_packed"
    assert json.loads((compared.outputs / "report.json").read_text()) == counts
    named = json.loads((compared.outputs / "model" / METHOD_FILE).read_text())
    assert named == {"method": "era_packed", "base": tiny_model_folder.name}


def test_the_figures_are_of_questions_that_it_has_not_seen(compared: RunFolder) -> None:
    counts = counts_of(compared)
    held_out = [row for row in labels() if row["part"] != "train"]

    assert counts["targets"] == counts["held_out"]["targets"]
    assert set(counts["targets"]) == {"TC", "LC", "AU", "valid"}
    assert counts["targets"]["TC"]["n"] == counts["held_out"]["labels"] == len(held_out)
    assert counts["held_out"]["questions"] == 6
    assert (counts["variants"], counts["groups"]) == (len(labels()) - len(held_out), 9)
    assert counts["rows"] == 3 * counts["variants"]


def test_it_is_calibrated_on_the_calibration_part(compared: RunFolder) -> None:
    counts = counts_of(compared)
    calibration_rows = sum(row["part"] == "calibration" for row in labels())

    calibration = Calibration.load(compared.outputs / "model")

    assert calibration is not None
    assert set(calibration.maps) == {"TC", "LC", "AU", "valid"}
    assert {it["labels"] for it in counts["calibration"].values()} == {calibration_rows}
    notes = [str(event["text"]) for _, event in compared.read_events() if event["kind"] == "message"]
    assert any("prove no threshold with a precision of 0.95" in note for note in notes)


def test_both_methods_are_held_to_the_validity_of_the_same_variants(compared: RunFolder) -> None:
    methods = counts_of(compared)["methods"]

    assert set(methods) == {"era", "ira"}
    assert methods["era"]["n"] == methods["ira"]["n"] == counts_of(compared)["held_out"]["labels"]
    assert methods["era"] != methods["ira"]
    assert {it["target"] for it in methods.values()} == {"valid"}


def test_its_losses_are_told_step_by_step_for_each_method(compared: RunFolder) -> None:
    told = {str(event["name"]) for _, event in compared.read_events() if event["kind"] == "metric"}

    assert {f"{method}/{name}" for method in ("era", "ira") for name in ("loss", "validation_loss")} <= told


def test_nothing_but_the_model_and_the_report_is_left(compared: RunFolder) -> None:
    assert not (compared.path / "work").exists()
    assert {"model", "report.json"} <= {file.name for file in compared.outputs.iterdir()}


def test_a_run_that_ended_before_it_could_say_so_is_not_trained_again(compared: RunFolder) -> None:
    before = counts_of(compared)
    events = compared.events.read_bytes()

    again = run(compared, Reporter(compared.path / "second-events.jsonl"))

    assert again == before
    assert compared.events.read_bytes() == events


def test_ira_alone_leaves_a_verifier_of_validity(tiny_model_folder: Path, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", tiny_model_folder, method="ira", lora_rank=None)

    run_job(folder)
    counts = counts_of(folder)

    assert set(counts["targets"]) == {"valid"}
    assert open_verifier(folder.outputs / "model", encoder=None).method == "ira"
    assert "methods" not in counts
    assert counts["trainable_parameters"] > 100_000


@pytest.mark.server
def test_a_killed_training_goes_on_to_the_same_steps_and_the_same_verifier(
    compared: RunFolder, tiny_model_folder: Path, tmp_path: Path
) -> None:
    folder = run_folder(tmp_path / "run", tiny_model_folder, compare_methods=True)
    checkpoints = folder.path / "work" / "era" / "checkpoints"
    job = subprocess.Popen([sys.executable, "-m", "engine.jobs", str(folder.path)], cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not list(checkpoints.glob(f"*/{CHECKPOINT_MARK}")) and job.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    assert folder.result() is None
    assert not (folder.outputs / "model").exists()

    run_job(folder)

    whole, resumed = counts_of(compared), counts_of(folder)
    assert resumed["resumed_from_step"] >= 2
    assert (resumed["steps"], whole["steps"]) == (6, 6)
    assert resumed["verifier_version"] == whole["verifier_version"]
    assert resumed["targets"] == whole["targets"]


class CancelledInTheSecondMethod(Reporter):
    """A person cancels while the third step of the second fine-tuning is under way."""

    trainings = 0

    def progress(self, done: int, total: int | None, message: str = "") -> None:
        if done == 3 and "fine-tuning" in message:
            self.trainings += 1
            if self.trainings == 2:
                self.cancel()
        super().progress(done, total, message)


def test_a_cancelled_comparison_leaves_no_model_and_repeats_nothing_that_was_complete(
    compared: RunFolder, tiny_model_folder: Path, tmp_path: Path
) -> None:
    folder = run_folder(tmp_path / "run", tiny_model_folder, compare_methods=True)

    with pytest.raises(JobCancelledError):
        run(folder, CancelledInTheSecondMethod(folder.events))
    assert not (folder.outputs / "model").exists()
    run_job(folder)
    counts = counts_of(folder)

    steps = [
        (event["name"], event["step"])
        for _, event in folder.read_events()
        if event["kind"] == "metric" and event["name"] in ("era/loss", "ira/loss")
    ]
    assert steps == [(f"{method}/loss", step) for method in ("era", "ira") for step in range(1, 7)]
    assert counts == counts_of(compared)


def test_an_exported_run_trains_on_the_copy_that_came_along(tiny_model_folder: Path, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", Path("/models/of/another/machine"))
    shutil.copytree(tiny_model_folder, folder.path / "models" / "base")
    (folder.path / "models" / "index.json").write_text(json.dumps({"/models/of/another/machine": "base"}))

    assert run_job(folder).error == ""


def one_answer() -> list[dict[str, object]]:
    return [{**row, "lc": True} for row in labels()]


def only_of(*parts: str) -> list[dict[str, object]]:
    return [row for row in labels() if row["part"] in parts]


def in_two_parts() -> list[dict[str, object]]:
    rows = labels()
    return [*rows[:1], {**rows[1], "part": "calibration"}, *rows[2:]]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (one_answer(), "LC is answered no for 0 questions"),
        (only_of("validation", "calibration"), "there are no labels to learn from"),
        ([], "there are no labels to learn from"),
        (only_of("train", "calibration"), "there are no validation labels"),
        ([row for row in labels() if row["group"] == GROUPS[0]], "TC is answered yes for 1 questions"),
        ([{**row, "part": "gate"} for row in labels()], "is in part 'gate'"),
        (in_two_parts(), "is in both"),
    ],
)
def test_labels_that_cannot_teach_are_refused_in_one_line(
    rows: list[dict[str, object]], said: str, tiny_model_folder: Path, tmp_path: Path
) -> None:
    result = run_job(folder := run_folder(tmp_path / "run", tiny_model_folder, rows))

    assert result.state == "failed"
    assert said in result.error
    assert "\n" not in result.error
    assert not (folder.outputs / "model").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sft": {"learning_rat": 1}}, "there is no setting 'learning_rat'"),
        ({"target_precision": 1.0}, "setting target_precision"),
        ({"method": "oracle"}, "setting method"),
        ({"lora_rank": 0}, "setting lora_rank"),
        ({"base_model": "/no/such/model"}, "no such folder"),
    ],
)
def test_a_setting_that_cannot_be_is_named(
    settings: dict[str, Any], said: str, tiny_model_folder: Path, tmp_path: Path
) -> None:
    result = run_job(run_folder(tmp_path / "run", tiny_model_folder, **settings))

    assert result.state == "failed"
    assert said in result.error
    assert "\n" not in result.error


def test_a_model_that_cannot_answer_in_one_token_is_refused_before_it_is_trained(
    tiny_model_folder: Path, tmp_path: Path
) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    spelling = shutil.copytree(tiny_model_folder, tmp_path / "spelling")
    characters = {token: place for place, token in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    tokenizer = Tokenizer(models.BPE(vocab=characters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    (spelling / "tokenizer.json").unlink()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(spelling)
    folder = run_folder(tmp_path / "run", spelling)

    result = run_job(folder)

    assert result.state == "failed"
    assert "this one cannot be a verifier" in result.error
    assert not list(folder.path.glob("work/*/checkpoints"))

"""The training job in a run folder."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from data.arrow import questions_table, variants_table
from engine.baseline import FeatureVerifier
from engine.jobs.__main__ import run_job
from engine.jobs.folder import RunFolder
from tests.engine.sample_pairs import sample_rows
from training.examples import LABEL_SCHEMA

ROWS = sample_rows()


def labels() -> pa.Table:
    rows = [
        {
            **{"variant_id": variant.variant_id, "tc": answers.tc, "lc": answers.lc, "au": answers.au},
            **{"group": group, "part": "train"},
        }
        for (_, variant), answers, group in zip(*ROWS, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=LABEL_SCHEMA)


def run_folder(path: Path, table: pa.Table, settings: dict[str, object] | None = None) -> RunFolder:
    questions = {question.question_id: question for question, _ in ROWS.pairs}
    return RunFolder.create(
        path,
        run_id="r_1",
        kind="train-verifier",
        settings={"verifier": "feature", "encoder": None} if settings is None else settings,
        seed=3,
        code_version="test",
        inputs={
            "questions": questions_table(questions.values()),
            "variants": variants_table(variant for _, variant in ROWS.pairs),
            "labels": table,
        },
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = run_folder(tmp_path_factory.mktemp("runs") / "r_1", labels())
    assert run_job(folder).error == ""
    return folder


def test_the_model_that_it_leaves_is_the_one_that_it_reports(trained: RunFolder) -> None:
    result = trained.result()
    assert result is not None

    assert FeatureVerifier.load(trained.outputs / "model", None).version == result.counts["verifier_version"]
    assert json.loads((trained.outputs / "report.json").read_text()) == result.counts
    assert result.counts["variants"] == len(ROWS.pairs)
    assert set(result.counts["targets"]) == {"TC", "LC", "AU", "valid"}
    assert len(result.counts["types"]) == 7


def test_it_says_that_it_trains_without_an_encoder(trained: RunFolder) -> None:
    messages = [event for _, event in trained.read_events() if event["kind"] == "message"]
    progress = [event for _, event in trained.read_events() if event["kind"] == "progress"]

    assert [message["level"] for message in messages] == ["warning", "info"]
    assert "without embeddings" in str(messages[0]["text"])
    assert (progress[-1]["done"], progress[-1]["total"]) == (4, 4)


def test_the_same_inputs_and_seed_give_the_same_bytes(trained: RunFolder, tmp_path: Path) -> None:
    again = run_folder(tmp_path / "again", labels())
    run_job(again)

    for file in (trained.outputs / "model").iterdir():
        assert (again.outputs / "model" / file.name).read_bytes() == file.read_bytes()


def test_a_label_without_its_variant_fails_in_one_line(tmp_path: Path) -> None:
    stray = pa.Table.from_pylist(
        [{"variant_id": "v_unknown", "tc": True, "lc": True, "au": True, "group": "c", "part": "train"}],
        schema=LABEL_SCHEMA,
    )

    result = run_job(run_folder(tmp_path / "run", stray))

    assert result.state == "failed"
    assert "v_unknown" in result.error


def test_too_few_labels_fail_in_one_line_and_leave_no_model(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", labels().slice(0, 3))

    result = run_job(folder)

    assert result.state == "failed"
    assert "label" in result.error
    assert not (folder.outputs / "model").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"verifier": "oracle"}, "setting verifier"),
        ({"encodr": "x"}, "setting encodr"),
        ({"encoder": "/no/such/folder"}, "config.json"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings: dict[str, object], said: str, tmp_path: Path) -> None:
    result = run_job(run_folder(tmp_path / "run", labels(), settings))

    assert result.state == "failed"
    assert said in result.error

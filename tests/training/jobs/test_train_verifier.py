"""The training job in a run folder."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from data.arrow import questions_table, variants_table
from engine.calibration import Calibration
from engine.feature_verifier import FeatureVerifier
from engine.jobs.__main__ import run_job
from engine.jobs.folder import RunFolder, RunResult
from engine.verifiers import open_verifier
from tests.engine.sample_pairs import sample_rows
from training.examples import LABEL_SCHEMA

pytestmark = pytest.mark.slow

ROWS = sample_rows()


def labels() -> pa.Table:
    rows = [
        {
            "variant_id": variant.variant_id,
            "tc": answers.tc,
            "lc": answers.lc,
            "au": answers.au,
            "group": group,
            "part": "train",
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


def result_of(folder: RunFolder) -> RunResult:
    result = folder.result()
    assert result is not None
    return result


def counts_of(folder: RunFolder) -> Mapping[str, Any]:
    return result_of(folder).counts


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = run_folder(tmp_path_factory.mktemp("runs") / "r_1", labels())
    assert run_job(folder).error == ""
    return folder


def test_the_model_that_it_leaves_is_the_one_that_it_reports(trained: RunFolder) -> None:
    counts = counts_of(trained)

    assert FeatureVerifier.load(trained.outputs / "model", None).version == counts["verifier_version"]
    assert json.loads((trained.outputs / "report.json").read_text()) == counts
    assert counts["variants"] == len(ROWS.pairs)
    assert set(counts["targets"]) == {"TC", "LC", "AU", "valid"}
    assert len(counts["types"]) == 7


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


def with_parts(calibration_every: int) -> pa.Table:
    """The sample's labels, every so many question groups in `calibration` and the group after it in `validation`."""
    groups = sorted(set(ROWS.groups))
    part_of = {
        group: {0: "calibration", 1: "validation"}.get(n % calibration_every, "train") for n, group in enumerate(groups)
    }
    return pa.Table.from_pylist(
        [{**row, "part": part_of[str(row["group"])]} for row in labels().to_pylist()], schema=LABEL_SCHEMA
    )


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = run_folder(
        tmp_path_factory.mktemp("runs") / "r_2",
        with_parts(4),
        {"verifier": "feature", "encoder": None, "target_precision": 0.8},
    )
    assert run_job(folder).error == ""
    return folder


def test_labels_kept_for_calibration_are_not_learnt_from_and_give_the_maps(calibrated: RunFolder) -> None:
    parts = with_parts(4)["part"].to_pylist()
    counts = counts_of(calibrated)

    calibration = Calibration.load(calibrated.outputs / "model")

    assert calibration is not None
    assert set(calibration.maps) == {"TC", "LC", "AU", "valid"}
    assert counts["variants"] == parts.count("train")
    assert {it["labels"] for it in counts["calibration"].values()} == {parts.count("calibration")}
    assert counts["held_out"]["labels"] == parts.count("calibration") + parts.count("validation")
    assert counts["held_out"]["targets"]["valid"]["n"] == counts["held_out"]["labels"]


def test_its_verdicts_are_calibrated_and_labelled_by_its_thresholds(calibrated: RunFolder) -> None:
    counts = counts_of(calibrated)
    verifier = open_verifier(calibrated.outputs / "model", encoder=None)

    verdicts = verifier.judge(ROWS.pairs[:40], now=datetime(2026, 3, 1, tzinfo=UTC))

    calibration = Calibration.load(calibrated.outputs / "model")
    of_lc = [(v.label, v.probability) for v in verdicts if v.target == "LC" and v.probability is not None]
    assert calibration is not None
    assert verifier.version == counts["verifier_version"]
    assert "+c" in verifier.version
    assert calibration.threshold("LC") > 0.5
    assert all(label == (probability >= calibration.threshold("LC")) for label, probability in of_lc)
    assert {label for label, _ in of_lc} == {True, False}


def test_too_few_calibration_labels_leave_the_maps_that_it_has_and_it_says_so(tmp_path: Path) -> None:
    table = with_parts(4).to_pylist()
    kept = [row for row in table if row["part"] != "calibration"] + [r for r in table if r["part"] == "calibration"][:9]
    folder = run_folder(tmp_path / "run", pa.Table.from_pylist(kept, schema=LABEL_SCHEMA))

    run_job(folder)
    counts = counts_of(folder)

    said = [str(event["text"]) for _, event in folder.read_events() if event["kind"] == "message"]
    assert any("9 calibration labels are too few" in text for text in said)
    assert Calibration.load(folder.outputs / "model") is None
    assert "+c" not in str(counts["verifier_version"])
    assert "9 calibration labels, but at least 20 are needed" in counts["calibration"]["TC"]["note"]


def test_a_precision_that_no_threshold_reaches_is_said(tmp_path: Path) -> None:
    folder = run_folder(
        tmp_path / "run", with_parts(4), {"verifier": "feature", "encoder": None, "target_precision": 0.99}
    )

    run_job(folder)
    counts = counts_of(folder)

    said = [str(event["text"]) for _, event in folder.read_events() if event["kind"] == "message"]
    assert any("prove no threshold with a precision of 0.99" in text for text in said)
    assert counts["calibration"]["valid"]["threshold"] is None


def test_a_gate_label_is_never_learnt_from(tmp_path: Path) -> None:
    rows = labels().to_pylist()
    folder = run_folder(
        tmp_path / "run", pa.Table.from_pylist([*rows[:-1], {**rows[-1], "part": "gate"}], schema=LABEL_SCHEMA)
    )

    result = run_job(folder)

    assert result.state == "failed"
    assert "is in part 'gate'" in result.error
    assert not (folder.outputs / "model").exists()


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

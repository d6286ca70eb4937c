"""The import job over a run folder, in process and as the process that the desk starts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.jobs.__main__ import run_job
from engine.jobs.folder import RunFolder

PUBLIC = Path(__file__).parents[2].parent / "shared" / "data"
VARIANT_ROW = {
    "id": 1, "original_context": "The kettle boils. The cook",
    "original_choices": ["pours tea.", "sails.", "swims.", "flies."],
    "original_label": 0, "perturbation_type": "negative_testing", "context": "The kettle boils. The cook will not",
    "choices": ["pour tea.", "fly.", "stir.", "sit."], "label": 1,
}  # fmt: skip


def import_folder(tmp_path: Path, location: Path) -> RunFolder:
    return RunFolder.create(
        tmp_path / "run", run_id="r_1", kind="import", settings={"location": str(location), "benchmark": "test"},
        seed=0, code_version="test", inputs={},
    )  # fmt: skip


def test_a_carried_original_is_added_once_and_only_where_no_row_has_it(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    other = {**VARIANT_ROW, "id": 2, "original_context": "The bell rings. The pupil"}
    (source / "a.jsonl").write_text(
        json.dumps(VARIANT_ROW) + "\n" + json.dumps(other) + "\n" + json.dumps(other) + "\n"
    )
    original = {
        "id": 1,
        "context": VARIANT_ROW["original_context"],
        "choices": VARIANT_ROW["original_choices"],
        "label": 0,
    }
    (source / "b.jsonl").write_text(json.dumps(original) + "\n")
    folder = import_folder(tmp_path, source)

    result = run_job(folder)

    assert result.state == "done", result.error
    assert folder.read_output("questions").num_rows == 2
    assert folder.read_output("variants").num_rows == 3
    assert set(folder.read_output("variants")["run_id"].to_pylist()) == {"r_1"}
    assert folder.read_output("contract_checks").num_rows > 0
    assert (result.counts["rows"], result.counts["variant_rows"], result.counts["question_rows"]) == (4, 3, 1)


def test_refused_rows_are_listed_with_file_row_and_reason_and_the_rest_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "quiz.csv"
    file.write_text("question,A,B,answer\nwhy,so,no,A\nhow,so,,A\nwho,me,you,C\n")
    (tmp_path / "bad").mkdir()
    folder = import_folder(tmp_path, file)

    result = run_job(folder)

    issues = folder.read_output("issues").to_pylist()
    assert result.counts["refused"] == 2
    assert [(issue["file"], issue["row"], issue["severity"]) for issue in issues] == [
        ("quiz.csv", 3, "refused"),
        ("quiz.csv", 4, "refused"),
    ]


def test_a_file_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.parquet").write_bytes(b"PAR1 no")
    (source / "b.jsonl").write_text('{"question": "q", "choices": ["a", "b"], "answer": "A"}\n')
    folder = import_folder(tmp_path, source)

    result = run_job(folder)

    [issue] = folder.read_output("issues").to_pylist()
    assert result.state == "done", result.error
    assert folder.read_output("questions").num_rows == 1
    assert (issue["file"], issue["row"], issue["severity"]) == ("a.parquet", 0, "refused")


def test_two_contents_under_one_key_are_both_kept_and_a_notice_says_so(tmp_path: Path) -> None:
    file = tmp_path / "quiz.csv"
    file.write_text("id,question,A,B,answer\n7,why,so,no,A\n7,how,so,no,A\n7,why,so,no,A\n8,who,me,you,B\n")
    folder = import_folder(tmp_path, file)

    counts = run_job(folder).counts

    questions = folder.read_output("questions").to_pylist()
    [issue] = folder.read_output("issues").to_pylist()
    assert [(row["source_key"], row["context"]) for row in questions] == [
        ("7", "why"), ("7#2", "how"), ("7", "why"), ("8", "who"),
    ]  # fmt: skip
    assert (issue["severity"], issue["file"], counts["notices"]) == ("notice", "quiz.csv", 1)
    assert "--map key=COLUMN" in issue["reason"]


@pytest.mark.server
def test_the_process_that_the_desk_starts_ends_with_a_reason_when_nothing_is_there(tmp_path: Path) -> None:
    folder = import_folder(tmp_path, tmp_path / "absent.csv")

    process = subprocess.run([sys.executable, "-m", "engine.jobs", str(folder.path)], check=False, capture_output=True)

    result = folder.result()
    assert process.returncode == 1
    assert result is not None
    assert (result.state, "no such file" in result.error) == ("failed", True)
    assert [it.name for it in folder.outputs.iterdir()] == ["versions.json"]


@pytest.mark.slow
def test_the_published_pro_set_comes_in_whole(tmp_path: Path) -> None:
    location = PUBLIC / "hellaswag_pro"
    if not location.is_dir():
        pytest.skip("the public data folder hellaswag_pro is absent")
    folder = import_folder(tmp_path, location)

    result = run_job(folder)

    assert result.counts["refused"] == 0
    assert len(set(folder.read_output("questions")["question_id"].to_pylist())) == 800
    assert len(set(folder.read_output("variants")["variant_id"].to_pylist())) == 5600

"""A disk that is full while something is written: one line that says so, what was there stays, nothing half is left."""

from pathlib import Path

import pytest

from data.errors import JobError, ModelError
from engine.jobs.folder import RunFolder
from tests.faults.conftest import SmallDisk
from tests.faults.training_runs import language_settings, start, training_folder, training_inputs
from tests.ui.registered import registered_verifier, saying
from training.registry import aliases, all_models, promote, register
from ui.desk.context import OPERATOR, Desk
from ui.desk.runs.submission import Submission
from ui.desk.usecases.run_transfer import collect_run, export_run


def files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.name != "filling")


def test_a_model_that_does_not_fit_is_not_registered_and_the_one_in_use_stays(
    small_disk: SmallDisk, tmp_path: Path
) -> None:
    models = small_disk.path / "models"
    saying(tmp_path / "one", 0.7)
    saying(tmp_path / "two", 0.8)
    (tmp_path / "two" / "weights.safetensors").write_bytes(b"\1" * 100_000)
    first = register(models, tmp_path / "one", role="verifier", kind="feature", version="1", origin={})
    promote(models, "verifier", first.model_id)
    before = files(models)
    small_disk.fill(but=50_000)

    with pytest.raises(ModelError, match="No space left on device"):
        register(models, tmp_path / "two", role="verifier", kind="feature", version="2", origin={})

    assert files(models) == before
    assert [model.model_id for model in all_models(models, "verifier")] == [first.model_id]
    assert aliases(models, "verifier") == {"champion": first.model_id}


@pytest.mark.parametrize("name", ["run", "run.tar"])
def test_an_export_that_does_not_fit_leaves_nothing_and_the_run_stays_here(
    desk: Desk, small_disk: SmallDisk, tmp_path: Path, name: str
) -> None:
    model = registered_verifier(desk, tmp_path / "one", 0.7)
    (model.folder / "config.json").write_bytes(b" " * 3_000_000)
    wanted = Submission("train-verifier", {"base_model": str(model.folder)}, training_inputs(), 1, elsewhere=True)
    run = desk.supervisor.submit(wanted, submitted_by="lea")

    with pytest.raises(JobError, match=rf"exporting run {run.run_id} to .*No space left on device; free disk space"):
        export_run(desk, OPERATOR, run_id=run.run_id, to=small_disk.path / name)

    assert files(small_disk.path) == []
    assert desk.supervisor.get(run.run_id) == run


def test_what_does_not_fit_is_not_collected_and_can_be_when_there_is_room(
    desk: Desk, small_disk: SmallDisk, tmp_path: Path
) -> None:
    desk.settings.runs.rmdir()
    desk.settings.runs.symlink_to(small_disk.path, target_is_directory=True)
    wanted = Submission("train-verifier", {}, training_inputs(), 1, elsewhere=True)
    run = desk.supervisor.submit(wanted, submitted_by="lea")
    worker = Path(export_run(desk, OPERATOR, run_id=run.run_id, to=tmp_path / "worker").path)
    saying(worker / "outputs" / "model", 0.7)
    (worker / "outputs" / "large").write_bytes(b"\1" * 100_000)
    (worker / "result.json").write_text('{"state": "done", "counts": {}, "error": ""}')
    filling = small_disk.fill(but=50_000)
    before = files(small_disk.path)

    with pytest.raises(JobError, match=rf"collecting run {run.run_id} .*; free disk space, then try again"):
        collect_run(desk, OPERATOR, run_id=run.run_id, source=worker)

    assert files(small_disk.path) == before
    assert desk.supervisor.get(run.run_id).state == "away"
    filling.unlink()
    assert collect_run(desk, OPERATOR, run_id=run.run_id, source=worker).state == "done"


@pytest.mark.server
def test_a_training_whose_disk_is_full_says_so_and_goes_on_when_there_is_room(
    tiny_model_folder: Path, small_disk: SmallDisk
) -> None:
    settings = language_settings(tiny_model_folder)
    folder = training_folder(small_disk.path / "r_1", settings, training_inputs())
    filling = small_disk.fill(but=200_000)  # inputs and events fit, a checkpoint does not

    failed = start(folder)
    status = failed.wait(600)
    told = folder.result()

    assert status == 1, folder.path
    assert told is not None
    assert told.error.startswith("the disk is full")
    assert not (folder.outputs / "model").exists()
    filling.unlink()
    folder.clear_result()
    assert start(folder).wait(600) == 0
    done = folder.result()
    assert done is not None
    assert done.counts["steps"] == settings["sft"]["max_steps"]


def test_a_job_that_cannot_write_its_result_ends_with_a_status_that_says_so(small_disk: SmallDisk) -> None:
    folder = training_folder(small_disk.path / "r_1", {}, {})
    small_disk.fill()

    ended = start(RunFolder(folder.path))

    assert ended.wait(120) == 4
    assert folder.result() is None

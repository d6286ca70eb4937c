"""The run folder: where the models are that a run's settings name."""

import json
from pathlib import Path

import pytest

from data.errors import JobError
from engine.jobs.folder import RunFolder


def exported(path: Path, index: str) -> RunFolder:
    (path / "models" / "base").mkdir(parents=True)
    (path / "models" / "index.json").write_text(index)
    return RunFolder(path)


def test_a_model_is_where_the_settings_say_while_the_run_is_at_home(tmp_path: Path) -> None:
    assert RunFolder(tmp_path).model("/models/base") == Path("/models/base")


def test_an_exported_run_brings_its_models_along(tmp_path: Path) -> None:
    folder = exported(tmp_path, json.dumps({"/models/base": "base"}))

    assert folder.model("/models/base") == tmp_path / "models" / "base"
    assert folder.model("/models/other") == Path("/models/other")


@pytest.mark.parametrize("name", ["../..", "..", ".", "base/../base", "/etc", "gone", 7])
def test_a_copy_outside_the_run_folder_or_gone_is_refused(tmp_path: Path, name: object) -> None:
    folder = exported(tmp_path, json.dumps({"/models/base": name}))

    with pytest.raises(JobError, match="export the run again"):
        folder.model("/models/base")


@pytest.mark.parametrize("index", ["", "[1]", "{"])
def test_a_damaged_index_is_told(tmp_path: Path, index: str) -> None:
    folder = exported(tmp_path, index)

    with pytest.raises(JobError, match="damaged"):
        folder.model("/models/base")

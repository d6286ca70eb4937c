"""Which model generates where a run names none."""

from pathlib import Path

import pytest

from data.errors import ModelError
from data.records import Run
from engine.jobs.folder import RunFolder
from tests.ui.registered import registered_generator
from training.registry import promote
from ui.desk.context import OPERATOR, Desk
from ui.desk.usecases.generation import BackendName, start_generation


def model_of(run: Run) -> object:
    """What the job's backend is told."""
    settings = RunFolder(Path(run.folder)).spec().settings["backend_settings"]
    assert isinstance(settings, dict)
    return settings.get("model")


@pytest.fixture
def champion(desk: Desk, tmp_path: Path) -> str:
    """Its folder."""
    desk.supervisor.stop(end_jobs=True)  # leaves no room for a job
    model = registered_generator(desk, tmp_path / "made", "tuned")
    promote(desk.settings.models, "generator", model.model_id)
    return str(model.folder)


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize("backend", ["transformers", "vllm"])
def test_the_champion_generates_unless_a_model_is_named(desk: Desk, champion: str, backend: BackendName) -> None:
    by_itself = start_generation(desk, OPERATOR, backend=backend, types=["reverse"])
    named = start_generation(desk, OPERATOR, backend=backend, types=["reverse"], model="owner/name")

    assert (model_of(by_itself), model_of(named)) == (champion, "owner/name")


@pytest.mark.usefixtures("stocked", "champion")
def test_rules_need_no_model(desk: Desk) -> None:
    assert model_of(start_generation(desk, OPERATOR, backend="rules", types=["reverse"])) is None


@pytest.mark.usefixtures("stocked")
def test_a_damaged_champion_generates_nothing(desk: Desk, champion: str) -> None:
    (Path(champion) / "config.json").write_text("{ }")

    with pytest.raises(ModelError, match="changed since registration"):
        start_generation(desk, OPERATOR, backend="transformers", types=["reverse"])

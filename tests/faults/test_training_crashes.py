"""kill -9 of the trainer, of the desk, of both while a model is trained: no step twice, none lost, one model."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs sagedesk[ml]")

from engine.jobs.folder import RunFolder
from tests.faults.training_runs import (
    CHECKPOINT_EVERY,
    ROOT,
    STEPS,
    kill,
    language_settings,
    start,
    steps_done,
    training_folder,
    training_inputs,
    until,
)
from training.registry import aliases, all_models
from ui.desk.context import Desk
from ui.desk.settings import Settings
from ui.desk.wiring import close_desk, open_desk

pytestmark = [pytest.mark.server, pytest.mark.model]

KILLED_AFTER = CHECKPOINT_EVERY + 3


@pytest.fixture(scope="module")
def unhurt(tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The same training without a fault."""
    folder = training_folder(
        tmp_path_factory.mktemp("unhurt") / "r_1", language_settings(tiny_model_folder), training_inputs()
    )
    assert start(folder).wait(600) == 0, folder.log.read_text()
    return folder


class KilledDesk:
    """A desk's process that trains, and is killed while it does."""

    def __init__(self, state: Path, base: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SAGEDESK_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.training_runs", str(state), json.dumps(language_settings(base))],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.run_id = self.says()
        self.folder = RunFolder(state / "runs" / self.run_id)
        until(lambda: steps_done(self.folder) >= KILLED_AFTER, "the training is under way")

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def trainer(self) -> int:
        """The desk's only child."""
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=True
        )
        (pid,) = map(int, listed.stdout.split())
        return pid

    def die(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait(30) == -signal.SIGKILL


@pytest.fixture
def killed(tmp_path: Path, tiny_model_folder: Path) -> Iterator[KilledDesk]:
    desk = KilledDesk(tmp_path / "var", tiny_model_folder)
    yield desk
    if desk.process.poll() is None:
        desk.die()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in [name for name in os.environ if name.startswith(("SAGEDESK_", "LABEL_STUDIO_"))]:
        monkeypatch.delenv(name)
    return Settings(state=tmp_path / "var")


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def assert_sound(desk: Desk, run_id: str, unhurt: RunFolder) -> None:
    """One model, the run's own, the one that the training without a fault makes; nothing half beside it."""
    run = desk.supervisor.get(run_id)
    expected = unhurt.result()
    assert expected is not None
    assert (run.state, run.message) == ("done", "")
    assert run.result["steps"] == expected.counts["steps"] == STEPS
    (model,) = all_models(desk.settings.models, "verifier")
    assert model.origin["run_id"] == run_id
    assert model.version == expected.counts["verifier_version"]
    assert weights(model.folder) == weights(unhurt.outputs / "model")
    assert aliases(desk.settings.models, "verifier") == {"champion": model.model_id}
    assert sorted(file.name for file in (desk.settings.models / "verifier").iterdir()) == sorted(
        [model.model_id, "aliases.json"]
    )


def test_a_killed_trainer_goes_on_at_its_last_checkpoint_and_ends_where_it_would_have(
    tiny_model_folder: Path, tmp_path: Path, unhurt: RunFolder
) -> None:
    folder = training_folder(tmp_path / "r_1", language_settings(tiny_model_folder), training_inputs())
    trainer = start(folder)
    until(lambda: steps_done(folder) >= KILLED_AFTER, "the training is under way")
    trainer.kill()
    trainer.wait(30)
    reached = steps_done(folder)
    assert folder.result() is None
    assert KILLED_AFTER <= reached < STEPS

    assert start(folder).wait(600) == 0

    result, expected = folder.result(), unhurt.result()
    assert result is not None
    assert expected is not None
    assert result.counts["steps"] == expected.counts["steps"] == STEPS
    resumed_from = int(str(result.counts["resumed_from_step"]))
    assert 0 < resumed_from <= reached
    assert result.counts["verifier_version"] == expected.counts["verifier_version"]
    assert weights(folder.outputs / "model") == weights(unhurt.outputs / "model")
    losses = [int(str(event["step"])) for _, event in folder.read_events() if event.get("name") == "loss"]
    assert losses == [*range(1, reached + 1), *range(resumed_from + 1, STEPS + 1)]


def test_a_trainer_outlives_its_killed_desk_and_the_next_desk_takes_in_what_it_makes(
    killed: KilledDesk, settings: Settings, unhurt: RunFolder
) -> None:
    killed.die()

    desk = open_desk(settings, with_label_studio=False)
    try:
        adopted = desk.supervisor.get(killed.run_id)
        ended = desk.supervisor.wait(killed.run_id, timeout_s=600)

        assert adopted.state == "running"
        assert ended.result["resumed_from_step"] == 0
        assert_sound(desk, killed.run_id, unhurt)
    finally:
        close_desk(desk, end_jobs=True)


def test_a_training_whose_desk_and_trainer_were_killed_is_lost_and_resumed_from_its_checkpoint(
    killed: KilledDesk, settings: Settings, unhurt: RunFolder
) -> None:
    trainer = killed.trainer()
    killed.die()
    kill(trainer)

    desk = open_desk(settings, with_label_studio=False)
    try:
        lost = desk.supervisor.get(killed.run_id)
        desk.supervisor.resume(killed.run_id)
        ended = desk.supervisor.wait(killed.run_id, timeout_s=600)

        assert lost.state == "lost"
        assert "its process ended while the desk was not running" in lost.message
        assert "its log ends with: " in lost.message
        assert int(str(ended.result["resumed_from_step"])) > 0
        assert_sound(desk, killed.run_id, unhurt)
    finally:
        close_desk(desk, end_jobs=True)


def test_a_trainer_that_the_system_kills_under_a_living_desk_is_lost_and_the_run_says_how(
    killed: KilledDesk, settings: Settings
) -> None:
    kill(killed.trainer())

    said = killed.says()

    assert said.startswith("lost: its process was ended by signal 9")
    assert "memory" in said
    assert "its log ends with: " in said
    assert all_models(settings.models, "verifier") == []

"""A cancel while a model is being saved: the whole process group is gone within the grace, and nothing half is kept."""

import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs sagedesk[ml]")

from engine.jobs.folder import RunFolder
from tests.faults.training_runs import ROOT, STEPS, is_alive, language_settings, training_inputs, until
from training.registry import aliases, all_models
from ui.desk.context import Desk
from ui.desk.ingest import ingest_table
from ui.desk.model_ingest import prepare_table
from ui.desk.runs.submission import Submission
from ui.desk.runs.supervisor import Supervisor
from ui.desk.settings import Settings
from ui.desk.wiring import job_environment

pytestmark = [pytest.mark.server, pytest.mark.model]

GRACE_S = 1.0
SLOW_SAVE = '''
"""engine.jobs, whose models take ten minutes to save while the file SLOW is there: half is written, then it hangs."""
import runpy, subprocess, sys, time
from pathlib import Path
import transformers

slow = Path({slow!r})
save = transformers.PreTrainedModel.save_pretrained

def half(self, folder, *arguments, **named):
    if not slow.exists():
        return save(self, folder, *arguments, **named)
    (Path(folder) / "model.safetensors").write_bytes(b"half")
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    slow.write_text(f"{{folder}}\\n{{child.pid}}")
    time.sleep(600)

transformers.PreTrainedModel.save_pretrained = half
sys.argv = ["engine.jobs", sys.argv[-1]]
runpy.run_module("engine.jobs", run_name="__main__")
'''


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    file = tmp_path / "SLOW"
    file.touch()
    return file


@pytest.fixture
def slow_desk(desk: Desk, settings: Settings, slow: Path, tmp_path: Path) -> Iterator[Desk]:
    """Its jobs are saved by the script above."""
    script, python = tmp_path / "slow_save.py", tmp_path / "python"
    script.write_text(SLOW_SAVE.format(slow=str(slow)))
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    supervisor = Supervisor(
        desk.store,
        settings.runs,
        ingests=ingest_table(settings, desk.now),
        prepares=prepare_table(settings, desk.now),
        python=str(python),
        code_version="test",
        now=desk.now,
        environment={**job_environment(os.environ), "PYTHONPATH": str(ROOT)},
        grace_s=GRACE_S,
    )
    yield replace(desk, supervisor=supervisor)
    supervisor.stop(end_jobs=True)


def test_a_cancel_while_a_model_is_saved_ends_the_group_and_leaves_no_half_model(
    slow_desk: Desk, slow: Path, tiny_model_folder: Path
) -> None:
    supervisor, models = slow_desk.supervisor, slow_desk.settings.models
    wanted = Submission("train-verifier", language_settings(tiny_model_folder), training_inputs(), seed=3)
    run = supervisor.submit(wanted, submitted_by="lea")
    supervisor.start()
    until(lambda: slow.read_text() != "", "the model is being saved")
    pid = supervisor.get(run.run_id).pid
    half, child = slow.read_text().splitlines()
    assert pid is not None
    assert (Path(half) / "model.safetensors").read_bytes() == b"half"

    supervisor.cancel(run.run_id)
    cancelled = supervisor.wait(run.run_id, timeout_s=GRACE_S + 300)

    assert (cancelled.state, cancelled.message) == ("cancelled", "cancelled; its process had to be killed")
    assert cancelled.ended_at is not None
    until(lambda: not is_alive(pid) and not is_alive(int(child)), "the process group is gone")
    folder = RunFolder(Path(run.folder))
    assert folder.result() is None
    assert not (folder.outputs / "model").exists()
    assert all_models(models, "verifier") == []
    assert not (models / "verifier").exists() or list((models / "verifier").iterdir()) == []

    slow.unlink()
    supervisor.resume(run.run_id)
    done = supervisor.wait(run.run_id, timeout_s=600)

    assert (done.state, done.message, done.result["steps"]) == ("done", "", STEPS)
    (model,) = all_models(models, "verifier")
    assert aliases(models, "verifier") == {"champion": model.model_id}
    assert json.loads((model.folder / "verifier.json").read_text())["method"] == "ira"
    assert not list(folder.path.rglob("*.writing"))

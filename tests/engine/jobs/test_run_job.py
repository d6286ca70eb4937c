import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from data.arrow import questions_table
from engine.jobs.folder import RunFolder

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[3]


def new_run(path, kind, settings, questions=()):
    return RunFolder.create(
        path,
        run_id="r_test",
        kind=kind,
        settings=settings,
        seed=7,
        code_version="test",
        inputs={"questions": questions_table(questions)},
    )


def test_a_backend_that_the_cancel_pulls_down_leaves_a_cancelled_run_not_a_failed_one(
    tmp_path, sample_questions, endpoint
):
    backend = {"model": "m", "base_url": endpoint.url, "attempts": 1}
    settings = {"backend": "openai", "types": ["ordering"], "backend_settings": backend}
    folder = new_run(tmp_path / "r", "generate", settings, sample_questions[:1])

    def answer(body, before):
        os.kill(job.pid, signal.SIGTERM)
        return SimpleNamespace(status=401, body=json.dumps({"error": "gone"}).encode(), headers={}, wait_s=0.2)

    endpoint.answer = answer
    job = subprocess.Popen([sys.executable, "-m", "engine.jobs", str(folder.path)], cwd=ROOT)

    assert job.wait(60) == 3
    assert folder.result().state == "cancelled"
    assert folder.result().error == "cancelled by a user"


def test_a_library_that_the_worker_lacks_is_named_with_its_interpreter(tmp_path):
    folder = new_run(tmp_path / "r", "train-verifier", {})
    without_numpy = (
        "import sys; sys.modules['numpy'] = None; from engine.jobs.__main__ import main; "
        f"sys.exit(main([{str(folder.path)!r}]))"
    )

    status = subprocess.run([sys.executable, "-c", without_numpy], cwd=ROOT, check=False).returncode

    assert status == 1
    assert folder.result().error.startswith(f"numpy is not installed for {sys.executable}, which runs the jobs")


def test_jobs_can_be_imported_with_the_base_dependencies_alone():
    """What an environment beside vLLM has of ours; the desk's libraries are another environment's."""
    lacking = ["duckdb", "streamlit", "label_studio_sdk", "pandas", "torch", "transformers", "sklearn", "trl", "peft"]
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({lacking!r}))\n"
        "import data.records, engine.backends, engine.backends.vllm, engine.backends.transformers\n"
        "import training.registry, training.examples\n"
        "import engine.jobs.__main__\nfrom engine.jobs.kinds import KINDS, job_function\n"
        "for kind in KINDS: job_function(kind)\n"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr

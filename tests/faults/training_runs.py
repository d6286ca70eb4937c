"""Trainings that are interrupted: a language verifier on a tiny random model, and the processes that train it.

`python -m tests.faults.training_runs STATE RUN_SETTINGS` is a desk that submits one, says its id, and how it
ended; it has to be killed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from data.arrow import questions_table, variants_table
from data.processes import started_at
from engine.jobs.folder import RunFolder
from tests.engine.sample_pairs import sample_rows
from training.examples import LABEL_SCHEMA

ROOT = Path(__file__).parents[2]
VARIANTS = 40
STEPS = 40
CHECKPOINT_EVERY = 10


def language_settings(base: Path) -> dict[str, Any]:
    """Some seconds of steps, a checkpoint every ten; the rate is low, so that no early stop cuts them."""
    sft = {
        "max_steps": STEPS,
        "eval_steps": CHECKPOINT_EVERY,
        "per_device_train_batch_size": 4,
        "learning_rate": 1e-4,
        "lr_scheduler_type": "constant",
    }
    return {"verifier": "language", "method": "ira", "base_model": str(base), "lora_rank": 4, "sft": sft}


def training_inputs(answer: bool | None = None) -> Mapping[str, pa.Table]:
    """Labels of the sample, of questions that are learnt from and others that are validated on.

    Args:
        answer: given instead of people's answers; theirs if None.
    """
    rows = sample_rows()
    questions = {question.question_id: question for question, _ in rows.pairs}
    labels = []
    for (_, variant), answers, group in list(zip(*rows, strict=True))[:VARIANTS]:
        tc, lc, au = (answers.tc, answers.lc, answers.au) if answer is None else (answer, answer, answer)
        part = "validation" if int(group[-1], 16) % 4 == 0 else "train"
        label = {"variant_id": variant.variant_id, "tc": tc, "lc": lc, "au": au, "group": group, "part": part}
        labels.append({**label, "source": "annotations", "is_blind": True, "labelled_at": None})
    return {
        "questions": questions_table(questions.values()),
        "variants": variants_table(variant for _, variant in rows.pairs),
        "labels": pa.Table.from_pylist(labels, schema=LABEL_SCHEMA),
    }


def training_folder(
    path: Path, settings: Mapping[str, object], inputs: Mapping[str, pa.Table], *, kind: str = "train-verifier"
) -> RunFolder:
    return RunFolder.create(
        path,
        run_id="r_1",
        kind=kind,
        settings=settings,
        seed=3,
        code_version="test",
        inputs=inputs,
    )


def start(folder: RunFolder) -> subprocess.Popen[bytes]:
    with folder.log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "engine.jobs", str(folder.path)], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT
        )


def steps_done(folder: RunFolder) -> int:
    """The highest step that the training has reported; 0 before the first."""
    done = [int(str(event["step"])) for _, event in folder.read_events() if event["kind"] == "metric"]
    return max(done, default=0)


def until(claim: Callable[[], bool], what: str, timeout_s: float = 600.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    return started_at(pid) is not None


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), f"process {pid} is gone")


def main(state: Path, settings: Mapping[str, object]) -> None:
    from ui.desk.runs.submission import Submission
    from ui.desk.settings import Settings
    from ui.desk.wiring import open_desk

    desk = open_desk(Settings(state=state), with_label_studio=False)
    wanted = Submission("train-verifier", settings, training_inputs(), seed=3)
    run = desk.supervisor.submit(wanted, submitted_by="lea")
    desk.supervisor.start()
    print(run.run_id, flush=True)
    ended = desk.supervisor.wait(run.run_id)
    print(f"{ended.state}: {ended.message}", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))

"""The supervisor against real processes. Their interpreter is a script that behaves as its settings say."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from data import processes
from data.errors import ConflictError, JobError, NotFoundError, StoreError
from data.records import Run
from data.store import Connection, Store
from data.tables.models import ModelRecord, ModelTable
from data.tables.runs import RunTable
from engine.jobs.folder import RunFolder
from ui.desk.runs.submission import Ingested, Submission
from ui.desk.runs.supervisor import Supervisor

pytestmark = pytest.mark.server

JOB = """
import json, os, signal, subprocess, sys, time
from pathlib import Path

folder = Path(sys.argv[-1])
settings = json.loads((folder / "run.json").read_text())["settings"]
stop = []
signal.signal(signal.SIGTERM, lambda *a: None if settings.get("deaf") else stop.append(1))

def event(**values):
    with (folder / "events.jsonl").open("a") as out:
        out.write(json.dumps(values) + "\\n")

def finish(state, error=""):
    (folder / "result.tmp").write_text(json.dumps({"state": state, "counts": {"made": 2}, "error": error}))
    os.replace(folder / "result.tmp", folder / "result.json")

print("working", flush=True)
part = folder / "outputs" / "part"
event(kind="progress", done=1 if part.exists() else 0, total=2, message="first half")
if settings.get("child"):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (folder / "child").write_text(str(child.pid))
if not part.exists():
    part.write_text("half")
    for _ in range(int(settings.get("seconds", 0) * 50)):
        time.sleep(0.02)
        if stop:
            finish("cancelled", "cancelled by a user")
            sys.exit(3)
        if (folder / "go on").exists():
            break
event(kind="progress", done=2, total=2, message="second half")
if "fail" in settings:
    finish("failed", settings["fail"])
    sys.exit(1)
if settings.get("vanish"):
    sys.exit(7)
finish("done")
"""


@dataclass
class Bench:
    """A store, a supervisor and what was ingested."""

    store: Store
    runs: Path
    python: str
    ingested: list[str] = field(default_factory=list)
    after: list[Run] = field(default_factory=list)
    spoil: Callable[[], None] = lambda: None
    then: Submission | None = None

    def supervisor(self, *, grace_s: float = 5.0, max_running: int = 2) -> Supervisor:
        return Supervisor(
            self.store,
            self.runs,
            ingests={"verify": self._ingest, "generate": self._ingest, "train-verifier": self._ingest},
            python=self.python,
            code_version="test",
            now=lambda: datetime.now(UTC),
            environment={"PATH": os.environ["PATH"]},
            max_running=max_running,
            grace_s=grace_s,
            after=self.after.append,
        )

    def _ingest(self, connection: Connection, folder: RunFolder, run: Run) -> Ingested:
        model = ModelRecord(run.run_id, "verifier", "feature", str(folder.path), {}, datetime.now(UTC))
        ModelTable(connection).put(model)
        self.spoil()
        self.ingested.append(run.run_id)
        return Ingested({"new": 1}, self.then if run.kind == "generate" else None)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{script}" "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    store = Store.in_memory(now=lambda: datetime.now(UTC))
    yield Bench(store, tmp_path / "runs", str(python))
    with store.read() as connection:
        left = RunTable(connection).in_states(["running"])
    for run in left:
        if run.pid is not None and run.pid_started_at is not None:
            processes.signal_group(run.pid, run.pid_started_at, signal.SIGKILL)
    store.close()


def submit(supervisor: Supervisor, kind: str = "verify", **settings: object) -> Run:
    inputs = {"variants": pa.table({"a": [1]})}
    return supervisor.submit(Submission(kind, settings, inputs, seed=7, afterwards={"then": "x"}), submitted_by="lea")


def go_on(run: Run) -> None:
    """Let a job that waits for its `seconds` go on at once."""
    (Path(run.folder) / "go on").touch()


def wait_for_its_process(run: Run) -> None:
    pid, started_at = run.pid, run.pid_started_at
    assert pid is not None
    assert started_at is not None
    until(lambda: not processes.is_same_process(pid, started_at))


def until(claim: Callable[[], bool], timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_a_run_goes_from_queued_to_done_and_its_outputs_are_ingested_once(bench: Bench) -> None:
    supervisor = bench.supervisor()

    run = supervisor.wait(submit(supervisor).run_id)
    supervisor.reconcile()
    supervisor.poll()

    assert (run.state, run.done, run.total, run.pid) == ("done", 2, 2, None)
    assert run.result == {"made": 2, "new": 1}
    assert run.submitted_by == "lea"
    assert bench.ingested == [run.run_id]
    assert [ended.state for ended in bench.after] == ["done"]
    assert "working" in (Path(run.folder) / "log.txt").read_text()
    spec = json.loads((Path(run.folder) / "run.json").read_text())
    assert (spec["kind"], spec["seed"], list(spec["inputs"])) == ("verify", 7, ["variants.parquet"])
    assert (spec["settings"], run.settings) == ({}, {"then": "x"})


class FullDisk:
    """A store that refuses the writes that `takes` says; the others go through."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.takes: list[bool] = []

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self.store.write() as connection:
            yield connection
            if self.takes and not self.takes.pop(0):
                raise StoreError("no space left on its disk; free some space and try again")

    def read(self) -> AbstractContextManager[Connection]:
        return self.store.read()


def test_an_end_that_the_store_does_not_take_is_brought_in_when_it_does(bench: Bench) -> None:
    disk = FullDisk(bench.store)
    bench.store = disk  # type: ignore[assignment]  # the two methods that the supervisor calls
    supervisor = bench.supervisor()
    run = submit(supervisor)
    wait_for_its_process(run)
    disk.takes = [True, False, False]  # the progress, the outputs, and that they could not be brought in

    with pytest.raises(StoreError, match="no space left"):
        supervisor.poll()

    assert disk.takes == []
    assert supervisor.wait(run.run_id, timeout_s=120).state == "done"
    with bench.store.read() as connection:
        assert [model.model_id for model in ModelTable(connection).all()] == [run.run_id]


def test_a_run_that_the_store_does_not_take_leaves_no_folder(bench: Bench) -> None:
    disk = FullDisk(bench.store)
    bench.store = disk  # type: ignore[assignment]  # the two methods that the supervisor calls
    bench.then = Submission("verify", {}, {}, seed=1)
    supervisor = bench.supervisor()
    disk.takes = [False]
    with pytest.raises(StoreError):
        submit(supervisor, "generate")
    assert list(bench.runs.iterdir()) == []

    run = submit(supervisor, "generate")
    wait_for_its_process(run)
    disk.takes = [True, False]  # the progress, and the outputs with what follows them
    supervisor.poll()

    assert supervisor.get(run.run_id).state == "failed"
    assert [folder.name for folder in bench.runs.iterdir()] == [run.run_id]


def test_progress_is_seen_while_the_job_runs(bench: Bench) -> None:
    supervisor = bench.supervisor()
    seen: list[tuple[int, int | None, str]] = []

    def note(now: Run) -> None:
        seen.append((now.done, now.total, now.message))
        if now.message == "first half":
            go_on(now)

    run = submit(supervisor, seconds=60)
    supervisor.wait(run.run_id, on_progress=note)

    assert (0, 2, "first half") in seen
    assert seen[-1][0] == 2


def test_a_job_that_fails_says_why_in_its_run(bench: Bench) -> None:
    supervisor = bench.supervisor()

    run = supervisor.wait(submit(supervisor, fail="no model at x").run_id)

    assert (run.state, run.message) == ("failed", "no model at x")
    assert bench.ingested == []


def test_an_interpreter_that_is_not_there_fails_the_run_with_one_line(bench: Bench) -> None:
    bench.python = "/nowhere/python"
    supervisor = bench.supervisor()

    run = supervisor.wait(submit(supervisor).run_id)

    assert run.state == "failed"
    assert "/nowhere/python" in run.message


def test_ingest_and_state_are_one_transaction(bench: Bench) -> None:
    def fail() -> None:
        raise ValueError("a damaged output")

    bench.spoil = fail
    supervisor = bench.supervisor()

    run = supervisor.wait(submit(supervisor).run_id)

    assert run.state == "failed"
    assert "a damaged output" in run.message
    with bench.store.read() as connection:
        assert ModelTable(connection).all() == []

    bench.spoil = lambda: None
    supervisor.resume(run.run_id)
    again = supervisor.wait(run.run_id)

    assert again.state == "done"
    with bench.store.read() as connection:
        assert [model.model_id for model in ModelTable(connection).all()] == [run.run_id]


def test_what_follows_a_run_is_queued_in_the_transaction_that_ends_it(bench: Bench) -> None:
    bench.then = Submission("verify", {}, {}, seed=1)
    supervisor = bench.supervisor()

    first = supervisor.wait(submit(supervisor, "generate").run_id)
    second = supervisor.wait(str(first.result["followed_by"]))

    assert (second.kind, second.state, second.submitted_by) == ("verify", "done", "lea")


def test_cancelling_lets_the_job_end_by_itself_and_keeps_its_parts_for_a_resume(bench: Bench) -> None:
    supervisor = bench.supervisor()
    run = submit(supervisor, seconds=60)
    until((Path(run.folder) / "outputs" / "part").exists)

    supervisor.cancel(run.run_id)
    cancelled = supervisor.wait(run.run_id)

    assert (cancelled.state, cancelled.message) == ("cancelled", "cancelled by a user")
    supervisor.resume(run.run_id)
    assert supervisor.wait(run.run_id).state == "done"


def test_a_job_that_does_not_listen_is_killed_with_its_children_after_the_grace(bench: Bench) -> None:
    supervisor = bench.supervisor(grace_s=0.3)
    run = submit(supervisor, seconds=60, deaf=True, child=True)
    until(lambda: (Path(run.folder) / "child").exists() and bool((Path(run.folder) / "child").read_text()))
    child = int((Path(run.folder) / "child").read_text())

    supervisor.cancel(run.run_id)
    cancelled = supervisor.wait(run.run_id)

    assert cancelled.state == "cancelled"
    until(lambda: processes.started_at(child) is None)


def test_a_killed_job_is_lost_and_resumes_from_its_parts(bench: Bench) -> None:
    supervisor = bench.supervisor()
    run = submit(supervisor, seconds=60)
    until((Path(run.folder) / "outputs" / "part").exists)
    pid = supervisor.get(run.run_id).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    lost = supervisor.wait(run.run_id)
    with (Path(run.folder) / "events.jsonl").open("a") as events:
        events.write('{"kind": "progress", "done"')
    supervisor.resume(run.run_id)
    resumed = supervisor.wait(run.run_id, timeout_s=120)

    assert lost.state == "lost"
    assert "signal 9 (killed, often by the system when memory runs out)" in lost.message
    assert (resumed.state, resumed.done) == ("done", 2)


def test_a_job_that_leaves_without_a_result_is_lost(bench: Bench) -> None:
    supervisor = bench.supervisor()

    run = supervisor.wait(submit(supervisor, vanish=True).run_id)

    assert run.state == "lost"
    assert "exit status 7; its log ends with: working" in run.message


def test_the_next_desk_adopts_a_living_job(bench: Bench) -> None:
    first = bench.supervisor()
    first.start()
    run = submit(first, seconds=60)
    until(lambda: first.get(run.run_id).pid is not None and (Path(run.folder) / "outputs" / "part").exists())
    first.stop()

    second = bench.supervisor()
    second.reconcile()
    adopted = second.get(run.run_id)
    go_on(run)
    ended = second.wait(run.run_id)

    assert (adopted.state, adopted.total) == ("running", 2)
    assert (ended.state, ended.done) == ("done", 2)
    assert bench.ingested == [run.run_id]


def test_what_ended_while_no_desk_looked_is_ingested_at_the_next_start(bench: Bench) -> None:
    first = bench.supervisor()
    run = submit(first)
    until((Path(run.folder) / "result.json").exists)
    assert first.get(run.run_id).state == "running"

    os.utime(Path(run.folder) / "result.json", (1_800_000_000, 1_800_000_000))

    second = bench.supervisor()
    second.reconcile()

    ended = second.get(run.run_id)
    assert (ended.state, ended.done, ended.total) == ("done", 2, 2)
    assert ended.ended_at == datetime.fromtimestamp(1_800_000_000, UTC)
    assert bench.ingested == [run.run_id]


def test_a_foreign_process_with_a_reused_pid_is_never_signalled(bench: Bench) -> None:
    supervisor = bench.supervisor()
    run = supervisor.wait(submit(supervisor).run_id)
    stranger = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
    until(lambda: processes.started_at(stranger.pid) is not None)
    start = processes.started_at(stranger.pid)
    assert start is not None
    (Path(run.folder) / "result.json").unlink()
    with bench.store.write() as connection:
        RunTable(connection).save(replace(run, state="running", pid=stranger.pid, pid_started_at=start - 3600))

    later = bench.supervisor(grace_s=0)
    later.reconcile()
    with pytest.raises(ConflictError, match="is lost"):
        later.cancel(run.run_id)
    later.stop(end_jobs=True)

    assert not processes.signal_group(stranger.pid, start - 3600, signal.SIGKILL)
    assert stranger.poll() is None
    assert processes.signal_group(stranger.pid, start, signal.SIGKILL)
    assert stranger.wait(timeout=60) == -signal.SIGKILL


def test_no_second_process_starts_in_a_folder_in_which_one_still_works(bench: Bench) -> None:
    supervisor = bench.supervisor()
    run = submit(supervisor, seconds=60)
    until(lambda: supervisor.get(run.run_id).pid is not None)
    living = supervisor.get(run.run_id)
    with bench.store.write() as connection:
        RunTable(connection).save(replace(living, state="lost"))

    other = bench.supervisor()
    other.resume(run.run_id)

    assert other.get(run.run_id).state == "failed"
    assert "is still working" in other.get(run.run_id).message
    with bench.store.write() as connection:
        RunTable(connection).save(living)


def test_only_as_many_jobs_run_as_there_is_room_for(bench: Bench) -> None:
    supervisor = bench.supervisor(max_running=1)
    first = submit(supervisor, seconds=60)
    second = submit(supervisor)

    assert second.state == "queued"
    go_on(first)
    assert supervisor.wait(second.run_id).state == "done"
    assert supervisor.get(first.run_id).state == "done"


def test_a_queued_run_is_cancelled_at_once(bench: Bench) -> None:
    supervisor = bench.supervisor(max_running=0)
    run = submit(supervisor)

    assert supervisor.cancel(run.run_id).state == "cancelled"
    with pytest.raises(ConflictError, match="is cancelled"):
        supervisor.cancel(run.run_id)


def test_training_is_single_flight_a_role(bench: Bench) -> None:
    supervisor = bench.supervisor(max_running=0)
    first = submit(supervisor, "train-verifier")

    with pytest.raises(ConflictError, match=first.run_id):
        submit(supervisor, "train-verifier")

    supervisor.cancel(first.run_id)
    second = submit(supervisor, "train-verifier")
    with pytest.raises(ConflictError, match=second.run_id):
        supervisor.resume(first.run_id)


def test_a_resume_that_is_refused_leaves_what_the_run_ended_with(bench: Bench) -> None:
    def refuse() -> None:
        raise JobError("no room for the model")

    bench.spoil = refuse
    supervisor = bench.supervisor(max_running=1)
    first = supervisor.wait(submit(supervisor, "train-verifier").run_id)
    result = RunFolder(Path(first.folder)).result()
    second = submit(supervisor, "train-verifier", seconds=60)

    with pytest.raises(ConflictError, match=second.run_id):
        supervisor.resume(first.run_id)

    assert result is not None
    assert RunFolder(Path(first.folder)).result() == result
    supervisor.stop(end_jobs=True)


def test_stopping_with_end_jobs_leaves_nothing_running(bench: Bench) -> None:
    supervisor = bench.supervisor()
    supervisor.start()
    run = submit(supervisor, seconds=60)
    until((Path(run.folder) / "outputs" / "part").exists)

    supervisor.stop(end_jobs=True)

    assert supervisor.get(run.run_id).state == "cancelled"


def test_a_done_run_is_not_resumed_and_an_unknown_one_is_named(bench: Bench) -> None:
    supervisor = bench.supervisor()
    run = supervisor.wait(submit(supervisor).run_id)

    with pytest.raises(ConflictError, match="is done"):
        supervisor.resume(run.run_id)
    with pytest.raises(NotFoundError, match="r_nowhere"):
        supervisor.get("r_nowhere")


def test_a_run_whose_folder_is_gone_is_not_resumed(bench: Bench) -> None:
    supervisor = bench.supervisor()
    run = supervisor.wait(submit(supervisor, vanish=True).run_id)
    (Path(run.folder) / "run.json").unlink()

    with pytest.raises(JobError, match="not a run folder"):
        supervisor.resume(run.run_id)

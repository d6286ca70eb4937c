"""A run goes to a worker and comes back: whole, unchanged, and only its own."""

import io
import json
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from data.errors import ConflictError, InputError, JobError
from data.records import Run
from data.store import Connection
from data.tables.runs import RunTable
from engine.jobs.folder import RunFolder, RunResult
from ui.desk.context import OPERATOR, Desk
from ui.desk.runs.submission import Ingested, Submission
from ui.desk.runs.supervisor import Supervisor
from ui.desk.usecases.run_transfer import collect_run, export_run

INPUTS = {"labels": pa.table({"a": [1, 2]})}
DONE = RunResult("done", {"made": 2}, "")


@dataclass
class Home:
    """A desk whose trainings are registered by name only, and where no job can start."""

    desk: Desk
    models: Path
    taken_in: list[str] = field(default_factory=list)

    def submit(self, kind: str = "train-verifier", **settings: object) -> Run:
        wanted = Submission(kind, settings, INPUTS, seed=7, elsewhere=True)
        return self.desk.supervisor.submit(wanted, submitted_by="lea")

    def model(self, name: str) -> Path:
        folder = self.models / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(name.encode())
        return folder

    def export(self, run: Run, to: Path) -> Path:
        return Path(export_run(self.desk, OPERATOR, run_id=run.run_id, to=to).path)

    def collect(self, run: Run, source: Path) -> Run:
        return collect_run(self.desk, OPERATOR, run_id=run.run_id, source=source)

    def state(self, run: Run) -> str:
        return self.desk.supervisor.get(run.run_id).state


@pytest.fixture
def home(desk: Desk, tmp_path: Path) -> Home:
    it = Home(desk, tmp_path / "models")

    def ingest(_connection: Connection, folder: RunFolder, run: Run) -> Ingested:
        it.taken_in.append((folder.outputs / "model" / "weights").read_text())
        return Ingested({"registered": run.run_id})

    supervisor = Supervisor(
        desk.store,
        desk.settings.runs,
        ingests=dict.fromkeys(["train-verifier", "verify"], ingest),
        python="/nowhere/python",
        code_version="test",
        now=lambda: datetime.now(UTC),
        environment={},
    )
    it.desk = replace(desk, supervisor=supervisor)
    return it


def work(at: Path, result: RunResult = DONE, weights: str = "new") -> None:
    """What a worker does in its copy."""
    folder = RunFolder(at)
    folder.events.write_text(
        json.dumps({"at": "2026-03-01T12:00:00+00:00", "kind": "progress", "done": 5, "total": 5, "message": ""}) + "\n"
    )
    folder.log.write_text("trained\n")
    (folder.outputs / "model").mkdir(exist_ok=True)
    (folder.outputs / "model" / "weights").write_text(weights)
    folder.finish(result)


def eventually(look: Callable[[], list[Path]]) -> list[Path]:
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def unpack(tar: Path, to: Path) -> Path:
    with tarfile.open(tar) as archive:
        archive.extractall(to, filter="data")
    (root,) = to.iterdir()
    return root


def pack(folder: Path, tar: Path, mode: Literal["w", "w:gz"] = "w") -> Path:
    with tarfile.open(tar, mode) as archive:
        archive.add(folder, folder.name)
    return tar


def test_a_run_for_elsewhere_is_away_from_the_start_and_nothing_starts_it_here(home: Home) -> None:
    run = home.submit()
    home.desk.supervisor.poll()

    assert home.state(run) == "away"
    assert "waiting to be exported" in home.desk.supervisor.get(run.run_id).message


def test_a_training_that_is_away_is_the_one_of_its_role(home: Home) -> None:
    run = home.submit()

    with pytest.raises(ConflictError, match=run.run_id):
        home.submit()
    home.desk.supervisor.cancel(run.run_id)

    assert home.state(run) == "cancelled"
    assert home.state(home.submit()) == "away"


def test_resuming_brings_an_away_run_home(home: Home, tmp_path: Path) -> None:
    run = home.submit()
    home.export(run, tmp_path / "out")

    home.desk.supervisor.resume(run.run_id)

    ended = home.desk.supervisor.get(run.run_id)
    assert (ended.state, "/nowhere/python" in ended.message) == ("failed", True)


def test_an_exported_run_brings_inputs_what_it_has_and_the_models_that_it_names(home: Home, tmp_path: Path) -> None:
    base, encoder = home.model("base"), home.model("encoder")
    run = home.submit(base_model=str(base), nested={"of": [str(encoder), str(base), "/nowhere", "owner/name"]})
    checkpoint = Path(run.folder) / "outputs" / "work" / "checkpoint-5"
    checkpoint.mkdir(parents=True)
    (checkpoint / "complete").touch()
    (Path(run.folder) / "events.jsonl").write_text('{"kind": "x"}\n{"kind":')
    (Path(run.folder) / "lock").touch()

    made = export_run(home.desk, OPERATOR, run_id=run.run_id, to=tmp_path / "out")
    folder = RunFolder(tmp_path / "out")

    assert made.models == {str(base): "base", str(encoder): "encoder"}
    assert folder.spec() == RunFolder(Path(run.folder)).spec()
    assert folder.read_input("labels") == INPUTS["labels"]
    assert (folder.outputs / "work" / "checkpoint-5" / "complete").exists()
    assert folder.events.read_text() == '{"kind": "x"}\n'
    assert not (folder.path / "lock").exists()
    assert (folder.model(str(base)) / "model.safetensors").read_text() == "base"
    assert folder.model("/nowhere") == Path("/nowhere")
    assert made.run.message == f"exported to {tmp_path / 'out'}"


def test_of_a_model_folder_only_the_models_own_files_go_out(home: Home, tmp_path: Path) -> None:
    base = home.model("base")
    kept = ["tokenizer.json", "tokenizer.model", "merges.txt", "chat_template.jinja", "onnx/model.safetensors"]
    for name in [*kept, ".env.json", "notes.docx", "train.py", "weights.bin", ".git/config.json", ".cache/x/a.json"]:
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text("x")
    run = home.submit(base_model=str(base))

    out = home.export(run, tmp_path / "out")

    sent = {
        file.relative_to(out / "models" / "base").as_posix()
        for file in (out / "models" / "base").rglob("*")
        if file.is_file()
    }
    assert sent == {"config.json", "model.safetensors", *kept}


def test_two_models_of_one_name_have_two_copies(home: Home, tmp_path: Path) -> None:
    one, other = home.model("a/model"), home.model("b/model")
    run = home.submit(base=str(one), judge=str(other))

    folder = RunFolder(home.export(run, tmp_path / "out"))

    assert (folder.model(str(one)) / "model.safetensors").read_text() == "a/model"
    assert (folder.model(str(other)) / "model.safetensors").read_text() == "b/model"


def test_a_folder_that_is_no_model_is_not_copied(home: Home, tmp_path: Path) -> None:
    run = home.submit(location=str(tmp_path))

    made = export_run(home.desk, OPERATOR, run_id=run.run_id, to=tmp_path / "out")

    assert made.models == {}
    assert not (tmp_path / "out" / "models").exists()


def test_a_worker_can_check_what_it_was_given(home: Home, tmp_path: Path) -> None:
    run = home.submit(base_model=str(home.model("base")))
    root = unpack(home.export(run, tmp_path / "run.tar"), tmp_path / "worker")

    def check() -> int:
        return subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=root, check=False).returncode

    assert check() == 0
    (root / "models" / "base" / "model.safetensors").write_bytes(b"other")
    assert check() == 1


@pytest.mark.parametrize("form", ["folder", "tar", "tar.gz"])
def test_what_the_worker_made_is_taken_in_as_if_it_had_ended_here(home: Home, tmp_path: Path, form: str) -> None:
    run = home.submit(base_model=str(home.model("base")))
    root = unpack(home.export(run, tmp_path / "run.tar"), tmp_path / "worker")
    work(root)
    source = root if form == "folder" else pack(root, tmp_path / f"back.{form}", "w:gz" if form == "tar.gz" else "w")

    done = home.collect(run, source)

    assert (done.state, done.done, done.total) == ("done", 5, 5)
    assert done.result == {"made": 2, "registered": run.run_id}
    assert home.taken_in == ["new"]
    assert (Path(run.folder) / "log.txt").read_text() == "trained\n"
    assert not (Path(run.folder) / "models").exists()
    assert list(Path(run.folder).glob(".collect-*")) == []


def test_a_second_collect_waits_for_the_first_and_changes_nothing(home: Home, tmp_path: Path) -> None:
    run, other = home.submit(), home.submit("verify")
    out = home.export(run, tmp_path / "out")
    work(out)
    supervisor, is_held, may_go = home.desk.supervisor, threading.Event(), threading.Event()

    def hold(folder: RunFolder) -> None:
        is_held.set()
        may_go.wait(60)
        work(folder.path)

    with ThreadPoolExecutor(3) as threads:
        threads.submit(supervisor.take_in, other.run_id, hold)
        assert is_held.wait(60)
        first = threads.submit(home.collect, run, out)
        copied = eventually(lambda: list(Path(run.folder).glob(".collect-*/made/result.json")))
        second = threads.submit(home.collect, run, out)
        time.sleep(0.3)
        still_there = copied[0].exists()
        may_go.set()

        assert still_there
        assert [it.result(60).state for it in (first, second)] == ["done", "done"]
    assert (Path(run.folder) / "outputs" / "model" / "weights").read_text() == "new"


def test_collecting_twice_changes_nothing(home: Home, tmp_path: Path) -> None:
    run = home.submit()
    root = home.export(run, tmp_path / "out")
    work(root)
    first = home.collect(run, root)

    assert home.collect(run, root) == first
    assert home.taken_in == ["new"]


def test_another_result_than_the_one_taken_in_is_refused(home: Home, tmp_path: Path) -> None:
    run = home.submit()
    root = home.export(run, tmp_path / "out")
    work(root)
    home.collect(run, root)
    RunFolder(root).finish(RunResult("done", {"made": 3}, ""))

    with pytest.raises(ConflictError, match="is done here"):
        home.collect(run, root)


def test_a_failure_on_the_worker_is_told_and_its_checkpoints_come_home(home: Home, tmp_path: Path) -> None:
    run = home.submit()
    root = home.export(run, tmp_path / "out")
    work(root, RunResult("failed", {}, "out of GPU memory"))

    failed = home.collect(run, root)

    assert (failed.state, failed.message) == ("failed", "out of GPU memory")
    assert (Path(run.folder) / "outputs" / "model" / "weights").read_text() == "new"
    assert home.taken_in == []
    again = home.export(run, tmp_path / "again")
    assert not (again / "result.json").exists()
    assert home.state(run) == "away"
    work(again)
    assert home.collect(run, again).state == "done"


def test_a_worker_that_has_not_finished_is_waited_for(home: Home, tmp_path: Path) -> None:
    run = home.submit()
    root = home.export(run, tmp_path / "out")

    with pytest.raises(ConflictError, match="has not finished"):
        home.collect(run, root)

    assert home.state(run) == "away"


def test_a_worker_on_a_shared_disk_works_in_the_folder_itself(home: Home) -> None:
    run = home.submit()
    work(Path(run.folder))

    assert home.collect(run, Path(run.folder)).state == "done"
    assert home.taken_in == ["new"]


def test_the_folder_of_another_run_is_refused(home: Home, tmp_path: Path) -> None:
    one, other = home.submit("verify"), home.submit("verify")
    root = home.export(other, tmp_path / "out")
    work(root)

    with pytest.raises(InputError, match=f"is the folder of run {other.run_id}, not of {one.run_id}"):
        home.collect(one, root)


def changed_settings(root: Path) -> None:
    spec = json.loads((root / "run.json").read_text())
    (root / "run.json").write_text(json.dumps({**spec, "seed": 8}))


def changed_input(root: Path) -> None:
    (root / "inputs" / "labels.parquet").write_bytes(b"other")


def missing_input(root: Path) -> None:
    (root / "inputs" / "labels.parquet").unlink()


def damaged_run(root: Path) -> None:
    (root / "run.json").write_text("{")


def linked_output(root: Path) -> None:
    (root / "outputs" / "link").symlink_to("/etc/passwd")


@pytest.mark.parametrize("spoil", [changed_settings, changed_input, missing_input, damaged_run, linked_output])
@pytest.mark.parametrize("form", ["folder", "tar"])
def test_what_is_not_what_was_exported_is_refused(
    home: Home, tmp_path: Path, spoil: Callable[[Path], None], form: str
) -> None:
    run = home.submit()
    root = home.export(run, tmp_path / "out")
    work(root)
    spoil(root)

    with pytest.raises(InputError):
        home.collect(run, pack(root, tmp_path / "back.tar") if form == "tar" else root)

    assert home.state(run) == "away"
    assert home.taken_in == []
    assert not (Path(run.folder) / "result.json").exists()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, 5 if kind == tarfile.REGTYPE else 0
    return info


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (member("../outside"), "leads out"),
        (member("out/../../outside"), "leads out"),
        (member("/outside"), "leads out"),
        (member("out/outputs/link", tarfile.SYMTYPE, "/etc"), "link"),
        (member("out/outputs/link", tarfile.LNKTYPE, "out/run.json"), "link"),
        (member("out/outputs/pipe", tarfile.FIFOTYPE), "device"),
        (member("out/run.json"), "twice"),
        (member("other/run.json"), "2 run folders"),
    ],
    ids=["parent", "parent inside", "absolute", "symlink", "hard link", "pipe", "twice", "two runs"],
)
def test_a_tar_file_that_is_more_than_a_run_folder_is_refused_before_anything_is_written(
    home: Home, tmp_path: Path, bad: tarfile.TarInfo, why: str
) -> None:
    run = home.submit()
    root = home.export(run, tmp_path / "out")
    work(root)
    tar = pack(root, tmp_path / "back.tar")
    with tarfile.open(tar, "a") as archive:
        archive.addfile(bad, io.BytesIO(b"12345") if bad.isreg() else None)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(InputError, match=why):
        home.collect(run, tar)

    assert sorted(tmp_path.rglob("*")) == before
    assert home.state(run) == "away"


def test_a_tar_file_that_claims_more_than_the_disk_holds_is_refused(home: Home, tmp_path: Path) -> None:
    run = home.submit()
    root = home.export(run, tmp_path / "out")
    work(root)
    tar = pack(root, tmp_path / "back.tar")
    claims = member("out/outputs/huge")
    claims.size = shutil.disk_usage(tmp_path).free + 1
    with tarfile.open(tar, "r") as archive:
        end = archive.offset if archive.getmembers() else 0
    with tar.open("r+b") as content:
        content.seek(end)
        content.write(claims.tobuf(tarfile.GNU_FORMAT))
        content.truncate()

    with pytest.raises(InputError, match=r"free some|not a complete tar"):
        home.collect(run, tar)


@pytest.mark.parametrize("keep", [0, 100, 3000])
def test_a_tar_file_that_was_cut_short_is_refused(home: Home, tmp_path: Path, keep: int) -> None:
    run = home.submit()
    root = home.export(run, tmp_path / "out")
    work(root)
    tar = pack(root, tmp_path / "back.tar")
    with tar.open("r+b") as content:
        content.truncate(keep)

    with pytest.raises(InputError):
        home.collect(run, tar)

    assert home.state(run) == "away"


def test_an_export_goes_only_where_nothing_is(home: Home, tmp_path: Path) -> None:
    run = home.submit()
    (tmp_path / "taken.tar").touch()

    with pytest.raises(ConflictError, match="already exists"):
        home.export(run, tmp_path / "taken.tar")

    (tmp_path / "place").mkdir()
    assert home.export(run, tmp_path / "place") == tmp_path / "place" / run.run_id


def test_a_run_that_works_or_is_done_is_not_exported(home: Home, tmp_path: Path) -> None:
    run = home.submit()
    work(Path(run.folder))
    home.collect(run, Path(run.folder))

    with pytest.raises(ConflictError, match="is done"):
        home.export(run, tmp_path / "out")

    with home.desk.store.write() as connection:
        RunTable(connection).save(replace(home.desk.supervisor.get(run.run_id), state="running"))
    with pytest.raises(ConflictError, match="is running"):
        home.export(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_import_stays_where_its_files_are(home: Home, tmp_path: Path) -> None:
    run = home.submit("import")

    with pytest.raises(InputError, match="reads files on this machine"):
        home.export(run, tmp_path / "out")


@pytest.mark.parametrize("name", ["out", "out.tar"])
def test_an_export_that_cannot_be_written_leaves_nothing_and_the_run_as_it_was(
    home: Home, tmp_path: Path, name: str
) -> None:
    run = home.submit()
    (tmp_path / "file").touch()

    with pytest.raises(JobError, match=r"exporting run .* free disk space, or name another target"):
        home.export(run, tmp_path / "file" / name)

    assert "waiting to be exported" in home.desk.supervisor.get(run.run_id).message

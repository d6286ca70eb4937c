"""Runs on a worker machine: export writes a run's folder for it, collect brings back the outputs.

Refuses the folder of another run, one with changed inputs, or one that is not finished.
"""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from data.errors import ConflictError, InputError, JobError
from data.files import file_sha256, scratch_beside
from data.records import Run
from engine.jobs.archive import (
    copy_back,
    members,
    model_copies,
    put_in_place,
    refuse_links,
    unpacked,
    write_folder,
    write_tar,
)
from engine.jobs.folder import RunFolder, RunSpec
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.runs.supervisor import refuse_to_send

_SCRATCH: Final = ".collect-"
# One at a time: collecting removes leftovers of interrupted attempts, which look like a running one's.
_collecting = threading.Lock()


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """`path` is the folder or tar file; `models` the copies in it, by their references in the settings."""

    run: Run
    path: str
    size_bytes: int
    models: dict[str, str]


def export_run(desk: Desk, actor: Actor, *, run_id: str, to: Path) -> ExportedRun:
    """Writes the run with its inputs, progress and models; from then on the run is away.

    Args:
        to: a new folder or, ending in `.tar`, a new file; within an existing folder it is named after the run.

    Raises:
        PermissionDeniedError, NotFoundError.
        InputError: it is an import, which reads files on this machine.
        ConflictError: the run is running or done, another training of its role is open, or the target exists.
        JobError: it cannot be written; then nothing is left there, and the run is unchanged.
    """
    require_lead(desk, actor, "run.export", run_id)
    run = desk.supervisor.get(run_id)
    refuse_to_send(run)
    if run.kind == "import":
        raise InputError(f"run {run_id} is an import, which reads files on this machine; resume it here")
    goal = to / run_id if to.is_dir() else to
    if goal.exists():
        raise ConflictError(f"{goal} already exists; name a new folder or a new .tar file")
    folder = RunFolder(Path(run.folder))
    copies = model_copies(folder.spec().settings)
    try:
        goal.parent.mkdir(parents=True, exist_ok=True)
        with scratch_beside(goal) as scratch:
            if goal.suffix == ".tar":
                write_tar(scratch / "run", run_id, members(folder, copies))
            else:
                write_folder(scratch / "run", members(folder, copies))
            (scratch / "run").rename(goal)
    except OSError as exc:
        raise JobError(
            f"exporting run {run_id} to {goal}: {exc.strerror or exc}; free disk space, or name another target"
        ) from exc
    try:
        run = desk.supervisor.send_away(run_id, f"exported to {goal}")
    except BaseException:
        shutil.rmtree(goal) if goal.is_dir() else goal.unlink()
        raise
    audit(desk, actor, "run.export", run_id, to=str(goal))
    return ExportedRun(run, str(goal), _size(goal), copies)


def collect_run(desk: Desk, actor: Actor, *, run_id: str, source: Path) -> Run:
    """Takes over a worker's outputs, as if the run had ended here. Doing it again changes nothing.

    Args:
        source: the run folder from the worker, or a tar file of it.

    Raises:
        PermissionDeniedError, NotFoundError.
        InputError: it is another run's folder, has changed inputs, or contains something unsafe.
        ConflictError: the worker has not finished, or the run is queued, running or ended differently here.
        JobError: it cannot be copied; then the run is unchanged.
    """
    require_lead(desk, actor, "run.collect", run_id)
    with _collecting:
        run, is_new = _collected(desk, run_id, source)
    if is_new:
        audit(desk, actor, "run.collect", run_id, source=str(source), state=run.state)
    return run


def _collected(desk: Desk, run_id: str, source: Path) -> tuple[Run, bool]:
    """The resulting run, and whether anything changed. Not thread-safe."""
    run = desk.supervisor.get(run_id)
    home = RunFolder(Path(run.folder))
    if not source.exists():
        raise InputError(f"{source} does not exist; give the folder or tar file that came back from the worker")
    try:
        with _scratch_in(home.path) as scratch:
            made, trash = scratch / "made", scratch / "before"
            made.mkdir()
            root = unpacked(source, made) if source.is_file() else _checked_folder(source, run_id)
            _refuse_foreign(home.spec(), root, source)
            result = RunFolder(root).result()
            if result is None:
                raise ConflictError(
                    f"the worker has not finished run {run_id}: {source} has no result; "
                    f"wait for it, or run `python -m engine.jobs` there again"
                )
            if run.state == "done" and result == home.result():
                return run, False
            is_at_home = root.resolve() == home.path.resolve()  # a worker on a shared disk works in the folder itself
            if not is_at_home and root != made:
                copy_back(root, made)
            run = desk.supervisor.take_in(
                run_id, lambda folder: None if is_at_home else put_in_place(made, folder.path, trash)
            )
    except OSError as exc:
        raise JobError(
            f"collecting run {run_id} from {source}: {exc.strerror or exc}; free disk space, then try again"
        ) from exc
    return run, True


def _checked_folder(source: Path, run_id: str) -> Path:
    root = source if (source / "run.json").exists() else source / run_id
    if not (root / "run.json").is_file():
        raise InputError(f"{source} is not a run folder; give the one that came back from the worker")
    refuse_links(root)
    return root


def _refuse_foreign(wanted: RunSpec, root: Path, source: Path) -> None:
    try:
        found = RunFolder(root).spec()
    except JobError as exc:
        raise InputError(f"{source}: {exc}") from exc
    if found.run_id != wanted.run_id:
        raise InputError(f"{source} is the folder of run {found.run_id}, not of {wanted.run_id}; give the right one")
    if found != wanted:
        raise InputError(f"{source}: its run.json has changed since the export; run the exported folder unchanged")
    for name, digest in wanted.inputs.items():
        file = root / "inputs" / name
        if not file.is_file() or file_sha256(file) != digest:
            raise InputError(f"{source}: inputs/{name} has changed since the export; run the exported folder unchanged")


@contextmanager
def _scratch_in(home: Path) -> Iterator[Path]:
    """On the run folder's disk, so that the last step is only renames; also removes leftovers of interrupted ones."""
    for left in home.glob(f"{_SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=home))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())

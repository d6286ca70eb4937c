"""Files and folders that stand whole or not at all, and the hashes of files. Leaves every OSError to the caller."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole_file(file: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """A path beside `file` to write to; it is synced and renamed to `file` when the block ends, removed when it raises.

    Args:
        mode: from the first byte on, less the umask; 0o600 for a secret.
    """
    temporary = file.with_name(f".{file.name}.tmp")
    temporary.unlink(missing_ok=True)  # a killed writer's
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield temporary
        sync(temporary)
        temporary.replace(file)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_text(file: Path, text: str, *, mode: int = 0o666) -> None:
    """As `whole_file`."""
    with whole_file(file, mode=mode) as temporary:
        temporary.write_text(text, "utf-8")


def write_json(file: Path, value: object, *, mode: int = 0o666) -> None:
    """As `whole_file`; the same bytes for the same value."""
    write_text(file, json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True), mode=mode)


@contextmanager
def scratch_beside(goal: Path) -> Iterator[Path]:
    """A new folder on the disk of `goal`, so that what is made in it becomes `goal` by one rename; gone afterwards."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{goal.name}-", dir=goal.parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def sync_tree(folder: Path) -> None:
    """Everything in the folder is on the disk when this returns; the folder's own name is not."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """A file's content, or the names in a folder, are on the disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_sha256(file: Path) -> str:
    """64 hex digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()

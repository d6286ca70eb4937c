"""Who owns the store: one process at a time, enforced by a file lock and named in `<store>.owner`.

The lock is the kernel's (flock), so it ends with the process, however that ends; the file's content is for people.
"""

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from data.errors import StoreBusyError, StoreError

OWNER_FILE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Ownership:
    """The right to open one store file, from `claim` until `release`."""

    file: Path
    descriptor: int

    def release(self) -> None:
        """The file is emptied, not removed: a waiting process may already have it open."""
        os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)


def claim(store_file: Path, *, now: Callable[[], datetime]) -> Ownership:
    """Become the owner of `store_file`, which need not exist yet, though its folder must.

    Raises:
        StoreBusyError: another process, or this one, already owns it; names it and since when.
        StoreError: the owner file cannot be written.
    """
    file = store_file.with_name(store_file.name + ".owner")
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE_MODE)
    except OSError as exc:
        raise StoreError(
            f"cannot open the store {store_file}: {exc.strerror} ({file}); make the folder writable"
        ) from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreBusyError(busy_message(store_file, _owner_in(file))) from None
    content = json.dumps({"pid": os.getpid(), "since": now().isoformat(timespec="seconds")})
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content.encode(), 0)
    except OSError as exc:
        os.close(descriptor)
        raise StoreError(f"cannot open the store {store_file}: {exc.strerror} ({file}); free disk space") from exc
    return Ownership(file, descriptor)


def busy_message(store_file: Path, owner: str) -> str:
    return (
        f"the store {store_file} is in use by {owner}; use the desk running there, or stop that process and try again"
    )


def _owner_in(file: Path) -> str:
    try:
        content = json.loads(file.read_text("utf-8"))
        return f"process {int(content['pid'])} since {content['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"

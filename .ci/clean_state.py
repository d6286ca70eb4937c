"""Deletes the desk's state folder, after asking; standard library only. `python3 .ci/clean_state.py`

The folder is SAGEDESK_STATE's, else `var`. Only the whole word "yes" deletes. Refused: a folder that holds something
other than a desk's state, one that contains this checkout or the home folder, and one whose desk still runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = "var"
SIGNS = ("sagedesk.duckdb", "secrets.json", "up.lock")
LOCKS = ("up.lock", "sagedesk.duckdb.owner")


class RefusalError(Exception):
    """One line for a person."""


def state_folder(named: str) -> Path:
    """The folder that may be deleted. Raises RefusalError."""
    folder = Path(named.strip() or DEFAULT).expanduser().resolve()
    for precious in (ROOT, Path.home().resolve(), Path.cwd().resolve()):
        if folder in (precious, *precious.parents):
            raise RefusalError(
                f"{folder} holds {precious}, so it is no state folder; set SAGEDESK_STATE to the desk's own"
            )
    if folder.exists() and not folder.is_dir():
        raise RefusalError(f"{folder} is no folder; set SAGEDESK_STATE to the desk's own")
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / sign).exists() for sign in SIGNS):
        raise RefusalError(f"{folder} holds no state of a desk (no {SIGNS[0]}); look at it and delete it by hand")
    return folder


def require_at_rest(folder: Path) -> None:
    """Raises RefusalError while a desk or a command works there: each holds its lock for as long as it lives."""
    for name in LOCKS:
        lock = folder / name
        if not lock.exists():
            continue
        with lock.open("rb") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RefusalError(f"a desk runs on {folder}; stop it first (Ctrl-C where it was started)") from None
    try:
        process = int(json.loads((folder / "label-studio" / "server.json").read_text("utf-8"))["pid"])
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except (OSError, ValueError, KeyError, TypeError):
        return
    if b"label_studio" in command:
        raise RefusalError(f"the Label Studio of {folder} runs still (process {process}); `kill {process}` ends it")


def main() -> int:
    try:
        folder = state_folder(os.environ.get("SAGEDESK_STATE", ""))
        if not folder.exists():
            print(f"Nothing to delete: there is no {folder}.")
            return 0
        require_at_rest(folder)
        print(f"Delete {folder} with its store, labels, runs, models and releases? Type yes: ", end="", flush=True)
        if sys.stdin.readline().strip() != "yes":
            print("Kept.")
            return 0
        shutil.rmtree(folder)
    except RefusalError as exc:
        print(f"clean-state: {exc}", file=sys.stderr)
        return 1
    except OSError as exc:
        print(f"clean-state: {exc.filename}: {exc.strerror}; what is left is there still", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nKept.")
        return 130
    print("Deleted.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

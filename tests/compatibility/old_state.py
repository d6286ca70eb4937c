"""A state folder that version 0.1 (commit f59ca64) made, unpacked, and what that version answered about it.

How it was made, and why it has to be told where it lies now, is in the README beside it.
"""

import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import duckdb

HERE: Final = Path(__file__).parent
WAS_AT: Final = "/srv/sagedesk/var"
ROUNDING: Final = 5e-5
"""Figures that version 0.1 kept to the last digit may be kept to four places."""
ANSWERS: Final[list[Mapping[str, Any]]] = json.loads((HERE / "state-0.1.json").read_text("utf-8"))
"""`use_case`, `arguments`, `answer`; the state folder reads STATE in them."""


def unpacked(goal: Path) -> Path:
    """The state folder in `goal`, as if it had always been there."""
    with tarfile.open(HERE / "state-0.1.tar.xz") as archive:
        archive.extractall(goal, filter="data")
    state = goal / "var"
    _settle(state)
    return state


def answered(use_case: str, **arguments: object) -> Any:
    """What version 0.1 said to exactly this."""
    return next(it["answer"] for it in ANSWERS if (it["use_case"], it["arguments"]) == (use_case, arguments))


def portable(answer: object, state: Path) -> Any:
    """As it was recorded: the state folder reads STATE, where it is and where it was."""
    return json.loads(json.dumps(answer).replace(str(state), "STATE").replace(WAS_AT, "STATE"))


def runs_of(kind: str, state: str = "done") -> list[str]:
    """Their ids, newest first."""
    return [run["run_id"] for run in answered("run.list") if (run["kind"], run["state"]) == (kind, state)]


def losses(before: object, now: object, place: str = "") -> Iterator[str]:
    """Where `now` has not what `before` had: a key, a row, a value. What it has besides is no loss."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key, value in before.items():
            if key not in now:
                yield f"{place}.{key} is gone"
            else:
                yield from losses(value, now[key], f"{place}.{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from losses(one, other, f"{place}[{number}]")
    elif isinstance(before, float) and isinstance(now, float) and abs(before - now) <= ROUNDING:
        return
    elif before != now:
        yield f"{place} was {before!r} and is {now!r}"


def _settle(state: Path) -> None:
    """Runs, models and releases are kept under absolute paths, and so are the files that a run reads.

    What people had open was theirs for ten minutes.
    """
    moved = (WAS_AT, str(state))
    with duckdb.connect(state / "sagedesk.duckdb") as connection:
        for table, columns in {"run": ("folder", "settings"), "model": ("folder",), "release": ("folder",)}.items():
            for column in columns:
                connection.execute(f"UPDATE {table} SET {column} = replace({column}::TEXT, ?, ?)", moved)
        connection.execute("DELETE FROM lease")
    for file in state.glob("runs/*/run.json"):
        file.write_text(file.read_text("utf-8").replace(*moved), "utf-8")

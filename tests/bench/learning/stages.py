"""Stages of the learning bench: what each found is a JSON file, and a stage whose file is there is not run again.

A stage is a function (folder) -> JSON-able mapping. It may leave further files (models, replies) in the folder, and
reads what another stage found with `found(folder, name)`. To add one: write the function, name it in `STAGES` of its
module (`generator.py` is the pattern), name a new module's STAGES and chapter in `__main__.py`. Delete its JSON to run
it again.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

Stage = Callable[[Path], Mapping[str, Any]]


def run_stage(folder: Path, name: str, stage: Stage) -> Mapping[str, Any]:
    """What the stage found, `wall_s` included; from its file where an earlier run has left it."""
    file = folder / f"{name}.json"
    if not file.exists():
        logger.info("stage %s begins", name)
        begun = time.monotonic()
        outcome = {**stage(folder), "wall_s": round(time.monotonic() - begun, 1)}
        scratch = file.with_suffix(".writing")
        scratch.write_text(json.dumps(outcome, indent=1, allow_nan=False) + "\n", "utf-8")
        scratch.replace(file)
        logger.info("stage %s took %.0f s", name, outcome["wall_s"])
    return found(folder, name)


def found(folder: Path, name: str) -> Mapping[str, Any]:
    """Raises FileNotFoundError where the stage has not been run."""
    outcome: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return outcome


def told_s(events: Path) -> float:
    """Seconds from the first to the last event of a reporter's file, whether or not the stage was resumed between."""
    at = [datetime.fromisoformat(json.loads(line)["at"]) for line in events.read_text("utf-8").splitlines()]
    return round((at[-1] - at[0]).total_seconds(), 1)

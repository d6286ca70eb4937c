"""The table of job kinds. A kind's module, and what it needs, is imported when a run of it starts."""

import importlib
from collections.abc import Callable, Mapping
from typing import Final

from data.errors import JobError
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter

JobFunction = Callable[[RunFolder, Reporter], Mapping[str, object]]

KINDS: Final[Mapping[str, str]] = {
    "import": "engine.jobs.import_questions:run",
    "generate": "engine.jobs.generate:run",
    "verify": "engine.jobs.verify:run",
    "train-verifier": "training.jobs.train_verifier:run",
    "gate-verifier": "training.jobs.gate_verifier:run",
    "refresh-generator": "training.jobs.refresh_generator:run",
}


def job_function(kind: str) -> JobFunction:
    """Raises JobError for an unknown kind, naming the known ones."""
    try:
        module, attribute = KINDS[kind].split(":")
    except KeyError:
        raise JobError(f"unknown job kind {kind!r}; known are {', '.join(sorted(KINDS))}") from None
    function: JobFunction = getattr(importlib.import_module(module), attribute)
    return function

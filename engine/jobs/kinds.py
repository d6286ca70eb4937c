"""The table of job kinds. A kind's module and its dependencies are imported only when a run of it starts."""

import importlib
from collections.abc import Callable, Mapping
from typing import Final, Literal

from data.errors import JobError
from data.records import ModelRole
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter

JobFunction = Callable[[RunFolder, Reporter], Mapping[str, object]]

JobKind = Literal["import", "generate", "verify", "train-verifier", "gate-verifier", "refresh-generator"]

KINDS: Final[Mapping[JobKind, str]] = {
    "import": "engine.jobs.import_questions:run",
    "generate": "engine.jobs.generate:run",
    "verify": "engine.jobs.verify:run",
    "train-verifier": "training.jobs.train_verifier:run",
    "gate-verifier": "training.jobs.gate_verifier:run",
    "refresh-generator": "training.jobs.refresh_generator:run",
}

TRAINING_KINDS: Final[Mapping[ModelRole, str]] = {"verifier": "train-verifier", "generator": "refresh-generator"}
"""The kind of job that makes a model of the role."""


def trained_role(kind: str) -> ModelRole | None:
    """The role of the model that a job of this kind makes; None for one that trains nothing."""
    return next((role for role, training in TRAINING_KINDS.items() if training == kind), None)


def job_function(kind: str) -> JobFunction:
    """Raises JobError for an unknown kind, listing the known ones."""
    place = next((place for known, place in KINDS.items() if known == kind), None)
    if place is None:
        raise JobError(f"unknown job kind {kind!r}; known are {', '.join(sorted(KINDS))}")
    module, attribute = place.split(":")
    function: JobFunction = getattr(importlib.import_module(module), attribute)
    return function

"""A run's submission and the result of its ingest: the interface between the supervisor and the use cases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from data.records import Run
from data.store import Connection
from engine.jobs.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Submission:
    """A run to start: `settings` and `inputs` are written into its folder, which is all the job sees of the desk.

    `afterwards` is for the desk only: what its ingest does next, stored in the run's row beside the settings.
    `elsewhere`: for a worker; it is not started here but waits to be exported.
    """

    kind: str
    settings: Mapping[str, object]
    inputs: Mapping[str, pa.Table]
    seed: int
    afterwards: Mapping[str, object] = field(default_factory=dict)
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of an ingest: `counts` are added to the run's result, `then` is queued with it."""

    counts: Mapping[str, object]
    then: Submission | None = None


Ingest = Callable[[Connection, RunFolder, Run], Ingested]
"""Called when a run is done, inside the transaction that also marks it done."""

Prepare = Callable[[RunFolder, Run], Ingest]
"""Called before that transaction for long work that needs no store, and returns the ingest. Copying a model takes
seconds, during which nobody could save an answer."""

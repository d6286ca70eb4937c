"""What a run is wanted to be, and what bringing its outputs in comes to. The supervisor's words with the use cases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from data.records import Run
from data.store import Connection
from engine.jobs.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Submission:
    """A run that is wanted: `settings` and `inputs` are written into its folder, all that the job sees of the desk.

    `afterwards` is for the desk alone: what its ingest does next. It stands in the run's row beside the settings.
    `elsewhere`: a worker will run it; it is not started here, and waits to be exported.
    """

    kind: str
    settings: Mapping[str, object]
    inputs: Mapping[str, pa.Table]
    seed: int
    afterwards: Mapping[str, object] = field(default_factory=dict)
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Ingested:
    """What bringing a run's outputs in came to: `counts` join the run's result, `then` is queued with it."""

    counts: Mapping[str, object]
    then: Submission | None = None


Ingest = Callable[[Connection, RunFolder, Run], Ingested]
"""Called once a run is done, inside the transaction that also marks it so."""

Prepare = Callable[[RunFolder, Run], Ingest]
"""Called before that transaction, in place of an ingest, to do what takes long and needs no store; what it gives is
the ingest. Copying a model in takes seconds in which nobody could save an answer."""

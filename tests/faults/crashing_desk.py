"""A desk that is killed: `python -m tests.faults.crashing_desk URL STORE ACKS` forks one child an order from stdin.

An order is `FAULT NUMBER VARIANT,VARIANT,...`: submit a label for each variant, then sync, and at the NUMBER-th commit
of that die by SIGKILL, `before` or `after` it (`never` for a clean run). A label is written to ACKS once its commit
returned. The answer is one line: `killed`, `done` or `failed REASON`. The imports are paid once, before the forks.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import annotation.transport  # noqa: F401 - imports the SDK, once for all forks
from annotation.client import LabelStudioClient
from annotation.sync import LabelStudioSync
from data.records import VariantId
from data.store import Connection, Store
from tests.annotation.labelling import NO_AU, YES, Bench, Clock


class WallClock(Clock):
    """The time of day: a child must not tell the times that the child before it told."""

    def __call__(self) -> datetime:
        return now()


class MortalStore(Store):
    """Dies at a chosen commit."""

    fault = "never"
    commits_left = 0

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with super().write() as connection:
            yield connection
            MortalStore.commits_left -= 1
            self._die("before")
        self._die("after")

    @staticmethod
    def _die(where: str) -> None:
        if MortalStore.commits_left == 0 and MortalStore.fault == where:
            os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, store_file: Path, acks: Path) -> None:
    for line in sys.stdin:
        fault, number, names = line.rstrip("\n").split(" ")
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            reason = child(
                url, store_file, acks, fault, int(number), [VariantId(name) for name in names.split(",") if name]
            )
            os.write(writing, reason.encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            said = answer.read()
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print("killed" if killed else said, flush=True)


def child(url: str, store_file: Path, acks: Path, fault: str, number: int, variants: list[VariantId]) -> str:
    try:
        store = MortalStore.open(store_file, now=now)
        MortalStore.fault, MortalStore.commits_left = fault, number
        bench = Bench(store, WallClock())
        for variant in variants:
            label = bench.submit(variant, YES if number % 2 else NO_AU, by=f"console{number % 3}")
            with acks.open("a") as out:
                out.write(f"{label.annotation_id} {label.revision} {label.content_hash}\n")
                out.flush()
                os.fsync(out.fileno())
        client = LabelStudioClient(url, "ab" * 20, rng=Random(number))
        LabelStudioSync(store, client, now=now, rng=Random(7)).run_once(with_sweep=number % 4 == 0)
        store.close()
    except Exception as exc:  # noqa: BLE001 - told to the test
        return f"failed {type(exc).__name__}: {exc}".replace("\n", " ")
    return "done"


def now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))

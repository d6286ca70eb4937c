"""`make bench`: ratios of ours to what stands beside it, both measured in this run, interleaved, median of five.

No figure here is a promise about another machine, and no test fails on an absolute time.
A row is a module `tests/bench/bench_*.py` with NAME, BESIDE, BAR and `measure(run) -> (seconds ours, seconds beside)`.
Names on the command line choose rows: `python -m tests.bench batch_upsert`.
"""

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, cast

RUNS = 5


class Row(Protocol):
    NAME: str
    BESIDE: str
    BAR: str
    measure: Callable[[int], tuple[float, float]]


class Ratio(NamedTuple):
    """How many times faster ours is, per run; and the medians in seconds, for orientation only."""

    row: Row
    per_run: list[float]
    ours_s: float
    beside_s: float


def load_row(file: Path) -> Row:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("Row", module)  # a module has the protocol's four names; a missing one fails at its use


def measured(row: Row) -> Ratio:
    pairs = [row.measure(run) for run in range(RUNS)]
    ours, beside = zip(*pairs, strict=True)
    return Ratio(row, [b / a for a, b in pairs], statistics.median(ours), statistics.median(beside))


def line(ratio: Ratio) -> str:
    low, high = min(ratio.per_run), max(ratio.per_run)
    figure = f"{statistics.median(ratio.per_run):.2f}x ({low:.2f}-{high:.2f})"
    row = ratio.row
    return f"| {row.NAME} | {row.BESIDE} | {row.BAR} | {figure} | {ratio.ours_s:.4g} s / {ratio.beside_s:.4g} s |"


def main(names: Sequence[str]) -> int:
    files = sorted(Path(__file__).parent.glob("bench_*.py"))
    chosen = [file for file in files if not names or file.stem.removeprefix("bench_") in names]
    if not chosen:
        known = ", ".join(file.stem.removeprefix("bench_") for file in files)
        print(f"no such row; known are {known}", file=sys.stderr)
        return 2
    began = time.monotonic()
    print("| measure | beside it | bar | ratio: median (lowest-highest) | medians, ours / beside |")
    print("|---|---|---|---|---|")
    for file in chosen:
        print(f"measuring {file.stem.removeprefix('bench_')} ...", file=sys.stderr, flush=True)
        print(line(measured(load_row(file))), flush=True)
    print(f"{RUNS} interleaved runs a row, {time.monotonic() - began:.0f} s in all", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

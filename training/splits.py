"""In which part a question cluster stands: train, validation, calibration or gate. Drawn once; never redrawn.

Only `train` is learnt from. Early stopping looks at `validation`, calibration and thresholds at `calibration`, and
`gate` is kept for judging verifiers and generators. The parts fill by quota within each benchmark, the gate first to
the few questions without which it says nothing. Refuses to look at labels or verdicts: they must not move a question.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from data.ids import row_seed
from data.records import PARTS, Part
from training.gate_report import MIN_GATE_QUESTIONS

SHARES_PERCENT: Final[Mapping[Part, int]] = {"train": 50, "validation": 10, "calibration": 15, "gate": 25}


def assign(
    clusters: Mapping[str, str], standing: Mapping[str, tuple[str, Part]], *, learnt: Collection[str], seed: int
) -> dict[str, Part]:
    """The parts of those of `clusters` that have none yet; the same arguments give the same parts.

    Each goes where its benchmark lacks most, in an order that `seed` and the cluster's id alone decide.

    Args:
        clusters: cluster to its benchmark.
        standing: cluster to its benchmark and the part in which it stands for good.
        learnt: what the sample's first verifier has learnt from. They are `train` and use up no quota: all that people
            label of the sample's other questions is split like that of any benchmark.
    """
    filled: dict[str, Counter[Part]] = {}
    for cluster, (benchmark, part) in standing.items():
        if cluster not in learnt:
            filled.setdefault(benchmark, Counter())[part] += 1
    parts: dict[str, Part] = {}
    for cluster in sorted(clusters, key=lambda it: (row_seed("part", seed, it), it)):
        if cluster in standing:
            continue
        if cluster in learnt:
            parts[cluster] = "train"
            continue
        count = filled.setdefault(clusters[cluster], Counter())
        parts[cluster] = _most_lacking(count)
        count[parts[cluster]] += 1
    return parts


def _most_lacking(count: Counter[Part]) -> Part:
    """The part that lacks most once one more has come; of equals the first of PARTS."""
    if count["gate"] < min(MIN_GATE_QUESTIONS, count["train"]):
        return "gate"
    whole = count.total() + 1
    return max(PARTS, key=lambda part: SHARES_PERCENT[part] * whole - 100 * count[part])

"""The part of a question cluster: train, validation, calibration or gate. Drawn once, never redrawn.

Models learn only from `train`. `validation` is for early stopping, `calibration` for calibration and thresholds, and
`gate` for judging verifiers and generators. Parts fill by quota within each benchmark, starting with the minimum that
the gate needs. Refuses to look at labels or verdicts: they must not move a question.
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
    """Parts for those of `clusters` that have none yet; the same arguments give the same parts.

    Each goes where its benchmark is shortest of its quota, in an order decided only by `seed` and the cluster's id.

    Args:
        clusters: cluster to its benchmark.
        standing: cluster to its benchmark and its permanent part.
        learnt: what the sample's first verifier was trained on. They are `train` and count towards no quota, so that
            the sample's other questions are split like those of any benchmark.
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
    """The part furthest below its quota once one more is added; ties go to the first of PARTS."""
    if count["gate"] < min(MIN_GATE_QUESTIONS, count["train"]):
        return "gate"
    whole = count.total() + 1
    return max(PARTS, key=lambda part: SHARES_PERCENT[part] * whole - 100 * count[part])

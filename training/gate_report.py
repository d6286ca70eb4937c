"""What the promotion gate found, as values and as the JSON that a run leaves.

Owns the shapes; `training.gate` fills them and `training.gate_reasons` concludes. Refuses to round what is compared:
only the JSON is rounded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from data.records import VariantId, VerdictTarget
from engine.verifier_metrics import Confusion, TargetQuality
from engine.verifier_metrics import as_json as quality_as_json
from training.paired_bootstrap import Interval

MIN_GATE_LABELS: Final = 20
MIN_GATE_QUESTIONS: Final = 5
Outcome = Literal["passes", "fails", "cannot_say"]

FLIP_SCHEMA: Final = pa.schema(
    [
        ("variant_id", pa.string()),
        ("target", pa.string()),
        ("truth", pa.bool_()),
        ("champion", pa.bool_()),
        ("challenger", pa.bool_()),
        ("champion_probability", pa.float64()),
        ("challenger_probability", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class HumanAgreement:
    """Of two people on the same items: share of equal answers, kappa (None where undefined), and on how many items."""

    share: float
    kappa: float | None
    pairs: int


@dataclass(frozen=True, slots=True)
class Judged:
    """One verifier on one target."""

    quality: TargetQuality
    confusion: Confusion


@dataclass(frozen=True, slots=True)
class TargetComparison:
    """One target over the rows that both verifiers judged; differences are challenger minus champion.

    `unjudged` rows have an answer but lack a verdict of one or both; `lost` of them lack the challenger's alone.
    `champion` and `challenger` are None without rows, an interval where it is undefined.
    """

    target: VerdictTarget
    labels: int
    questions: int
    yes: int
    unjudged: int
    lost: int
    champion: Judged | None
    challenger: Judged | None
    balanced_accuracy: Interval | None
    fail_pr_auc: Interval | None
    ece: Interval | None
    is_non_inferior: bool
    is_better: bool
    human_agreement: HumanAgreement | None
    is_at_human_agreement: bool

    @property
    def is_large_enough(self) -> bool:
        return self.labels >= MIN_GATE_LABELS and self.questions >= MIN_GATE_QUESTIONS


@dataclass(frozen=True, slots=True)
class PastErrors:
    """Items that an earlier verifier got wrong: how many both judged again, and who is wrong on how many of them."""

    count: int
    champion_wrong: int
    challenger_wrong: int


@dataclass(frozen=True, slots=True)
class Flip:
    """An answer on which the two verifiers differ; `truth` is people's."""

    variant_id: VariantId
    target: VerdictTarget
    truth: bool
    champion: bool
    challenger: bool
    champion_probability: float
    challenger_probability: float


@dataclass(frozen=True, slots=True)
class GateReport:
    """`labels` and `questions` are those of the target. `reasons` are sentences, what decides first."""

    outcome: Outcome
    reasons: tuple[str, ...]
    target: VerdictTarget
    labels: int
    questions: int
    margin: float
    targets: tuple[TargetComparison, ...]
    past_errors: PastErrors
    flips: tuple[Flip, ...]


def as_json(report: GateReport) -> dict[str, object]:
    """For a run's counts and `outputs/gate.json`."""
    return {
        "outcome": report.outcome,
        "reasons": list(report.reasons),
        "target": report.target,
        "labels": report.labels,
        "questions": report.questions,
        "margin": report.margin,
        "targets": {one.target: _comparison_as_json(one) for one in report.targets},
        "past_errors": {
            "count": report.past_errors.count,
            "champion_wrong": report.past_errors.champion_wrong,
            "challenger_wrong": report.past_errors.challenger_wrong,
        },
        "flips": [
            {"variant_id": flip.variant_id, "target": flip.target, "truth": flip.truth}
            | {"champion": flip.champion, "challenger": flip.challenger}
            for flip in report.flips
        ],
    }


def flips_table(report: GateReport) -> pa.Table:
    """FLIP_SCHEMA, in the report's order."""
    rows = [{name: getattr(flip, name) for name in FLIP_SCHEMA.names} for flip in report.flips]
    return pa.Table.from_pylist(rows, schema=FLIP_SCHEMA)


def _comparison_as_json(one: TargetComparison) -> dict[str, object]:
    people = one.human_agreement
    return {
        "labels": one.labels,
        "questions": one.questions,
        "yes": one.yes,
        "unjudged": one.unjudged,
        "champion": _judged_as_json(one.champion),
        "challenger": _judged_as_json(one.challenger),
        "difference": {
            "balanced_accuracy": _interval_as_json(one.balanced_accuracy),
            "fail_pr_auc": _interval_as_json(one.fail_pr_auc),
            "ece": _interval_as_json(one.ece),
        },
        "is_non_inferior": one.is_non_inferior,
        "is_better": one.is_better,
        "human_agreement": None
        if people is None
        else {"share": people.share, "kappa": people.kappa, "pairs": people.pairs},
        "is_at_human_agreement": one.is_at_human_agreement,
    }


def _judged_as_json(judged: Judged | None) -> Mapping[str, object] | None:
    if judged is None:
        return None
    counts = {name: getattr(judged.confusion, name) for name in Confusion.__dataclass_fields__}
    kappa = judged.confusion.kappa
    return {**quality_as_json(judged.quality), "confusion": counts, "kappa": None if kappa is None else round(kappa, 4)}


def _interval_as_json(interval: Interval | None) -> Mapping[str, float] | None:
    if interval is None:
        return None
    return {"mean": round(interval.mean, 4), "low": round(interval.low, 4), "high": round(interval.high, 4)}

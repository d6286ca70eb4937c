"""What the promotion gate found, as values that travel from the job to the page.

Owns the shapes, on disk and in memory the same; `training.gate` fills them and `training.gate_reasons` concludes.
Refuses to round what is compared: only JSON is rounded. The answers on which the verifiers differ stay out of the
report: they may be somebody's blind items, and only leads see them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import pyarrow as pa
from pydantic import Field, TypeAdapter

from data.records import VariantId, VerdictTarget
from engine.report_json import Count, Figure, dumped, loaded
from engine.verifier_metrics import Confusion, TargetQuality
from training.paired_bootstrap import Interval

MIN_GATE_LABELS: Final = 20
MIN_GATE_QUESTIONS: Final = 5
GateOutcome = Literal["passes", "fails", "cannot_say"]
Kappa = Annotated[Figure, Field(ge=-1, le=1)]

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
    """Two people on the same items: share of equal answers, kappa (None if undefined), and on how many items."""

    share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    kappa: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] | None
    pairs: Count


@dataclass(frozen=True, slots=True)
class JudgedTarget(TargetQuality):
    """One verifier on one target; `kappa` is its agreement with people beyond chance, None if undefined."""

    confusion: Confusion
    kappa: Kappa | None


@dataclass(frozen=True, slots=True)
class Differences:
    """Challenger minus champion with 95 % intervals; None if a figure is undefined. A lower `ece` is better."""

    balanced_accuracy: Interval | None
    fail_pr_auc: Interval | None
    ece: Interval | None


@dataclass(frozen=True, slots=True)
class TargetComparison:
    """One target over the `labels` rows that both verifiers judged, `yes` of which hold according to people.

    `unjudged` rows have an answer but no verdict by one or both verifiers; `lost` of them lack only the challenger's.
    `champion` and `challenger` are None without rows.
    """

    labels: Count
    questions: Count
    yes: Count
    unjudged: Count
    champion: JudgedTarget | None
    challenger: JudgedTarget | None
    difference: Differences
    is_non_inferior: bool
    is_better: bool
    human_agreement: HumanAgreement | None
    is_at_human_agreement: bool
    lost: Count = 0

    @property
    def is_large_enough(self) -> bool:
        return self.labels >= MIN_GATE_LABELS and self.questions >= MIN_GATE_QUESTIONS


@dataclass(frozen=True, slots=True)
class PastErrors:
    """Items that an earlier verifier got wrong: how many both judged again, and how many each still gets wrong."""

    count: Count
    champion_wrong: Count
    challenger_wrong: Count


@dataclass(frozen=True, slots=True)
class GateReport:
    """`labels` and `questions` are those of the target. `reasons` are sentences, the decisive ones first.

    `margin`: how much worse balanced accuracy, PR-AUC and calibration error may be and still count as no worse.
    """

    outcome: GateOutcome
    reasons: tuple[str, ...]
    target: VerdictTarget
    labels: Count
    questions: Count
    margin: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
    targets: Mapping[VerdictTarget, TargetComparison]
    past_errors: PastErrors


@dataclass(frozen=True, slots=True)
class Flip:
    """An answer on which the verifiers differ; `truth` is the human answer, the probabilities are P(holds), 0..1."""

    variant_id: VariantId
    target: VerdictTarget
    truth: bool
    champion: bool
    challenger: bool
    champion_probability: float
    challenger_probability: float


_GATE_REPORT: Final = TypeAdapter(GateReport)


def gate_report_as_json(report: GateReport) -> dict[str, Any]:
    """For a run's counts and `outputs/gate.json`."""
    return dumped(_GATE_REPORT, report)


def gate_report_from(content: object, *, source: str) -> GateReport:
    """Inverse of `gate_report_as_json`. Raises ReportError, which names the source."""
    return loaded(_GATE_REPORT, content, source=source)


def flips_as_json(flips: Sequence[Flip]) -> list[dict[str, object]]:
    """For `outputs/gate.json`, in addition to the report."""
    names = ("variant_id", "target", "truth", "champion", "challenger")
    return [{name: getattr(flip, name) for name in names} for flip in flips]


def flips_table(flips: Sequence[Flip]) -> pa.Table:
    """FLIP_SCHEMA, in the order given."""
    rows = [{name: getattr(flip, name) for name in FLIP_SCHEMA.names} for flip in flips]
    return pa.Table.from_pylist(rows, schema=FLIP_SCHEMA)

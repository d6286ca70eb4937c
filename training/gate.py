"""The promotion gate: whether a challenger may replace the champion, measured on blind labels of gate questions.

It passes if it is no worse on any dimension by more than the margin and better on the target, both with 95 %
confidence, and repeats no more of the past errors. Owns measures and outcome; `training.gate_reasons` puts them into
words, docs/adr/0010-the-gate.md explains them. Refuses to conclude anything from too few labels.

Both verifiers are labelled by the likelier answer, and validity is the conjunction of the three answers if they give
them: a calibration's threshold for the accepted set is a policy, and would decide the comparison.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from data.dimensions import DIMENSIONS
from data.records import Answers, VariantId, VerdictTarget
from engine.verifier_metrics import confusion, target_quality, target_truth
from training.gate_reasons import findings, outcome_of
from training.gate_report import (
    Differences,
    Flip,
    GateReport,
    HumanAgreement,
    JudgedTarget,
    PastErrors,
    TargetComparison,
)
from training.paired_bootstrap import (
    Interval,
    balanced_accuracies,
    calibration_errors,
    difference_interval,
    fail_pr_aucs,
)

MIN_HUMAN_PAIRS: Final = 20
"""With fewer doubly labelled items, human agreement is not known well enough to serve as an excuse."""

_TARGETS: Final[tuple[VerdictTarget, ...]] = get_args(VerdictTarget)
Judgements = Mapping[VariantId, Mapping[VerdictTarget, float | None]]
"""A verifier's probabilities by variant and target; None or missing without a verdict."""


@dataclass(frozen=True, slots=True)
class GateRow:
    """A variant with blind answers; `group` is its question's cluster."""

    variant_id: VariantId
    answers: Answers
    group: str


class Gated(NamedTuple):
    """The report, and the answers on which the verifiers differ."""

    report: GateReport
    flips: tuple[Flip, ...]


class _Rows(NamedTuple):
    """What both judged of a target, in the order of the gate rows."""

    ids: list[VariantId]
    groups: list[str]
    truths: NDArray[np.bool_]
    champion: NDArray[np.float64]
    challenger: NDArray[np.float64]
    champion_labels: NDArray[np.bool_]
    challenger_labels: NDArray[np.bool_]


def gate(
    rows: Sequence[GateRow],
    champion: Judgements,
    challenger: Judgements,
    *,
    target: VerdictTarget,
    margin: float,
    seed: int,
    past_errors: Collection[VariantId] = (),
    human_agreement: Mapping[VerdictTarget, HumanAgreement] | None = None,
) -> Gated:
    """The comparison and its outcome; the same rows in any order and the same seed give the same report.

    Args:
        target: where the challenger has to be better.
        margin: how much worse, in balanced accuracy, calibration error and PR-AUC, still counts as no worse.
        past_errors: of the rows, those that some verifier was wrong on before.
    """
    ordered = sorted(rows, key=lambda row: row.variant_id)
    agreement = human_agreement or {}
    judged = {
        one for of_variant in champion.values() for one, probability in of_variant.items() if probability is not None
    }
    compared = {
        one: _compare(ordered, champion, challenger, one, margin, seed, agreement.get(one))
        for one in (target, *(one for one in _TARGETS if one != target and one in judged))
    }
    past = _past_errors([row for row in ordered if row.variant_id in past_errors], champion, challenger)
    found = findings(target, compared, past, margin)
    report = GateReport(
        outcome=outcome_of(found, compared[target]),
        reasons=tuple(finding.text for finding in found),
        target=target,
        labels=compared[target].labels,
        questions=compared[target].questions,
        margin=margin,
        targets=compared,
        past_errors=past,
    )
    return Gated(report, tuple(flip for one in compared for flip in _flips(ordered, champion, challenger, one)))


def likelier_label(probabilities: Mapping[VerdictTarget, float | None], target: VerdictTarget) -> bool | None:
    """The likelier answer; for validity, the conjunction of the three if the verifier gives them. None if unjudged."""
    if target == "valid":
        parts = [probabilities.get(dimension.key) for dimension in DIMENSIONS]
        if any(part is not None for part in parts):
            return None if None in parts else all(part is not None and part >= 0.5 for part in parts)
    probability = probabilities.get(target)
    return None if probability is None else probability >= 0.5


def _compare(
    rows: Sequence[GateRow],
    champion: Judgements,
    challenger: Judgements,
    target: VerdictTarget,
    margin: float,
    seed: int,
    people: HumanAgreement | None,
) -> TargetComparison:
    judged = _judged_by_both(rows, champion, challenger, target)
    answered = [row.variant_id for row in rows if target_truth(row.answers, target) is not None]
    by_champion = {one for one in answered if _has_verdict(champion, one, target)}
    by_challenger = {one for one in answered if _has_verdict(challenger, one, target)}
    both = (
        None if not judged.ids else _measured(target, judged.truths, judged.champion, judged.champion_labels),
        None if not judged.ids else _measured(target, judged.truths, judged.challenger, judged.challenger_labels),
    )
    accuracy, ranking, calibration = _intervals(judged, seed)
    return TargetComparison(
        labels=len(judged.ids),
        questions=len(set(judged.groups)),
        yes=int(judged.truths.sum()),
        unjudged=len(answered) - len(judged.ids),
        lost=len(by_champion - by_challenger),
        champion=both[0],
        challenger=both[1],
        difference=Differences(accuracy, ranking, calibration),
        is_non_inferior=accuracy is not None and accuracy.low > -margin,
        is_better=any(one is not None and one.low > 0 for one in (accuracy, ranking)),
        human_agreement=people,
        is_at_human_agreement=both[0] is not None and _reaches(both[0].kappa, people),
    )


def _intervals(judged: _Rows, seed: int) -> tuple[Interval | None, Interval | None, Interval | None]:
    """Intervals for balanced accuracy, PR-AUC of the fail class and calibration error; None with only one answer."""
    truths = judged.truths
    if not truths.any() or truths.all():
        return None, None, None
    measures = (
        (balanced_accuracies(truths, judged.champion_labels), balanced_accuracies(truths, judged.challenger_labels)),
        (fail_pr_aucs(truths, judged.champion), fail_pr_aucs(truths, judged.challenger)),
        (calibration_errors(truths, judged.champion), calibration_errors(truths, judged.challenger)),
    )
    accuracy, ranking, calibration = (
        difference_interval(before, after, judged.groups, seed=seed) for before, after in measures
    )
    return accuracy, ranking, calibration


def _judged_by_both(
    rows: Sequence[GateRow], champion: Judgements, challenger: Judgements, target: VerdictTarget
) -> _Rows:
    kept = [row for row in rows if target_truth(row.answers, target) is not None]
    kept = [row for row in kept if all(_has_verdict(side, row.variant_id, target) for side in (champion, challenger))]
    ids = [row.variant_id for row in kept]
    probabilities = [np.array([side[one][target] for one in ids], dtype=float) for side in (champion, challenger)]
    labels = [
        np.array([likelier_label(side[one], target) for one in ids], dtype=bool) for side in (champion, challenger)
    ]
    truths = np.array([target_truth(row.answers, target) for row in kept], dtype=bool)
    return _Rows(ids, [row.group for row in kept], truths, probabilities[0], probabilities[1], labels[0], labels[1])


def _has_verdict(side: Judgements, variant_id: VariantId, target: VerdictTarget) -> bool:
    of_variant = side.get(variant_id, {})
    return of_variant.get(target) is not None and likelier_label(of_variant, target) is not None


def _measured(
    target: VerdictTarget, truths: NDArray[np.bool_], probabilities: NDArray[np.float64], labels: NDArray[np.bool_]
) -> JudgedTarget:
    counts, quality = confusion(truths, labels), target_quality(target, truths, probabilities, labels)
    figures = {one.name: getattr(quality, one.name) for one in fields(quality)}
    return JudgedTarget(**figures, confusion=counts, kappa=counts.kappa)


def _reaches(kappa: float | None, people: HumanAgreement | None) -> bool:
    """Whether a verifier agrees with people as well as people do with each other, by kappa."""
    if people is None or people.kappa is None or people.pairs < MIN_HUMAN_PAIRS or kappa is None:
        return False
    return kappa >= people.kappa


def _past_errors(rows: Sequence[GateRow], champion: Judgements, challenger: Judgements) -> PastErrors:
    """A verifier is wrong if it contradicts people on any target that both verifiers answer."""
    wrong = []
    for row in rows:
        flags = [
            (first != truth, second != truth)
            for target in _TARGETS
            if (truth := target_truth(row.answers, target)) is not None
            and (first := likelier_label(champion.get(row.variant_id, {}), target)) is not None
            and (second := likelier_label(challenger.get(row.variant_id, {}), target)) is not None
        ]
        if flags:
            wrong.append((any(first for first, _ in flags), any(second for _, second in flags)))
    return PastErrors(len(wrong), sum(first for first, _ in wrong), sum(second for _, second in wrong))


def _flips(
    rows: Sequence[GateRow], champion: Judgements, challenger: Judgements, target: VerdictTarget
) -> Iterator[Flip]:
    judged = _judged_by_both(rows, champion, challenger, target)
    for index in np.flatnonzero(judged.champion_labels != judged.challenger_labels):
        yield Flip(
            variant_id=judged.ids[index],
            target=target,
            truth=bool(judged.truths[index]),
            champion=bool(judged.champion_labels[index]),
            challenger=bool(judged.challenger_labels[index]),
            champion_probability=float(judged.champion[index]),
            challenger_probability=float(judged.challenger[index]),
        )

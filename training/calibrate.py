"""Fits what turns a verifier's probabilities into verdicts: a map and a threshold per target.

Uses labels of question groups that the verifier was not trained on. With fewer than ISOTONIC_FROM labels a target's map
is Platt scaling on the log odds, otherwise isotonic. Validity gets its own map on top of the product of the three,
because a product of calibrated probabilities is not calibrated. Refuses thresholds that the labels do not prove, and to
judge a map on the labels it was fitted on: calibration errors come from maps fitted without the row's group.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from data.dimensions import DIMENSIONS
from data.ids import row_seed
from data.records import Answers, VerdictTarget
from engine.calibration import Calibration, CalibrationMap
from engine.verifier_metrics import Probabilities, expected_calibration_error, target_truth
from training.calibration_maps import fit_isotonic, fit_platt
from training.thresholds import Threshold, first_tried, threshold_for
from training.verifier_report import CalibrationReport, MapKind, TargetCalibration

FEWEST_LABELS: Final = 20
"""With fewer calibration labels, a target's probabilities stay uncalibrated."""
ISOTONIC_FROM: Final = 1000
_FOLDS: Final = 5

Chosen = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ScoredLabels:
    """Labels and the verifier's probabilities for them before any map, in the same order.

    `probabilities` by target: (n,), NaN without a verdict. Either TC, LC and AU (`valid` is then their product and not
    read), or `valid` alone. `groups` are the questions' clusters.
    """

    probabilities: Mapping[VerdictTarget, Probabilities]
    answers: Sequence[Answers]
    groups: Sequence[str]


@dataclass(frozen=True, slots=True)
class CalibrationFit:
    """`probabilities` are in the order of the labels, each from maps fitted without the row's group."""

    calibration: Calibration
    targets: CalibrationReport
    probabilities: Mapping[VerdictTarget, Probabilities]


def fit_calibration(scored: ScoredLabels, *, target_precision: float) -> CalibrationFit:
    """Maps and thresholds for the targets that the verifier judges; the same rows give identical bytes.

    A target with too few labels, or without a threshold that reaches `target_precision` (0..1), says so in its note and
    keeps its probabilities or the threshold 0.5.
    """
    everything = np.ones(len(scored.answers), dtype=bool)
    truths = {target: truths_of(scored.answers, target) for target in _targets(scored)}
    kinds = {target: _map_kind(len(known_rows(scored, target))) for target in truths}
    maps = _fitted_maps(scored, kinds, everything)
    final = calibrated(Calibration(maps), scored.probabilities)
    crossed = _cross_fitted(scored, kinds)
    before = calibrated(Calibration(), scored.probabilities)
    found: dict[VerdictTarget, TargetCalibration] = {}
    for target in truths:
        rows = known_rows(scored, target)
        labels = np.array([bool(truths[target][row]) for row in rows], dtype=bool)
        threshold, note = _threshold(target, labels, final[target][rows], target_precision, kinds[target])
        errors = [
            expected_calibration_error(labels, one[target][rows]) if len(rows) else None for one in (before, crossed)
        ]
        found[target] = TargetCalibration(len(rows), kinds[target], errors[0], errors[1], threshold, note)
    thresholds = {target: it.threshold.probability for target, it in found.items() if it.threshold is not None}
    return CalibrationFit(Calibration(maps, thresholds), found, crossed)


def calibrated(
    calibration: Calibration, raw: Mapping[VerdictTarget, Probabilities]
) -> dict[VerdictTarget, Probabilities]:
    """As in verdicts: TC, LC and AU mapped, and their product mapped again; or only `valid`."""
    mapped: dict[VerdictTarget, Probabilities] = {
        d.key: calibration.mapped(d.key, raw[d.key]) for d in DIMENSIONS if d.key in raw
    }
    product = np.prod(list(mapped.values()), axis=0) if mapped else raw["valid"]
    mapped["valid"] = calibration.mapped("valid", product)
    return mapped


def truths_of(answers: Sequence[Answers], target: VerdictTarget) -> list[bool | None]:
    """One per row; None if it was left open."""
    return [target_truth(answer, target) for answer in answers]


def known_rows(scored: ScoredLabels, target: VerdictTarget) -> NDArray[np.int_]:
    """Indices of the rows with both a label and a verdict on `target`."""
    has_label = np.array([truth is not None for truth in truths_of(scored.answers, target)], dtype=bool)
    has_verdict = ~np.isnan(calibrated(Calibration(), scored.probabilities)[target])
    return np.flatnonzero(has_label & has_verdict)


def _targets(scored: ScoredLabels) -> tuple[VerdictTarget, ...]:
    return (*(d.key for d in DIMENSIONS if d.key in scored.probabilities), "valid")


def _map_kind(labels: int) -> MapKind:
    return "none" if labels < FEWEST_LABELS else "platt" if labels < ISOTONIC_FROM else "isotonic"


def _fitted_maps(
    scored: ScoredLabels, kinds: Mapping[VerdictTarget, MapKind], chosen: Chosen
) -> dict[VerdictTarget, CalibrationMap]:
    """Maps from the chosen rows; `valid` last, on the product of the others after mapping."""
    maps: dict[VerdictTarget, CalibrationMap] = {}
    for target, kind in kinds.items():
        rows = [row for row in known_rows(scored, target) if chosen[row]]
        if kind == "none" or not rows:
            continue
        truths = truths_of(scored.answers, target)
        labels = np.array([bool(truths[row]) for row in rows], dtype=bool)
        probabilities = calibrated(Calibration(maps), scored.probabilities)[target][rows]
        maps[target] = fit_platt(labels, probabilities) if kind == "platt" else fit_isotonic(labels, probabilities)
    return maps


def _cross_fitted(scored: ScoredLabels, kinds: Mapping[VerdictTarget, MapKind]) -> dict[VerdictTarget, Probabilities]:
    """Probabilities from maps fitted on the other folds; groups are assigned to folds by content."""
    distinct = sorted(set(scored.groups), key=lambda group: (row_seed("calibration fold", group), group))
    fold_of = {group: place % _FOLDS for place, group in enumerate(distinct)}
    folds = np.array([fold_of[group] for group in scored.groups], dtype=int)
    crossed: dict[VerdictTarget, Probabilities] = {t: np.full(len(scored.answers), math.nan) for t in kinds}
    for fold in np.unique(folds):
        maps = _fitted_maps(scored, kinds, folds != fold)
        for target, found in calibrated(Calibration(maps), scored.probabilities).items():
            crossed[target][folds == fold] = found[folds == fold]
    return crossed


def _threshold(
    target: VerdictTarget,
    truths: NDArray[np.bool_],
    probabilities: Probabilities,
    target_precision: float,
    kind: MapKind,
) -> tuple[Threshold | None, str]:
    """The threshold, and a note on it."""
    if kind == "none":
        return None, (
            f"{target}: {len(truths)} calibration labels, but at least {FEWEST_LABELS} are needed; its probabilities "
            f"stay uncalibrated, and its label is yes from 0.5 on"
        )
    found = threshold_for(truths, probabilities, target_precision=target_precision)
    if found is not None:
        return found, ""
    first = first_tried(truths, probabilities, target_precision=target_precision)
    return None, (
        f"{target}: {len(truths)} calibration labels prove no threshold with a precision of {target_precision:g}: "
        f"{first.right} of the {first.accepted} most probable are right, which proves {first.precision_bound:.2f}; "
        f"its label is yes from 0.5 on"
    )

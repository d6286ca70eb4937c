"""A trained verifier's verdicts on labels it was not trained on, and how good they are.

On calibration rows, calibration errors and labels use maps fitted without the row's group; on validation rows, the maps
that the verifier keeps. Ranking is measured before any map. Refuses to mix in rows used for training.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from data.records import VARIANT_TYPE_KEYS, VerdictTarget
from engine.calibration import Calibration
from engine.jobs.report import Reporter
from engine.verifier_metrics import Probabilities, TargetQuality, Truths, VerifierMetrics, target_quality
from engine.verify import Verifier
from training.calibrate import CalibrationFit, ScoredLabels, calibrated, truths_of
from training.labelled_rows import LabelledRows

_BATCH_ROWS: Final = 16


def scored_labels(
    verifier: Verifier,
    rows: LabelledRows,
    targets: Sequence[VerdictTarget],
    *,
    now: datetime,
    report: Reporter,
    text: str,
) -> ScoredLabels:
    """The labels with the verifier's uncalibrated probabilities.

    Args:
        targets: what the verifier judges: TC, LC and AU, or `valid` alone.
        text: what is being judged, for the progress report.

    Raises:
        JobCancelledError: a user stopped it.
    """
    by_target: dict[VerdictTarget, Probabilities] = {target: np.full(len(rows), math.nan) for target in targets}
    for start in range(0, len(rows), _BATCH_ROWS):
        report.progress(start, len(rows), text)
        batch = rows.pairs[start : start + _BATCH_ROWS]
        places = {variant.variant_id: row for row, (_, variant) in enumerate(batch, start)}
        for verdict in verifier.judge(batch, now=now):
            if verdict.target in by_target and verdict.probability is not None:
                by_target[verdict.target][places[verdict.variant_id]] = verdict.probability
    return ScoredLabels(by_target, rows.answers, rows.groups)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Calibration rows, then validation rows; P(target holds) before any map and as in a verdict."""

    rows: LabelledRows
    raw: Mapping[VerdictTarget, Probabilities]
    mapped: Mapping[VerdictTarget, Probabilities]


def held_out(
    fit: CalibrationFit,
    calibration: LabelledRows,
    calibration_scores: ScoredLabels,
    validation: LabelledRows,
    validation_scores: ScoredLabels,
) -> HeldOut:
    """Both parts together; `fit` comes from the calibration scores."""
    rows = LabelledRows(
        [*calibration.pairs, *validation.pairs],
        [*calibration.answers, *validation.answers],
        [*calibration.groups, *validation.groups],
    )
    kept = calibrated(fit.calibration, validation_scores.probabilities)
    before = [calibrated(Calibration(), one.probabilities) for one in (calibration_scores, validation_scores)]
    return HeldOut(
        rows,
        raw={target: np.concatenate([one[target] for one in before]) for target in kept},
        mapped={target: np.concatenate([fit.probabilities[target], kept[target]]) for target in kept},
    )


def held_out_metrics(found: HeldOut) -> VerifierMetrics:
    """The figures on both parts together."""
    types = np.array([VARIANT_TYPE_KEYS.index(variant.variant_type) for _, variant in found.rows.pairs], dtype=int)
    return VerifierMetrics(
        labels=len(found.rows),
        questions=len(set(found.rows.groups)),
        targets=_figures(found, np.ones(len(found.rows), dtype=bool)),
        types={
            key: _figures(found, types == index)
            for index, key in enumerate(VARIANT_TYPE_KEYS)
            if (types == index).any()
        },
    )


def held_out_quality(target: VerdictTarget, truths: Truths, raw: Probabilities, mapped: Probabilities) -> TargetQuality:
    """Ranking figures from `raw`, all others from `mapped`.

    Maps fitted without a fold are lowest where most of the fold holds, so ranking across folds would be misleading: a
    verifier that knows nothing would seem to know the opposite.
    """
    ranked = target_quality(target, truths, raw)
    return replace(target_quality(target, truths, mapped), roc_auc=ranked.roc_auc, fail_pr_auc=ranked.fail_pr_auc)


def _figures(found: HeldOut, chosen: NDArray[np.bool_]) -> dict[VerdictTarget, TargetQuality]:
    """Figures of each target with a label and a verdict among the chosen rows."""
    figures: dict[VerdictTarget, TargetQuality] = {}
    for target, mapped in found.mapped.items():
        labels = truths_of(found.rows.answers, target)
        known = chosen & np.array([label is not None for label in labels], dtype=bool) & ~np.isnan(mapped)
        if known.any():
            truths = np.array([bool(label) for label in labels])[known]
            figures[target] = held_out_quality(target, truths, found.raw[target][known], mapped[known])
    return figures

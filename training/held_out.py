"""What a trained verifier says of labels that it has not learnt from, and how good that is.

Figures on calibration labels are of maps that were fitted without the row's group; those on validation labels are of
the maps that the verifier keeps. Refuses to mix in a row that was trained on.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from data.records import VARIANT_TYPE_KEYS, VerdictTarget
from engine.jobs.report import Reporter
from engine.verifier_metrics import Probabilities, as_json, target_quality
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
    """The labels with the verifier's own probabilities.

    Args:
        targets: what the verifier is asked for: TC, LC and AU, or `valid` alone.
        text: what is judged, for the progress.

    Raises:
        JobCancelledError: a person stopped it.
    """
    said: dict[VerdictTarget, Probabilities] = {target: np.full(len(rows), math.nan) for target in targets}
    for start in range(0, len(rows), _BATCH_ROWS):
        report.progress(start, len(rows), text)
        batch = rows.pairs[start : start + _BATCH_ROWS]
        places = {variant.variant_id: row for row, (_, variant) in enumerate(batch, start)}
        for verdict in verifier.judge(batch, now=now):
            if verdict.target in said and verdict.probability is not None:
                said[verdict.target][places[verdict.variant_id]] = verdict.probability
    return ScoredLabels(said, rows.answers, rows.groups)


def held_out_figures(
    fit: CalibrationFit, calibration: LabelledRows, validation: LabelledRows, validation_scores: ScoredLabels
) -> dict[str, object]:
    """`labels`, `questions`, and the figures by `targets`, and by `types` and target; of both parts together."""
    rows = LabelledRows(
        [*calibration.pairs, *validation.pairs],
        [*calibration.answers, *validation.answers],
        [*calibration.groups, *validation.groups],
    )
    by_target = held_out_probabilities(fit, validation_scores)
    types = np.array([VARIANT_TYPE_KEYS.index(variant.variant_type) for _, variant in rows.pairs], dtype=int)
    return {
        "labels": len(rows),
        "questions": len(set(rows.groups)),
        "targets": _figures(by_target, rows, np.ones(len(rows), dtype=bool)),
        "types": {
            key: _figures(by_target, rows, types == index)
            for index, key in enumerate(VARIANT_TYPE_KEYS)
            if (types == index).any()
        },
    }


def held_out_probabilities(fit: CalibrationFit, validation: ScoredLabels) -> dict[VerdictTarget, Probabilities]:
    """Of the calibration labels, then of the validation labels."""
    mapped = calibrated(fit.calibration, validation.probabilities)
    return {target: np.concatenate([fit.probabilities[target], mapped[target]]) for target in fit.probabilities}


def _figures(
    by_target: Mapping[VerdictTarget, Probabilities], rows: LabelledRows, chosen: NDArray[np.bool_]
) -> dict[str, object]:
    """Of each target that has a label and a verdict among the chosen rows."""
    figures: dict[str, object] = {}
    for target, probabilities in by_target.items():
        labels = truths_of(rows.answers, target)
        known = chosen & np.array([label is not None for label in labels], dtype=bool) & ~np.isnan(probabilities)
        if known.any():
            truths = np.array([bool(label) for label in labels])
            figures[target] = as_json(target_quality(target, truths[known], probabilities[known]))
    return figures

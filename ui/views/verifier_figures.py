"""What a verification said or a training measured, by dimension; both methods beside each other; calibration."""

from collections.abc import Mapping
from typing import Final

from data.dimensions import DIMENSIONS
from ui.views.report_values import mapping, number
from ui.widgets.page import table

# What stands in a row of a verification's or a training's targets, in this order, and how it is called.
_TARGET_COLUMNS: Final[Mapping[str, str]] = {
    "yes": "yes",
    "no": "no",
    "unparsed": "unparsed",
    "n": "labels",
    "base_rate": "share of yes",
    "balanced_accuracy": "balanced accuracy",
    "majority_balanced_accuracy": "of always yes",
    "fail_pr_auc": "PR AUC of no",
    "majority_fail_pr_auc": "of chance",
    "roc_auc": "ROC AUC",
    "ece": "calibration error",
}
_NAMES: Final[Mapping[str, str]] = {**{one.key: one.name for one in DIMENSIONS}, "valid": "all three"}
_METHODS: Final[Mapping[str, str]] = {"era": "ERA, by dimension", "ira": "IRA, at once"}


def verifier_figures(counts: Mapping[str, object]) -> None:
    """Of a run's counts, what they hold; nothing where they hold none of it."""
    targets = {key: mapping(value) for key, value in mapping(counts.get("targets")).items()}
    if targets:
        is_measured = any("balanced_accuracy" in of_one for of_one in targets.values())
        _figures(targets, _NAMES, "Measured on questions that the verifier had not seen." if is_measured else "")
    methods = {key: mapping(value) for key, value in mapping(counts.get("methods")).items()}
    if methods:
        _figures(methods, _METHODS, "Both methods on the same held-out variants: is the variant valid?")
    calibration = {key: mapping(value) for key, value in mapping(counts.get("calibration")).items()}
    if calibration:
        _calibration(calibration)


def _figures(rows: Mapping[str, Mapping[str, object]], names: Mapping[str, str], caption: str) -> None:
    columns = [key for key in _TARGET_COLUMNS if any(key in counts for counts in rows.values())]
    table(
        ["", *(_TARGET_COLUMNS[key] for key in columns)],
        [[name, *(rows[key].get(column) for column in columns)] for key, name in names.items() if key in rows],
        caption=caption,
    )


def _calibration(targets: Mapping[str, Mapping[str, object]]) -> None:
    rows = []
    for key, name in _NAMES.items():
        if key not in targets:
            continue
        it = targets[key]
        threshold = mapping(it.get("threshold"))
        told = [number(threshold.get(one)) if threshold else "" for one in ("probability", "precision_bound")]
        rows.append(
            [name, it.get("labels"), it.get("map"), it.get("ece_before"), it.get("ece_after"), *told, it.get("note")]
        )
    table(
        ["", "labels", "map", "calibration error before", "after", "accepted from", "right at least", "note"],
        rows,
        caption="Calibrated on questions kept aside. Of what is accepted from the threshold on, at least so much is "
        "right, with 95 % confidence.",
    )

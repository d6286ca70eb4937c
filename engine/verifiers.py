"""Opens a trained verifier's folder, whatever its kind, and applies its calibration if it has one.

A folder holds `feature-verifier.json` (the feature verifier), or `config.json` and `verifier.json` (a language model
with the method it was trained for), and optionally `calibration.json`. Owns telling them apart and how a calibration
changes verdicts. Refuses folders of neither kind. Whether a registered folder is unchanged is checked by the
registry, before the folder is handed to a job.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from data.dimensions import DIMENSIONS
from data.errors import ModelError
from data.records import Verdict, VerdictMethod
from engine.calibration import Calibration
from engine.feature_verifier import MODEL_FILE, FeatureVerifier, saved_version
from engine.model_safety import refuse_broken_folder, refuse_unsafe_folder
from engine.verify import (
    LANGUAGE_METHODS,
    LanguageMethod,
    LanguageModelVerifier,
    Pair,
    Verifier,
    language_verifier_version,
)

METHOD_FILE: Final = "verifier.json"


def open_verifier(folder: Path, *, encoder: Path | None) -> Verifier:
    """The verifier, ready to judge; language models are loaded here.

    Args:
        encoder: the sentence encoder's folder, for a feature verifier that was trained with one.

    Raises:
        ModelError: the folder is not a verifier, is unsafe or damaged, or its encoder is missing or a different one.
    """
    calibration = Calibration.load(folder)
    verifier: Verifier
    if (folder / MODEL_FILE).is_file():
        verifier = FeatureVerifier.load(folder, encoder)
    else:
        method = _saved_method(folder)
        refuse_unsafe_folder(folder)
        refuse_broken_folder(folder)
        verifier = LanguageModelVerifier.load(folder, method)
    return verifier if calibration is None else CalibratedVerifier(verifier, calibration)


def verifier_version(folder: Path) -> str:
    """The same as `open_verifier(folder, ...).version`, without loading a model; about 1 s for 500 MB of weights.

    Raises:
        ModelError: the folder is not a verifier.
    """
    calibration = Calibration.load(folder)
    if verifier_method(folder) == "feature":
        return calibrated_version(saved_version(folder), calibration)
    refuse_unsafe_folder(folder)
    return calibrated_version(language_verifier_version(folder), calibration)


def calibrated_version(version: str, calibration: Calibration | None) -> str:
    """The version, with the hash of the calibration if there is one, since it changes the verdicts."""
    return version if calibration is None else f"{version}+c{calibration.content_hash}"


def verifier_method(folder: Path) -> VerdictMethod:
    """The method of the verifier in the folder. Raises ModelError if there is none."""
    return "feature" if (folder / MODEL_FILE).is_file() else _saved_method(folder)


def write_method(folder: Path, method: LanguageMethod, *, base: str) -> None:
    """Writes `verifier.json`, which makes a language model's folder a verifier; `base` is the model it started from."""
    (folder / METHOD_FILE).write_text(json.dumps({"method": method, "base": base}, indent=1, sort_keys=True), "utf-8")


class CalibratedVerifier:
    """A verifier with calibrated probabilities, and labels from the calibration's thresholds.

    P(valid) is the product of the mapped dimensions, mapped in turn, or the verifier's own probability if it does not
    judge dimensions. Its label is the conjunction of the three labels unless it has a fitted threshold.
    """

    def __init__(self, verifier: Verifier, calibration: Calibration) -> None:
        self.version = calibrated_version(verifier.version, calibration)
        self.method: VerdictMethod = verifier.method
        self._verifier = verifier
        self._calibration = calibration

    def judge(self, pairs: Sequence[Pair], *, now: datetime) -> list[Verdict]:
        """Like the verifier's own `judge`; items that it did not judge stay unjudged."""
        raw = self._verifier.judge(pairs, now=now)
        dimensions = {(one.variant_id, one.target): self._dimension(one) for one in raw if one.target != "valid"}
        verdicts = []
        for one in raw:
            if one.target == "valid":
                parts = [dimensions[key] for d in DIMENSIONS if (key := (one.variant_id, d.key)) in dimensions]
                verdicts.append(self._validity(one, parts))
            else:
                verdicts.append(dimensions[one.variant_id, one.target])
        return verdicts

    def _dimension(self, raw: Verdict) -> Verdict:
        if raw.probability is None:
            return replace(raw, verifier_version=self.version)
        probability = self._calibration.probability(raw.target, raw.probability)
        return self._calibrated(raw, probability, probability >= self._calibration.threshold(raw.target))

    def _validity(self, raw: Verdict, parts: Sequence[Verdict]) -> Verdict:
        if raw.probability is None:
            return replace(raw, verifier_version=self.version)
        product = math.prod(part.probability for part in parts if part.probability is not None)
        probability = self._calibration.probability("valid", product if parts else raw.probability)
        if parts and "valid" not in self._calibration.thresholds:
            return self._calibrated(raw, probability, all(part.label for part in parts))
        return self._calibrated(raw, probability, probability >= self._calibration.threshold("valid"))

    def _calibrated(self, raw: Verdict, probability: float, label: bool) -> Verdict:
        return replace(raw, probability=probability, label=label, verifier_version=self.version)


def _saved_method(folder: Path) -> LanguageMethod:
    file = folder / METHOD_FILE
    try:
        named = json.loads(file.read_text("utf-8"))["method"]
    except FileNotFoundError as exc:
        raise ModelError(
            f"there is no verifier in {folder}: neither {MODEL_FILE} nor {METHOD_FILE}; train one first"
        ) from exc
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelError(f"{file} does not name a method ({exc}); train the verifier again") from exc
    for method in LANGUAGE_METHODS:
        if named == method:
            return method
    raise ModelError(
        f"{file} names an unknown method {named!r}, not one of {', '.join(LANGUAGE_METHODS)}; train the verifier again"
    )

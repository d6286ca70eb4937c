"""The feature verifier: one calibrated logistic model per dimension, over the features of `engine.features`.

Small on purpose. On the sample's 305 labels, out of fold by question, a logistic model on features scaled within each
type ranks validity as well as gradient boosting and extremely randomised trees do (ROC-AUC 0.72 to 0.75 for all three,
0.02 between seeds); the trees lead only on LC (0.73 against 0.69). Its weights are plain JSON. Refuses pickles, changed
files, and to judge without the encoder it was trained with.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from data.dimensions import DIMENSIONS, DimensionKey
from data.errors import ModelError
from data.files import write_json
from data.ids import content_hash
from data.records import VARIANT_TYPE_KEYS, Question, Variant, Verdict, VerdictMethod, VerdictTarget
from engine.embeddings import Encoder
from engine.features import FEATURE_NAMES, FEATURES_VERSION, Features, can_be_judged, features
from engine.verify import Pair

MODEL_FILE: Final = "feature-verifier.json"
_FORMAT: Final = 1

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DimensionModel:
    """Logistic weights on features scaled within the variant's type, then a Platt sigmoid.

    `centers` and `scales` are (types, features) in the order of VARIANT_TYPE_KEYS and `feature_names`.
    """

    dimension: DimensionKey
    feature_names: tuple[str, ...]
    centers: Numbers
    scales: Numbers
    weights: Numbers
    intercept: float
    platt_slope: float
    platt_offset: float

    def scaled(self, rows: Features, types: NDArray[np.int_]) -> Numbers:
        """(n, features); missing values are set to the type's centre, outliers are clipped."""
        columns = rows[:, [FEATURE_NAMES.index(name) for name in self.feature_names]]
        return scaled(columns, types, self.centers, self.scales)

    def probabilities(self, rows: Features, types: NDArray[np.int_]) -> Numbers:
        """P(the dimension holds), calibrated."""
        scores = self.scaled(rows, types) @ self.weights + self.intercept
        return sigmoid(self.platt_slope * scores + self.platt_offset)


class FeatureVerifier:
    """Judges TC, LC, AU and their product; trained by `training.feature_verifier.train`."""

    method: VerdictMethod = "feature"

    def __init__(self, models: Sequence[DimensionModel], *, encoder: Encoder | None) -> None:
        """`models`: one per dimension, in the order of DIMENSIONS."""
        self._models = tuple(models)
        self._encoder = encoder
        self._content = _content(self._models, None if encoder is None else encoder.fingerprint)
        self.version = _version(self._content)

    @classmethod
    def load(cls, folder: Path, encoder_folder: Path | None) -> "FeatureVerifier":
        """Read what `save` wrote; the encoder is opened only if the model was trained with one.

        Raises:
            ModelError: the model is missing, changed since it was saved, or made for other features, or its encoder is
                missing or a different one.
        """
        file = folder / MODEL_FILE
        content = _saved_content(folder)
        try:
            models = [_dimension_model(part) for part in content["dimensions"]]
            wanted = content["encoder"]
        except (ValueError, KeyError, TypeError) as exc:
            raise ModelError(f"{file} is not a feature verifier ({exc}); train it again") from exc
        return cls(models, encoder=_encoder(wanted, encoder_folder, file))

    def save(self, folder: Path) -> None:
        """Writes one JSON file, byte-identical for identical models."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / MODEL_FILE, {"version": self.version, "model": self._content})

    def judge(self, pairs: Sequence[Pair], *, now: datetime) -> list[Verdict]:
        """TC, LC, AU, valid for each pair in order; if an item has no usable answer, `raw` says so."""
        judged = [pair for pair in pairs if can_be_judged(*pair)]
        rows, types = features(judged, self._encoder), type_indices(judged)
        columns = iter(self.probabilities(rows, types).tolist())
        verdicts: list[Verdict] = []
        for question, variant in pairs:
            if can_be_judged(question, variant):
                verdicts.extend(self._verdicts(variant, next(columns), now))
            else:
                verdicts.extend(self._refusals(question, variant, now))
        return verdicts

    def probabilities(self, rows: Features, types: NDArray[np.int_]) -> Numbers:
        """(n, dimensions): P(each holds), from precomputed features, in the order of DIMENSIONS."""
        return np.stack([model.probabilities(rows, types) for model in self._models], axis=1)

    def _verdicts(self, variant: Variant, row: Sequence[float], now: datetime) -> list[Verdict]:
        found: list[tuple[VerdictTarget, float, bool]] = [
            (dimension.key, p, p >= 0.5) for dimension, p in zip(DIMENSIONS, row, strict=True)
        ]
        found.append(("valid", math.prod(row), all(p >= 0.5 for p in row)))
        return [
            Verdict(variant.variant_id, target, probability, label, self.version, self.method, None, now)
            for target, probability, label in found
        ]

    def _refusals(self, question: Question, variant: Variant, now: datetime) -> list[Verdict]:
        where = "original" if question.answer_index is None else "variant"
        reason = f"not judged: the {where} does not have a marked answer among at least two options"
        targets: tuple[VerdictTarget, ...] = ("TC", "LC", "AU", "valid")
        return [
            Verdict(variant.variant_id, target, None, None, self.version, self.method, reason, now)
            for target in targets
        ]


def saved_version(folder: Path) -> str:
    """The version of the verifier saved in the folder. Raises ModelError like `load`."""
    return _version(_saved_content(folder))


def type_indices(pairs: Sequence[Pair]) -> NDArray[np.int_]:
    """Indices of the variants' types in VARIANT_TYPE_KEYS."""
    return np.array([VARIANT_TYPE_KEYS.index(variant.variant_type) for _, variant in pairs], dtype=int)


def scaled(columns: Numbers, types: NDArray[np.int_], centers: Numbers, scales: Numbers) -> Numbers:
    """Distance from the type's centre in units of its scale, at most 4; 0 for missing values."""
    return np.clip(np.nan_to_num((columns - centers[types]) / scales[types], nan=0.0), -4.0, 4.0)


def sigmoid(scores: Numbers) -> Numbers:
    probabilities: Numbers = 1.0 / (1.0 + np.exp(-np.clip(scores, -30.0, 30.0)))
    return probabilities


def _saved_content(folder: Path) -> dict[str, Any]:  # JSON whose hash is known to be ours
    file = folder / MODEL_FILE
    try:
        saved = json.loads(file.read_text("utf-8"))
        content: dict[str, Any] = saved["model"]
        if saved["version"] != _version(content):
            raise ModelError(f"{file} has changed since it was saved; train the verifier again")
        if (content["format"], content["features_version"]) != (_FORMAT, FEATURES_VERSION):
            raise ModelError(f"{file} was made for other features than this version has; train the verifier again")
    except FileNotFoundError as exc:
        raise ModelError(f"there is no feature verifier in {folder}; train one first") from exc
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelError(f"{file} is not a feature verifier ({exc}); train it again") from exc
    return content


def _encoder(wanted: str | None, folder: Path | None, file: Path) -> Encoder | None:
    if wanted is None:
        return None
    if folder is None:
        raise ModelError(
            f"{file} was trained with an encoder, which is missing here; run `python -m engine.embedded`, "
            f"or train the verifier again without one"
        )
    encoder = Encoder.open(folder)
    if encoder.fingerprint != wanted:
        raise ModelError(f"{file} was trained with a different encoder than {folder}; train the verifier again")
    return encoder


def _content(models: Sequence[DimensionModel], encoder: str | None) -> dict[str, object]:
    return {
        "format": _FORMAT,
        "features_version": FEATURES_VERSION,
        "types": list(VARIANT_TYPE_KEYS),
        "encoder": encoder,
        "dimensions": [
            {
                "dimension": model.dimension,
                "feature_names": list(model.feature_names),
                "centers": model.centers.tolist(),
                "scales": model.scales.tolist(),
                "weights": model.weights.tolist(),
                "intercept": model.intercept,
                "platt_slope": model.platt_slope,
                "platt_offset": model.platt_offset,
            }
            for model in models
        ],
    }


def _version(content: object) -> str:
    return f"feature:{content_hash(content)[:12]}"


def _dimension_model(part: dict[str, Any]) -> DimensionModel:  # JSON whose hash is known to be ours
    return DimensionModel(
        dimension=part["dimension"],
        feature_names=tuple(part["feature_names"]),
        centers=np.array(part["centers"]),
        scales=np.array(part["scales"]),
        weights=np.array(part["weights"]),
        intercept=part["intercept"],
        platt_slope=part["platt_slope"],
        platt_offset=part["platt_offset"],
    )

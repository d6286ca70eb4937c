"""What turns a verifier's raw probabilities into verdicts: a monotone map and a threshold per target.

Kept beside the model as `calibration.json`. Owns how the maps are applied and stored; `training.calibrate` fits them.
Refuses maps that reverse the order of items, and files with anything else in them: unknown keys might change verdicts.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, TypeAdapter

from data.errors import ModelError, ReportError
from data.files import write_json
from data.ids import content_hash
from data.records import VerdictTarget
from engine.report_json import dumped, loaded

CALIBRATION_FILE: Final = "calibration.json"
DEFAULT_THRESHOLD: Final = 0.5
"""Without a fitted threshold, the label is the likelier answer."""

_STRICT: Final = ConfigDict(extra="forbid")
_NEAREST: Final = 1e-7
"""Probabilities are clipped this far from 0 and 1 before taking log odds."""

Probabilities = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Platt:
    """A line on the log odds; a temperature T is slope 1/T and offset 0. Source: Platt (1999).

    Raises:
        ValueError: the slope is negative, or a number is not finite.
    """

    __pydantic_config__ = _STRICT

    slope: float
    offset: float
    kind: Literal["platt"] = "platt"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.slope) and math.isfinite(self.offset) and self.slope >= 0):
            raise ValueError(f"a Platt map needs a finite slope of at least 0 and a finite offset, not {self}")

    def __call__(self, probabilities: Probabilities) -> Probabilities:
        inside = np.clip(probabilities, _NEAREST, 1 - _NEAREST)
        scores = self.slope * np.log(inside / (1 - inside)) + self.offset
        mapped: Probabilities = 1 / (1 + np.exp(-np.clip(scores, -30.0, 30.0)))
        return mapped


@dataclass(frozen=True, slots=True)
class Isotonic:
    """Linear between the points (xs, ys), flat outside them. Source: Zadrozny and Elkan (2002).

    Raises:
        ValueError: no points, xs that do not increase, ys that decrease, or numbers outside 0..1.
    """

    __pydantic_config__ = _STRICT

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    kind: Literal["isotonic"] = "isotonic"

    def __post_init__(self) -> None:
        inside = all(0 <= number <= 1 for number in (*self.xs, *self.ys))  # also false for NaN
        rises = all(a < b for a, b in zip(self.xs, self.xs[1:], strict=False))
        never_falls = all(a <= b for a, b in zip(self.ys, self.ys[1:], strict=False))
        if not (self.xs and len(self.xs) == len(self.ys) and inside and rises and never_falls):
            raise ValueError("an isotonic map needs as many xs as ys in 0..1, increasing xs and non-decreasing ys")

    def __call__(self, probabilities: Probabilities) -> Probabilities:
        return np.interp(probabilities, self.xs, self.ys)


CalibrationMap = Annotated[Platt | Isotonic, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True)
class _CalibrationFile:
    """What `calibration.json` holds."""

    __pydantic_config__ = _STRICT

    format: Literal[1]
    maps: Mapping[VerdictTarget, CalibrationMap]
    thresholds: Mapping[VerdictTarget, float]


_FILE: Final = TypeAdapter(_CalibrationFile)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Maps and thresholds by target; without a map, probabilities stay as they are; without a threshold, it is 0.5.

    The map of `valid` is applied to the product of the three mapped probabilities, or to the model's own probability of
    validity if it answers nothing else (IRA).

    Raises:
        ValueError: a threshold outside 0..1.
    """

    maps: Mapping[VerdictTarget, CalibrationMap] = field(default_factory=dict)
    thresholds: Mapping[VerdictTarget, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(0 <= threshold <= 1 for threshold in self.thresholds.values()):
            raise ValueError(f"thresholds must be probabilities in 0..1, not {dict(self.thresholds)}")
        object.__setattr__(self, "maps", MappingProxyType(dict(self.maps)))
        object.__setattr__(self, "thresholds", MappingProxyType(dict(self.thresholds)))

    def mapped(self, target: VerdictTarget, probabilities: Probabilities) -> Probabilities:
        """Calibrated P(the target holds) for the model's probabilities; any shape, order kept."""
        calibrated = self.maps.get(target)
        return probabilities if calibrated is None else calibrated(probabilities)

    def probability(self, target: VerdictTarget, raw: float) -> float:
        """Like `mapped`, for one probability."""
        return float(self.mapped(target, np.array([raw]))[0])

    def threshold(self, target: VerdictTarget) -> float:
        """The calibrated probability at and above which the label is yes."""
        return self.thresholds.get(target, DEFAULT_THRESHOLD)

    @property
    def content_hash(self) -> str:
        """12 hex digits; equal for equal maps and thresholds."""
        return content_hash(self._as_json())[:12]

    def save(self, folder: Path) -> None:
        """`calibration.json`, by rename, the same bytes for the same calibration."""
        write_json(folder / CALIBRATION_FILE, self._as_json())

    @classmethod
    def load(cls, folder: Path) -> "Calibration | None":
        """Reads what `save` wrote; None if the folder has no calibration.

        Raises:
            ModelError: the file is damaged or not a calibration.
        """
        file = folder / CALIBRATION_FILE
        try:
            content = loaded(_FILE, json.loads(file.read_text("utf-8")), source=f"the calibration {file}")
            return cls(content.maps, content.thresholds)
        except FileNotFoundError:
            return None
        except ReportError as exc:
            raise ModelError(f"{exc}; train the verifier again") from exc
        except (OSError, ValueError) as exc:
            raise ModelError(f"{file} is not a calibration ({exc}); train the verifier again") from exc

    def _as_json(self) -> dict[str, object]:
        return dumped(_FILE, _CalibrationFile(1, dict(self.maps), dict(self.thresholds)))

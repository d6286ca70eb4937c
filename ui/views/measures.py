"""How pages word a measure: a figure, a difference, its interval; what is undefined says so. Refuses to compute one."""

from collections.abc import Mapping
from typing import Final

from data.dimensions import DIMENSIONS
from data.records import VerdictTarget
from training.paired_bootstrap import Interval

TARGET_NAMES: Final[Mapping[VerdictTarget, str]] = {
    **{dimension.key: dimension.name for dimension in DIMENSIONS},
    "valid": "Validity (all three)",
}


def figure(value: float | None, *, digits: int = 3) -> str:
    return "undefined" if value is None else f"{value:.{digits}f}"


def difference(found: Interval | None, *, digits: int = 3) -> str:
    """The difference with its 95 % interval."""
    if found is None:
        return "undefined"
    return f"{found.mean:+.{digits}f} ({found.low:+.{digits}f} to {found.high:+.{digits}f})"


def percent(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.0%}"

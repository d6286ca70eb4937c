"""Bars with intervals as SVG, drawn by hand: readable on a light and on a dark page, and small in the repository."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_COLOURS: Final = ("#8c8c8c", "#2f7ebc", "#d9822b")
_WIDTH: Final = 860
_LEFT: Final = 50
_PANEL: Final = 210
_BASE: Final = 150
_TEXT: Final = 'font-family="sans-serif" font-size="12" fill="#777"'


@dataclass(frozen=True, slots=True)
class Bar:
    """`low` and `high` are the bounds of its interval, None without one."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """`bars` hold one list a group, in the order of `groups`; each as long as `series`."""

    title: str
    groups: Sequence[str]
    bars: Sequence[Sequence[Bar]]


def svg(panels: Sequence[Panel], series: Sequence[str]) -> str:
    """One panel below the other, a legend on top."""
    height = 30 + _PANEL * len(panels)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            f'aria-label="{escape("; ".join(panel.title for panel in panels))}">'
        )
    ]
    for place, name in enumerate(series):
        at = _LEFT + 150 * place
        parts.append(f'<rect x="{at}" y="8" width="12" height="12" fill="{_COLOURS[place]}"/>')
        parts.append(f'<text x="{at + 18}" y="18" {_TEXT}>{escape(name)}</text>')
    for place, panel in enumerate(panels):
        parts.extend(_panel(panel, top=30 + place * _PANEL))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, *, top: int) -> list[str]:
    bars = [bar for group in panel.bars for bar in group]
    most = max([0.0, *(value for bar in bars for value in (bar.value, bar.high) if value is not None)]) or 1.0
    floor = top + _BASE + 20
    parts = [f'<text x="{_LEFT}" y="{top + 14}" {_TEXT}>{escape(panel.title)}</text>']
    for share in (0.0, 0.5, 1.0):
        y = floor - share * _BASE
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#7774"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" {_TEXT}>{share * most:.2g}</text>')
    step = (_WIDTH - _LEFT - 20) / len(panel.groups)
    width = 0.75 * step / max(len(group) for group in panel.bars)
    for place, (name, group) in enumerate(zip(panel.groups, panel.bars, strict=True)):
        start = _LEFT + place * step + 0.12 * step
        for index, bar in enumerate(group):
            parts.extend(_bar(bar, start + index * width, width, floor, most, _COLOURS[index]))
        middle = start + 0.38 * step
        parts.append(f'<text x="{middle:.1f}" y="{floor + 16}" text-anchor="middle" {_TEXT}>{escape(name)}</text>')
    return parts


def _bar(bar: Bar, x: float, width: float, floor: float, most: float, colour: str) -> list[str]:
    if bar.value is None:
        return []
    height = bar.value / most * _BASE
    parts = [
        f'<rect x="{x:.1f}" y="{floor - height:.1f}" width="{width - 2:.1f}" height="{height:.1f}" fill="{colour}"/>'
    ]
    if bar.low is not None and bar.high is not None:
        middle, top, bottom = x + (width - 2) / 2, floor - bar.high / most * _BASE, floor - bar.low / most * _BASE
        parts.append(
            f'<line x1="{middle:.1f}" x2="{middle:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" stroke="#555" '
            f'stroke-width="1.5"/>'
        )
    return parts

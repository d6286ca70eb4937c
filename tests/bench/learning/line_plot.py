"""Curves over numbers of labels as SVG, drawn by hand: readable on a light and on a dark page. Panels stand in rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tests.bench.learning.plot import Bar

_COLOURS: Final = ("#2f7ebc", "#d9822b", "#4a9a5b", "#b0489a")
_WIDTH: Final = 860
_LEFT: Final = 46
_ROW: Final = 240
_DEEP: Final = 170
_TEXT: Final = 'font-family="sans-serif" font-size="12" fill="#777"'


@dataclass(frozen=True, slots=True)
class Curves:
    """`lines` hold a point for each of `xs`, each as long; the axis runs from `low` to `high`; x is logarithmic."""

    title: str
    xs: Sequence[int]
    lines: Sequence[Sequence[Bar]]
    low: float
    high: float


def curves_svg(panels: Sequence[Curves], series: Sequence[str], *, columns: int = 2) -> str:
    """Panels from left to right, then down; a legend on top."""
    height = 30 + _ROW * math.ceil(len(panels) / columns)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            f'aria-label="{escape("; ".join(panel.title for panel in panels))}">'
        )
    ]
    for place, name in enumerate(series):
        at = _LEFT + 190 * place
        parts.append(f'<rect x="{at}" y="8" width="12" height="12" fill="{_COLOURS[place]}"/>')
        parts.append(f'<text x="{at + 18}" y="18" {_TEXT}>{escape(name)}</text>')
    width = _WIDTH / columns
    for place, panel in enumerate(panels):
        parts.extend(_panel(panel, (place % columns) * width, 30 + place // columns * _ROW, width))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Curves, left: float, top: int, width: float) -> list[str]:
    floor, start, end = top + _DEEP + 24, left + _LEFT, left + width - 20
    parts = [f'<text x="{start:.1f}" y="{top + 14}" {_TEXT}>{escape(panel.title)}</text>']
    for share in (0.0, 0.5, 1.0):
        y, value = floor - share * _DEEP, panel.low + share * (panel.high - panel.low)
        parts.append(f'<line x1="{start:.1f}" x2="{end:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#7774"/>')
        parts.append(f'<text x="{start - 6:.1f}" y="{y + 4:.1f}" text-anchor="end" {_TEXT}>{value:.2f}</text>')
    first, last = math.log(panel.xs[0]), math.log(panel.xs[-1])
    across = [start + 20 + (end - start - 40) * (math.log(x) - first) / (last - first) for x in panel.xs]
    for x, at in zip(panel.xs, across, strict=True):
        parts.append(f'<text x="{at:.1f}" y="{floor + 16}" text-anchor="middle" {_TEXT}>{x:,}</text>')

    def up(value: float) -> float:
        inside = min(max(value, panel.low), panel.high)
        return floor - (inside - panel.low) / (panel.high - panel.low) * _DEEP

    for place, line in enumerate(panel.lines):
        shift = 4 * (place - (len(panel.lines) - 1) / 2)
        points = [(at + shift, bar) for at, bar in zip(across, line, strict=True) if bar.value is not None]
        path = " ".join(f"{at:.1f},{up(bar.value or 0):.1f}" for at, bar in points)
        colour = _COLOURS[place]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for at, bar in points:
            parts.append(f'<circle cx="{at:.1f}" cy="{up(bar.value or 0):.1f}" r="3" fill="{colour}"/>')
            if bar.low is not None and bar.high is not None:
                parts.append(
                    f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{up(bar.high):.1f}" y2="{up(bar.low):.1f}" '
                    f'stroke="{colour}" stroke-width="1.5"/>'
                )
    return parts

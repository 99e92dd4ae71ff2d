"""Settle curves drawn as pixels for the panel and as SVG for pages."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from .curve import SettleCurve

Color = tuple[float, float, float]
# Twice the pixels of the sidebar at its default width; square, like icons.
WIDTH, HEIGHT = 480, 480
_LEFT, _RIGHT, _BOTTOM, _TOP = 12, 12, 12, 12


@dataclass(frozen=True)
class Palette:
    """Colours of a curve drawing.

    measured, dialled, end: the same hues as the STRIP_COLOR icons of the legend.
    """

    paper: Color
    grid: Color
    axis: Color
    measured: Color = (0.93, 0.55, 0.18)
    dialled: Color = (0.30, 0.62, 0.95)
    end: Color = (0.88, 0.25, 0.25)


DARK = Palette(paper=(0.11, 0.11, 0.11), grid=(0.2, 0.2, 0.2), axis=(0.5, 0.5, 0.5))
LIGHT = Palette(
    paper=(0.97, 0.97, 0.97), grid=(0.87, 0.87, 0.87), axis=(0.45, 0.45, 0.45),
    measured=(0.80, 0.40, 0.02), dialled=(0.06, 0.38, 0.75), end=(0.78, 0.10, 0.10),
)  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """Visible range of a curve: frames from 0 on, deformations from lowest to 1."""

    frames: float
    low: float

    @staticmethod
    def around(curve: SettleCurve) -> Frame:
        """Return the range that shows a curve."""
        lowest = min(float(curve.measured.min()), 0.0 if curve.predicted is None else float(curve.predicted.min()))
        return Frame(min(1.35 * curve.dial, float(curve.frames[-1])) or 1.0, min(1.15 * lowest, -0.1))


def draw(curve: SettleCurve, palette: Palette) -> Array:
    """Return pixels (HEIGHT, WIDTH, 4) of a curve, bottom row first."""
    canvas = np.ones((HEIGHT, WIDTH, 4))
    canvas[:, :, :3] = palette.paper
    shown = Frame.around(curve)

    def place(frames: Array, values: Array) -> Array:
        x = _LEFT + (WIDTH - _LEFT - _RIGHT) * frames / shown.frames
        y = _BOTTOM + (HEIGHT - _BOTTOM - _TOP) * (values - shown.low) / (1.05 - shown.low)
        return np.stack([x, y], axis=1)

    def line(frames: object, values: object, color: Color, width: float, dash: float = 0.0) -> None:
        points = place(np.asarray(frames, dtype=float), np.asarray(values, dtype=float))
        _stroke(canvas, points, color, width, dash)

    step = spacing(shown.frames)
    for frame in np.arange(0.0, shown.frames + 1e-9, step):
        line([frame, frame], [shown.low, 1.05], palette.grid, 1.0)
    for value in (-1.0, -0.5, 0.5, 1.0):
        if value > shown.low:
            line([0.0, shown.frames], [value, value], palette.grid, 1.0)
    line([0.0, shown.frames], [0.0, 0.0], palette.axis, 1.5)
    line([curve.dial, curve.dial], [shown.low, 1.05], palette.end, 2.5, dash=8.0)
    inside = curve.frames <= shown.frames + 1e-9
    if curve.predicted is not None and curve.envelope is not None:
        for side in (1.0, -1.0):
            there = inside & (side * curve.envelope >= shown.low)
            line(curve.frames[there], side * curve.envelope[there], palette.dialled, 1.2, dash=5.0)
    line(curve.frames[inside], curve.measured[inside], palette.measured, 4.5)
    if curve.predicted is not None:
        line(curve.frames[inside], curve.predicted[inside], palette.dialled, 1.8)
    return canvas


def spacing(frames: float) -> float:
    """Return the spacing of grid lines in frames: 1, 2 or 5 times a power of ten, about six lines."""
    power = 10.0 ** np.floor(np.log10(max(frames, 1.0) / 6.0))
    return float(max(next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= frames / 6.0), 1.0))


def _stroke(canvas: Array, points: Array, color: Color, width: float, dash: float) -> None:
    """Draw an antialiased line through points (k, 2) in pixels."""
    cover = np.zeros(canvas.shape[:2])
    reach = 0.5 * width + 1.0
    walked = 0.0
    for a, b in itertools.pairwise(points):
        low = np.maximum(np.floor(np.minimum(a, b) - reach), 0).astype(int)
        high = np.minimum(np.ceil(np.maximum(a, b) + reach) + 1, (WIDTH, HEIGHT)).astype(int)
        length = float(np.linalg.norm(b - a))
        if (low < high).all():
            y, x = np.mgrid[low[1] : high[1], low[0] : high[0]].astype(float) + 0.5
            along = ((x - a[0]) * (b[0] - a[0]) + (y - a[1]) * (b[1] - a[1])) / max(length, 1e-9)
            t = np.clip(along, 0.0, length) / max(length, 1e-9)
            distance = np.hypot(x - a[0] - t * (b[0] - a[0]), y - a[1] - t * (b[1] - a[1]))
            part = np.clip(0.5 * width + 0.5 - distance, 0.0, 1.0)
            if dash:
                part *= (walked + along) % (2.0 * dash) < dash
            window = cover[low[1] : high[1], low[0] : high[0]]
            np.maximum(window, part, out=window)
        walked += length
    canvas[:, :, :3] += cover[:, :, None] * (np.array(color) - canvas[:, :, :3])


def svg(curve: SettleCurve, title: str) -> str:
    """Return the curve as an SVG picture with its numbers."""
    shown = Frame.around(curve)
    left, top, width, height = 46, 30, 380, 210

    def path(frames: Array, values: Array) -> str:
        inside = frames <= shown.frames + 1e-9
        x = left + width * frames[inside] / shown.frames
        y = top + height * (1.05 - np.maximum(values[inside], shown.low)) / (1.05 - shown.low)
        return "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

    def color(value: Color) -> str:
        return "#" + "".join(f"{round(255 * c):02x}" for c in value)

    def straight(frames: tuple[float, float], values: tuple[float, float]) -> str:
        return path(np.array(frames), np.array(values))

    look = LIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 14}" height="{top + height + 56}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="19" font-size="13">{title}</text>',
    ]
    step = spacing(shown.frames)
    for frame in np.arange(0.0, shown.frames + 1e-9, step):
        x = left + width * frame / shown.frames
        parts.append(f'<path d="{straight((frame, frame), (shown.low, 1.05))}" stroke="{color(look.grid)}"/>')
        parts.append(f'<text x="{x:.0f}" y="{top + height + 15}" text-anchor="middle">{frame:g}</text>')
    for value in np.arange(-1.0, 1.01, 0.5):
        if value > shown.low:
            y = top + height * (1.05 - value) / (1.05 - shown.low)
            parts.append(f'<path d="{straight((0.0, shown.frames), (value, value))}" stroke="{color(look.grid)}"/>')
            parts.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{100 * value:.0f}%</text>')
    lines = [("Settle", straight((curve.dial, curve.dial), (shown.low, 1.05)), look.end, 1.5, "6 4")]
    if curve.predicted is not None:
        lines.append(("predicted", path(curve.frames, curve.predicted), look.dialled, 1.5, ""))
    lines.append(("measured", path(curve.frames, curve.measured), look.measured, 2.5, ""))
    for k, (name, d, hue, thick, dash) in enumerate(lines):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<path d="{d}" fill="none" stroke="{color(hue)}" stroke-width="{thick}"{dashed}/>')
        parts.append(f'<text x="{left + 120 * k}" y="{top + height + 34}" fill="{color(hue)}">{name}</text>')
    parts.append(f'<text x="{left}" y="{top + height + 50}">{curve.text}</text></svg>')
    return "\n".join(parts) + "\n"

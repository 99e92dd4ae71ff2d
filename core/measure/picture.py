"""Settle curves drawn as pixels for the panel and as SVG for pages."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import ArrayLike

from ..base.arrays import Array
from .curve import SettleCurve
from .plot import round_step

Color = tuple[float, float, float]
# Twice the pixels of the sidebar at its default width; square, like icons.
WIDTH, HEIGHT = 480, 480
_LEFT, _RIGHT, _BOTTOM, _TOP = 12, 12, 12, 12


@dataclass(frozen=True)
class Palette:
    """Colours of a curve drawing.

    measured, predicted, end, influence: the same hues as the STRIP_COLOR icons of the legend.
    """

    background: Color
    grid: Color
    axis: Color
    measured: Color = (0.93, 0.55, 0.18)
    predicted: Color = (0.30, 0.62, 0.95)
    end: Color = (0.88, 0.25, 0.25)
    influence: Color = (0.35, 0.75, 0.35)


DARK = Palette(background=(0.11, 0.11, 0.11), grid=(0.2, 0.2, 0.2), axis=(0.5, 0.5, 0.5))
LIGHT = Palette(
    background=(0.97, 0.97, 0.97), grid=(0.87, 0.87, 0.87), axis=(0.45, 0.45, 0.45),
    measured=(0.80, 0.40, 0.02), predicted=(0.06, 0.38, 0.75), end=(0.78, 0.10, 0.10), influence=(0.13, 0.50, 0.16),
)  # fmt: skip


@dataclass(frozen=True)
class PlotRange:
    """Visible range of a curve: frames from 0 on, deformations from lowest to 1."""

    frames: float
    lowest: float

    @staticmethod
    def for_curve(curve: SettleCurve) -> PlotRange:
        """Return the range that shows a curve."""
        lowest = min(float(curve.measured.min()), 0.0 if curve.predicted is None else float(curve.predicted.min()))
        return PlotRange(min(1.35 * curve.dial, float(curve.frames[-1])) or 1.0, min(1.15 * lowest, -0.1))


def draw_curve(curve: SettleCurve, palette: Palette, influence: Array | None = None) -> Array:
    """Return pixels (HEIGHT, WIDTH, 4) of a curve, bottom row first. influence: (k,) of the bake at its frames."""
    canvas = np.ones((HEIGHT, WIDTH, 4))
    canvas[:, :, :3] = palette.background
    plot_range = PlotRange.for_curve(curve)

    def line(frames: ArrayLike, values: ArrayLike, color: Color, width: float, dash: float = 0.0) -> None:
        x, y = np.asarray(frames, dtype=float), np.asarray(values, dtype=float) - plot_range.lowest
        x = _LEFT + (WIDTH - _LEFT - _RIGHT) * x / plot_range.frames
        y = _BOTTOM + (HEIGHT - _BOTTOM - _TOP) * y / (1.05 - plot_range.lowest)
        _stroke(canvas, np.stack([x, y], axis=1), color, width, dash)

    for frame in np.arange(0.0, plot_range.frames + 1e-9, grid_spacing(plot_range.frames)):
        line([frame, frame], [plot_range.lowest, 1.05], palette.grid, 1.0)
    for value in (-1.0, -0.5, 0.5, 1.0):
        if value > plot_range.lowest:
            line([0.0, plot_range.frames], [value, value], palette.grid, 1.0)
    line([0.0, plot_range.frames], [0.0, 0.0], palette.axis, 1.5)
    line([curve.dial, curve.dial], [plot_range.lowest, 1.05], palette.end, 2.5, dash=8.0)
    is_visible = curve.frames <= plot_range.frames + 1e-9
    if curve.predicted is not None and curve.envelope is not None:
        for side in (1.0, -1.0):
            rows = is_visible & (side * curve.envelope >= plot_range.lowest)
            line(curve.frames[rows], side * curve.envelope[rows], palette.predicted, 1.2, dash=5.0)
    line(curve.frames[is_visible], curve.measured[is_visible], palette.measured, 4.5)
    if curve.predicted is not None:
        line(curve.frames[is_visible], curve.predicted[is_visible], palette.predicted, 1.8)
    if influence is not None:
        line(curve.frames[is_visible], influence[is_visible], palette.influence, 2.5)
    return canvas


def grid_spacing(frames: float) -> float:
    """Return the spacing of grid lines in frames: 1, 2 or 5 times a power of ten, about six lines."""
    return max(round_step(max(frames, 1.0) / 6.0), 1.0)


def _stroke(canvas: Array, points: Array, color: Color, width: float, dash: float) -> None:
    """Draw an antialiased line through points (k, 2) in pixels."""
    coverage = np.zeros(canvas.shape[:2])
    half_extent = 0.5 * width + 1.0
    travelled = 0.0
    for a, b in itertools.pairwise(points):
        low = np.maximum(np.floor(np.minimum(a, b) - half_extent), 0).astype(int)
        high = np.minimum(np.ceil(np.maximum(a, b) + half_extent) + 1, (WIDTH, HEIGHT)).astype(int)
        length = float(np.linalg.norm(b - a))
        if (low < high).all():
            y, x = np.mgrid[low[1] : high[1], low[0] : high[0]].astype(float) + 0.5
            along = ((x - a[0]) * (b[0] - a[0]) + (y - a[1]) * (b[1] - a[1])) / max(length, 1e-9)
            t = np.clip(along, 0.0, length) / max(length, 1e-9)
            distance = np.hypot(x - a[0] - t * (b[0] - a[0]), y - a[1] - t * (b[1] - a[1]))
            opacity = np.clip(0.5 * width + 0.5 - distance, 0.0, 1.0)
            if dash:
                opacity *= (travelled + along) % (2.0 * dash) < dash
            window = coverage[low[1] : high[1], low[0] : high[0]]
            np.maximum(window, opacity, out=window)
        travelled += length
    canvas[:, :, :3] += coverage[:, :, None] * (np.array(color) - canvas[:, :, :3])


def curve_svg(curve: SettleCurve, title: str) -> str:
    """Return the curve as an SVG picture with its numbers."""
    plot_range = PlotRange.for_curve(curve)
    left, top, width, height = 46, 30, 380, 210

    def path(frames: Array, values: Array) -> str:
        inside = frames <= plot_range.frames + 1e-9
        x = left + width * frames[inside] / plot_range.frames
        y = top + height * (1.05 - np.maximum(values[inside], plot_range.lowest)) / (1.05 - plot_range.lowest)
        return "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

    def color(value: Color) -> str:
        return "#" + "".join(f"{round(255 * c):02x}" for c in value)

    def straight(frames: tuple[float, float], values: tuple[float, float]) -> str:
        return path(np.array(frames), np.array(values))

    palette, grid = LIGHT, color(LIGHT.grid)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 14}" height="{top + height + 56}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="19" font-size="13">{escape(title)}</text>',
    ]
    for frame in np.arange(0.0, plot_range.frames + 1e-9, grid_spacing(plot_range.frames)):
        x = left + width * frame / plot_range.frames
        parts.append(f'<path d="{straight((frame, frame), (plot_range.lowest, 1.05))}" stroke="{grid}"/>')
        parts.append(f'<text x="{x:.0f}" y="{top + height + 15}" text-anchor="middle">{frame:g}</text>')
    for value in np.arange(-1.0, 1.01, 0.5):
        if value > plot_range.lowest:
            y = top + height * (1.05 - value) / (1.05 - plot_range.lowest)
            parts.append(f'<path d="{straight((0.0, plot_range.frames), (value, value))}" stroke="{grid}"/>')
            parts.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{100 * value:.0f}%</text>')
    lines = [("Settle", straight((curve.dial, curve.dial), (plot_range.lowest, 1.05)), palette.end, 1.5, "6 4")]
    if curve.predicted is not None:
        lines.append(("predicted", path(curve.frames, curve.predicted), palette.predicted, 1.5, ""))
    lines.append(("measured", path(curve.frames, curve.measured), palette.measured, 2.5, ""))
    for k, (name, d, hue, thick, dash) in enumerate(lines):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<path d="{d}" fill="none" stroke="{color(hue)}" stroke-width="{thick}"{dashed}/>')
        parts.append(f'<text x="{left + 120 * k}" y="{top + height + 34}" fill="{color(hue)}">{name}</text>')
    parts.append(f'<text x="{left}" y="{top + height + 50}">{escape(curve.summary)}</text></svg>')
    return "\n".join(parts) + "\n"

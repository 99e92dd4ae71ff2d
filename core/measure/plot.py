"""Line charts as SVG, for environments without a plotting library, such as Blender."""

from __future__ import annotations

import html
from collections.abc import Mapping

import numpy as np

from ..base.arrays import Array

# Okabe and Ito's palette, distinguishable with any colour vision.
COLORS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#8a8a00")
# Each line is narrower than those below it, or dashed, so that coinciding lines stay visible.
DASHES = ("", "9 4", "3 3", "12 3 2 3", "5 2")
_MAX_LINE_WIDTH, _WIDTH_DECREMENT, _MIN_LINE_WIDTH = 3.4, 0.5, 1.4
_LEFT, _TOP, _WIDTH, _HEIGHT = 70, 46, 520, 260
_LOG_FLOOR = 1e-16


def round_step(smallest: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not below the smallest step."""
    power = 10.0 ** np.floor(np.log10(smallest))
    return float(next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= smallest))


def tick_values(low: float, high: float) -> Array:
    """Return about five round numbers between two limits."""
    step = round_step(max(high - low, 1e-300) / 5.0)
    # Adding 0.0 removes negative zeros.
    return np.asarray(np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step + 0.0)


def line_chart(
    lines: Mapping[str, tuple[Array, Array]], title: str, x_label: str, y_label: str, log_scale: bool = False
) -> str:
    """Return a line chart as SVG.

    lines: x and y values by name, each (k,).
    log_scale: whether the y axis shows powers of ten.
    """
    series = {name: (np.asarray(x, float), np.asarray(y, float)) for name, (x, y) in lines.items()}
    if log_scale:
        series = {name: (x, np.log10(np.maximum(y, _LOG_FLOOR))) for name, (x, y) in series.items()}
    every_x = np.concatenate([x for x, _ in series.values()])
    every_y = np.concatenate([y[np.isfinite(y)] for _, y in series.values()])
    low_x, high_x = float(every_x.min()), float(every_x.max())
    low, high = float(every_y.min()), float(every_y.max())
    margin = 0.05 * (high - low) or 1.0
    low, high = low - margin, high + margin

    def place(x: Array, y: Array) -> tuple[Array, Array]:
        return _LEFT + _WIDTH * (x - low_x) / ((high_x - low_x) or 1.0), _TOP + _HEIGHT * (high - y) / (high - low)

    rows = (len(series) + 1) // 2
    size = (_LEFT + _WIDTH + 20, _TOP + _HEIGHT + 50 + 18 * rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="19" font-size="13">{html.escape(title)}</text>',
    ]
    for x in tick_values(low_x, high_x):
        a, _ = place(np.array(x), np.array(low))
        parts.append(f'<path d="M{a:.1f},{_TOP}v{_HEIGHT}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{a:.1f}" y="{_TOP + _HEIGHT + 15}" text-anchor="middle">{x:g}</text>')
    for y in tick_values(low, high):
        if log_scale and abs(y - round(y)) > 1e-9:
            continue
        _, b = place(np.array(low_x), np.array(y))
        text = f"1e{round(y)}" if log_scale else f"{y:g}"
        parts.append(f'<path d="M{_LEFT},{b:.1f}h{_WIDTH}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{b + 4:.1f}" text-anchor="end">{text}</text>')
    parts.append(
        f'<text x="{_LEFT + _WIDTH}" y="{_TOP + _HEIGHT + 31}" text-anchor="end">{html.escape(x_label)}</text>'
    )
    # Place the label above the curves.
    parts.append(f'<text x="{_LEFT}" y="{_TOP - 8}">{html.escape(y_label)}</text>')
    for k, (name, (x, y)) in enumerate(series.items()):
        is_finite = np.isfinite(y)
        a, b = place(x[is_finite], y[is_finite])
        color, pattern = COLORS[k % len(COLORS)], DASHES[k % len(DASHES)]
        dash = f' stroke-dasharray="{pattern}"' if pattern else ""
        line_width = max(_MAX_LINE_WIDTH - _WIDTH_DECREMENT * k, _MIN_LINE_WIDTH)
        path = "L".join(f"{p:.1f},{q:.1f}" for p, q in zip(a, b, strict=True))
        parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="{line_width:.1f}"{dash}/>')
        left, top = _LEFT + 265 * (k % 2), _TOP + _HEIGHT + 50 + 18 * (k // 2)
        parts.append(f'<path d="M{left},{top - 4}h36" stroke="{color}" stroke-width="{line_width:.1f}"{dash}/>')
        parts.append(f'<text x="{left + 41}" y="{top}">{html.escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"

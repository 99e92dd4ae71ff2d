"""SVG pictures of simulated bodies in a grid of panels."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dampsim.core.base.arrays import Array, Index

from .page import OUT

# View direction in radians: rotation about the vertical, then tilt.
_TURN, _TILT = np.radians(-28.0), np.radians(20.0)
_LIGHT = np.array([-0.35, -0.5, 0.79])
_MARGIN, _CAPTION = 6.0, 34.0
# px: farther triangles are skipped, so that runaway bodies do not bloat the file.
_FAR = 1e4


@dataclass(frozen=True)
class Drawn:
    """A drawn mesh: triangles (m, 3) of positions (n, 3), in an RGB colour; or a ball at a position, radius in m."""

    positions: Array
    triangles: Index
    color: tuple[int, int, int]
    radius: float = 0.0


@dataclass(frozen=True)
class Panel:
    """A panel of drawn parts. captions: lines under it."""

    captions: Sequence[str]
    parts: Sequence[Drawn]


def surface(tets: Index) -> Index:
    """Return the boundary faces (m, 3) of tets (k, 4), oriented outwards."""
    faces = np.concatenate([tets[:, [0, 2, 1]], tets[:, [0, 1, 3]], tets[:, [1, 2, 3]], tets[:, [0, 3, 2]]])
    _, first, count = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    return np.asarray(faces[first[count == 1]])


def _seen(points: Array) -> Array:
    """Return view coordinates (n, 3): right, up and towards the viewer."""
    a, b = np.cos(_TURN), np.sin(_TURN)
    x, y, z = points.T
    right, away = a * x - b * y, b * x + a * y
    c, s = np.cos(_TILT), np.sin(_TILT)
    return np.stack([right, c * z + s * away, s * z - c * away], axis=1)


def _shapes(panel: Panel, scale: float, left: float, top: float) -> list[str]:
    found: list[tuple[float, str]] = []
    for part in panel.parts:
        eye = _seen(part.positions) * [scale, -scale, 1.0] + [left, top, 0.0]
        if part.radius:
            (x, y, depth), size = eye[0], part.radius * scale
            color = "#{:02x}{:02x}{:02x}".format(*part.color)
            found.append((depth, f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" fill="{color}" stroke="#333"/>'))
            continue
        corners = part.positions[part.triangles]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        length = np.maximum(np.linalg.norm(normals, axis=1), 1e-30)
        bright = 0.55 + 0.45 * np.clip(normals @ _LIGHT / length, 0.0, 1.0)
        for triangle, light in zip(part.triangles, bright, strict=True):
            corner = eye[triangle]
            turned = (corner[1, 0] - corner[0, 0]) * (corner[2, 1] - corner[0, 1]) - (corner[2, 0] - corner[0, 0]) * (
                corner[1, 1] - corner[0, 1]
            )
            # Skip back faces; other triangles hide them.
            if not np.abs(corner[:, :2]).max() < _FAR or turned >= 0.0:
                continue
            color = "#{:02x}{:02x}{:02x}".format(*(int(light * value) for value in part.color))
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in corner)
            found.append((corner[:, 2].mean(), f'<path d="M{points}z" fill="{color}" stroke="#333"/>'))
    return [text for _, text in sorted(found, key=lambda one: one[0])]


def pictures(name: str, alt: str, panels: Sequence[Panel], columns: int, low: Array, high: Array, width: float) -> str:
    """Write an SVG and return its Markdown link. Each panel shows the box from low to high (3,), in m. width: px of a panel."""
    ends = np.array([low, high])
    corners = _seen(np.stack(np.meshgrid(*ends.T), axis=-1).reshape(-1, 3))
    least, most = corners[:, :2].min(axis=0), corners[:, :2].max(axis=0)
    scale = (width - 2.0 * _MARGIN) / (most[0] - least[0])
    height = scale * (most[1] - least[1]) + 2.0 * _MARGIN
    rows = -(-len(panels) // columns)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * width:.0f}" height="{rows * (height + _CAPTION):.0f}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    ]
    for number, panel in enumerate(panels):
        x, y = (number % columns) * width, (number // columns) * (height + _CAPTION)
        box = f'x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}"'
        parts.append(f'<clipPath id="p{number}"><rect {box}/></clipPath>')
        shapes = _shapes(panel, scale, x + _MARGIN - scale * least[0], y + _MARGIN + scale * most[1])
        parts.append(f'<g clip-path="url(#p{number})" stroke-width="0.4">' + "".join(shapes) + "</g>")
        parts.append(f'<rect {box} fill="none" stroke="#bbb"/>')
        for line, text in enumerate(panel.captions):
            parts.append(f'<text x="{x + 6:.0f}" y="{y + height + 13 + 15 * line:.0f}">{html.escape(text)}</text>')
    (OUT / f"{name}.svg").write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
    return f"![{alt}]({name}.svg)\n"

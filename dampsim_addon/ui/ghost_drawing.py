"""Overlay data of ghosts: simulated variants next to the object, labelled with their settings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bpy.types import Context

from ...core.arrays import Array, Index
from ..scene.results import Ghosts

# Distinguishable with any colour vision, after Okabe and Ito. Orange is left out: Blender outlines selections in it.
_TINTS = ((0.94, 0.89, 0.26), (0.34, 0.71, 0.91), (0.0, 0.62, 0.45), (0.8, 0.47, 0.65))
# Distance between ghosts, relative to the object's width on the screen; between lanes, relative to its width in the
# lane's direction. Lanes are wider, because they are seen from the side and have longer labels.
_APART, _LANES = 1.15, 1.6
# Minimum width relative to the length: a wire seen from the side has no width.
_SLENDER = 0.2
# Direction to the light, in screen axes.
_LIGHT = np.array([0.3, 0.4, 0.87])
_FADED = 0.35


@dataclass(frozen=True)
class Ghost:
    """Ghost at a frame.

    points: (v, 3) m.  tint: (3,) RGB.  brightness: factor of the tint.  labels: lines of text below it.
    """

    points: Array
    tint: Array
    fade: float
    lines: tuple[str, ...]

    @property
    def foot(self) -> Array:
        """Point (3,) m below the centre, where the labels start."""
        return np.append(self.points[:, :2].mean(axis=0), self.points[:, 2].min())

    @property
    def color(self) -> tuple[float, float, float, float]:
        """RGBA of wires, which are not shaded."""
        red, green, blue = (float(part) for part in self.fade * self.tint)
        return red, green, blue, 1.0

    def colors(self, triangles: Index, turn: Array) -> Array:
        """Return the shaded RGBA (v, 4) of a surface. axes: see ghosts_at_frame."""
        bright = 0.35 + 0.65 * np.maximum(normals(self.points, triangles) @ (turn @ _LIGHT), 0.0)
        return np.column_stack([bright[:, None] * self.tint * self.fade, np.ones(len(self.points))])


def ghosts(shown: Ghosts, frame: int, turn: Array) -> list[Ghost]:
    """Return the ghosts at a frame. axes: (3, 3), the screen axes in world space, as columns."""
    number = int(np.clip(frame - shown.first, 0, len(shown.surfaces[0]) - 1))
    first, right = shown.surfaces[0][0].astype(float), turn[:, 0] if shown.lane is None else shown.lane
    apart = (_APART if shown.lane is None else _LANES) * max(
        float(np.ptp(first @ right)), _SLENDER * float(np.ptp(first, axis=0).max())
    )
    found = []
    for k, (tint, surfaces, text) in enumerate(zip(_TINTS, shown.surfaces, shown.labels, strict=False)):
        points = surfaces[number].astype(float) + (k + 1) * apart * right
        name, _, dialled = text.partition(": ")
        lines = (name, *dialled.split(", "), *(["out of date"] if shown.stale else []))
        found.append(Ghost(points, np.array(tint), _FADED if shown.stale else 1.0, lines))
    return found


def normals(points: Array, triangles: Index) -> Array:
    """Return the unit normals (v, 3) of a surface at its vertices."""
    corners = points[triangles]
    faces = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]).repeat(3, axis=0)
    where = triangles.ravel()
    total = np.stack([np.bincount(where, faces[:, k], minlength=len(points)) for k in range(3)], axis=1)
    return np.asarray(total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-30))


def screen(context: Context) -> Array:
    """Return the screen axes (3, 3) in world space, as columns."""
    return np.array(context.region_data.view_matrix.inverted())[:3, :3]

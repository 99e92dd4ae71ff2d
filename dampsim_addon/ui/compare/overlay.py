"""Overlay of ghosts: simulated variants next to the object, labelled with their settings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bpy.types import Context, Object

from ....core import Array, Index
from ...status.results import Ghosts, ghosts_of
from ..common import drawing
from ..common.overlay_option import BodyView, OverlayOption

# Distinguishable with any colour vision, after Okabe and Ito. Orange is left out: Blender outlines selections in it.
_COLORS = ((0.94, 0.89, 0.26), (0.34, 0.71, 0.91), (0.0, 0.62, 0.45), (0.8, 0.47, 0.65))
# Distance between ghosts, relative to the object's width on the screen; between lanes, relative to its width in the
# lane's direction. Lanes are wider, because they are seen from the side and have longer labels.
_SPACING, _LANE_SPACING = 1.15, 1.6
# Minimum width relative to the length: a wire seen from the side has no width.
_MIN_WIDTH_RATIO = 0.2
# Direction to the light, in screen axes.
_LIGHT_DIRECTION = np.array([0.3, 0.4, 0.87])
_STALE_BRIGHTNESS = 0.35
# Pixels.
_WIRE_WIDTH = 2.0


@dataclass(frozen=True)
class Ghost:
    """Ghost at a frame.

    points: (v, 3) m.  tint: (3,) RGB.  brightness: factor of the tint.  labels: lines of text below it.
    """

    points: Array
    tint: Array
    brightness: float
    labels: tuple[str, ...]

    @property
    def label_position(self) -> Array:
        """Point (3,) m below the centre, where the labels start."""
        return np.append(self.points[:, :2].mean(axis=0), self.points[:, 2].min())

    @property
    def wire_color(self) -> tuple[float, float, float, float]:
        """RGBA of wires, which are not shaded."""
        red, green, blue = (float(part) for part in self.brightness * self.tint)
        return red, green, blue, 1.0

    def shaded_colors(self, triangles: Index, axes: Array) -> Array:
        """Return the shaded RGBA (v, 4) of a surface. axes: see ghosts_at_frame."""
        shading = 0.35 + 0.65 * np.maximum(vertex_normals(self.points, triangles) @ (axes @ _LIGHT_DIRECTION), 0.0)
        return np.column_stack([shading[:, None] * self.tint * self.brightness, np.ones(len(self.points))])


def ghosts_at_frame(results: Ghosts, frame: int, axes: Array) -> list[Ghost]:
    """Return the ghosts at a frame. axes: (3, 3), the screen axes in world space, as columns."""
    frame_index = int(np.clip(frame - results.first_frame, 0, len(results.surfaces[0]) - 1))
    first_surface = results.surfaces[0][0].astype(float)
    direction = axes[:, 0] if results.direction is None else results.direction
    spacing = (_SPACING if results.direction is None else _LANE_SPACING) * max(
        float(np.ptp(first_surface @ direction)), _MIN_WIDTH_RATIO * float(np.ptp(first_surface, axis=0).max())
    )
    drawn_ghosts = []
    for k, (tint, surfaces, text) in enumerate(zip(_COLORS, results.surfaces, results.labels, strict=False)):
        points = surfaces[frame_index].astype(float) + (k + 1) * spacing * direction
        name, _, settings_text = text.partition(": ")
        labels = (name, *settings_text.split(", "), *(["out of date"] if results.is_stale else []))
        drawn_ghosts.append(Ghost(points, np.array(tint), _STALE_BRIGHTNESS if results.is_stale else 1.0, labels))
    return drawn_ghosts


def vertex_normals(points: Array, triangles: Index) -> Array:
    """Return the unit normals (v, 3) of a surface at its vertices."""
    corners = points[triangles]
    faces = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]).repeat(3, axis=0)
    vertex_indices = triangles.ravel()
    normal_sums = np.stack([np.bincount(vertex_indices, faces[:, k], minlength=len(points)) for k in range(3)], axis=1)
    return np.asarray(normal_sums / np.maximum(np.linalg.norm(normal_sums, axis=1, keepdims=True), 1e-30))


def screen_axes(context: Context) -> Array:
    """Return the screen axes (3, 3) in world space, as columns."""
    return np.array(context.region_data.view_matrix.inverted())[:3, :3]


class GhostOption(OverlayOption):
    """Ghosts of an object. They are drawn as long as they exist."""

    def draw(self, context: Context, obj: Object, view: BodyView | None) -> None:
        results = ghosts_of(obj)
        if results is None:
            return
        drawing.set_depth_test(True, write=True)
        axes = screen_axes(context)
        for ghost in ghosts_at_frame(results, context.scene.frame_current, axes):
            if len(results.triangles):
                colors = ghost.shaded_colors(results.triangles, axes)
                drawing.draw_colored(ghost.points, colors, results.triangles, "TRIS")
            if len(results.edges):
                drawing.draw_lines(ghost.points, results.edges, ghost.wire_color, width=_WIRE_WIDTH)
        drawing.set_depth_test(False)

    def draw_labels(self, context: Context, obj: Object, view: BodyView | None) -> None:
        results = ghosts_of(obj)
        if results is None:
            return
        for ghost in ghosts_at_frame(results, context.scene.frame_current, screen_axes(context)):
            red, green, blue = ghost.tint
            for row, line in enumerate(ghost.labels):
                drawing.draw_text(context, ghost.label_position, line, (red, green, blue, 1.0), 1.3 * row + 1.5)

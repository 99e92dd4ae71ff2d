"""Drawing of points, lines, coloured surfaces and text in the viewport."""

from __future__ import annotations

from typing import Any

import blf
import bpy
import gpu
import numpy as np
from bpy_extras.view3d_utils import location_3d_to_region_2d
from gpu_extras.batch import batch_for_shader
from mathutils import Vector

from ....core import Array, Index
from ...translations import translate

Color = tuple[float, float, float, float]
TEXT_COLOR: Color = (1.0, 1.0, 1.0, 1.0)
# Diameter of points in pixels, small enough for many pins.
POINT_SIZE = 3.0


def set_depth_test(is_on: bool, write: bool = False) -> None:
    """Hide the parts of an overlay behind meshes, or draw it in front of them. write: let it hide later overlays."""
    gpu.state.depth_test_set("LESS_EQUAL" if is_on else "NONE")
    gpu.state.depth_mask_set(write)


def set_blending(is_on: bool) -> None:
    gpu.state.blend_set("ALPHA" if is_on else "NONE")


def draw_colored(points: Array, colors: Array, corners: Index, primitive: str) -> None:
    """Draw triangles ("TRIS") or lines ("LINES") with a colour (v, 4) for each of the points (v, 3)."""
    if len(corners):
        shader = gpu.shader.from_builtin("SMOOTH_COLOR")
        values = {"pos": _float32(points), "color": _float32(colors)}
        batch_for_shader(shader, primitive, values, indices=corners.astype(np.int32)).draw(shader)


def draw_segments(ends: Array, color: Color, width: float = 1.0) -> None:
    """Draw separate line segments. ends: (2k, 3), start and end of each segment in turn."""
    if len(ends):
        draw_lines(ends, np.arange(len(ends)).reshape(-1, 2), color, width)


def draw_lines(points: Array, pairs: Index, color: Color, width: float = 1.0) -> None:
    """Draw lines between pairs (e, 2) of points (v, 3). width: pixels."""
    shader = gpu.shader.from_builtin("POLYLINE_UNIFORM_COLOR")
    batch = batch_for_shader(shader, "LINES", {"pos": _float32(points[pairs].reshape(-1, 3))})
    shader.uniform_float("viewportSize", gpu.state.viewport_get()[2:])
    shader.uniform_float("lineWidth", width)
    shader.uniform_float("color", color)
    batch.draw(shader)


def draw_points(points: Array, color: Color, size: float = POINT_SIZE) -> None:
    """Draw points (v, 3). size: pixels, before the scale of the user interface."""
    if len(points) == 0:
        return
    shader = gpu.shader.from_builtin("UNIFORM_COLOR")
    gpu.state.point_size_set(size * bpy.context.preferences.system.ui_scale)
    batch = batch_for_shader(shader, "POINTS", {"pos": _float32(points)})
    shader.uniform_float("color", color)
    batch.draw(shader)


def draw_text(
    context: bpy.types.Context, position: Array, text: str, color: Color = TEXT_COLOR, lines_down: float = 0.0
) -> None:
    """Draw a centred line of text at a point (3,) m, moved down on the screen by a number of lines."""
    scale = context.preferences.system.ui_scale
    screen_position = location_3d_to_region_2d(context.region, context.region_data, Vector(position))
    if screen_position is None:
        return
    blf.size(0, 12.0 * scale)
    text = translate(text)
    width, _ = blf.dimensions(0, text)
    blf.enable(0, blf.SHADOW)
    blf.shadow(0, 6, 0.0, 0.0, 0.0, 1.0)
    blf.position(0, screen_position.x - 0.5 * width, screen_position.y - lines_down * 13.0 * scale, 0.0)
    blf.color(0, *color)
    blf.draw(0, text)
    blf.disable(0, blf.SHADOW)


def _float32(values: Array) -> Any:
    return values.astype(np.float32)

"""Overlay of plastic flow: the surface of a body, redder where it has flowed more."""

from __future__ import annotations

from dataclasses import dataclass

import bpy
import numpy as np

from ....core import Array, Index
from ....core.base.wording import format_percent
from ....core.measure.element_states import plastic_strain
from ..common import drawing
from ..common.overlay_option import BodyView, OverlayOption
from ..compare.overlay import vertex_normals

# Offset in front of the surface, relative to the size, so that the surface does not hide the colours.
_SURFACE_OFFSET = 2e-3
_LOW_COLOR, _HIGH_COLOR = np.array([1.0, 0.85, 0.1]), np.array([0.95, 0.05, 0.02])
# Opacity where the flow is largest.
_MAX_OPACITY = 0.85


@dataclass(frozen=True)
class FlowOverlay:
    """Plastic flow of a body at a frame.

    points: (v, 3) m.  colors: (v, 4).  triangles: (t, 3).  edges: (e, 2), only for bodies without triangles.
    label: largest flow as text.  label_position: (3,) m, the point of the largest flow.
    """

    points: Array
    colors: Array
    triangles: Index
    edges: Index
    label: str
    label_position: Array


def flow_overlay(view: BodyView) -> FlowOverlay | None:
    """Return the overlay data of a body's plastic flow, or None if nothing has flowed."""
    flow = plastic_strain(view.simulation, view.frame, view.name)
    if flow is None:
        return None
    body, points = view.simulation.scene.body(view.name), view.frame.shapes[view.name]
    triangles, edges = body.surface.triangles, body.edges
    fraction = flow.strains / max(float(flow.strains.max()), 1e-30)
    tint = _LOW_COLOR + fraction[:, None] * (_HIGH_COLOR - _LOW_COLOR)
    colors = np.column_stack([tint, _MAX_OPACITY * np.sqrt(np.maximum(fraction, 0.0))])
    if len(triangles):
        points = points + _SURFACE_OFFSET * body.surface.size * vertex_normals(points, triangles)
        edges = edges[:0]
    label = f"plastic strain up to {format_percent(flow.largest, 3)}"
    return FlowOverlay(points, colors, triangles, edges, label, points[int(flow.strains.argmax())])


class FlowOption(OverlayOption):
    property_name, label = "show_flow", "Flow"
    description = "Colour plastic deformation, redder where it is larger, and show its amount"

    def draw_body(self, view: BodyView) -> None:
        flow = view.data(flow_overlay)
        if flow is None:
            return
        drawing.set_depth_test(True)
        drawing.draw_colored(flow.points, flow.colors, flow.triangles, "TRIS")
        drawing.draw_colored(flow.points, flow.colors, flow.edges, "LINES")

    def draw_body_labels(self, context: bpy.types.Context, view: BodyView) -> None:
        flow = view.data(flow_overlay)
        if flow is not None:
            drawing.draw_text(context, flow.label_position, flow.label, lines_down=-1.0)

"""Plasticity panel, the operator that resets plastic deformation, and the overlay: redder where a body flowed more."""

from __future__ import annotations

import math
from dataclasses import dataclass

import bpy
import numpy as np
from bpy.types import Context, Operator, Panel

from ....core import Array, Index
from ....core.base.wording import format_percent
from ....core.materials import StableNeoHookean, StVK
from ....core.measure.element_states import plastic_strain
from ...model.objects import active_simulated, chosen_simulated
from ..common import drawing
from ..common.layout import ChildPanel, active_parameters, draw_slider, draw_wrapped, enabled_column, parameter_sections
from ..common.operators import ChosenObjectsOperator
from ..common.overlay_option import BodyView, OverlayOption, body_view
from ..compare.overlay import vertex_normals

# Offset in front of the surface, relative to the size, so that the surface does not hide the colours.
_SURFACE_OFFSET = 2e-3
_LOW_COLOR, _HIGH_COLOR = np.array([1.0, 0.85, 0.1]), np.array([0.95, 0.05, 0.02])
# Opacity where the flow is largest.
_MAX_OPACITY = 0.85
_RESET_PROPERTY = "plastic_reset"


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


class DAMPSIM_PT_plastic(ChildPanel, Panel):
    bl_label = "Plasticity"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and "plastic" in parameter_sections(obj.dampsim)

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        group = obj.dampsim
        column = enabled_column(layout, context, align=True)
        for parameter in active_parameters(group, "plastic"):
            draw_slider(column, group, parameter)
        if group.plastic_yield == 0.0:
            draw_wrapped(layout, "No permanent deformation: Yield is 0", "INFO", context)
        elif "solid" in parameter_sections(group) and group.material == StVK.name:
            advice = f"{StableNeoHookean.label} gives the same dents at every frame rate"
            draw_wrapped(layout, f"{StVK.label} collapses under strong compression. {advice}", "ERROR", context)
        view = body_view(obj, context.scene)
        flow = view.data(flow_overlay) if view is not None else None
        if flow is not None:
            draw_wrapped(layout, f"At this frame: {flow.label}", "INFO", context)
        layout.operator(DAMPSIM_OT_plastic_reset.bl_idname, icon="LOOP_BACK")


class DAMPSIM_OT_plastic_reset(ChosenObjectsOperator, Operator):
    """Return the selected objects to their modelled shapes from this frame onwards: keyframe Reset on, and off again
    after the Settle time"""

    bl_label = "Reset from Here"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and "plastic" in parameter_sections(obj.dampsim) and super().poll(context)

    def objects(self, context: Context) -> list[bpy.types.Object]:
        return [obj for obj in chosen_simulated(context) if "plastic" in parameter_sections(obj.dampsim)]

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        group, begin = obj.dampsim, context.scene.frame_current
        end = begin + max(math.ceil(group.settle), 1)
        for frame, value in ((begin - 1, False), (begin, True), (end, False)):
            group.plastic_reset = value
            obj.keyframe_insert(f"dampsim.{_RESET_PROPERTY}", frame=frame)
        # Evaluate the new keyframes, so that the panel shows the value at this frame.
        context.scene.frame_set(begin)
        return f"Reset is on from frame {begin} to {end - 1}"

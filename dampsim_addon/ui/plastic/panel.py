"""Plasticity panel, and the operator that resets plastic deformation."""

from __future__ import annotations

import math

import bpy
from bpy.types import Context, Operator, Panel

from ....core.materials import StableNeoHookean, StVK
from ...model.objects import active_simulated, chosen_simulated
from ..common.layout import ChildPanel, active_parameters, draw_slider, draw_wrapped, enabled_column, parameter_sections
from ..common.operators import ChosenObjectsOperator
from ..common.overlay_option import body_view
from .overlay import flow_overlay

_RESET_PROPERTY = "plastic_reset"


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

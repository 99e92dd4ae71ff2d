"""Plasticity panel, and the operator that resets plastic deformation."""

from __future__ import annotations

import math

import bpy
from bpy.types import Context, Operator, Panel

from ...core.energies import StableNeoHookean, StVK
from ..scene.objects import chosen, free, simulated, working
from . import overlay
from .layout import Child, dial, meant, sections, wrapped

_RESET = "plastic_reset"


class DAMPSIM_PT_plastic(Child, Panel):
    bl_label = "Plasticity"
    bl_idname = "DAMPSIM_PT_plastic"
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        return obj is not None and "plastic" in sections(obj.dampsim)

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, chosen(context)
        group = obj.dampsim
        column = layout.column(align=True)
        column.enabled = not working(context)
        for parameter in meant(group, "plastic"):
            dial(column, group, parameter)
        if group.plastic_yield == 0.0:
            wrapped(layout, "No permanent deformation: Yield is 0", "INFO", context)
        elif "solid" in sections(group) and group.material == StVK.name:
            other = f"{StableNeoHookean.label} gives the same dents at every frame rate"
            wrapped(layout, f"{StVK.label} collapses under strong compression. {other}", "ERROR", context)
        found = overlay.drawn(obj, context.scene)
        if found is not None and found.flow is not None:
            wrapped(layout, f"At this frame: {found.flow.words}", "INFO", context)
        layout.operator(DAMPSIM_OT_plastic_reset.bl_idname, icon="LOOP_BACK")


class DAMPSIM_OT_plastic_reset(Operator):
    """Return to the modelled shape from this frame on: keyframe Reset on, and off again after the Settle time"""

    bl_idname = "dampsim.plastic_reset"
    bl_label = "Reset from Here"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        return obj is not None and "plastic" in sections(obj.dampsim) and free(cls, context)

    def execute(self, context: Context) -> set[str]:
        begin = context.scene.frame_current
        for obj in {chosen(context), *simulated(context.selected_objects)}:
            if "plastic" not in sections(obj.dampsim):
                continue
            group = obj.dampsim
            end = begin + max(math.ceil(group.settle), 1)
            for frame, value in ((begin - 1, False), (begin, True), (end, False)):
                group.plastic_reset = value
                obj.keyframe_insert(f"dampsim.{_RESET}", frame=frame)
            self.report({"INFO"}, f"{obj.name}: Reset is on from frame {begin} to {end - 1}")
        # Evaluate the new keyframes, so that the panel shows the value at this frame.
        context.scene.frame_set(begin)
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_plastic_reset,)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

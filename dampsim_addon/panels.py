"""The sidebar tab."""

from __future__ import annotations

import bpy
from bpy.types import Context, Panel, UILayout

from ..core.parameters import PARAMETERS
from ..core.settle import choose_substeps
from . import job
from .bake import target
from .operators import (
    DAMPSIM_OT_add,
    DAMPSIM_OT_bake,
    DAMPSIM_OT_clear,
    DAMPSIM_OT_measure,
    DAMPSIM_OT_remove,
    baking,
    chosen,
)
from .presets import draw_presets
from .properties import read_settings
from .snapshot import frame_rate


class _Sidebar:
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "DampSim"


def dials(layout: UILayout, group: bpy.types.PropertyGroup, section: str) -> None:
    for parameter in PARAMETERS.values():
        choice, value = parameter.only_with
        if parameter.section == section and (not choice or getattr(group, choice) == value):
            unit = f" ({parameter.unit})" if parameter.unit not in ("", "%") else ""
            layout.prop(group, parameter.name, text=parameter.label + unit)


class DAMPSIM_PT_main(_Sidebar, Panel):
    bl_label = "DampSim"
    bl_idname = "DAMPSIM_PT_main"

    def draw(self, context: Context) -> None:
        layout = self.layout
        obj = chosen(context)
        if obj is None:
            layout.operator(DAMPSIM_OT_add.bl_idname, icon="ADD")
            if context.object is None or context.object.type != "MESH":
                layout.label(text="Select a mesh", icon="INFO")
            return
        row = layout.row()
        row.label(text=obj.name, icon="MESH_DATA")
        row.operator(DAMPSIM_OT_remove.bl_idname, text="", icon="X")
        column = layout.column()
        column.use_property_split = True
        column.use_property_decorate = False
        column.enabled = not baking(context)
        draw_presets(column)
        dials(column, obj.dampsim, "dials")
        text = DAMPSIM_OT_measure.bl_label
        if obj.dampsim.measured_for == job.weighing(obj):
            text = f"Hangs {obj.dampsim.measured_sag:.3g}% at {obj.dampsim.measured_young:.4g} kPa"
        column.operator(DAMPSIM_OT_measure.bl_idname, text=text, icon="DRIVER_DISTANCE")
        settings = read_settings(obj)
        frame_time = 1.0 / frame_rate(context.scene)
        substeps = choose_substeps(settings.settle * frame_time, settings.overshoot, frame_time, settings.substeps)
        if substeps.limited:
            column.label(text=f"So short a settle carries {100 * substeps.overshoot:.0f}% bounce", icon="INFO")
        column.prop_search(obj.dampsim, "pin_group", obj, "vertex_groups", text="Pins")
        if obj.dampsim.pin_group and obj.dampsim.pin_group not in obj.vertex_groups:
            column.label(text="This group is gone", icon="ERROR")


class DAMPSIM_PT_bake(_Sidebar, Panel):
    bl_label = "Bake"
    bl_idname = "DAMPSIM_PT_bake"
    bl_parent_id = "DAMPSIM_PT_main"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return chosen(context) is not None

    def draw(self, context: Context) -> None:
        layout = self.layout
        obj, scene = chosen(context), context.scene
        progress = context.window_manager.dampsim_progress
        column = layout.column()
        column.use_property_split = True
        column.use_property_decorate = False
        column.enabled = not baking(context)
        column.prop(obj.dampsim, "target")
        frames = column.column(align=True)
        frames.prop(scene, "frame_start", text="Frame Start")
        frames.prop(scene, "frame_end", text="End")
        if baking(context):
            layout.progress(factor=progress.factor, text=progress.text)
            layout.label(text="ESC stops and keeps what is done", icon="INFO")
            return
        row = layout.row()
        row.scale_y = 1.4
        row.operator(DAMPSIM_OT_bake.bl_idname, icon="RENDER_ANIMATION")
        total = scene.frame_end - scene.frame_start + 1
        done = min(job.frames_done(obj), total)
        row = layout.row(align=True)
        part = row.row(align=True)
        part.enabled = 0 < done < total
        part.operator(DAMPSIM_OT_bake.bl_idname, text="Resume", icon="PLAY").resume = True
        row.operator(DAMPSIM_OT_clear.bl_idname, icon="TRASH")
        if obj.dampsim.baked:
            layout.label(text=f"Baked to {target(obj.dampsim.baked).label.lower()}", icon="CHECKMARK")
        elif done:
            layout.label(text=f"{done} of {total} frames are simulated", icon="TIME")


class DAMPSIM_PT_advanced(_Sidebar, Panel):
    bl_label = "Advanced"
    bl_idname = "DAMPSIM_PT_advanced"
    bl_parent_id = "DAMPSIM_PT_main"
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return chosen(context) is not None

    def draw(self, context: Context) -> None:
        column = self.layout.column()
        column.use_property_split = True
        column.use_property_decorate = False
        column.enabled = not baking(context)
        dials(column, chosen(context).dampsim, "advanced")
        column.prop(chosen(context).dampsim, "cache_folder")


CLASSES = (DAMPSIM_PT_main, DAMPSIM_PT_bake, DAMPSIM_PT_advanced)


def register() -> None:
    for cls in CLASSES:
        bpy.utils.register_class(cls)


def unregister() -> None:
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)

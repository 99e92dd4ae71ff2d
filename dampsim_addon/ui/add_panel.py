"""Sidebar content for objects that are not simulated yet."""

from __future__ import annotations

import bpy
from bpy.types import Context, UILayout

from ..blender.yarns import left_behind, woven_by
from .add_operators import CONVERTIBLE, DAMPSIM_OT_add, DAMPSIM_OT_convert_add, DAMPSIM_OT_local_add, addable
from .curve_operators import DAMPSIM_OT_curve_rope, led_by
from .hair_operators import DAMPSIM_OT_hair, led
from .layout import wrapped
from .weave_operators import DAMPSIM_OT_drop_yarns, DAMPSIM_OT_select_woven, DAMPSIM_OT_weave, simulated_for


def draw_add(layout: UILayout, context: Context) -> None:
    """Draw the first steps for the selected objects."""
    obj = context.object
    others = any(addable(one) for one in context.selected_objects)
    woven = woven_by(obj) if obj is not None else None
    if obj is not None and left_behind(obj, context.scene):
        wrapped(layout, f"{obj.name} shows the yarns of a deleted object and no longer moves", "INFO", context)
        layout.operator(DAMPSIM_OT_drop_yarns.bl_idname, icon="TRASH")
        return
    if woven is not None:
        wrapped(layout, f"{obj.name} shows the yarns of {woven.name}, which is the simulated mesh", "INFO", context)
        layout.operator(DAMPSIM_OT_select_woven.bl_idname, text=f"Select {woven.name}", icon="RESTRICT_SELECT_OFF")
        return
    if obj is not None and obj.library is not None:
        wrapped(layout, f"{obj.name} is linked from another file. Make it local to simulate it", "INFO", context)
        layout.operator(DAMPSIM_OT_local_add.bl_idname, icon="LIBRARY_DATA_INDIRECT")
    elif obj is not None and obj.type in CONVERTIBLE:
        _draw_curve(layout, obj, context)
        followed = simulated_for(obj)
        if followed is not None:
            text = f"Select {followed.name}"
            layout.operator(DAMPSIM_OT_select_woven.bl_idname, text=text, icon="RESTRICT_SELECT_OFF")
            return
        layout.operator(DAMPSIM_OT_convert_add.bl_idname, icon="OUTLINER_OB_MESH")
    elif not others:
        wrapped(layout, "Select a mesh, then press Add", "INFO", context)
    if others or obj is None or (obj.type == "MESH" and obj.library is None):
        row = layout.row()
        row.scale_y = 1.4
        row.operator(DAMPSIM_OT_add.bl_idname, icon="ADD")
        layout.operator(DAMPSIM_OT_weave.bl_idname, icon="MESH_GRID")


def _draw_curve(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    """Draw the options for a curve, hair or another object that is not a mesh."""
    rope = led_by(obj) if obj.type == "CURVE" else None
    if rope is not None:
        wrapped(layout, f"{obj.name} follows the bake of {rope.name}", "INFO", context)
    elif obj.type == "CURVE":
        wrapped(layout, f"{obj.name} can follow a rope simulated along its centre line", "INFO", context)
        layout.operator(DAMPSIM_OT_curve_rope.bl_idname, icon="OUTLINER_OB_CURVE")
    elif obj.type == "CURVES" and led(obj):
        wrapped(layout, f"{obj.name} follows its simulated guides", "INFO", context)
    elif obj.type == "CURVES":
        wrapped(
            layout, f"{obj.name} can be simulated: a few strands become ropes, and the others follow", "INFO", context
        )
        layout.operator(DAMPSIM_OT_hair.bl_idname, icon="OUTLINER_OB_CURVES")
    else:
        wrapped(layout, f"{obj.name} is not a mesh. Only meshes can be simulated", "INFO", context)

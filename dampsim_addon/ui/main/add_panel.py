"""Sidebar content for objects that are not simulated yet."""

from __future__ import annotations

import bpy
from bpy.types import Context, UILayout

from ...blender.yarns import is_orphaned_yarn, yarn_source
from ..common.layout import draw_wrapped
from ..yarns.operators import DAMPSIM_OT_drop_yarns, DAMPSIM_OT_select_woven, DAMPSIM_OT_weave, simulated_source
from .add_operators import CONVERTIBLE_TYPES, DAMPSIM_OT_add, DAMPSIM_OT_convert_add, DAMPSIM_OT_local_add, can_add
from .curve_operators import DAMPSIM_OT_curve_rope, rope_of_curve
from .hair_operators import DAMPSIM_OT_hair, has_guides


def draw_add(layout: UILayout, context: Context) -> None:
    """Draw the first steps for the selected objects."""
    obj = context.object
    any_addable = any(can_add(one) for one in context.selected_objects)
    woven_source = yarn_source(obj) if obj is not None else None
    if obj is not None and is_orphaned_yarn(obj, context.scene):
        draw_wrapped(layout, f"{obj.name} shows the yarns of a deleted object and no longer moves", "INFO", context)
        layout.operator(DAMPSIM_OT_drop_yarns.bl_idname, icon="TRASH")
        return
    if woven_source is not None:
        draw_wrapped(
            layout, f"{obj.name} shows the yarns of {woven_source.name}, which is the simulated mesh", "INFO", context
        )
        layout.operator(
            DAMPSIM_OT_select_woven.bl_idname, text=f"Select {woven_source.name}", icon="RESTRICT_SELECT_OFF"
        )
        return
    if obj is not None and obj.library is not None:
        draw_wrapped(layout, f"{obj.name} is linked from another file. Make it local to simulate it", "INFO", context)
        layout.operator(DAMPSIM_OT_local_add.bl_idname, icon="LIBRARY_DATA_INDIRECT")
    elif obj is not None and obj.type in CONVERTIBLE_TYPES:
        _draw_non_mesh(layout, obj, context)
        simulated = simulated_source(obj)
        if simulated is not None:
            text = f"Select {simulated.name}"
            layout.operator(DAMPSIM_OT_select_woven.bl_idname, text=text, icon="RESTRICT_SELECT_OFF")
            return
        layout.operator(DAMPSIM_OT_convert_add.bl_idname, icon="OUTLINER_OB_MESH")
    elif not any_addable:
        draw_wrapped(layout, "Select a mesh, then press Add", "INFO", context)
    if any_addable or obj is None or (obj.type == "MESH" and obj.library is None):
        row = layout.row()
        row.scale_y = 1.4
        row.operator(DAMPSIM_OT_add.bl_idname, icon="ADD")
        layout.operator(DAMPSIM_OT_weave.bl_idname, icon="MESH_GRID")


def _draw_non_mesh(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    """Draw the options for a curve, hair or another object that is not a mesh."""
    rope = rope_of_curve(obj) if obj.type == "CURVE" else None
    if rope is not None:
        draw_wrapped(layout, f"{obj.name} follows the bake of {rope.name}", "INFO", context)
    elif obj.type == "CURVE":
        draw_wrapped(layout, f"{obj.name} can follow a rope simulated along its centre line", "INFO", context)
        layout.operator(DAMPSIM_OT_curve_rope.bl_idname, icon="OUTLINER_OB_CURVE")
    elif obj.type == "CURVES" and has_guides(obj):
        draw_wrapped(layout, f"{obj.name} follows its simulated guides", "INFO", context)
    elif obj.type == "CURVES":
        draw_wrapped(
            layout, f"{obj.name} can be simulated: a few strands become ropes, and the others follow", "INFO", context
        )
        layout.operator(DAMPSIM_OT_hair.bl_idname, icon="OUTLINER_OB_CURVES")
    else:
        draw_wrapped(layout, f"{obj.name} is not a mesh. Only meshes can be simulated", "INFO", context)

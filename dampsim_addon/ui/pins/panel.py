"""Pins section of the main panel."""

from __future__ import annotations

import bpy
from bpy.types import Context, UILayout

from ...model.links import is_linked
from ...model.objects import chosen_simulated, is_job_running
from ...model.registry import reuse_last_scan
from ...status.pieces import known_parts
from ..common.chosen_objects import count_label
from ..common.layout import BOX_MARGIN, draw_property, draw_wrapped
from ..contact.operators import DAMPSIM_OT_collider, DAMPSIM_OT_floor, can_be_collider
from .operators import DAMPSIM_OT_let_fall, DAMPSIM_OT_pin, DAMPSIM_OT_pin_bones, DAMPSIM_OT_pin_gradient


def falls_unintentionally(obj: bpy.types.Object, scene: bpy.types.Scene) -> bool:
    """Return whether an object would fall: it has no pins and no links, and is not marked as unpinned on purpose."""
    group = obj.dampsim
    return not (group.pin_group or group.let_fall or is_linked(obj)) and scene.use_gravity


def draw_pins(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    group = obj.dampsim
    column = layout.column(align=True)
    column.enabled = not is_job_running(context)
    draw_property(column, group, "pin_group", "Pins", context, search=(obj, "vertex_groups"))
    if group.pin_group and group.pin_group not in obj.vertex_groups:
        draw_wrapped(
            column, f"Vertex group '{group.pin_group}' is missing. Choose another, or pin again", "ERROR", context
        )
    parts = known_parts(obj)
    if parts is not None and parts.pieces.unreached_count:
        draw_property(column, group, "unpinned_pieces", "Unpinned Pieces", context)
    if not falls_unintentionally(obj, context.scene):
        row = column.row(align=True)
        row.operator(DAMPSIM_OT_pin.bl_idname, text="Selected", icon="VERTEXSEL")
        row.operator(DAMPSIM_OT_pin_bones.bl_idname, text="Bones", icon="BONE_DATA")
        row.operator(DAMPSIM_OT_pin_gradient.bl_idname, text="Gradient", icon="IPO_EASE_IN_OUT")
        return
    box = layout.box().column(align=True)
    box.enabled = not is_job_running(context)
    draw_wrapped(box, "Nothing is pinned, so it will fall", "ERROR", context, BOX_MARGIN)
    with reuse_last_scan():
        has_possible_collider = any(can_be_collider(other, obj) for other in context.selected_objects)
        chosen = chosen_simulated(context)
    for operator, icon in (
        (DAMPSIM_OT_pin, "VERTEXSEL"),
        (DAMPSIM_OT_pin_bones, "BONE_DATA"),
        (DAMPSIM_OT_pin_gradient, "IPO_EASE_IN_OUT"),
        (DAMPSIM_OT_floor, "MESH_PLANE"),
        # The other selected objects may be intended as colliders.
        *([(DAMPSIM_OT_collider, "MOD_PHYSICS")] if has_possible_collider else []),
        (DAMPSIM_OT_let_fall, "SORT_ASC"),
    ):
        # The active object is part of every selection, except of colliders.
        targets = [] if operator is DAMPSIM_OT_collider else chosen
        box.operator(operator.bl_idname, text=count_label(operator.bl_label, targets), icon=icon)

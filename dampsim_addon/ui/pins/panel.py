"""Pins section of the main panel."""

from __future__ import annotations

import bpy
from bpy.types import Context, UILayout

from ....core import PARAMETERS
from ...blender.animation import animated_paths
from ...model.groups import format_names
from ...model.links import is_linked
from ...model.objects import chosen_simulated
from ...model.registry import reuse_last_scan
from ...scene_reader.bone_chains import bone_influences
from ...status.pieces import known_parts
from ...translations import translate
from ..common.layout import BOX_MARGIN, draw_parameters, draw_property, draw_slider, draw_wrapped, enabled_column
from ..common.operators import count_label
from ..contact.operators import DAMPSIM_OT_collider, DAMPSIM_OT_floor, can_be_collider
from .operators import (
    DAMPSIM_OT_free,
    DAMPSIM_OT_free_bones,
    DAMPSIM_OT_let_fall,
    DAMPSIM_OT_pin,
    DAMPSIM_OT_pin_apply,
    DAMPSIM_OT_pin_bones,
    DAMPSIM_OT_pin_cancel,
    DAMPSIM_OT_pin_gradient,
    PinPreviews,
    previewed_objects,
)


def falls_unintentionally(obj: bpy.types.Object, scene: bpy.types.Scene) -> bool:
    """Return whether an object would fall: it has no pins and no links, and is not marked as unpinned on purpose."""
    group = obj.dampsim
    return not (group.pin_group or group.let_fall or is_linked(obj)) and scene.use_gravity


def draw_pins(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    group = obj.dampsim
    column = enabled_column(layout, context, align=True)
    draw_property(column, group, "pin_group", "Pins", context, search=(obj, "vertex_groups"))
    if group.pin_group and group.pin_group not in obj.vertex_groups:
        text = f"Vertex group '{group.pin_group}' is missing. Choose another, or pin again"
        draw_wrapped(column, text, "ERROR", context)
    # Without its row, keyframes that stay could not be removed.
    if group.pin_group or "dampsim.hold" in animated_paths(obj):
        row = column.column(align=True)
        row.active = bool(group.pin_group)
        draw_slider(row, group, PARAMETERS["hold"])
    if group.pin_group:
        draw_parameters(column, group, context, "pins", excluded=("hold",))
    parts = known_parts(obj)
    if parts is not None and parts.pieces.unreached_count:
        draw_property(column, group, "unpinned_pieces", "Unpinned Pieces", context)
    if not falls_unintentionally(obj, context.scene):
        row = column.row(align=True)
        row.operator(DAMPSIM_OT_pin.bl_idname, text="Selected", icon="VERTEXSEL")
        row.operator(DAMPSIM_OT_pin_bones.bl_idname, text="Bones", icon="BONE_DATA").preview = True
        # Without an icon, its name fits beside the arrow of the menu.
        row.operator_menu_enum(DAMPSIM_OT_pin_gradient.bl_idname, "begin", text=translate("Gradient"))
        _draw_free_buttons(column)
        draw_preview(layout, context)
        return
    box = enabled_column(layout.box(), context, align=True)
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
        text = count_label(operator.bl_label, targets)
        if operator is DAMPSIM_OT_pin_gradient:
            # The user chooses the direction, since none suits all objects.
            box.operator_menu_enum(operator.bl_idname, "begin", text=translate(text), icon=icon)
            continue
        button = box.operator(operator.bl_idname, text=translate(text), icon=icon)
        if operator is DAMPSIM_OT_pin_bones:
            button.preview = True
    if previewed_objects(context):
        _draw_free_buttons(box)
    draw_preview(layout, context)


def _draw_free_buttons(column: UILayout) -> None:
    row = column.row(align=True)
    row.operator(DAMPSIM_OT_free.bl_idname, text="Free Selected", icon="UNPINNED")
    row.operator(DAMPSIM_OT_free_bones.bl_idname, text="Free Bones", icon="UNPINNED")


def draw_preview(layout: UILayout, context: Context) -> None:
    """Draw the buttons of previewed pins, and their description."""
    objects = previewed_objects(context)
    if not objects:
        return
    box = enabled_column(layout.box(), context, align=True)
    proposals = [PinPreviews.current()[obj.session_uid] for obj in objects]
    for text in dict.fromkeys(proposal.text for proposal in proposals):
        draw_wrapped(box, f"Preview: {text}", "HIDE_OFF", context, BOX_MARGIN)
    draw_wrapped(box, "Red is pinned, yellow held softly, green free", "NONE", context, BOX_MARGIN)
    row = box.row(align=True)
    row.operator(DAMPSIM_OT_pin_apply.bl_idname, text=translate(count_label("Apply", objects)), icon="CHECKMARK")
    row.operator(DAMPSIM_OT_pin_cancel.bl_idname, icon="X")


def draw_rig_pins(layout: UILayout, context: Context) -> None:
    """Draw the buttons for a rig in Pose Mode, whose selected bones become free in the selected simulated meshes."""
    objects = [obj for obj in chosen_simulated(context) if bone_influences(obj)]
    if not objects:
        draw_wrapped(layout, "To free bones, select the simulated mesh first, then the rig", "INFO", context)
        return
    column = layout.column(align=True)
    column.label(text=translate(f"Pins of {format_names(objects)}"), icon="BONE_DATA")
    column.operator(DAMPSIM_OT_pin_bones.bl_idname, text="Free Only Selected Bones").preview = True
    column.operator(DAMPSIM_OT_free_bones.bl_idname)
    draw_preview(layout, context)

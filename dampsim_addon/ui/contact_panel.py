"""Contact panel of a simulated object, and the panel of a collider."""

from __future__ import annotations

import bpy
from bpy.types import Context, Panel, UILayout

from ...core.scene.parameters import COLLIDER_PARAMETERS, Front
from ..blender.modifiers import makes
from ..blender.obstacles import changing
from ..scene.colliders import candidates, has_collision, is_collider
from ..scene.objects import chosen, is_simulated, simulated_in, working
from ..scene.registry import trusting
from .contact_operators import DAMPSIM_OT_collider, DAMPSIM_OT_floor, DAMPSIM_OT_no_collider
from .layout import Child, Sidebar, dials, field, wrapped

# Colliders listed by name; further ones are only counted.
_LISTED = 8


class DAMPSIM_PT_contact(Child, Panel):
    bl_label = "Contact"
    bl_idname = "DAMPSIM_PT_contact"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, chosen(context)
        group = obj.dampsim
        column = layout.column(align=True)
        column.operator(DAMPSIM_OT_floor.bl_idname, icon="MESH_PLANE")
        column.operator(DAMPSIM_OT_collider.bl_idname, icon="MOD_PHYSICS")
        _draw_colliders(layout, obj, context)
        column = layout.column()
        column.enabled = not working(context)
        dials(column, group, context, "contact", without="depth")
        if group.kind == "CLOTH" and not group.touch_self:
            wrapped(column, "Folds pass through each other: Self-Collision is off", "INFO", context)
        search = (obj, "vertex_groups")
        if group.front == Front.PAINTED:
            field(column, group, "front_group", "Front Group", context, search=search)
            if not group.front_group:
                wrapped(column, "Without a Front Group, friction is the same in all directions", "INFO", context)
        field(column, group, "friction_group", "Friction Group", context, search=search)
        field(column, group, "collider_collection", "Collider Collection", context)
        field(column, group, "depth", "Depth", context)


def _draw_colliders(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    """Draw the list of colliders, and why some are ignored."""
    column = layout.column(align=True)
    if not obj.dampsim.collide:
        wrapped(column, "It ignores all colliders: Colliders is off", "INFO", context)
        return
    found = candidates(obj, context.view_layer)
    for other, lack in found[:_LISTED]:
        if lack is not None:
            wrapped(column, f"Ignores {other.name}: it {lack.value}", "ERROR", context)
            continue
        culprit = "" if other.dampsim_collider.plane else changing(other, surely=True)
        note = f": {culprit} changes its topology" if culprit else ", on both sides" if _is_sheet(other) else ""
        wrapped(column, f"Collides with {other.name}{note}", "ERROR" if culprit else "MOD_PHYSICS", context)
    if len(found) > _LISTED:
        wrapped(column, f"… and {len(found) - _LISTED} more", "BLANK1", context)
    if not found:
        wrapped(column, "There are no colliders", "INFO", context)


def _is_sheet(other: bpy.types.Object) -> bool:
    """Return whether a collider's mesh is open. Without evaluation, generating modifiers count as closed."""
    if other.dampsim_collider.plane or any(m.show_viewport and makes(m) for m in other.modifiers):
        return False
    # If every edge has two faces, there are two corners per edge.
    return len(other.data.loops) < 2 * len(other.data.edges)


class DAMPSIM_PT_collider(Sidebar, Panel):
    bl_label = "Collider"
    bl_idname = "DAMPSIM_PT_collider"
    bl_parent_id = "DAMPSIM_PT_main"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = context.object
        if obj is None or obj.type != "MESH":
            return False
        if is_collider(obj):
            return True
        with trusting():
            return not is_simulated(obj) and obj.library is None and bool(simulated_in(context.scene))

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, context.object
        if not is_collider(obj):
            layout.operator(DAMPSIM_OT_collider.bl_idname, icon="MOD_PHYSICS")
            return
        group, column = obj.dampsim_collider, layout.column()
        column.enabled = not working(context)
        field(column, group, "plane", "Infinite Plane", context)
        for parameter in COLLIDER_PARAMETERS.values():
            field(column, group, parameter.name, parameter.label, context, parameter.unit)
        if _is_sheet(obj):
            wrapped(column, "Its surface is open: objects collide with the side they come from", "INFO", context)
        if has_collision(obj):
            wrapped(column, "It is a collider by Blender's own Collision, in the Physics properties", "INFO", context)
        if group.is_collider:
            layout.operator(DAMPSIM_OT_no_collider.bl_idname, icon="X")

"""Contact panel of a simulated object, and the panel of a collider."""

from __future__ import annotations

import bpy
from bpy.types import Context, Panel, UILayout

from ....core import COLLIDER_PARAMETERS, FrontDirection, kind_by_name
from ...blender.collider_reader import topology_changing_modifier
from ...blender.modifiers import can_change_topology
from ...model.colliders import candidate_colliders, has_collision, is_collider
from ...model.objects import active_simulated, is_simulated, simulated_in_scene
from ...model.registry import reuse_last_scan
from ..common.layout import ChildPanel, SidebarPanel, draw_parameters, draw_property, draw_wrapped, enabled_column
from .operators import DAMPSIM_OT_collider, DAMPSIM_OT_floor, DAMPSIM_OT_no_collider

# Colliders listed by name; further ones are only counted.
_MAX_LISTED = 8


class DAMPSIM_PT_contact(ChildPanel, Panel):
    bl_label = "Contact"

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        group = obj.dampsim
        column = layout.column(align=True)
        column.operator(DAMPSIM_OT_floor.bl_idname, icon="MESH_PLANE")
        column.operator(DAMPSIM_OT_collider.bl_idname, icon="MOD_PHYSICS")
        _draw_colliders(layout, obj, context)
        column = enabled_column(layout, context)
        draw_parameters(column, group, context, "contact", excluded=("depth", "move_out"))
        if group.kind in ("CLOTH", "WEAVE") and not group.touch_self:
            draw_wrapped(column, "Folds pass through each other: Self-Collision is off", "INFO", context)
        search = (obj, "vertex_groups")
        if group.front == FrontDirection.PAINTED:
            draw_property(column, group, "front_group", "Front Group", context, search=search)
            if not group.front_group:
                draw_wrapped(column, "Without a Front Group, friction is the same in all directions", "INFO", context)
        draw_property(column, group, "friction_group", "Friction Group", context, search=search)
        draw_property(column, group, "collider_collection", "Collider Collection", context)
        draw_property(column, group, "depth", "Exit Direction", context)
        if kind_by_name(group.kind).moves_out:
            draw_property(column, group, "move_out", "Move Out", context)


def _draw_colliders(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    """Draw the list of colliders, and why some are ignored."""
    column = layout.column(align=True)
    if not obj.dampsim.collide:
        draw_wrapped(column, "All colliders are ignored, because Colliders is off", "INFO", context)
        return
    colliders = candidate_colliders(obj, context.view_layer)
    for other, lack in colliders[:_MAX_LISTED]:
        if lack is not None:
            draw_wrapped(column, f"Ignores {other.name}: it {lack.value}", "ERROR", context)
            continue
        modifier_name = "" if other.dampsim_collider.plane else topology_changing_modifier(other, certain_only=True)
        sides = ", on both sides" if _is_open_surface(other) else ""
        note = f": {modifier_name} changes its topology" if modifier_name else sides
        draw_wrapped(column, f"Collides with {other.name}{note}", "ERROR" if modifier_name else "MOD_PHYSICS", context)
    if len(colliders) > _MAX_LISTED:
        draw_wrapped(column, f"… and {len(colliders) - _MAX_LISTED} more", "BLANK1", context)
    if not colliders:
        draw_wrapped(column, "There are no colliders", "INFO", context)


def _is_open_surface(other: bpy.types.Object) -> bool:
    """Return whether a collider's mesh is open. Without evaluation, generating modifiers count as closed."""
    if other.dampsim_collider.plane or any(m.show_viewport and can_change_topology(m) for m in other.modifiers):
        return False
    # If every edge has two faces, there are two corners per edge.
    return len(other.data.loops) < 2 * len(other.data.edges)


class DAMPSIM_PT_collider(SidebarPanel, Panel):
    bl_label = "Collider"
    bl_parent_id = "DAMPSIM_PT_main"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = context.object
        if obj is None or obj.type != "MESH":
            return False
        if is_collider(obj):
            return True
        with reuse_last_scan():
            return not is_simulated(obj) and obj.library is None and bool(simulated_in_scene(context.scene))

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, context.object
        if not is_collider(obj):
            layout.operator(DAMPSIM_OT_collider.bl_idname, icon="MOD_PHYSICS")
            return
        group, column = obj.dampsim_collider, enabled_column(layout, context)
        draw_property(column, group, "plane", "Infinite Plane", context)
        for parameter in COLLIDER_PARAMETERS.values():
            draw_property(column, group, parameter.name, parameter.label, context, parameter.unit)
            if parameter.name == "roughness" and not group.plane:
                search = (obj, "vertex_groups")
                draw_property(column, group, "roughness_group", "Roughness Group", context, search=search)
                if group.roughness_group and group.roughness_group not in obj.vertex_groups:
                    text = f"Vertex group '{group.roughness_group}' is missing. Choose another, or none"
                    draw_wrapped(column, text, "ERROR", context)
        if _is_open_surface(obj):
            text = "Its surface is open: objects collide with whichever side they come from"
            draw_wrapped(column, text, "INFO", context)
        if has_collision(obj):
            text = "It is a collider because Blender's own Collision is on, in the Physics properties"
            draw_wrapped(column, text, "INFO", context)
        if group.is_collider:
            layout.operator(DAMPSIM_OT_no_collider.bl_idname, icon="X")

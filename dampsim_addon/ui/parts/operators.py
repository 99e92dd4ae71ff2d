"""Operators that add and remove parts."""

from __future__ import annotations

import bpy
from bpy.types import Context, Operator

from ...blender.vertex_groups import write_own_weights
from ...model.objects import active_simulated, is_job_running
from ...scene_reader.parts import append_part, find_equal_part, remove_part, selected_bone_weights
from ...translations import report
from ..common.chosen_objects import EditOperator, can_paint


class _PartOperator(EditOperator):
    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and obj.type == "MESH" and not is_job_running(context)


class DAMPSIM_OT_part_add(_PartOperator, Operator):
    """Give the vertices of the active vertex group a Settle, Bounce and Follow-through of their own"""

    bl_label = "Add Part"

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        active = obj.vertex_groups.active
        # A second part of the same group would only divide it, and pinned vertices do not move on their own.
        used = {obj.dampsim.pin_group, *(part.vertex_group for part in obj.dampsim.parts)}
        append_part(obj, active.name if active is not None and active.name not in used else "")
        obj.update_tag()


class DAMPSIM_OT_part_add_bones(_PartOperator, Operator):
    """Give the vertices that the bones selected in Pose Mode move a Settle, Bounce and Follow-through of their own.
    Their weights are added up in a new vertex group"""

    bl_label = "Add from Selected Bones"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return super().poll(context) and can_paint(cls, active_simulated(context))

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        bone, weights = selected_bone_weights(obj)
        equal = find_equal_part(obj, weights)
        if equal is not None:
            obj.dampsim.active_part = equal
            report(self, {"WARNING"}, f"{obj.name}: part '{obj.dampsim.parts[equal].name}' has these vertices already")
            return
        name = append_part(obj, write_own_weights(obj, "", f"{bone} Part", weights).name)
        obj.update_tag()
        report(self, {"INFO"}, f"{obj.name}: part '{name}' has {int((weights > 0.5).sum())} vertices")


class DAMPSIM_OT_part_remove(_PartOperator, Operator):
    """Remove this part, and keep its vertex group"""

    bl_label = "Remove Part"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return super().poll(context) and active_part(active_simulated(context)) is not None

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        remove_part(obj, obj.dampsim.active_part)


def active_part(obj: bpy.types.Object | None) -> bpy.types.PropertyGroup | None:
    """Return the active part of an object, or None."""
    if obj is None or not 0 <= obj.dampsim.active_part < len(obj.dampsim.parts):
        return None
    part: bpy.types.PropertyGroup = obj.dampsim.parts[obj.dampsim.active_part]
    return part

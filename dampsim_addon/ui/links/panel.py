"""Links panel, and the operators that link objects and remove links."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import bpy
import numpy as np
from bpy.props import FloatProperty
from bpy.types import Context, Operator, Panel, UILayout, UIList
from mathutils import Vector

from ....core import Array, DampSimError
from ....core.base.wording import format_count, format_small
from ...model.groups import format_names, group_of
from ...model.links import add_link_points, anchor_name, find_or_add_link, is_target_deleted, link_points
from ...model.objects import active_simulated, filter_simulated, is_job_running, is_simulated, remove_item
from ...scene_reader.rest_shapes import (
    RestShape,
    closest_link_point,
    distance_between,
    nearby_link_points,
    read_rest_shape,
)
from ...scene_reader.scene_builder import check_object
from ...translations import report, translate
from ..common.layout import ChildPanel, ItemList, draw_wrapped, labelled_column
from ..common.operators import EditOperator, NamedOperator, is_met
from ..objects.group_operators import simulate_together

# The 3D cursor is used if its distance to both objects is below this fraction of the smaller object's size.
_CURSOR_TOLERANCE = 0.1
# Points closer than this fraction of the smaller object's size are the same.
_MERGE_TOLERANCE = 1e-4


def _checked_rest_shape(context: Context, obj: bpy.types.Object) -> RestShape:
    if is_simulated(obj):
        check_object(obj, context.view_layer)
    active = obj.data.bones.active if obj.type == "ARMATURE" else None
    return read_rest_shape(context.scene, context.view_layer, obj, active.name if active else "")


def _join_and_report(operator: Operator, objects: list[bpy.types.Object], message: str) -> None:
    """Simulate linked objects together, as links require, and report the result."""
    not_in_group = [
        obj for obj in filter_simulated(objects) if obj not in group_of(filter_simulated(objects)[0]).members
    ]
    if not_in_group:
        message += f"; now simulated together: {simulate_together(filter_simulated(objects)).name}"
    report(operator, {"INFO"}, message)


class DAMPSIM_OT_link(EditOperator, Operator):
    """Link the active object to each other selected object, or to the active bone of an armature, at one point: at the
    3D cursor if it is close to both objects (within 10% of the smaller one's size), otherwise where they are closest.
    Linked objects are then simulated together"""

    bl_label = "Link Selected"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        if obj is None or is_job_running(context):
            return False
        return is_met(cls, any(one != obj for one in context.selected_objects), "Also select the objects to link to")

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        assert obj is not None
        others, linked = [other for other in context.selected_objects if other != obj], []
        shape = _checked_rest_shape(context, obj)
        for other in others:
            target_shape = _checked_rest_shape(context, other)
            position = _shared_link_point(shape, target_shape, context.scene.cursor.location)
            link = obj.dampsim.links.add()
            link.other, link.bone = other, target_shape.bone
            add_link_points(link, other, shape.matrix, target_shape.matrix, position[None])
            linked.append(anchor_name(other, target_shape.bone))
        obj.dampsim.active_link = len(obj.dampsim.links) - 1
        _join_and_report(self, [obj, *others], f"{obj.name}: linked to {', '.join(linked)}")


def _shared_link_point(shape: RestShape, other: RestShape, cursor: Vector) -> Array:
    """Return the point (3,) in world space at which DAMPSIM_OT_link links two objects."""
    # Empties and armatures have no size.
    sized = [one for one in (shape, other) if one.size > 0.0]
    if all(one.nearest(cursor)[1] < _CURSOR_TOLERANCE * min(two.size for two in sized) for one in sized):
        return np.array(cursor, dtype=float)
    if other.size > 0.0:
        return closest_link_point(shape, other)
    # A target without a surface can be linked at any distance, so the point lies on the object.
    return shape.nearest(Vector(other.vertices[0].tolist()))[0]


class DAMPSIM_OT_weld(NamedOperator, Operator):
    """Link the selected objects wherever they are close: at each vertex within the distance of the other object's
    surface. Linked objects are then simulated together"""

    bl_label = "Weld Nearby"
    bl_options = {"REGISTER", "UNDO"}

    distance: FloatProperty(
        name="Distance",
        description="Link vertices up to this far from the other surface, as a percentage of the smaller object's size",
        default=1.0,
        min=0.0001,
        soft_max=20.0,
        max=1000.0,
        subtype="PERCENTAGE",
    )

    @classmethod
    def poll(cls, context: Context) -> bool:
        meshes = [obj for obj in context.selected_objects if obj.type == "MESH"]
        can_weld = len(meshes) > 1 and filter_simulated(meshes)
        message = "Select two or more meshes, at least one of them simulated"
        return not is_job_running(context) and is_met(cls, can_weld, message)

    def execute(self, context: Context) -> set[str]:
        meshes = sorted((obj for obj in context.selected_objects if obj.type == "MESH"), key=lambda obj: obj.name_full)
        try:
            shapes = [_checked_rest_shape(context, obj) for obj in meshes]
        except DampSimError as error:
            report(self, {"ERROR"}, str(error))
            return {"CANCELLED"}
        count, welded, gaps = 0, [], []
        for pair in combinations(shapes, 2):
            if not filter_simulated(shape.obj for shape in pair):
                continue
            # The active object stores the links if it can, because the panel shows them there.
            first, second = (
                pair[::-1] if pair[1].obj == active_simulated(context) or not is_simulated(pair[0].obj) else pair
            )
            new_points = weld_pair(first, second, self.distance / 100.0)
            count += new_points
            welded += [first.obj, second.obj] if new_points else []
            if new_points:
                links = list(first.obj.dampsim.links)
                first.obj.dampsim.active_link = links.index(find_or_add_link(first.obj, second.obj))
            else:
                gaps.append(100.0 * distance_between(first, second) / min(first.size, second.size))
        if not count:
            smallest_gap = min(gaps, default=0.0)
            message = (
                f"The gap between the objects is {format_small(smallest_gap)}% of the smaller one's size. "
                "Raise Distance, or move them closer"
                if smallest_gap > self.distance
                else "All vertices within the distance are already welded"
            )
            report(self, {"WARNING"}, message)
            return {"CANCELLED"}
        _join_and_report(self, welded, f"Welded points: {count}")
        return {"FINISHED"}


def weld_pair(first: RestShape, second: RestShape, tolerance: float) -> int:
    """Link the first object to the second one wherever they are close. Return the number of new points.

    tolerance: maximum distance, relative to the smaller object's size.
    """
    size = min(first.size, second.size)
    candidates = [
        nearby_link_points(first, second, tolerance * size),
        nearby_link_points(second, first, tolerance * size),
    ]
    # The smaller set is enough, unless it is empty.
    positions = min((one for one in candidates if len(one)), key=len, default=candidates[0])
    existing_points = np.concatenate(
        [link_points(first.obj, second.obj, first.matrix), link_points(second.obj, first.obj, second.matrix)]
    )
    new_points = np.zeros((0, 3))
    for place in positions:
        all_points = np.concatenate([existing_points, new_points])
        if not (np.linalg.norm(all_points - place, axis=1) < _MERGE_TOLERANCE * size).any():
            new_points = np.concatenate([new_points, place[None]])
    if len(new_points):
        add_link_points(find_or_add_link(first.obj, second.obj), second.obj, first.matrix, second.matrix, new_points)
    return len(new_points)


class DAMPSIM_OT_unlink(EditOperator, Operator):
    """Remove this link. The objects are still simulated together"""

    bl_label = "Remove Link"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and not is_job_running(context) and 0 <= obj.dampsim.active_link < len(obj.dampsim.links)

    def edit(self, context: Context) -> None:
        obj = active_simulated(context)
        group = obj.dampsim
        remove_item(obj, group.links, group.active_link)
        group.active_link = max(min(group.active_link, len(group.links) - 1), 0)


class DAMPSIM_UL_links(ItemList, UIList):
    def draw_row(self, context: Context, layout: UILayout, item: Any, index: int) -> None:
        if is_target_deleted(item):
            layout.label(text=translate(f"{item.other.name} is missing" if item.other else "Missing"), icon="ERROR")
            return
        icon = "BONE_DATA" if item.bone else "OBJECT_DATA"
        layout.label(text=anchor_name(item.other, item.bone), icon=icon, translate=False)
        layout.label(text=translate(f"{len(item.points)} {'rigid' if item.rigid else 'soft'}"))


class DAMPSIM_PT_links(ChildPanel, Panel):
    bl_label = "Links"

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        group = obj.dampsim
        row = layout.row()
        row.template_list(DAMPSIM_UL_links.__name__, "", group, "links", group, "active_link", rows=3)
        row.column().operator(DAMPSIM_OT_unlink.bl_idname, text="", icon="REMOVE")
        if 0 <= group.active_link < len(group.links):
            link = group.links[group.active_link]
            column = labelled_column(layout.column(), context)
            column.prop(link, "other")
            if link.other is not None and link.other.type == "ARMATURE":
                column.prop_search(link, "bone", link.other.data, "bones")
            column.prop(link, "rigid")
            if not link.rigid:
                column.prop(link, "stiffness", text="Stiffness (N/m)")
            count = len(link.points)
            column.label(text=translate(f"Linked at {format_count(count, 'point')}"))
        linked = [
            member
            for member in group_of(obj).members
            if member != obj and any(link.other == obj for link in member.dampsim.links)
        ]
        if linked:
            draw_wrapped(layout, f"Also linked to it: {format_names(linked)}", "LINKED", context)
        column = layout.column(align=True)
        column.operator(DAMPSIM_OT_link.bl_idname, icon="LINKED")
        column.operator(DAMPSIM_OT_weld.bl_idname, icon="AUTOMERGE_ON")
        if not len(group.links) and not linked:
            draw_wrapped(layout, "Select another object as well, then press Link Selected", "INFO", context)

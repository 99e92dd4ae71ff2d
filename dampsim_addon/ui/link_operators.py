"""Operators that link objects, and remove links."""

from __future__ import annotations

from itertools import combinations

import bpy
import numpy as np
from bpy.props import FloatProperty
from bpy.types import Context, Operator
from mathutils import Vector

from ...core.arrays import Array
from ...core.errors import DampSimError
from ..scene.anchors import add_points, anchor_name, link_between, points_between
from ..scene.groups import group_of
from ..scene.objects import chosen, is_simulated, simulated, working
from ..scene.rest_shapes import RestShape, gap, meeting, near_vertices, rest_shape
from ..scene.snapshot import check_object
from .group_operators import together

# The 3D cursor is used if its distance to both objects is below this fraction of the smaller object's size.
_CURSOR = 0.1
# Points closer than this fraction of the smaller object's size are the same.
_SAME = 1e-4


def _shape(context: Context, obj: bpy.types.Object) -> RestShape:
    if is_simulated(obj):
        check_object(obj, context.view_layer)
    active = obj.data.bones.active if obj.type == "ARMATURE" else None
    return rest_shape(context.scene, context.view_layer, obj, active.name if active else "")


def _joined(operator: Operator, objects: list[bpy.types.Object], said: str) -> None:
    """Simulate linked objects together, as links require, and report the result."""
    apart = [obj for obj in simulated(objects) if obj not in group_of(simulated(objects)[0]).members]
    if apart:
        said += f"; now simulated together: {together(simulated(objects)).name}"
    operator.report({"INFO"}, said)


class DAMPSIM_OT_link(Operator):
    """Link the active object to each other selected object, or to the active bone of an armature, at one point: at the
    3D cursor if it is close to both objects (within 10% of the smaller one's size), otherwise where they are closest.
    Linked objects are then simulated together"""

    bl_idname = "dampsim.link"
    bl_label = "Link Selected"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        if obj is None or working(context):
            return False
        if not any(other != obj for other in context.selected_objects):
            cls.poll_message_set("Select the objects to link to as well")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        assert obj is not None
        others, linked = [other for other in context.selected_objects if other != obj], []
        try:
            shape = _shape(context, obj)
            for other in others:
                there = _shape(context, other)
                place = _place(shape, there, context.scene.cursor.location)
                link = obj.dampsim.links.add()
                link.other, link.bone = other, there.bone
                add_points(link, other, shape.matrix, there.matrix, place[None])
                linked.append(anchor_name(other, there.bone))
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        obj.dampsim.active_link = len(obj.dampsim.links) - 1
        _joined(self, [obj, *others], f"{obj.name}: linked to {', '.join(linked)}")
        return {"FINISHED"}


def _place(shape: RestShape, other: RestShape, cursor: Vector) -> Array:
    """Return the point (3,) in world space at which DAMPSIM_OT_link links two objects."""
    # Empties and armatures have no size.
    both = [one for one in (shape, other) if one.size > 0.0]
    if all(one.nearest(cursor)[1] < _CURSOR * min(two.size for two in both) for one in both):
        return np.array(cursor, dtype=float)
    if other.size > 0.0:
        return meeting(shape, other)
    # A target without a surface can be linked at any distance, so the point lies on the object.
    return shape.nearest(Vector(other.vertices[0].tolist()))[0]


class DAMPSIM_OT_weld(Operator):
    """Link the selected objects wherever they are close: at each vertex within the distance of the other object's
    surface. Linked objects are then simulated together"""

    bl_idname = "dampsim.weld"
    bl_label = "Weld Nearby"
    bl_options = {"REGISTER", "UNDO"}

    distance: FloatProperty(
        name="Distance",
        description="Maximum distance of linked vertices, in percent of the smaller object's size",
        default=1.0,
        min=0.0001,
        soft_max=20.0,
        max=1000.0,
        subtype="PERCENTAGE",
    )

    @classmethod
    def poll(cls, context: Context) -> bool:
        if working(context):
            return False
        meshes = [obj for obj in context.selected_objects if obj.type == "MESH"]
        if len(meshes) < 2 or not simulated(meshes):
            cls.poll_message_set("Select two or more meshes, at least one of them simulated")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        meshes = sorted((obj for obj in context.selected_objects if obj.type == "MESH"), key=lambda obj: obj.name_full)
        try:
            shapes = [_shape(context, obj) for obj in meshes]
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        count, welded, gaps = 0, [], []
        for pair in combinations(shapes, 2):
            if not simulated(shape.obj for shape in pair):
                continue
            # The active object stores the links if it can, because the panel shows them there.
            first, second = pair[::-1] if pair[1].obj == chosen(context) or not is_simulated(pair[0].obj) else pair
            made = weld(first, second, self.distance / 100.0)
            count += made
            welded += [first.obj, second.obj] if made else []
            if made:
                links = list(first.obj.dampsim.links)
                first.obj.dampsim.active_link = links.index(link_between(first.obj, second.obj))
            else:
                gaps.append(100.0 * gap(first, second) / min(first.size, second.size))
        if not count:
            far = min(gaps, default=0.0)
            said = (
                f"The gap between the objects is {far:.2g}% of the smaller one's size. Raise Distance, "
                "or move them closer"
                if far > self.distance
                else "All vertices within the distance are already welded"
            )
            self.report({"WARNING"}, said)
            return {"CANCELLED"}
        _joined(self, welded, f"Welded points: {count}")
        return {"FINISHED"}


def weld(first: RestShape, second: RestShape, part: float) -> int:
    """Link the first object to the second one wherever they are close. Return the number of new points.

    tolerance: maximum distance, relative to the smaller object's size.
    """
    small = min(first.size, second.size)
    found = [near_vertices(first, second, part * small), near_vertices(second, first, part * small)]
    # The smaller set is enough, unless it is empty.
    places = min((one for one in found if len(one)), key=len, default=found[0])
    known = np.concatenate(
        [points_between(first.obj, second.obj, first.matrix), points_between(second.obj, first.obj, second.matrix)]
    )
    fresh = np.zeros((0, 3))
    for place in places:
        seen = np.concatenate([known, fresh])
        if not (np.linalg.norm(seen - place, axis=1) < _SAME * small).any():
            fresh = np.concatenate([fresh, place[None]])
    if len(fresh):
        add_points(link_between(first.obj, second.obj), second.obj, first.matrix, second.matrix, fresh)
    return len(fresh)


class DAMPSIM_OT_unlink(Operator):
    """Remove this link. The objects are still simulated together"""

    bl_idname = "dampsim.unlink"
    bl_label = "Remove Link"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        return obj is not None and not working(context) and 0 <= obj.dampsim.active_link < len(obj.dampsim.links)

    def execute(self, context: Context) -> set[str]:
        group = chosen(context).dampsim
        group.links.remove(group.active_link)
        group.active_link = max(min(group.active_link, len(group.links) - 1), 0)
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_link, DAMPSIM_OT_weld, DAMPSIM_OT_unlink)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

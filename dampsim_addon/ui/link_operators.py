"""The buttons that link objects."""

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

# The 3D cursor counts where it is nearer to both objects than this part of the smaller one's size.
_CURSOR = 0.1
# A point nearer to another one than this part of the smaller one's size is the same one.
_SAME = 1e-4


def _shape(context: Context, obj: bpy.types.Object) -> RestShape:
    if is_simulated(obj):
        check_object(obj, context.view_layer)
    active = obj.data.bones.active if obj.type == "ARMATURE" else None
    return rest_shape(context.scene, context.view_layer, obj, active.name if active else "")


def _joined(operator: Operator, objects: list[bpy.types.Object], said: str) -> None:
    """Only what is simulated together can be linked; report what was done."""
    apart = [obj for obj in simulated(objects) if obj not in group_of(simulated(objects)[0]).members]
    if apart:
        said += f"; simulated together now: {together(simulated(objects)).name}"
    operator.report({"INFO"}, said)


class DAMPSIM_OT_link(Operator):
    """Link the active object to each of the other selected ones, or an armature's active bone, at a point: at the 3D
    cursor if that is on both of them (nearer than a tenth of the smaller one's size), else where they are nearest.
    Simulated ones are simulated together from then on"""

    bl_idname = "dampsim.link"
    bl_label = "Link Selected"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        if obj is None or working(context):
            return False
        if not any(other != obj for other in context.selected_objects):
            cls.poll_message_set("Select what to link it to as well")
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
    """(3,) see DAMPSIM_OT_link."""
    # Of an empty or an armature nobody knows how large it is meant to be.
    both = [one for one in (shape, other) if one.size > 0.0]
    if all(one.nearest(cursor)[1] < _CURSOR * min(two.size for two in both) for one in both):
        return np.array(cursor, dtype=float)
    if other.size > 0.0:
        return meeting(shape, other)
    # What has no surface carries a point of the object's along, wherever that is.
    return shape.nearest(Vector(other.vertices[0].tolist()))[0]


class DAMPSIM_OT_weld(Operator):
    """Link the selected objects to each other wherever they are near: at each vertex of the one that lies within the
    distance of the other's surface. Simulated ones are simulated together from then on"""

    bl_idname = "dampsim.weld"
    bl_label = "Weld Nearby"
    bl_options = {"REGISTER", "UNDO"}

    distance: FloatProperty(
        name="Distance",
        description="How near is near, in percent of the smaller object's size",
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
            cls.poll_message_set("Select two or more meshes, one of which DampSim simulates at least")
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
            # The active one has the links where it can, so that they are seen at once.
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
                f"Where they are nearest, {far:.2g}% of the smaller one's size lies between them; raise the distance, "
                "or move them together"
                if far > self.distance
                else "What lies within the distance is welded already"
            )
            self.report({"WARNING"}, said)
            return {"CANCELLED"}
        _joined(self, welded, f"Welded at {count} points")
        return {"FINISHED"}


def weld(first: RestShape, second: RestShape, part: float) -> int:
    """Link the first object to the second one wherever they are near; how many points that made.

    part: how near, in parts of the smaller one's size.
    """
    small = min(first.size, second.size)
    found = [near_vertices(first, second, part * small), near_vertices(second, first, part * small)]
    # Fewer hold as well, unless there are none.
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
    """Take this link away; who is simulated together stays so"""

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

"""Operators that add and remove colliders and floors, and reports of overlaps with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import bpy
import numpy as np
from bpy.types import Context, Operator

from ....core import Array
from ....core.base.wording import format_number, plural
from ...blender.animation import object_with_unkeyed_change
from ...blender.movers import has_object
from ...blender.sampler import GroupSampler
from ...model.colliders import add_collider, all_colliders, has_collision, is_collider
from ...model.groups import format_names, group_of
from ...model.instances import instances_text, shows_instances
from ...model.links import is_linked
from ...model.objects import (
    active_simulated,
    is_job_running,
    is_simulated,
    selected_simulated,
    visible_simulated,
)
from ...model.registry import reuse_last_scan
from ...scene_reader.scene_builder import check_object
from ...status.overlaps import find_overlaps, overlap_message
from ...translations import report
from ..common.operators import EditOperator, NamedOperator, is_met


def report_with_overlaps(
    operator: Operator, context: Context, message: str, objects: Sequence[bpy.types.Object], is_warning: bool = False
) -> None:
    """Report a message, with a warning if some of the objects overlap with colliders at the first frame.

    At another frame, unkeyed values would be lost. Then overlaps are only reported once that frame is read.
    """
    scene, layer = context.scene, context.view_layer
    layer.update()
    is_first = scene.frame_current_final == scene.frame_start
    can_find = is_first or not object_with_unkeyed_change(scene.objects, scene.frame_current_final)
    overlaps = find_overlaps(scene, layer, objects) if can_find else {}
    # The status bar shows only the last report.
    if overlaps:
        report(operator, {"WARNING"}, f"{message}. {overlap_message(overlaps, scene)}")
    else:
        report(operator, {"WARNING" if is_warning else "INFO"}, message)


FLOOR_NAME = "Floor"
# Half width of the displayed plane, relative to the size of the objects on it.
_RELATIVE_HALF_WIDTH = 3.0
# Objects higher above the grid than this, relative to their size, do not fall onto the grid.
_MAX_RELATIVE_DROP = 10.0
# Objects nearer to the grid than this, relative to their size, stand on it.
_STANDING_TOLERANCE = 0.01
# Default Contact Distance, relative to the size.
_DEFAULT_CONTACT_DISTANCE = 0.005


def existing_floor(scene: bpy.types.Scene) -> bpy.types.Object | None:
    """Return an infinite-plane collider of the scene, if there is one."""
    planes = (obj for obj in all_colliders() if obj.dampsim_collider.plane)
    return next((obj for obj in planes if has_object(scene.objects, obj)), None)


def floor_placement(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, objects: Mapping[bpy.types.Object, bool]
) -> Array:
    """Return the centre of a floor under some objects and its half width (4,). Visits the first frame.

    Pinned objects, and those that stand on the grid, lie on the floor. Falling objects fall onto the grid. If the grid
    is not below or too far below, they fall by their own height.
    objects: with whether each is free to fall.
    """
    with GroupSampler(scene, view_layer, list(objects)) as sampler:
        surfaces = [member.world_positions_at(float(scene.frame_start)) for member in sampler.members]
    heights = []
    for (obj, is_falling), surface in zip(objects.items(), surfaces, strict=True):
        size = float(np.linalg.norm(np.ptp(surface, axis=0)))
        low, gap = float(surface[:, 2].min()), obj.dampsim.contact_distance or _DEFAULT_CONTACT_DISTANCE * size
        if is_falling and low > _STANDING_TOLERANCE * size:
            low = 0.0 if low < _MAX_RELATIVE_DROP * size else low - float(np.ptp(surface[:, 2]))
        elif is_falling and low < -_STANDING_TOLERANCE * size:
            low -= float(np.ptp(surface[:, 2]))
        else:
            # A gap of the contact distance keeps the contact force zero at the start.
            low -= gap
        heights.append(low)
    points = np.concatenate(surfaces)
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    return np.array(
        [middle[0], middle[1], min(heights), _RELATIVE_HALF_WIDTH * float(np.linalg.norm(np.ptp(points, axis=0)))]
    )


def create_floor(
    collection: bpy.types.Collection, place: Array, extra_collections: Sequence[bpy.types.Collection] = ()
) -> bpy.types.Object:
    """Create a floor. place: see floor_placement().  extra_collections: further collections to link it to."""
    half = float(place[3])
    mesh = bpy.data.meshes.new(FLOOR_NAME)
    corners = [(-half, -half, 0.0), (half, -half, 0.0), (half, half, 0.0), (-half, half, 0.0)]
    mesh.from_pydata(corners, [], [(0, 1, 2, 3)])
    floor = bpy.data.objects.new(FLOOR_NAME, mesh)
    floor.location = place[:3]
    for one in dict.fromkeys([collection, *extra_collections]):
        one.objects.link(floor)
    floor.dampsim_collider.plane = floor.dampsim_collider.is_collider = True
    add_collider(floor)
    return floor


def _collider_collections(objects: Sequence[bpy.types.Object]) -> list[bpy.types.Collection]:
    """Return the distinct collider collections of objects."""
    found = [obj.dampsim.collider_collection for obj in objects]
    return list(dict.fromkeys(one for one in found if one is not None))


def _include_collider(collider: bpy.types.Object, objects: Sequence[bpy.types.Object]) -> None:
    """Add a collider to the collider collections of objects, and enable their collisions with colliders.

    Mark unpinned objects as unpinned on purpose, because they now have a collider to land on.
    """
    for collection in _collider_collections(objects):
        if collection.all_objects.get(collider.name) != collider:
            collection.objects.link(collider)
    for obj in objects:
        obj.dampsim.collide = True
        obj.dampsim.let_fall = obj.dampsim.let_fall or _is_unheld(obj)


def _is_unheld(obj: bpy.types.Object) -> bool:
    return not obj.dampsim.pin_group and not is_linked(obj)


class DAMPSIM_OT_floor(EditOperator, Operator):
    """Add an infinite floor under the selected objects: at the lowest point of pinned objects, and on the grid or one
    object height lower for falling ones"""

    bl_label = "Add Floor"

    @classmethod
    def poll(cls, context: Context) -> bool:
        can_add = active_simulated(context) is not None and context.mode == "OBJECT"
        return not is_job_running(context) and is_met(cls, can_add, "Select a simulated object in Object Mode")

    def edit(self, context: Context) -> None:
        objects = list(dict.fromkeys([active_simulated(context), *selected_simulated(context)]))
        known_floor = existing_floor(context.scene)
        if known_floor is None:
            for one in objects:
                check_object(one, context.view_layer)
            position = floor_placement(context.scene, context.view_layer, {one: _is_unheld(one) for one in objects})
        floor = known_floor or create_floor(context.collection, position, _collider_collections(objects))
        _include_collider(floor, objects)
        if known_floor is None:
            report(self, {"INFO"}, f"{floor.name}: added at height {format_number(position[2])}")
        else:
            text = f"{floor.name}: the scene already has this floor. Move it to where you need it"
            report_with_overlaps(self, context, text, objects)


def can_be_collider(obj: bpy.types.Object, active: bpy.types.Object | None) -> bool:
    """Return whether an object can become a collider of the active simulated object."""
    if obj.type != "MESH" or obj.library is not None or obj.dampsim_collider.is_collider:
        return False
    if active is None or not is_simulated(obj):
        return active is None or obj != active
    return bool(obj.dampsim.baked) and obj not in group_of(active).members


class DAMPSIM_OT_collider(NamedOperator, Operator):
    """Make the other selected meshes colliders. Colliders follow their animation"""

    bl_label = "Make Collider"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if is_job_running(context):
            return False
        message = "Select a mesh that is not a collider. If it is simulated, bake it separately first"
        with reuse_last_scan():
            active = active_simulated(context)
            return is_met(cls, any(can_be_collider(obj, active) for obj in context.selected_objects), message)

    def execute(self, context: Context) -> set[str]:
        active = active_simulated(context)
        new_colliders = [obj for obj in context.selected_objects if can_be_collider(obj, active)]
        for obj in new_colliders:
            obj.dampsim_collider.is_collider = True
            add_collider(obj)
            if active is not None:
                _include_collider(obj, [active])
        added = f"{plural(len(new_colliders), 'Collider')} added: {format_names(new_colliders)}"
        objects = visible_simulated(context) if active is None else [active]
        context.view_layer.update()
        instancers = [obj for obj in new_colliders if shows_instances(obj, context.view_layer)]
        if instancers:
            added = f"{added}. {instances_text(instancers, context.view_layer)}"
        report_with_overlaps(self, context, added, objects, bool(instancers))
        return {"FINISHED"}


class DAMPSIM_OT_no_collider(EditOperator, Operator):
    """Stop the selected objects from acting as colliders. The objects themselves are kept"""

    bl_label = "Remove Collider"

    @classmethod
    def poll(cls, context: Context) -> bool:
        any_own = any(obj.type == "MESH" and obj.dampsim_collider.is_collider for obj in context.selected_objects)
        message = "Select a collider. To remove Blender's own Collision, use the Physics properties"
        return not is_job_running(context) and is_met(cls, any_own, message)

    def edit(self, context: Context) -> None:
        colliders = [obj for obj in context.selected_objects if is_collider(obj) and obj.dampsim_collider.is_collider]
        for obj in colliders:
            obj.dampsim_collider.is_collider = False
        still_colliders = [obj for obj in colliders if has_collision(obj)]
        if still_colliders:
            text = f"{format_names(still_colliders)}: still a collider"
            report(self, {"WARNING"}, f"{text}. Remove Blender's own Collision in the Physics properties")
        else:
            report(self, {"INFO"}, f"Colliders removed: {format_names(colliders)}")

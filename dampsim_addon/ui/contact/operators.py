"""Operators that add and remove colliders."""

from __future__ import annotations

from collections.abc import Sequence

import bpy
from bpy.types import Context, Operator

from ....core import DampSimError
from ....core.base.wording import format_number, plural
from ...model.colliders import add_collider, has_collision, is_collider
from ...model.groups import format_names, group_of
from ...model.links import is_linked
from ...model.objects import (
    active_simulated,
    is_job_running,
    is_simulated,
    selected_simulated,
    visible_simulated,
)
from ...model.registry import reuse_last_scan
from ...scene_reader.floors import create_floor, existing_floor, floor_placement
from ...scene_reader.scene_builder import check_object
from ...translations import report, translate
from .overlap_reports import report_with_overlaps


def _collider_collections(objects: Sequence[bpy.types.Object]) -> list[bpy.types.Collection]:
    """Return the distinct collider collections of objects."""
    found = [obj.dampsim.collider_collection for obj in objects]
    return list(dict.fromkeys(one for one in found if one is not None))


def _include_collider(collider: bpy.types.Object, objects: Sequence[bpy.types.Object]) -> None:
    """Add a collider to the collider collections of objects, and enable their collisions with colliders."""
    for collection in _collider_collections(objects):
        if collection.all_objects.get(collider.name) != collider:
            collection.objects.link(collider)
    for obj in objects:
        obj.dampsim.collide = True


def _mark_unpinned_on_purpose(objects: Sequence[bpy.types.Object]) -> None:
    """Mark unpinned objects as unpinned on purpose, because they now have a collider to land on."""
    for obj in objects:
        obj.dampsim.let_fall = obj.dampsim.let_fall or _is_unheld(obj)


def _is_unheld(obj: bpy.types.Object) -> bool:
    return not obj.dampsim.pin_group and not is_linked(obj)


class DAMPSIM_OT_floor(Operator):
    """Add an infinite floor under the selected objects: at the lowest point of pinned objects, and on the grid or one
    object height lower for falling ones"""

    bl_idname = "dampsim.floor"
    bl_label = "Add Floor"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if is_job_running(context):
            return False
        if active_simulated(context) is None or context.mode != "OBJECT":
            cls.poll_message_set(translate, "Select a simulated object in Object Mode")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        obj = active_simulated(context)
        assert obj is not None
        objects = list(dict.fromkeys([obj, *selected_simulated(context)]))
        floor = existing_floor(context.scene)
        if floor is not None:
            _include_collider(floor, objects)
            _mark_unpinned_on_purpose(objects)
            text = f"{floor.name}: the scene already has this floor. Move it to where you need it"
            report_with_overlaps(self, context, text, objects)
            return {"FINISHED"}
        try:
            for one in objects:
                check_object(one, context.view_layer)
            position = floor_placement(context.scene, context.view_layer, {one: _is_unheld(one) for one in objects})
        except DampSimError as error:
            report(self, {"ERROR"}, str(error))
            return {"CANCELLED"}
        floor = create_floor(context.collection, position, _collider_collections(objects))
        _include_collider(floor, objects)
        _mark_unpinned_on_purpose(objects)
        report(self, {"INFO"}, f"{floor.name}: added at height {format_number(position[2])}")
        return {"FINISHED"}


def can_be_collider(obj: bpy.types.Object, active: bpy.types.Object | None) -> bool:
    """Return whether an object can become a collider of the active simulated object."""
    if obj.type != "MESH" or obj.library is not None or obj.dampsim_collider.is_collider:
        return False
    if active is None or not is_simulated(obj):
        return active is None or obj != active
    return bool(obj.dampsim.baked) and obj not in group_of(active).members


class DAMPSIM_OT_collider(Operator):
    """Make the other selected meshes colliders. Colliders follow their animation"""

    bl_idname = "dampsim.collider"
    bl_label = "Make Collider"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if is_job_running(context):
            return False
        with reuse_last_scan():
            active = active_simulated(context)
            if not any(can_be_collider(obj, active) for obj in context.selected_objects):
                cls.poll_message_set(
                    translate, "Select a mesh that is not a collider. If it is simulated, bake it separately first"
                )
                return False
        return True

    def execute(self, context: Context) -> set[str]:
        active = active_simulated(context)
        new_colliders = [obj for obj in context.selected_objects if can_be_collider(obj, active)]
        for obj in new_colliders:
            obj.dampsim_collider.is_collider = True
            add_collider(obj)
            if active is not None:
                _include_collider(obj, [active])
                _mark_unpinned_on_purpose([active])
        added = f"{plural(len(new_colliders), 'Collider')} added: {format_names(new_colliders)}"
        objects = visible_simulated(context) if active is None else [active]
        report_with_overlaps(self, context, added, objects)
        return {"FINISHED"}


class DAMPSIM_OT_no_collider(Operator):
    """Stop the selected objects from acting as colliders. The objects themselves are kept"""

    bl_idname = "dampsim.no_collider"
    bl_label = "Remove Collider"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if is_job_running(context):
            return False
        if not any(obj.type == "MESH" and obj.dampsim_collider.is_collider for obj in context.selected_objects):
            cls.poll_message_set(
                translate, "Select a collider. To remove Blender's own Collision, use the Physics properties"
            )
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        colliders = [obj for obj in context.selected_objects if is_collider(obj) and obj.dampsim_collider.is_collider]
        for obj in colliders:
            obj.dampsim_collider.is_collider = False
        still_colliders = [obj for obj in colliders if has_collision(obj)]
        if still_colliders:
            report(
                self,
                {"WARNING"},
                f"{format_names(still_colliders)}: still a collider. "
                "Remove Blender's own Collision in the Physics properties",
            )
        else:
            report(self, {"INFO"}, f"Colliders removed: {format_names(colliders)}")
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_floor, DAMPSIM_OT_collider, DAMPSIM_OT_no_collider)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

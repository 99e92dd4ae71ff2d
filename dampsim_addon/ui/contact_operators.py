"""Operators that add and remove colliders."""

from __future__ import annotations

from collections.abc import Sequence

import bpy
from bpy.types import Context, Operator

from ...core.errors import DampSimError
from ..scene.colliders import has_collision, is_collider, note
from ..scene.floors import existing, made, under
from ..scene.groups import group_of, named
from ..scene.objects import chosen, is_simulated, selected, working
from ..scene.registry import trusting
from ..scene.snapshot import check_object
from .doctor import is_linked


def _limits(objects: Sequence[bpy.types.Object]) -> list[bpy.types.Collection]:
    """Return the distinct collider collections of objects."""
    found = [obj.dampsim.collider_collection for obj in objects]
    return list(dict.fromkeys(one for one in found if one is not None))


def _included(collider: bpy.types.Object, objects: Sequence[bpy.types.Object]) -> None:
    """Add a collider to the collider collections of objects, and enable their collisions with colliders."""
    for collection in _limits(objects):
        if collection.all_objects.get(collider.name) != collider:
            collection.objects.link(collider)
    for obj in objects:
        obj.dampsim.collide = True


def _landing(objects: Sequence[bpy.types.Object]) -> None:
    """Mark unpinned objects as unpinned on purpose, because they now have a collider to land on."""
    for obj in objects:
        obj.dampsim.let_fall = obj.dampsim.let_fall or _falls(obj)


def _falls(obj: bpy.types.Object) -> bool:
    return not obj.dampsim.pin_group and not is_linked(obj)


class DAMPSIM_OT_floor(Operator):
    """Add an infinite floor under the selected objects: at the lowest point of pinned objects; under falling ones on
    the grid, or one object height below"""

    bl_idname = "dampsim.floor"
    bl_label = "Add Floor"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if working(context):
            return False
        if chosen(context) is None or context.mode != "OBJECT":
            cls.poll_message_set("Select a simulated object in Object Mode")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        assert obj is not None
        objects = list(dict.fromkeys([obj, *selected(context)]))
        there = existing(context.scene)
        if there is not None:
            _included(there, objects)
            _landing(objects)
            self.report({"INFO"}, f"{there.name}: the scene already has this floor. Move it where you need it")
            return {"FINISHED"}
        try:
            for one in objects:
                check_object(one, context.view_layer)
            place = under(context.scene, context.view_layer, {one: _falls(one) for one in objects})
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        floor = made(context.collection, place, _limits(objects))
        _included(floor, objects)
        _landing(objects)
        self.report({"INFO"}, f"{floor.name}: added at height {place[2]:.4g}")
        return {"FINISHED"}


def collidable(obj: bpy.types.Object, active: bpy.types.Object | None) -> bool:
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
        if working(context):
            return False
        with trusting():
            active = chosen(context)
            if not any(collidable(obj, active) for obj in context.selected_objects):
                cls.poll_message_set(
                    "Select a mesh that is not a collider. If it is simulated, bake it separately first"
                )
                return False
        return True

    def execute(self, context: Context) -> set[str]:
        active = chosen(context)
        made_now = [obj for obj in context.selected_objects if collidable(obj, active)]
        for obj in made_now:
            obj.dampsim_collider.is_collider = True
            note(obj)
            if active is not None:
                _included(obj, [active])
                _landing([active])
        self.report({"INFO"}, f"{'Collider' if len(made_now) == 1 else 'Colliders'} added: {named(made_now)}")
        return {"FINISHED"}


class DAMPSIM_OT_no_collider(Operator):
    """Stop the selected objects from acting as colliders. The objects themselves are kept"""

    bl_idname = "dampsim.no_collider"
    bl_label = "Remove Collider"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if working(context):
            return False
        if not any(obj.type == "MESH" and obj.dampsim_collider.is_collider for obj in context.selected_objects):
            cls.poll_message_set("Select a collider. Remove Blender's own Collision in the Physics properties")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        found = [obj for obj in context.selected_objects if is_collider(obj) and obj.dampsim_collider.is_collider]
        for obj in found:
            obj.dampsim_collider.is_collider = False
        rest = [obj for obj in found if has_collision(obj)]
        if rest:
            self.report(
                {"WARNING"},
                f"{named(rest)}: still a collider. Remove Blender's own Collision in the Physics properties",
            )
        else:
            self.report({"INFO"}, f"Colliders removed: {named(found)}")
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_floor, DAMPSIM_OT_collider, DAMPSIM_OT_no_collider)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

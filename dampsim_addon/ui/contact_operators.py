"""The buttons that say what things stop at."""

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
    """The collections to which objects limit their colliders, each once."""
    found = [obj.dampsim.collider_collection for obj in objects]
    return list(dict.fromkeys(one for one in found if one is not None))


def _included(collider: bpy.types.Object, objects: Sequence[bpy.types.Object]) -> None:
    """Let a collider be one of those at which objects stop, and let them stop."""
    for collection in _limits(objects):
        if collection.all_objects.get(collider.name) != collider:
            collection.objects.link(collider)
    for obj in objects:
        obj.dampsim.collide = True


def _landing(objects: Sequence[bpy.types.Object]) -> None:
    """What falls where something is made to catch it is meant to."""
    for obj in objects:
        obj.dampsim.let_fall = obj.dampsim.let_fall or _falls(obj)


def _falls(obj: bpy.types.Object) -> bool:
    return not obj.dampsim.pin_group and not is_linked(obj)


class DAMPSIM_OT_floor(Operator):
    """Put a floor without end under what is selected: where it is held, at its lowest point; where it falls, on the
    grid, or as far below as it is high"""

    bl_idname = "dampsim.floor"
    bl_label = "Add Floor"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if working(context):
            return False
        if chosen(context) is None or context.mode != "OBJECT":
            cls.poll_message_set("Choose an object that DampSim simulates, in Object Mode")
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
            self.report({"INFO"}, f"{there.name}: it is there already; move it where you want it")
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
        self.report({"INFO"}, f"{floor.name}: at a height of {place[2]:.4g}")
        return {"FINISHED"}


def collidable(obj: bpy.types.Object, active: bpy.types.Object | None) -> bool:
    """Whether an object could be made a collider, beside what is simulated and active."""
    if obj.type != "MESH" or obj.library is not None or obj.dampsim_collider.is_collider:
        return False
    if active is None or not is_simulated(obj):
        return active is None or obj != active
    return bool(obj.dampsim.baked) and obj not in group_of(active).members


class DAMPSIM_OT_collider(Operator):
    """Let things stop at the selected other meshes, as they are animated"""

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
                cls.poll_message_set("Select a mesh that is no collider yet, and that is not simulated, or baked apart")
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
        self.report({"INFO"}, f"{'Collider' if len(made_now) == 1 else 'Colliders'} now: {named(made_now)}")
        return {"FINISHED"}


class DAMPSIM_OT_no_collider(Operator):
    """Let nothing stop any more at the selected colliders; the objects stay"""

    bl_idname = "dampsim.no_collider"
    bl_label = "Remove Collider"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if working(context):
            return False
        if not any(obj.type == "MESH" and obj.dampsim_collider.is_collider for obj in context.selected_objects):
            cls.poll_message_set("Select a collider; Blender's own Collision is removed under Physics")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        found = [obj for obj in context.selected_objects if is_collider(obj) and obj.dampsim_collider.is_collider]
        for obj in found:
            obj.dampsim_collider.is_collider = False
        rest = [obj for obj in found if has_collision(obj)]
        if rest:
            self.report(
                {"WARNING"}, f"{named(rest)}: Blender's own Collision, under Physics, still makes it a collider"
            )
        else:
            self.report({"INFO"}, f"No colliders any more: {named(found)}")
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_floor, DAMPSIM_OT_collider, DAMPSIM_OT_no_collider)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

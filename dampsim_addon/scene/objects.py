"""Which objects DampSim simulates, and whether work on them is under way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import bpy
from bpy.types import Context

from .registry import seen


def is_simulated(obj: bpy.types.Object | None) -> bool:
    """Whether DampSim simulates it."""
    return obj is not None and obj.type == "MESH" and obj.dampsim.enabled


def chosen(context: Context) -> bpy.types.Object | None:
    """The active object if DampSim simulates it."""
    return context.object if is_simulated(context.object) else None


def simulated(objects: Iterable[bpy.types.Object]) -> list[bpy.types.Object]:
    """Those that DampSim simulates."""
    return [obj for obj in objects if is_simulated(obj)]


def simulated_in(scene: bpy.types.Scene) -> list[bpy.types.Object]:
    """Those of a scene that DampSim simulates."""
    return list(seen().within(scene))


def everywhere() -> list[bpy.types.Object]:
    """Those of the file that DampSim simulates, in a scene or not."""
    return list(seen().objects)


def selected(context: Context) -> list[bpy.types.Object]:
    """Those of the scene that are selected and that DampSim simulates."""
    ours = simulated_in(context.scene)
    # Scripts may hand others in than those that the view layer says are selected.
    there = set(context.selected_objects) if ours else set()
    return [obj for obj in ours if obj in there]


def visible(context: Context) -> list[bpy.types.Object]:
    """Those of the scene that DampSim simulates and the view layer shows."""
    return [obj for obj in simulated_in(context.scene) if obj.visible_get(view_layer=context.view_layer)]


def working(context: Context) -> bool:
    """Whether a job runs."""
    return bool(context.window_manager.dampsim_progress.object_name)


def free(cls: Any, context: Context) -> bool:
    """For the poll of an operator's class: whether no job is in its way."""
    if working(context):
        cls.poll_message_set("DampSim is at work; press ESC to stop it")
        return False
    return True

"""Queries for simulated objects, and for running jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import bpy
from bpy.types import Context

from ...core import SceneError
from ..translations import translate
from ..work.operators import redraw_viewports
from .registry import scan_objects


def is_simulated(obj: bpy.types.Object | None) -> bool:
    """Return whether DampSim simulates an object."""
    return obj is not None and obj.type == "MESH" and obj.dampsim.enabled


def active_simulated(context: Context) -> bpy.types.Object | None:
    """Return the active object if DampSim simulates it; otherwise None."""
    return context.object if is_simulated(context.object) else None


def check_editable(obj: bpy.types.Object) -> None:
    """Raise SceneError if Blender would lose changes of an object, because it is linked without an override."""
    if obj.library is not None:
        raise SceneError(
            f"{obj.name}: the object is linked from {Path(obj.library.filepath).name}. Change it there, or make it "
            "local or a library override."
        )


def remove_item(obj: bpy.types.Object, items: bpy.types.bpy_prop_collection[Any], index: int) -> None:
    """Remove an item of a list of an object. Raises SceneError if the library of a library override has it."""
    try:
        items.remove(index)
    except TypeError:
        message = f"{obj.name}: this entry comes from its library; remove it there, or make the object local."
        raise SceneError(message) from None


def filter_simulated(objects: Iterable[bpy.types.Object]) -> list[bpy.types.Object]:
    """Return those of some objects that DampSim simulates."""
    return [obj for obj in objects if is_simulated(obj)]


def simulated_in_scene(scene: bpy.types.Scene) -> list[bpy.types.Object]:
    """Return the simulated objects of a scene."""
    return list(scan_objects().in_scene(scene))


def all_simulated() -> list[bpy.types.Object]:
    """Return all simulated objects of the file, in a scene or not."""
    return list(scan_objects().objects)


def selected_simulated(context: Context) -> list[bpy.types.Object]:
    """Return the selected simulated objects of the scene."""
    ours = simulated_in_scene(context.scene)
    # Scripts may override selected_objects, so that it differs from the selection of the view layer.
    selection = set(context.selected_objects) if ours else set()
    return [obj for obj in ours if obj in selection]


def chosen_simulated(context: Context) -> list[bpy.types.Object]:
    """Return the objects that buttons apply to: the active simulated object, then the other selected ones."""
    active = active_simulated(context)
    first = [] if active is None else [active]
    return [*first, *(obj for obj in selected_simulated(context) if obj != active)]


def visible_simulated(context: Context) -> list[bpy.types.Object]:
    """Return the simulated objects of the scene that are visible in the view layer."""
    return [obj for obj in simulated_in_scene(context.scene) if obj.visible_get(view_layer=context.view_layer)]


def is_job_running(context: Context) -> bool:
    """Return whether a job is running."""
    return bool(context.window_manager.dampsim_progress.object_name)


def refresh_active(refresh: Callable[[bpy.types.Object], bool]) -> None:
    """Refresh the active object if it is simulated and no job is running. refresh returns whether to redraw it."""
    obj = bpy.context.view_layer.objects.active if bpy.context.view_layer else None
    if is_simulated(obj) and not is_job_running(bpy.context) and refresh(obj):
        redraw_viewports()


def can_start_job(cls: Any, context: Context) -> bool:
    """Return whether no job is running; otherwise set the poll message of an operator class."""
    if is_job_running(context):
        cls.poll_message_set(translate, "DampSim is busy. Press ESC to stop it")
        return False
    return True

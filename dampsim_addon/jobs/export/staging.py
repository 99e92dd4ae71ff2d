"""Temporary changes to the scene during an export: selection, disabled modifiers and the window's scene."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import bpy

from ....core import SceneError
from ...blender.modifiers import DEFORMING


def with_rig_and_parents(obj: bpy.types.Object) -> Iterator[bpy.types.Object]:
    """Yield the object, the armatures of its modifiers, and all of their parents."""
    pending = [obj]
    while pending:
        one = pending.pop()
        yield one
        rigs = [m.object for m in one.modifiers if m.type == "ARMATURE" and m.object is not None]
        pending += [*rigs, *([one.parent] if one.parent is not None else [])]


@contextlib.contextmanager
def disable_topology_modifiers(objects: Sequence[bpy.types.Object]) -> Iterator[None]:
    """Disable the modifiers that change the number of vertices; morph targets cannot hold their result."""
    modifiers = [m for obj in objects for m in obj.modifiers if m.show_viewport and m.type not in DEFORMING]
    for modifier in modifiers:
        modifier.show_viewport = False
    try:
        yield
    finally:
        for modifier in modifiers:
            modifier.show_viewport = True


@contextlib.contextmanager
def select_only(view_layer: bpy.types.ViewLayer, objects: Sequence[bpy.types.Object]) -> Iterator[None]:
    """Select only these objects. Raises SceneError if one of them cannot be selected."""
    active = view_layer.objects.active
    previous_selection = [obj for obj in view_layer.objects if obj.select_get(view_layer=view_layer)]
    try:
        for obj in view_layer.objects:
            obj.select_set(obj in objects, view_layer=view_layer)
        for obj in objects:
            if obj.name not in view_layer.objects or not obj.select_get(view_layer=view_layer):
                raise SceneError(
                    f"{obj.name}: it is hidden, excluded or not selectable, but {objects[0].name} depends on it; "
                    "show it before exporting."
                )
        view_layer.objects.active = objects[0]
        yield
    finally:
        for obj in view_layer.objects:
            obj.select_set(obj in previous_selection, view_layer=view_layer)
        view_layer.objects.active = active


@contextlib.contextmanager
def show_in_window(scene: bpy.types.Scene) -> Iterator[None]:
    """Show the scene in a window and override the context with it, as Blender's exporters and importers need."""
    window = bpy.context.window or bpy.context.window_manager.windows[0]
    previous_scene = window.scene
    try:
        if previous_scene != scene:
            window.scene = scene
        with bpy.context.temp_override(window=window):
            yield
    finally:
        if previous_scene != scene:
            window.scene = previous_scene


@contextlib.contextmanager
def scratch_scene(source: bpy.types.Scene) -> Iterator[bpy.types.Scene]:
    """Create a scene with the same frame rate and range. It is removed with all data imported meanwhile."""
    lists = [prop.identifier for prop in bpy.data.bl_rna.properties if prop.type == "COLLECTION"]
    before = {block for name in lists for block in getattr(bpy.data, name)}
    scratch = bpy.data.scenes.new("DampSim Export Check")
    scratch.render.fps, scratch.render.fps_base = source.render.fps, source.render.fps_base
    scratch.frame_start, scratch.frame_end = source.frame_start, source.frame_end
    try:
        yield scratch
    finally:
        bpy.data.batch_remove({block for name in lists for block in getattr(bpy.data, name)} - before)

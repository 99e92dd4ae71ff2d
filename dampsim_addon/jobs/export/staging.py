"""Temporary changes to the scene, as during an export: values, selection, modifiers and the window's scene."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import bpy

from ....core import SceneError
from ...blender.animation import channelbags
from ...blender.dampsim_names import is_output_modifier
from ...blender.modifiers import can_change_topology
from ...blender.movers import ModifierEffect, has_object, modifier_type_effect
from ...session import shifted_frames


def with_rig_and_parents(obj: bpy.types.Object) -> Iterator[bpy.types.Object]:
    """Yield the object, the armatures of its modifiers, and all of their parents."""
    pending = [obj]
    while pending:
        one = pending.pop()
        yield one
        rigs = [m.object for m in one.modifiers if m.type == "ARMATURE" and m.object is not None]
        pending += [*rigs, *([one.parent] if one.parent is not None else [])]


@contextlib.contextmanager
def temporary_values(values: Iterable[tuple[Any, str, object]]) -> Iterator[None]:
    """Context in which properties have other values. values: owner, name and value of each, in order."""
    with contextlib.ExitStack() as restoring:
        for owner, name, value in values:
            before = getattr(owner, name)
            # A color is a reference, so its value is copied.
            restoring.callback(setattr, owner, name, tuple(before) if isinstance(value, tuple) else before)
            setattr(owner, name, value)
        yield


def omitted_modifiers(obj: bpy.types.Object, holds_vertices: bool) -> list[bpy.types.Modifier]:
    """Return the visible modifiers that an export leaves out, because they change the number of vertices.

    Formats that hold vertices keep those above a baked file, whose vertices it holds, such as a Mirror's half.
    """
    place = next((k for k, m in enumerate(obj.modifiers) if holds_vertices and is_output_modifier(m)), 0)
    return [m for k, m in enumerate(obj.modifiers) if k >= place and m.show_viewport and can_change_topology(m)]


def disable_modifiers(
    objects: Sequence[bpy.types.Object], holds_vertices: bool
) -> contextlib.AbstractContextManager[None]:
    """Disable the modifiers that an export leaves out, and those without vertices, such as particles."""
    without_vertices = [
        m for obj in objects for m in obj.modifiers if modifier_type_effect(m.type) is ModifierEffect.NONE
    ]
    omitted = [m for obj in objects for m in omitted_modifiers(obj, holds_vertices)]
    return temporary_values((modifier, "show_viewport", False) for modifier in [*omitted, *without_vertices])


def zero_muted_keys(objects: Sequence[bpy.types.Object]) -> contextlib.AbstractContextManager[None]:
    """Set muted shape keys to zero and disable their animation, because files cannot mute keys."""
    blocks = [obj.data.shape_keys for obj in objects if obj.data.shape_keys is not None]
    curves = [(curve, "mute", True) for keys in blocks for curve in _value_curves(keys) if not curve.mute]
    return temporary_values([*curves, *((key, "value", 0.0) for keys in blocks for key in keys.key_blocks if key.mute)])


def _value_curves(keys: bpy.types.Key) -> list[bpy.types.FCurve]:
    """Return the F-curves and drivers of the values of muted keys, each once."""
    paths = {key.path_from_id("value") for key in keys.key_blocks if key.mute}
    drivers = keys.animation_data.drivers if keys.animation_data is not None else ()
    curves = [*(curve for bag in channelbags(keys) for curve in bag.fcurves), *drivers]
    return [curve for curve in dict.fromkeys(curves) if curve.data_path in paths]


@contextlib.contextmanager
def frame_range(scene: bpy.types.Scene, frames: tuple[int, int]) -> Iterator[None]:
    """Set the frame range of the scene, which Blender's exporters read. frames: first and last frame."""
    before = scene.frame_start, scene.frame_end, scene.frame_current, scene.frame_subframe
    scene.frame_start, scene.frame_end = frames
    try:
        yield
    finally:
        scene.frame_start, scene.frame_end = before[:2]
        scene.frame_set(before[2], subframe=before[3])


@contextlib.contextmanager
def time_from_zero(scene: bpy.types.Scene) -> Iterator[None]:
    """Context in which frame 0 of the scene is its first frame, so that exporters begin at time 0.

    Players begin there, and would otherwise show the first frame for a while before the motion begins. Exporters set
    each frame and write its number as the time; a handler changes the frame that is evaluated in between. The
    first frame is set here: a file with a single frame may contain the current one.
    """
    first, last = scene.frame_start, scene.frame_end
    scene.frame_start, scene.frame_end = 0, last - first
    try:
        with shifted_frames(scene, first):
            scene.frame_set(0)
            yield
    finally:
        scene.frame_end, scene.frame_start = last, first


def check_in_layer(view_layer: bpy.types.ViewLayer, obj: bpy.types.Object) -> None:
    """Raise SceneError if an object or one of its rigs and parents cannot be selected, not even by select_only()."""
    for one in with_rig_and_parents(obj):
        if _is_selectable(view_layer, one):
            continue
        if one == obj:
            raise SceneError(f"{one.name}: it is disabled in viewports or excluded; show it before exporting.")
        raise SceneError(
            f"{one.name}: it is disabled in viewports or excluded, but {obj.name} depends on it; show it before "
            "exporting."
        )


def _is_selectable(view_layer: bpy.types.ViewLayer, obj: bpy.types.Object) -> bool:
    with _visibility_for_export([obj], view_layer):
        return has_object(view_layer.objects, obj) and obj.visible_get(view_layer=view_layer)


def _layer_collections(root: bpy.types.LayerCollection) -> Iterator[bpy.types.LayerCollection]:
    yield root
    for child in root.children:
        yield from _layer_collections(child)


@contextlib.contextmanager
def _visibility_for_export(objects: Iterable[bpy.types.Object], view_layer: bpy.types.ViewLayer) -> Iterator[None]:
    """Context in which objects are neither hidden by the eye icon, also of their collections, nor unselectable.

    A rig may stay hidden for an export: Blender evaluates hidden objects, but not disabled ones.
    """
    objects = [one for one in objects if has_object(view_layer.objects, one)]
    hidden = [one for one in objects if one.hide_get(view_layer=view_layer)]
    around = [
        one
        for one in _layer_collections(view_layer.layer_collection)
        if any(has_object(one.collection.all_objects, obj) for obj in objects)
    ]
    values = [(one, "hide_viewport", False) for one in around if one.hide_viewport]
    values += [(one.collection, "hide_select", False) for one in around if one.collection.hide_select]
    values += [(one, "hide_select", False) for one in objects if one.hide_select]
    with temporary_values(values):
        try:
            for one in hidden:
                one.hide_set(False, view_layer=view_layer)
            yield
        finally:
            for one in hidden:
                one.hide_set(True, view_layer=view_layer)


@contextlib.contextmanager
def select_only(view_layer: bpy.types.ViewLayer, objects: Sequence[bpy.types.Object]) -> Iterator[None]:
    """Select only these objects, and show hidden ones meanwhile. check_in_layer() tells whether that is possible."""
    active = view_layer.objects.active
    previous_selection = [obj for obj in view_layer.objects if obj.select_get(view_layer=view_layer)]
    try:
        with _visibility_for_export(objects, view_layer):
            for obj in view_layer.objects:
                obj.select_set(obj in objects, view_layer=view_layer)
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
    values = [(window, "scene", scene)] if window.scene != scene else []
    with temporary_values(values), bpy.context.temp_override(window=window):
        yield


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

"""Exclusion of moving objects that do not contribute to a group, while its animation is read.

A frame is evaluated for the whole view layer, so every animated object of the scene slows down a bake. Those that
contribute nothing are disabled in viewports meanwhile. Blender still evaluates a disabled object where an enabled one
depends on it by a parent, constraint, driver or modifier, so a disabled object never changes the result by those.

Blender frees the evaluated data of a disabled object, and building it anew can take as long as ten frames if it has
modifiers. A driver of the visibility keeps the object in the depsgraph, which then skips its geometry. It also keeps
the rigs on which the object depends, whose poses are evaluated at each visited frame: such an object gets no driver.

Blender evaluates each of them again when it is enabled, even if no frame was visited. A viewport has to, but nothing
else needs it, so it is left to the next update.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import bpy

from ..blender.animation import animated_paths, driver_targets, drivers_of
from ..blender.geometry_nodes import modifier_effect
from ..blender.hair import guide_object
from ..blender.movers import ModifierEffect, References, can_move, has_object, modifier_type_effect, scene_cameras
from ..blender.sampler import GroupSampler
from ..session import Subscriber
from .contributors import direct_contributors, frame_handler_inputs, is_in_viewports, is_tracked_driver

# Custom property of the scene with the full names of the disabled objects, one per line: a file that is saved
# meanwhile enables them again when it is opened.
_HIDDEN_KEY = "dampsim_disabled"
# Property that is set and driven while an object is disabled.
_VISIBILITY = "hide_viewport"
# Expression of its driver.
_DISABLING = "1"
# Modifiers whose result depends on force fields and colliders of the whole scene, without a reference to them.
_SCENE_WIDE_TYPES = {"EXPLODE", "PARTICLE_INSTANCE"}
# Parts of the data paths by which a driver reaches objects through the scene.
_SCENE_PATHS = ("objects", "collection", "camera", "view_layers")


@contextmanager
def isolated_sampler(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, objects: Sequence[bpy.types.Object]
) -> Iterator[GroupSampler]:
    """Provide a sampler of a group, in use while the objects of non_contributing_objects() are disabled.

    On exit their state is restored. The next update evaluates them once, at the frame from before.
    """
    sampler = GroupSampler(scene, view_layer, objects)
    with _disabled(scene, non_contributing_objects(sampler)), sampler:
        yield sampler


def isolated(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, objects: Sequence[bpy.types.Object]
) -> AbstractContextManager[None]:
    """Context in which other code plays the motion of objects, and all others that move are disabled as above."""
    return _disabled(scene, non_contributing_objects(GroupSampler(scene, view_layer, objects)))


@contextmanager
def _disabled(scene: bpy.types.Scene, objects: Sequence[bpy.types.Object]) -> Iterator[None]:
    """Disable objects in viewports temporarily."""
    if not objects:
        yield
        return
    # Other objects may be deleted meanwhile, and references to them are invalid then.
    without_animation = {obj.session_uid: obj.animation_data is None for obj in objects}
    # Blender deselects disabled objects.
    layers = list(scene.view_layers)
    selected = {(k, obj.session_uid) for k, layer in enumerate(layers) for obj in objects if _is_selected(obj, layer)}
    try:
        scene[_HIDDEN_KEY] = "\n".join(str(obj.name_full) for obj in objects)
        kept = _objects_without_rigs(objects)
        for obj in objects:
            obj.hide_viewport = True
            if obj in kept:
                obj.driver_add(_VISIBILITY).driver.expression = _DISABLING
        yield
    finally:
        for obj in [obj for obj in bpy.data.objects if obj.session_uid in without_animation]:
            _enable(obj)
            if without_animation[obj.session_uid] and obj.animation_data is not None:
                obj.animation_data_clear()
        scene.pop(_HIDDEN_KEY, None)
        for k, layer in enumerate(scene.view_layers if selected else ()):
            for obj in [obj for obj in filter(None, layer.objects) if (k, obj.session_uid) in selected]:
                obj.select_set(True, view_layer=layer)


def _objects_without_rigs(objects: Sequence[bpy.types.Object]) -> set[bpy.types.Object]:
    """Return the objects with modifiers that depend on no rig. The depsgraph evaluates drivers of rigs, too."""
    found = {obj for obj in objects if obj.modifiers}
    if not any(obj.pose is not None for obj in objects):
        return found
    return found - References().influenced(found, [obj for obj in bpy.data.objects if obj.pose is not None])


def _enable(obj: bpy.types.Object) -> None:
    obj.driver_remove(_VISIBILITY)
    obj.hide_viewport = False


def non_contributing_objects(sampler: GroupSampler) -> list[bpy.types.Object]:
    """Return the enabled objects of the view layer that may move, and on which the group certainly does not depend.

    Hair that follows a member is included, although it is the parent of its guides: Blender then evaluates its motion,
    but not its strands.

    Where scripts, or simulations of Blender with their force fields and colliders, take part, none is certain.
    """
    if frame_handler_inputs():
        return []
    references, scene, layer = References(), sampler.scene, sampler.view_layer
    roots: list[bpy.types.ID] = [*direct_contributors(sampler), *scene_cameras(scene)]
    roots += [target.id for curve in drivers_of(scene) for target in driver_targets(curve.driver) if target.id]
    blocks = references.reachable(roots)
    members = {member.obj for member in sampler.members}
    if _reads_anything([scene, *blocks]) or any(
        isinstance(block, bpy.types.Object) and _is_simulated_by_blender(block, block in members) for block in blocks
    ):
        return []
    # Blender evaluates those only for other objects that refer to them.
    disabled = {one for one in blocks if isinstance(one, bpy.types.Object) and not is_in_viewports(one, layer)}
    # Blender 5.2 lists None for objects that were removed since the last update.
    in_layer = list(filter(None, layer.objects))
    relying = references.influenced(in_layer, disabled) if disabled else set()
    return [
        obj
        for obj in in_layer
        if (obj not in blocks or (obj not in roots and obj.type == "CURVES" and guide_object(obj) in members))
        and obj.mode == "OBJECT"
        and not obj.hide_viewport
        and _VISIBILITY not in animated_paths(obj)
        and not _has_simulated_frames(obj, scene.rigidbody_world)
        and can_move(obj)
        and obj not in relying
    ]


def _is_selected(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> bool:
    return has_object(layer.objects, obj) and obj.select_get(view_layer=layer)


def _reads_anything(blocks: Iterable[bpy.types.ID]) -> bool:
    """Return whether a driver of some datablocks may depend on objects to which it has no reference."""
    return any(
        not is_tracked_driver(curve.driver)
        or any(part in target.data_path for target in driver_targets(curve.driver) for part in _SCENE_PATHS)
        for block in blocks
        for curve in drivers_of(block)
    )


def _is_simulated_by_blender(obj: bpy.types.Object, is_member: bool) -> bool:
    if obj.rigid_body is not None or obj.rigid_body_constraint is not None:
        return True
    for modifier in obj.modifiers:
        if modifier.type == "NODES" and modifier_effect(modifier).has_simulation:
            return True
        simulates = modifier_type_effect(modifier.type) is ModifierEffect.SIMULATES
        # Such modifiers of members are not sampled.
        if not is_member and (simulates or modifier.type in _SCENE_WIDE_TYPES):
            return True
    return False


def _has_simulated_frames(obj: bpy.types.Object, world: bpy.types.RigidBodyWorld | None) -> bool:
    """Return whether an object plays a simulation of Blender from frames that were baked or played before.

    Disabling the object would discard these frames. Reading them takes little time.
    """
    return any(cache.is_baked or (not cache.is_outdated and _count_frames(cache) > 1) for cache in _caches(obj, world))


def _caches(obj: bpy.types.Object, world: bpy.types.RigidBodyWorld | None) -> Iterator[bpy.types.PointCache]:
    for modifier in obj.modifiers:
        canvas = getattr(modifier, "canvas_settings", None)
        owners = [modifier, *(canvas.canvas_surfaces if canvas is not None else ())]
        yield from filter(None, (getattr(owner, "point_cache", None) for owner in owners))
    yield from (system.point_cache for system in obj.particle_systems)
    if world is not None and (obj.rigid_body is not None or obj.rigid_body_constraint is not None):
        yield world.point_cache


def _count_frames(cache: bpy.types.PointCache) -> int:
    """Return the number of frames in a cache. Only Blender's description of the cache has it, as its first number."""
    found = re.search(r"\d+", cache.info)
    return int(found[0]) if found else 0


def _enable_after_crash(*_: object) -> None:
    for scene in bpy.data.scenes:
        names = set(str(scene.pop(_HIDDEN_KEY, "")).splitlines())
        for obj in bpy.data.objects if names else ():
            # Some may have been renamed or duplicated meanwhile.
            if obj.name_full in names or _has_own_driver(obj):
                _enable(obj)


def _has_own_driver(obj: bpy.types.Object) -> bool:
    found = obj.animation_data.drivers.find(_VISIBILITY) if obj.animation_data is not None else None
    return found is not None and found.driver.expression == _DISABLING and not len(found.driver.variables)


SUBSCRIBER = Subscriber("isolation", {"load_post": _enable_after_crash})

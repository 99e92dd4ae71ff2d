"""Exclusion of moving objects that do not contribute to a group, while its animation is read.

A frame is evaluated for the whole view layer, so every animated object of the scene slows down a bake. Those that
contribute nothing are disabled in viewports meanwhile. Blender still evaluates a disabled object where an enabled one
depends on it by a parent, constraint, driver or modifier, so a disabled object never changes the result by those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import bpy

from ..blender.animation import animated_paths
from ..blender.dependencies import References
from ..blender.geometry_nodes import modifier_effect
from ..blender.movers import ModifierEffect, can_move, modifier_type_effect
from ..blender.sampler import GroupSampler
from ..blender.untracked_inputs import frame_handler_inputs, is_tracked_driver
from ..session import Subscriber
from .contributors import direct_contributors

# Custom property of the scene with the full names of the disabled objects, one per line: a file that is saved
# meanwhile enables them again when it is opened.
_HIDDEN_KEY = "dampsim_disabled"
# Modifiers whose result depends on force fields and colliders of the whole scene, without a reference to them.
_SCENE_WIDE_TYPES = {"EXPLODE", "PARTICLE_INSTANCE"}
# Parts of the data paths by which a driver reaches objects through the scene.
_SCENE_PATHS = ("objects", "collection", "camera", "view_layers")


@contextmanager
def isolate_group(sampler: GroupSampler) -> Iterator[list[bpy.types.Object]]:
    """Disable the objects of non_contributing_objects() in viewports. Provides them; their state is restored."""
    scene, disabled = sampler.scene, non_contributing_objects(sampler)
    uids = {obj.session_uid for obj in disabled}
    # Blender deselects disabled objects.
    layers = list(scene.view_layers)
    selected = {(k, obj.session_uid) for k, layer in enumerate(layers) for obj in disabled if _is_selected(obj, layer)}
    try:
        if disabled:
            scene[_HIDDEN_KEY] = "\n".join(str(obj.name_full) for obj in disabled)
        for obj in disabled:
            obj.hide_viewport = True
        yield disabled
    finally:
        if uids:
            # Objects that were deleted meanwhile cannot be used any more.
            for obj in bpy.data.objects:
                if obj.session_uid in uids:
                    obj.hide_viewport = False
            scene.pop(_HIDDEN_KEY, None)
            sampler.view_layer.update()
            for k, layer in enumerate(scene.view_layers if selected else ()):
                for obj in [obj for obj in layer.objects if (k, obj.session_uid) in selected]:
                    obj.select_set(True, view_layer=layer)
            sampler.invalidate_frame()


def non_contributing_objects(sampler: GroupSampler) -> list[bpy.types.Object]:
    """Return the enabled objects of the view layer that may move, and on which the group certainly does not depend.

    Where scripts, or simulations of Blender with their force fields and colliders, take part, none is certain.
    """
    if frame_handler_inputs():
        return []
    references, scene = References(), sampler.scene
    roots: list[bpy.types.ID] = [*direct_contributors(sampler), *([scene.camera] if scene.camera else [])]
    roots += [target for driver in _drivers(scene) for target in _driver_targets(driver)]
    blocks = references.reachable(roots)
    members = {member.obj for member in sampler.members}
    if _reads_anything([scene, *blocks]) or any(
        isinstance(block, bpy.types.Object) and _is_simulated_by_blender(block, block in members) for block in blocks
    ):
        return []
    return [
        obj
        for obj in sampler.view_layer.objects
        if obj not in blocks
        and obj.mode == "OBJECT"
        and not obj.hide_viewport
        and "hide_viewport" not in animated_paths(obj)
        and can_move(obj)
    ]


def _is_selected(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> bool:
    return layer.objects.get(obj.name) == obj and obj.select_get(view_layer=layer)


def _drivers(block: bpy.types.ID) -> list[bpy.types.Driver]:
    data = getattr(block, "animation_data", None)
    return [] if data is None else [curve.driver for curve in data.drivers]


def _driver_targets(driver: bpy.types.Driver) -> list[bpy.types.ID]:
    targets = [target.id for variable in driver.variables for target in variable.targets]
    return [target for target in targets if target is not None]


def _reads_anything(blocks: Iterable[bpy.types.ID]) -> bool:
    """Return whether a driver of some datablocks may depend on objects to which it has no reference."""
    for driver in (driver for block in blocks for driver in _drivers(block)):
        if not is_tracked_driver(driver):
            return True
        paths = [target.data_path for variable in driver.variables for target in variable.targets]
        if any(part in path for path in paths for part in _SCENE_PATHS):
            return True
    return False


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


def _enable_after_crash(*_: object) -> None:
    for scene in bpy.data.scenes:
        names = set(str(scene.pop(_HIDDEN_KEY, "")).splitlines())
        for obj in bpy.data.objects if names else ():
            if obj.name_full in names:
                obj.hide_viewport = False


SUBSCRIBER = Subscriber("isolation", {"load_post": _enable_after_crash})

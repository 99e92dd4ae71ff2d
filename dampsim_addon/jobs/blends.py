"""Blends of bakes, keyed at once or written into their frames by a new bake."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping

import bpy

from ...core import SceneError
from ..targets.landing import Blend, store_weights, stored_weights
from ..work.steps import Step
from .bake import bake_all
from .landing import blend_bake, blend_warning


def blend_bakes(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    objects: Iterable[bpy.types.Object],
    kind: Blend,
    frame: int,
    length: int,
) -> Generator[Step, None, list[str]]:
    """Blend bakes with the animated pose; see blend_bake(). Bake those again whose frames contain the blend.

    Return a warning for each object that pops or shortens an edge by too much, otherwise ''. Raises SceneError if a
    bake cannot be blended.
    """
    before, motions, warnings = {}, {}, {}
    for obj in objects:
        points = stored_weights(obj)
        warnings[obj], motion = blend_bake(scene, obj, kind, frame, length)
        if motion is not None:
            before[obj], motions[obj] = points, motion
    yield from _bake_again(scene, view_layer, before)
    for obj, motion in motions.items():
        warnings[obj] = blend_warning(scene, obj, motion)
    return list(warnings.values())


def remove_baked_blends(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, objects: Iterable[bpy.types.Object]
) -> Generator[Step]:
    """Remove the blends in the frames of bakes, and write these again. Keyframes of the influence stay.

    Raises SceneError if an object cannot be baked.
    """
    before = {obj: points for obj in objects if (points := stored_weights(obj))}
    for obj in before:
        store_weights(obj, [])
    yield from _bake_again(scene, view_layer, before)


def _bake_again(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    before: Mapping[bpy.types.Object, list[tuple[float, float]]],
) -> Generator[Step]:
    """Write bakes whose blends have changed. before: the blends to restore where it fails. Raises SceneError."""
    if not before:
        return
    unfinished = dict(before)
    try:
        for result in (yield from bake_all(scene, view_layer, before, False)):
            if result.problem:
                raise SceneError(result.problem)
        unfinished.clear()
    finally:
        for obj, points in unfinished.items():
            store_weights(obj, points)

"""Blends of bakes, keyed at once or written into their frames by a new bake."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping

import bpy

from ...core import DampSimError, SceneError
from ..model.groups import groups_of
from ..status.next_bake import BakeAction, next_bake
from ..targets.landing import Blend, store_weights, stored_weights
from ..work.steps import Step
from .bake import bake_all
from .export.staging import temporary_values
from .landing import BlendedMotion, blend_bake, blend_warning

# Stored weights of bakes, see stored_weights().
_Weights = Mapping[bpy.types.Object, list[tuple[float, float]]]


def blend_bakes(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    objects: Iterable[bpy.types.Object],
    kind: Blend,
    frame: int,
    length: int,
) -> Generator[Step, None, list[str]]:
    """Blend bakes with the animated pose; see blend_bake(). Bake those again whose frames contain the blend.

    Return a warning for each object that pops or shortens an edge by too much, otherwise ''. Raises SceneError after
    the last one if a bake cannot be blended.
    """
    before: dict[bpy.types.Object, list[tuple[float, float]]] = {}
    motions: dict[bpy.types.Object, BlendedMotion] = {}
    warnings, problems = {}, {}
    for obj in objects:
        points = stored_weights(obj)
        try:
            warnings[obj], motion = blend_bake(scene, obj, kind, frame, length)
        except DampSimError as error:
            problems[obj] = str(error)
            continue
        if motion is not None:
            before[obj], motions[obj] = points, motion
    problems.update((yield from _bake_again(scene, view_layer, before)))
    _check_no_problems(problems)
    for obj, motion in motions.items():
        warnings[obj] = blend_warning(scene, obj, motion)
    return list(warnings.values())


def remove_baked_blends(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, objects: Iterable[bpy.types.Object]
) -> Generator[Step]:
    """Remove the blends in the frames of bakes, and write these again. Keyframes of the influence stay.

    Raises SceneError after the last one if an object cannot be baked.
    """
    before = {obj: points for obj in objects if (points := stored_weights(obj))}
    for obj in before:
        store_weights(obj, [])
    _check_no_problems((yield from _bake_again(scene, view_layer, before)))


def _check_no_problems(problems: Mapping[bpy.types.Object, str]) -> None:
    if problems:
        raise SceneError(" ".join(dict.fromkeys(problems.values())))


def _bake_again(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, before: _Weights
) -> Generator[Step, None, dict[bpy.types.Object, str]]:
    """Write bakes whose blends have changed. Return the problems of those that cannot be written.

    before: the earlier blends, which these keep, as do those that a cancellation leaves.
    """
    unfinished, problems = dict(before), {}
    try:
        for group in groups_of(before):
            # A preview range, which would limit the bake, changes no frame of it.
            is_previewed = next_bake(group, scene).action is BakeAction.RANGE
            with temporary_values([(scene, "use_preview_range", False)] if is_previewed else []):
                results = yield from bake_all(scene, view_layer, group.members, False)
            found = {result.name: result.problem for result in results if result.problem}
            for obj in group.members:
                if obj.name in found and obj in before:
                    problems[obj] = found[obj.name]
                else:
                    unfinished.pop(obj, None)
        return problems
    finally:
        for obj, points in unfinished.items():
            store_weights(obj, points)

"""Timing of a bake: blends with a check of the lengths of its edges, Settle for rest by a frame, and its speed."""

from __future__ import annotations

from collections.abc import Iterable

import bpy
import numpy as np

from ...core import PARAMETERS, FrameCache, SceneError
from ...core.base.wording import format_number, format_percent
from ...core.simulation.range_blend import largest_shortening as shortening
from ..blender.animation import animated_paths
from ..blender.sampler import frame_rate, world_vertices
from ..model.caches import frame_cache
from ..scene_reader.scene_builder import mesh_edges
from ..status.measurements import required_substeps
from ..targets.influence import influence_at
from ..targets.landing import Blend, blend_span, key_blend
from ..targets.retiming import is_time_scale, set_time_scale

# Part of its length by which a blend may shorten an edge without a message.
MAX_SHORTENING = 0.02
# Influences between which the plain shape follows from the displayed and the simulated one.
_CHECKED_INFLUENCE = (0.05, 0.95)


def blend_bake(scene: bpy.types.Scene, obj: bpy.types.Object, kind: Blend, frame: int, length: int) -> str:
    """Key a blend of a bake, and return a warning if it shortens an edge by too much; '' otherwise.

    Raises SceneError if the bake cannot be blended.
    """
    key_blend(obj, kind, float(frame), float(length))
    first, last = blend_span(kind, frame, length)
    part = largest_shortening(scene, obj, range(int(first) + 1, int(last)))
    if part <= MAX_SHORTENING:
        return ""
    return (
        f"{obj.name}: the blend shortens edges by up to {format_percent(part)}, because the simulation turns far from "
        "the pose. Blend where it swings less, or use Rest by Frame"
    )


def largest_shortening(scene: bpy.types.Scene, obj: bpy.types.Object, numbers: Iterable[int]) -> float:
    """Return the largest part by which a blended edge is shorter than both without and with the simulation."""
    cache, edges = frame_cache(obj), mesh_edges(obj.data)
    cached, worst = set(cache.frame_numbers()), 0.0
    place = scene.frame_current, scene.frame_subframe
    try:
        for number in (number for number in numbers if number in cached and len(edges)):
            share = influence_at(obj, number) or 0.0
            if not _CHECKED_INFLUENCE[0] < share < _CHECKED_INFLUENCE[1]:
                continue
            scene.frame_set(number)
            shown = world_vertices(obj, bpy.context.view_layer)
            simulated = np.asarray(cache.read_shape(number, obj.name), dtype=float)
            if len(shown) != len(simulated) or len(shown) != len(obj.data.vertices):
                # Modifiers have changed the vertices.
                return 0.0
            plain = (shown - share * simulated) / (1.0 - share)
            worst = max(worst, shortening(edges, shown, plain, simulated))
    finally:
        scene.frame_set(place[0], subframe=place[1])
    return worst


def last_motion_index(cache: FrameCache, numbers: list[int], body: str) -> int:
    """Return the index of the first frame from which the inputs of a body stay constant up to the last one."""
    stop, last = len(numbers) - 1, cache.read(numbers[-1]).inputs[body]
    while stop > 0 and cache.read(numbers[stop - 1]).inputs[body] == last:
        stop -= 1
    return stop


def set_rest_frame(scene: bpy.types.Scene, obj: bpy.types.Object, frame: int) -> float:
    """Set Settle so that the object rests by a frame, and return it, in frames.

    Raises SceneError if the animation does not stop early enough, if it is unknown when it stops, or if Settle is
    animated.
    """
    cache = frame_cache(obj)
    numbers = [number for number in cache.frame_numbers() if number <= scene.frame_end]
    if not obj.dampsim.baked or len(numbers) < 2:
        raise SceneError(f"{obj.name}: its frames are not simulated yet; bake it first.")
    if "dampsim.settle" in animated_paths(obj):
        raise SceneError(f"{obj.name}: its Settle is animated; remove the keyframes or drivers of Settle first.")
    stop = last_motion_index(cache, numbers, obj.name)
    # With several substeps, the inputs of a frame include the motion that leads to it.
    stop_frame = numbers[stop] - int(stop > 0 and required_substeps(obj, scene).count > 1)
    if stop == len(numbers) - 1:
        raise SceneError(f"{obj.name}: its animation moves up to frame {numbers[-1]}; use Land on Pose at Frame.")
    settle, parameter = float(frame - stop_frame), PARAMETERS["settle"]
    if not parameter.min <= settle <= parameter.max:
        raise SceneError(
            f"{obj.name}: its animation stops at frame {stop_frame}, so it cannot rest by frame {frame}; choose one "
            f"from {stop_frame + int(np.ceil(parameter.min))} to {format_number(stop_frame + parameter.max, 6)}."
        )
    obj.dampsim.settle = settle
    return settle


def kept_seconds_scale(obj: bpy.types.Object, scene: bpy.types.Scene) -> float:
    """Return the factor by which a bake must play longer to keep its seconds at the current frame rate."""
    baked_rate = float(obj.dampsim.baked_fps)
    # Bakes without a stored rate come from older files.
    return frame_rate(scene) / baked_rate if baked_rate else 1.0


def retime_bake(scene: bpy.types.Scene, obj: bpy.types.Object, scale: float | None) -> float:
    """Let a bake play longer by a factor and return it. scale: None to keep its seconds after a change of frame rate.

    Raises SceneError if the bake cannot be retimed.
    """
    chosen = kept_seconds_scale(obj, scene) if scale is None else scale
    set_time_scale(obj, chosen)
    return chosen


def has_kept_seconds(obj: bpy.types.Object, scene: bpy.types.Scene) -> bool:
    """Return whether a bake is scaled for the current frame rate, so that a new one should play at its own speed."""
    scale = kept_seconds_scale(obj, scene)
    return bool(obj.dampsim.baked) and scale != 1.0 and is_time_scale(obj, scale)

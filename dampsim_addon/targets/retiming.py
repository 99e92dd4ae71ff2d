"""Retiming of a bake: faster or slower, from its first frame on, without a new simulation.

Blender plays it natively: by the scale of the NLA strips of shape keys and bones, or by the time mapping of the Mesh
Cache modifier of a file. A retimed bake blends linearly between its frames.
"""

from __future__ import annotations

from typing import Any

import bpy

from ...core import SceneError
from ...core.base.wording import format_number
from ..blender.animation import strips_within
from ..blender.dampsim_names import bake_modifier
from .bake_tracks import bake_strips
from .influence import animated_owners

# Limits of the scale.
MIN_SCALE, MAX_SCALE = 0.01, 100.0
# Relative difference of two scales that counts as none: Blender stores single precision.
_SCALE_TOLERANCE = 1e-4


def time_scale(obj: bpy.types.Object) -> float | None:
    """Return the factor by which the object's bake plays longer; None if the bake cannot be retimed."""
    modifier = bake_modifier(obj)
    if modifier is not None:
        is_plain = modifier.type == "MESH_CACHE" and modifier.play_mode == "SCENE" and modifier.frame_scale > 0.0
        return 1.0 / modifier.frame_scale if is_plain else None
    strips = _strips(obj)
    return strips[0].scale if strips else None


def is_time_scale(obj: bpy.types.Object, scale: float) -> bool:
    """Return whether the object's bake plays longer by this factor."""
    found = time_scale(obj)
    return found is not None and abs(found - scale) <= _SCALE_TOLERANCE * scale


def plays_at_own_time(obj: bpy.types.Object) -> bool:
    """Return whether each frame of the bake plays at its own frame of the scene, once."""
    modifier = bake_modifier(obj)
    if modifier is not None:
        return is_time_scale(obj, 1.0)
    strips = _strips(obj)
    return bool(strips) and not any(
        strip.scale != 1.0 or strip.repeat != 1.0 or strip.use_reverse or strip.use_animated_time
        or strip.frame_start != strip.action_frame_start
        for strip in strips
    )  # fmt: skip


def played_frames(obj: bpy.types.Object, first: int, last: int) -> tuple[int, int]:
    """Return the first and last frame of the scene between which the bake of frames first to last plays.

    Moved, scaled and repeated strips count, those inside meta strips as if these were not edited.
    """
    modifier, scale = bake_modifier(obj), time_scale(obj)
    if modifier is not None and scale is not None:
        start = modifier.frame_start * scale
        return round(start), round(start + (last - first) * scale)
    strips = _strips(obj) if modifier is None else []
    if not strips:
        return first, last
    return round(min(one.frame_start for one in strips)), round(max(one.frame_end for one in strips))


def _strips(obj: bpy.types.Object) -> list[Any]:
    """Return the strips that play the bake, and those of a curve that follows it."""
    curve = obj.dampsim.curve
    owners = [*animated_owners(obj), *([(curve.data.shape_keys, "")] if curve is not None else [])]
    return [one for owner, mark in owners if owner is not None for one in bake_strips(owner.animation_data, mark)]


def set_time_scale(obj: bpy.types.Object, scale: float) -> None:
    """Let the object's bake play longer by a factor, from its first frame on. 1 restores its own speed.

    Raises SceneError if the bake cannot be retimed; then nothing is changed.
    """
    if not MIN_SCALE <= scale <= MAX_SCALE:
        limits = f"{format_number(MIN_SCALE)} to {format_number(MAX_SCALE)}"
        raise SceneError(f"{obj.name}: the bake cannot be scaled by {format_number(scale, 4)}; choose {limits}.")
    modifier, strips = bake_modifier(obj), _strips(obj)
    if modifier is None and not strips:
        raise SceneError(f"{obj.name}: it has no bake to retime; bake it first.")
    if modifier is not None:
        _scale_file(obj, modifier, scale)
    for strip in strips:
        _check_strip(obj, strip, scale)
    for strip in strips:
        strip.scale = scale
    obj.update_tag()


def _scale_file(obj: bpy.types.Object, modifier: Any, scale: float) -> None:
    if modifier.type != "MESH_CACHE":
        raise SceneError(f"{obj.name}: an Alembic file plays at its own speed; bake to PC2 Cache to retime it.")
    if modifier.play_mode != "SCENE" or modifier.frame_scale <= 0.0:
        raise SceneError(f"{obj.name}: its cache modifier has custom timing; set Time Mapping to Scene first.")
    # The modifier plays the sample (scale * frame - start).
    first = modifier.frame_start / modifier.frame_scale
    modifier.frame_scale = 1.0 / scale
    modifier.frame_start = first * modifier.frame_scale
    obj.update_tag()


def _check_strip(obj: bpy.types.Object, strip: Any, scale: float) -> None:
    if strip.use_animated_time:
        raise SceneError(f"{obj.name}: the strip {strip.name} has animated time; switch off Animated Strip Time first.")
    end = strip.frame_start + (strip.frame_end - strip.frame_start) * scale / strip.scale
    others = [one for track in strip.id_data.animation_data.nla_tracks for one in _neighbours(track, strip)]
    if any(strip.frame_start < one.frame_start < end for one in others):
        raise SceneError(f"{obj.name}: the strip {strip.name} would overlap the next one; move that to another track.")


def _neighbours(parent: Any, strip: Any) -> list[Any]:
    """Return the other strips of the track or meta strip that contains a strip, within a track."""
    for one in [parent, *strips_within(parent)]:
        inside = list(one.strips)
        if strip in inside:
            return [other for other in inside if other != strip]
    return []

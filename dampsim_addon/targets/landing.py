"""Keyframes of the influence of a bake that land it on the animated pose, or fade it in or out."""

from __future__ import annotations

import enum

import bpy

from ...core import SceneError
from ...core.simulation.blend_curve import Handles
from .influence import has_influence, influence_at, key_influence, keyed_curves

# Number of frames of a blend unless the user chooses another.
DEFAULT_LENGTH = 12
# Fewer frames have no level start and end.
MIN_LENGTH = 3


class Blend(enum.Enum):
    """Change of the influence over some frames, by the name of its command."""

    LAND = "land"
    FADE_IN = "fade-in"
    FADE_OUT = "fade-out"


def blend_span(kind: Blend, frame: float, length: float) -> tuple[float, float]:
    """Return the first and last frame of a blend. frame: at which a landing ends, or a fade begins."""
    return (frame - length, frame) if kind is Blend.LAND else (frame, frame + length)


def key_blend(obj: bpy.types.Object, kind: Blend, frame: float, length: float) -> None:
    """Key a smooth change of the influence, and remove its other keyframes in between.

    A landing and a fade-out lead from the current influence to 0, a fade-in from 0 to the current one.
    Raises SceneError if the bake cannot be blended.
    """
    check_blend(obj, length)
    first, last = blend_span(kind, frame, length)
    if kind is Blend.FADE_IN:
        points = [(first, 0.0), (last, influence_at(obj, last) or 1.0)]
    else:
        points = [(first, influence_at(obj, first) or 1.0), (last, 0.0)]
    key_influence(obj, points)
    set_handles(obj, first, last, Handles())


def set_handles(obj: bpy.types.Object, first: float, last: float, handles: Handles) -> None:
    """Set the level handles of the keyframes at the ends of a blend."""
    for curve in keyed_curves(obj):
        for key in curve.keyframe_points:
            if min(abs(key.co.x - first), abs(key.co.x - last)) < 0.5:
                reach = (last - first) * (handles.start if abs(key.co.x - first) < 0.5 else handles.end)
                key.handle_left_type = key.handle_right_type = "FREE"
                key.handle_left, key.handle_right = (key.co.x - reach, key.co.y), (key.co.x + reach, key.co.y)
        curve.update()


def check_blend(obj: bpy.types.Object, length: float) -> None:
    """Raise SceneError if the object's bake cannot be blended over some frames."""
    if not obj.dampsim.baked:
        raise SceneError(f"{obj.name}: it has no bake to blend; bake it first.")
    if not has_influence(obj):
        raise SceneError(f"{obj.name}: this bake cannot be blended; bake it to Compressed Keys or PC2 Cache.")
    if length < MIN_LENGTH:
        raise SceneError(f"{obj.name}: a blend over fewer than {MIN_LENGTH} frames would jump; choose more frames.")

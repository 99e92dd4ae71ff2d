"""Blends that land a bake on the animated pose, or fade it in or out: keyframes of its influence, or of its frames.

The frames of a bake contain the blends that straight paths would distort, whichever target they are written to
(docs/decisions/0085-bake-blends-that-turn-along-arcs.md).
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterable

import bpy
import numpy as np

from ...core import Array, SceneError
from ...core.base.untrusted_files import parse_json
from ...core.simulation.blend_curve import Handles, bezier_values
from ..blender.dampsim_names import bake_modifier
from .influence import (
    SAME_FRAME,
    check_influence_editable,
    has_influence,
    influence_at,
    is_muted,
    key_influence,
    keyed_channels,
)
from .retiming import plays_at_own_time

# Number of frames of a blend unless the user chooses another.
DEFAULT_LENGTH = 12
# Fewer frames have no level start and end.
MIN_LENGTH = 3
# Influences closer than this do not change a shape visibly.
_SAME_VALUE = 1e-4


class Blend(enum.Enum):
    """Change of the influence over some frames, by the name of its command."""

    LAND = "land"
    FADE_IN = "fade-in"
    FADE_OUT = "fade-out"


def blend_span(kind: Blend, frame: float, length: float) -> tuple[float, float]:
    """Return the first and last frame of a blend. frame: at which a landing ends, or a fade begins."""
    return (frame - length, frame) if kind is Blend.LAND else (frame, frame + length)


def blend_points(obj: bpy.types.Object, kind: Blend, frame: float, length: float) -> list[tuple[float, float]]:
    """Return the frame and the influence of the two keyframes of a blend."""
    first, last = blend_span(kind, frame, length)
    if kind is Blend.FADE_IN:
        return [(first, 0.0), (last, influence_at(obj, last) or 1.0)]
    return [(first, influence_at(obj, first) or 1.0), (last, 0.0)]


def stored_weights(obj: bpy.types.Object) -> list[tuple[float, float]]:
    """Return the frames, in ascending order, and the weights of the simulation that the bake's frames contain."""
    try:
        found = parse_json(obj.dampsim.blended_frames or "[]")
        points = [(float(frame), float(weight)) for frame, weight in found]
    except (TypeError, ValueError):
        # Something else has changed the text.
        return []
    # The text 'nan' is a number for float().
    finite = [(frame, weight) for frame, weight in points if math.isfinite(frame) and math.isfinite(weight)]
    return sorted((frame, min(max(weight, 0.0), 1.0)) for frame, weight in finite)


def store_weights(obj: bpy.types.Object, points: list[tuple[float, float]]) -> None:
    """Store the points of stored_weights() for the next bake; none removes its blends."""
    obj.dampsim.blended_frames = json.dumps([[frame, round(weight, 6)] for frame, weight in points]) if points else ""


def weights_at(points: list[tuple[float, float]], frames: Iterable[float]) -> Array:
    """Return the weights (f,) of the simulation at frames; 1 without points. See stored_weights()."""
    numbers = np.array(list(frames), dtype=float)
    return np.interp(numbers, *np.array(points).T) if points else np.ones(len(numbers))


def with_blend(
    obj: bpy.types.Object, kind: Blend, first: int, last: int, handles: Handles
) -> list[tuple[float, float]]:
    """Return the points of stored_weights() with a new blend. Others between its first and last frame are left out."""
    points = stored_weights(obj)
    start, end = (float(one) or 1.0 for one in weights_at(points, (first, last)))
    start, end = (0.0, end) if kind is Blend.FADE_IN else (start, 0.0)
    frames = np.arange(first, last + 1)
    values = start + (end - start) * bezier_values((frames - first) / (last - first), handles)
    inner = list(zip(frames.tolist(), values.tolist(), strict=True))
    return [*(one for one in points if one[0] < first), *inner, *(one for one in points if one[0] > last)]


def can_blend_frames(obj: bpy.types.Object) -> bool:
    """Return whether the frames of a bake can contain a blend: if they play once, in time, without keyed influence."""
    return not any(one.keyframes for one in keyed_channels(obj)) and not obj.dampsim.loop and plays_at_own_time(obj)


def key_blend(obj: bpy.types.Object, kind: Blend, frame: float, length: float) -> None:
    """Key a smooth change of the influence, and remove its other keyframes in between.

    A landing and a fade-out lead from the current influence to 0, a fade-in from 0 to the current one.
    Raises SceneError if the bake cannot be blended.
    """
    check_blend(obj, kind, frame, length)
    points = blend_points(obj, kind, frame, length)
    key_influence(obj, points)
    set_handles(obj, points[0][0], points[1][0], Handles())


def set_handles(obj: bpy.types.Object, first: float, last: float, handles: Handles) -> None:
    """Set level handles for the segment of a blend. Adjacent segments stay, unless the blend divides them."""
    for one in keyed_channels(obj, first):
        if one.curve is None:
            continue
        # An action that plays backwards begins with the last frame.
        ends = sorted(((one.curve_frame(first), handles.start), (one.curve_frame(last), handles.end)))
        (left, start), (right, end) = ends
        for key in one.curve.keyframe_points:
            if abs(key.co.x - left) < SAME_FRAME:
                _level_handle(key, "right", (right - left) * start)
                _level_cut(key, "left")
            elif abs(key.co.x - right) < SAME_FRAME:
                _level_handle(key, "left", (right - left) * end)
                _level_cut(key, "right")
        one.curve.update()


def _level_handle(key: bpy.types.Keyframe, side: str, reach: float) -> None:
    setattr(key, f"handle_{side}_type", "FREE")
    setattr(key, f"handle_{side}", (key.co.x + (reach if side == "right" else -reach), key.co.y))


def _level_cut(key: bpy.types.Keyframe, side: str) -> None:
    """Level the handle of an inserted keyframe outside of its blend, so that the velocity does not jump there."""
    if getattr(key, f"handle_{side}_type") != "FREE":
        _level_handle(key, side, abs(getattr(key, f"handle_{side}").x - key.co.x))


def neighbour_span(obj: bpy.types.Object, points: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the frames between which the influence changes beside and in a blend. points: see blend_points()."""
    (first, start), (last, end) = points
    for one in keyed_channels(obj, first)[:1]:
        points_of_curve = one.curve.keyframe_points if one.curve is not None else ()
        keys = sorted((one.scene_frame(key.co.x), key.co.y) for key in points_of_curve)
        before = [key for key in keys if key[0] < first - SAME_FRAME][-1:]
        after = [key for key in keys if key[0] > last + SAME_FRAME][:1]
        first = next((frame for frame, value in before if abs(value - start) > _SAME_VALUE), first)
        last = next((frame for frame, value in after if abs(value - end) > _SAME_VALUE), last)
    return first, last


def check_blend(obj: bpy.types.Object, kind: Blend, frame: float, length: float) -> None:
    """Raise SceneError if the object's bake cannot be blended over some frames. frame: see blend_span()."""
    if not obj.dampsim.baked:
        raise SceneError(f"{obj.name}: it has no bake to blend; bake it first.")
    if not has_influence(obj):
        raise SceneError(f"{obj.name}: this bake cannot be blended; bake it to Compressed Keys or PC2 Cache.")
    if is_muted(obj):
        is_file = bake_modifier(obj) is not None
        fix = "show its cache modifier in the viewport" if is_file else "unmute its NLA tracks and strips"
        raise SceneError(f"{obj.name}: its bake is muted, so that its motion cannot be blended; {fix}.")
    if length < MIN_LENGTH:
        raise SceneError(f"{obj.name}: a blend over fewer than {MIN_LENGTH} frames would jump; choose more frames.")
    check_influence_editable(obj, blend_span(kind, frame, length))

"""Influence of a bake: between the animation without the simulation (0) and the simulation (1), keyable.

Blender stores it natively, so that it plays without DampSim: as the influence of the NLA strip of shape keys, or as the
factor of the Mesh Cache modifier of a file. All strips of a bake receive the same influence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import bpy

from ...core import SceneError
from ..blender.animation import (
    channelbags,
    played_curves,
    players_at,
    repetition_length,
    to_action_frame,
    to_first_repetition,
    to_scene_frame,
)
from ..blender.bone_bakes import record_mark, rig_of
from ..blender.dampsim_names import bake_modifier, modifier_of_path
from .bake_tracks import bake_strips, has_audible_strip, unmute_strips
from .fcurve_contents import FCurveContents, read_curve, write_curve
from .target import apply_settings, read_settings_of

SAME_FRAME = 0.01
"""Keyframes closer than this, in frames, are one keyframe for Blender."""

# Settings of a cache modifier that belong to the user and not to the bake.
_USER_SETTINGS = (
    *("factor", "vertex_group", "invert_vertex_group", "show_viewport", "show_render", "show_in_editmode"),
    *("show_on_cage", "show_expanded", "use_pin_to_last"),
)


@dataclass(frozen=True)
class KeptInfluence:
    """Influence of a bake. value: without keyframes.  curve: contents of its F-curve; None without keyframes."""

    value: float
    curve: FCurveContents | None


@dataclass(frozen=True)
class InfluenceChannel:
    """Place of the influence of a bake. owner, name: property.  curve: its F-curve, or None.

    player: what plays the action with the curve, see to_scene_frame(); None for a curve in scene time.
    """

    owner: Any
    name: str
    curve: bpy.types.FCurve | None
    player: Any = None

    @property
    def keyframes(self) -> int:
        return len(self.curve.keyframe_points) if self.curve is not None else 0

    def curve_frame(self, frame: float) -> float:
        """Return the frame of the curve that plays at a frame of the scene."""
        return frame if self.player is None else to_action_frame(self.player, frame)

    def scene_frame(self, frame: float) -> float:
        """Return the frame of the scene at which a frame of the curve plays."""
        return frame if self.player is None else to_scene_frame(self.player, frame)

    def evaluate(self, frame: float) -> float:
        """Return the influence that the curve gives at a frame of the scene."""
        assert self.curve is not None
        place = frame if self.player is None else to_first_repetition(self.player, frame)
        return float(min(max(self.curve.evaluate(self.curve_frame(place)), 0.0), 1.0))

    def uncovered_reason(self, frames: Iterable[float]) -> str:
        """Return why keyframes at frames of the scene would not play there, with a fix; '' if they would."""
        if self.player is None or isinstance(self.player, bpy.types.AnimData):
            return ""
        strip, name = self.player, self.player.name
        if strip.repeat > 1.0:
            return f"its Influence is in the NLA strip '{name}', which repeats; set its Repeat to 1"
        first, last = strip.frame_start, strip.frame_start + repetition_length(strip)
        if all(first - SAME_FRAME < frame < last + SAME_FRAME for frame in frames):
            return ""
        return (
            f"its Influence is in the NLA strip '{name}', which covers frames {first:g} to {last:g}; lengthen the strip"
        )


def _modifier_channels(obj: bpy.types.Object) -> list[InfluenceChannel]:
    modifier = bake_modifier(obj)
    if modifier is None or modifier.type != "MESH_CACHE":
        return []
    found = played_curves(obj, modifier.path_from_id("factor"))
    # Without a curve that is heard, Blender keys the active action.
    return [InfluenceChannel(modifier, "factor", curve, one) for one, curve in found] or [
        InfluenceChannel(modifier, "factor", None)
    ]


def animated_owners(obj: bpy.types.Object) -> list[tuple[Any, str]]:
    """Return the datablocks whose NLA strips can play the object's bake, with its mark in each; see bake_strips()."""
    keys = obj.data.shape_keys if obj.type == "MESH" else None
    mark = record_mark(obj.data)
    rig = rig_of(obj) if mark else None
    return [(owner, sign) for owner, sign in ((keys, ""), (rig, mark)) if owner is not None]


def _strip_channels(obj: bpy.types.Object) -> list[InfluenceChannel]:
    strips = [one for owner, mark in animated_owners(obj) for one in bake_strips(owner.animation_data, mark)]
    curves = [one.fcurves.find("influence") if one.use_animated_influence else None for one in strips]
    return [InfluenceChannel(one, "influence", curve) for one, curve in zip(strips, curves, strict=True)]


def _channels(obj: bpy.types.Object, frame: float | None = None) -> list[InfluenceChannel]:
    """Return the places of the influence. frame: only the one of these curves of a modifier that plays at it."""
    found = _modifier_channels(obj)
    if len(found) > 1 and frame is not None:
        players = players_at(obj.animation_data, frame)
        return ([one for player in players for one in found if one.player == player] or found)[:1]
    keys = obj.data.shape_keys if obj.type == "MESH" else None
    return found or (_strip_channels(obj) if keys is None or keys.use_relative else [])


def is_blended(obj: bpy.types.Object) -> bool:
    """Return whether the bake, or Live before it, has an influence below 1 at some frame, or a fade of its strip."""
    if not obj.dampsim.baked and obj.dampsim.unbaked_influence < 1.0:
        return True
    strips = bake_strips(obj.data.shape_keys.animation_data) if obj.data.shape_keys is not None else []
    if any(strip.blend_in or strip.blend_out or strip.use_auto_blend for strip in strips):
        return True
    channels = [*_modifier_channels(obj), *_strip_channels(obj)]
    keyed = [key.co.y for one in channels if one.curve is not None for key in one.curve.keyframe_points]
    constant = [getattr(one.owner, one.name) for one in channels if not one.keyframes and _is_used(one)]
    return any(value < 1.0 for value in (*keyed, *constant))


def _is_used(one: InfluenceChannel) -> bool:
    return one.name != "influence" or one.owner.use_animated_influence


def has_influence(obj: bpy.types.Object) -> bool:
    """Return whether the object's bake can be blended: absolute keys and Alembic files cannot."""
    return bool(_channels(obj))


def is_muted(obj: bpy.types.Object) -> bool:
    """Return whether no strip or modifier of the bake is seen in the viewport: all are muted or switched off."""
    modifier = bake_modifier(obj)
    if modifier is not None:
        return not modifier.show_viewport
    return not any(has_audible_strip(owner.animation_data, mark) for owner, mark in animated_owners(obj))


def unmute_bake(obj: bpy.types.Object) -> None:
    """Let a bake be seen in the viewport."""
    modifier = bake_modifier(obj)
    if modifier is not None:
        modifier.show_viewport = True
    for owner, mark in animated_owners(obj):
        if bake_strips(owner.animation_data, mark):
            unmute_strips(owner.animation_data, mark)


def influence_at(obj: bpy.types.Object, frame: float) -> float | None:
    """Return the influence of the first strip or the modifier at a frame; None if there is none."""
    channels = _channels(obj, frame)
    if not channels:
        return None
    one = channels[0]
    if one.curve is not None and one.keyframes:
        return one.evaluate(frame)
    return float(getattr(one.owner, one.name)) if _is_used(one) else 1.0


def set_influence(obj: bpy.types.Object, value: float, frame: float) -> bool:
    """Set the influence: at the frame if it has keyframes, else of the whole bake. Return whether there is one.

    A curve that cannot be edited stays; see influence_problem().
    """
    channels = _channels(obj, frame)
    for one in channels:
        if _problem(one, [frame]):
            continue
        _enable(one)
        if one.keyframes:
            _insert_key(one, frame, value)
        else:
            setattr(one.owner, one.name, value)
    _tag(obj)
    return bool(channels)


@contextmanager
def constant_influence(obj: bpy.types.Object, value: float) -> Iterator[None]:
    """Context in which the bake plays with one influence, without its keyframes. Nothing is keyed."""
    channels = _channels(obj)
    kept = [(getattr(one.owner, one.name), one.curve.mute if one.curve is not None else False) for one in channels]
    fixed = [one for one in channels if not _is_used(one)]
    try:
        for one in channels:
            _enable(one)
            if one.curve is not None:
                one.curve.mute = True
            setattr(one.owner, one.name, value)
        _tag(obj)
        yield
    finally:
        for one, (before, is_muted) in zip(channels, kept, strict=True):
            setattr(one.owner, one.name, before)
            if one.curve is not None:
                one.curve.mute = is_muted
        for one in fixed:
            one.owner.use_animated_influence = False
        _tag(obj)


def key_influence(obj: bpy.types.Object, points: Iterable[tuple[float, float]]) -> None:
    """Insert keyframes (frame, value) of the influence, and remove others between the first and last of them.

    The curve before and after them stays, as far as it leads to existing keyframes. Raises SceneError if it cannot be
    edited.
    """
    found = sorted(points)
    check_influence_editable(obj, [frame for frame, _ in found])
    _insert_keys(obj, found)


def _insert_keys(obj: bpy.types.Object, found: Sequence[tuple[float, float]]) -> None:
    """Insert keyframes (frame, value), see key_influence(), in ascending order."""
    first = found[0][0]
    for one in _channels(obj, first):
        _enable(one)
    channels = _channels(obj, first)
    present = [[key.co.x for key in one.curve.keyframe_points] if one.curve is not None else [] for one in channels]
    for one in channels:
        for frame, value in found:
            _insert_key(one, frame, value)
    for one, before in zip(_channels(obj, first), present, strict=True):
        if one.curve is not None:
            _clean_up_keys(one.curve, before, sorted(one.curve_frame(frame) for frame, _ in found))
    _tag(obj)


def influence_problem(obj: bpy.types.Object, frames: Sequence[float]) -> str:
    """Return why the user cannot edit the curve of the influence at frames, with a fix; '' if it can be edited.

    frames: in ascending order. All of them need to be in the strip that plays at the first.
    """
    return next(filter(None, (_problem(one, frames) for one in _channels(obj, frames[0]))), "")


def check_influence_editable(obj: bpy.types.Object, frames: Sequence[float]) -> None:
    """Raise SceneError if the curve of the influence cannot be edited at frames; see influence_problem()."""
    problem = influence_problem(obj, frames)
    if problem:
        raise SceneError(f"{obj.name}: {problem}.")


def _problem(one: InfluenceChannel, frames: Iterable[float]) -> str:
    curve = one.curve
    if curve is None:
        return ""
    if curve.lock or (curve.group is not None and curve.group.lock):
        return "the curve of its Influence is locked; unlock it in the Graph Editor"
    if len(curve.sampled_points):
        return "the curve of its Influence consists of samples; choose Samples to Keys in the Graph Editor"
    return one.uncovered_reason(frames)


def _insert_key(one: InfluenceChannel, frame: float, value: float) -> None:
    """Insert a keyframe, also beneath F-curve modifiers, where Blender's own command refuses it."""
    setattr(one.owner, one.name, value)
    if one.curve is not None:
        one.curve.keyframe_points.insert(one.curve_frame(frame), value)
    else:
        # Blender inserts it into the action that it edits, at its frame.
        one.owner.keyframe_insert(one.name, frame=frame)


def _clean_up_keys(curve: bpy.types.FCurve, present: Sequence[float], new: Sequence[float]) -> None:
    """Set the segments of inserted keyframes and remove others between them.

    present, new: frames of the curve with a keyframe before, and those of the inserted ones, in ascending order.
    """
    for key in reversed(list(curve.keyframe_points)):
        place = key.co.x
        if not _has_frame(new, place):
            if new[0] < place < new[-1]:
                curve.keyframe_points.remove(key)
        elif len(new) > 1 or not _has_frame(present, place):
            _set_segments(key, _has_frame(present, place), _has_frame(new[:1], place), _has_frame(new[-1:], place))
    curve.update()


def _has_frame(frames: Iterable[float], frame: float) -> bool:
    return any(abs(one - frame) < SAME_FRAME for one in frames)


def _set_segments(key: bpy.types.Keyframe, is_present: bool, is_first: bool, is_last: bool) -> None:
    """Set the type of the segments beside an inserted keyframe. A present one keeps those outside of the new ones."""
    for side, is_outer in (("left", is_first), ("right", is_last)):
        # Free handles do not follow the ones that change.
        setattr(key, f"handle_{side}_type", "FREE" if is_present and is_outer else "AUTO_CLAMPED")
    # Other inserted keyframes have the interpolation of the segment that they divide.
    if is_first or not is_last:
        key.interpolation = "BEZIER"


def keyed_channels(obj: bpy.types.Object, frame: float | None = None) -> list[InfluenceChannel]:
    """Return the places of the influence that have an F-curve. frame: only those that play at it."""
    return [one for one in _channels(obj, frame) if one.curve is not None]


def keyed_curves(obj: bpy.types.Object) -> list[bpy.types.FCurve]:
    """Return the F-curves of the influence."""
    return [one.curve for one in keyed_channels(obj) if one.curve is not None]


def influence_values(obj: bpy.types.Object, frames: Iterable[float]) -> tuple[float, ...]:
    """Return the keyed influence at some frames; () if it has no keyframes."""
    playing = [(frame, next(iter(keyed_channels(obj, frame)), None)) for frame in frames]
    found = [one.evaluate(frame) for frame, one in playing if one is not None and one.keyframes]
    return tuple(found) if len(found) == len(playing) else ()


def _enable(one: InfluenceChannel) -> None:
    """Switch on the influence of a strip. Blender animates it by one keyframe; without any, its value applies."""
    if not _is_used(one):
        one.owner.use_animated_influence = True
        for curve in one.owner.fcurves:
            if curve.data_path == "influence" and len(curve.keyframe_points) == 1:
                curve.keyframe_points.clear()
        one.owner.influence = 1.0


def _tag(obj: bpy.types.Object) -> None:
    obj.update_tag()
    if obj.data.shape_keys is not None:
        obj.data.shape_keys.update_tag()


@contextmanager
def keep_user_settings(obj: bpy.types.Object) -> Iterator[None]:
    """Context in which a bake replaces the cache modifier of a file: it plays as written until the end of the context.

    Then the new modifier receives the user's settings and speed.
    """
    modifier = bake_modifier(obj)
    kept, speed = read_settings_of(modifier, _USER_SETTINGS), 1.0
    if modifier is not None and modifier.type == "MESH_CACHE" and modifier.play_mode == "SCENE":
        speed = modifier.frame_scale
    found = (one.curve for one in _modifier_channels(obj))
    curves = [curve for curve in found if curve is not None and not curve.mute]
    for curve in curves:
        curve.mute = True
    try:
        yield
    finally:
        modifier = bake_modifier(obj)
        apply_settings(modifier, [(name, value) for name, value in kept if hasattr(modifier, name)])
        if modifier is not None and modifier.type == "MESH_CACHE" and speed != 1.0:
            # It plays the sample (scale * frame - start).
            modifier.frame_scale, modifier.frame_start = speed, speed * modifier.frame_start
        for curve in curves:
            curve.mute = False


def read_influence(obj: bpy.types.Object) -> KeptInfluence | None:
    """Return the influence of the object's bake, or that of Live, to move it to a bake in another storage.

    None if an existing bake has none.
    """
    source = next(iter(_channels(obj)), None)
    if source is None:
        return None if obj.dampsim.baked else KeptInfluence(float(obj.dampsim.unbaked_influence), None)
    curve = None
    if source.curve is not None and source.keyframes:
        curve = read_curve(source.curve)
        curve = curve if source.player is None else curve.retimed(source.scene_frame)
    return KeptInfluence(influence_at(obj, 0.0) or 0.0, curve)


def write_influence(obj: bpy.types.Object, kept: KeptInfluence | None) -> None:
    """Give the object's bake the influence of read_influence()."""
    if kept is None or (kept.value == 1.0 and kept.curve is None):
        return
    if kept.curve is None:
        set_influence(obj, kept.value, 0.0)
        return
    _insert_keys(obj, [kept.curve.first_key])
    for one in keyed_channels(obj, kept.curve.first_key[0]):
        if one.curve is not None:
            write_curve(one.curve, kept.curve if one.player is None else kept.curve.retimed(one.curve_frame))
    _tag(obj)


def remove_factor_curve(obj: bpy.types.Object, modifier: str) -> None:
    """Remove the user's F-curves of a removed cache modifier, and the action if nothing else is left in it.

    modifier: its name.
    """
    data = obj.animation_data
    bags = list(channelbags(obj))
    found = [(bag, c) for bag in bags for c in bag.fcurves if modifier_of_path(c.data_path) == modifier]
    if data is None or not found or modifier in obj.modifiers:
        return
    for bag, curve in found:
        bag.fcurves.remove(curve)
    action = data.action
    if action is not None and action.users == 1 and action.is_empty:
        data.action = None
        bpy.data.actions.remove(action)
        if not data.nla_tracks and not data.drivers:
            obj.animation_data_clear()

"""NLA tracks of a bake to shape keys or bones: a strip that plays it, above a base strip in which it has no effect.

Blender blends a strip towards the strips beneath it. Influence, fades and muting are exact because of the base strip;
without one, the keys would keep their last values. A re-bake rewrites the action in place, so that every edit of the
strips survives (docs/decisions/0048-blend-bakes-from-a-base-track.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import bpy
import numpy as np

from ...core import Array
from ...core.base.wording import shorten_name
from ..blender.animation import all_strips, audible_tracks, strips_within
from ..blender.dampsim_names import (
    BAKE_TRACK,
    BASE_TRACK,
    PREFIX,
    has_bake,
    is_dampsim_fcurve,
    plays_bake,
    record_curves,
    tag_bake,
    untag_action,
)
from ..blender.movers import is_local
from .fcurve_contents import read_curve, write_curve
from .target import apply_settings, read_settings_of

# Blender cuts off longer names of strips, in bytes.
_MAX_STRIP_NAME = 63

# F-curve of a bake: data path and array index.
Curve = tuple[str, int]


def bake_strips(data: bpy.types.AnimData | None, mark: str = "") -> list[Any]:
    """Return the strips that play the bake, from the lowest track up, also those inside meta strips.

    mark: of the bake, where several objects bake to the same datablock.
    """
    return [strip for strip in all_strips(data) if plays_bake(strip, mark)]


def has_audible_strip(data: bpy.types.AnimData | None, mark: str = "") -> bool:
    """Return whether a strip of the bake is heard: not muted, as its track, and not silenced by a solo track."""
    tracks = audible_tracks(data)
    return any(plays_bake(strip, mark) for track in tracks for strip in strips_within(track, only_audible=True))


def unmute_strips(data: bpy.types.AnimData, mark: str = "") -> None:
    """Let the strips of the bake and of its base track be heard, with their tracks and meta strips."""
    data.use_nla = True
    for track in data.nla_tracks:
        track.is_solo = False
        for strip in strips_within(track):
            played = (strip, *strips_within(strip))
            if any(plays_bake(one, mark, is_base) for one in played for is_base in (False, True)):
                track.mute = strip.mute = False


def has_base_track(data: bpy.types.AnimData | None) -> bool:
    """Return whether an audible base track lies beneath all strips of a bake to shape keys."""
    tracks = list(data.nla_tracks) if data is not None else []
    lowest = next((k for k, track in enumerate(tracks) if any(plays_bake(s, "") for s in strips_within(track))), 0)
    strips = [strip for track in tracks[:lowest] if not track.mute for strip in strips_within(track) if not strip.mute]
    return any(plays_bake(strip, "", is_base=True) for strip in strips)


def cycle_end(owner: Any, mark: str = "") -> int | None:
    """Return the frame at which the bake of a loop starts again; None without one. owner, mark: see write_tracks()."""
    strips = bake_strips(owner.animation_data, mark) if owner is not None else []
    return round(strips[0].action.frame_range[1]) if strips and strips[0].action.use_cyclic else None


def animate_keys(
    obj: bpy.types.Object, curves: Mapping[str, Iterable[tuple[float, float]]], is_cyclic: bool = False
) -> None:
    """Write the points (frame, value) of F-curves of shape keys, by data path; see write_tracks()."""
    points = {(path, 0): values for path, values in curves.items()}
    write_tracks(obj.data.shape_keys, obj.name, points, is_cyclic)


def write_tracks(
    owner: Any,
    name: str,
    curves: Mapping[Curve, Iterable[tuple[float, float]]],
    is_cyclic: bool = False,
    mark: str = "",
    base: Mapping[Curve, float] | None = None,
) -> None:
    """Write the points (frame, value) of F-curves to the action of the bake.

    The first bake creates its tracks above the user's tracks, so that its keyframes do not clutter the timeline. Later
    ones rewrite the actions of all its strips.

    owner: animated datablock, the shape keys or a rig.  name: of the object.  is_cyclic: whether the last points repeat
    the first ones.  mark: see bake_strips().  base: values of the base track; None for those without effect.
    """
    data = owner.animation_data or owner.animation_data_create()
    points = {curve: np.array(list(values), dtype=np.float32) for curve, values in curves.items()}
    strips = bake_strips(data, mark)
    if strips:
        _rewrite_strips(data, strips, points, is_cyclic)
        base_track = _empty_base_track(data, mark)
    else:
        base_track, track = data.nla_tracks.new(), data.nla_tracks.new()
        track.name = BAKE_TRACK
        action = _new_action(f"{PREFIX}{name}", owner, mark)
        _write_curves(action, action.slots[0], points, is_cyclic)
        _add_strip(track, action, _curve_span(action)[0])
    _fill_base(owner, name, base_track, neutral_values(points) if base is None else base, mark)


def _bags_of(action: bpy.types.Action) -> list[bpy.types.ActionChannelbag]:
    return [bag for layer in action.layers for strip in layer.strips for bag in strip.channelbags]


def _baked_curves(bag: bpy.types.ActionChannelbag) -> list[bpy.types.FCurve]:
    return [curve for curve in bag.fcurves if is_dampsim_fcurve(bag.id_data, curve.data_path)]


def _remove_baked_curves(bag: bpy.types.ActionChannelbag) -> None:
    for curve in _baked_curves(bag):
        bag.fcurves.remove(curve)


def fill_base_track(owner: Any, name: str, base: Mapping[Curve, float], mark: str = "") -> None:
    """Fill the base track anew. owner, name, base, mark: see write_tracks()."""
    _fill_base(owner, name, _empty_base_track(owner.animation_data, mark), base, mark)


def base_values(owner: Any, mark: str = "") -> dict[Curve, float]:
    """Return the values of the base track; without one, those in which the bake has no effect."""
    strips = [strip for strip in all_strips(owner.animation_data) if plays_bake(strip, mark, is_base=True)]
    if not strips:
        bags = [bag for strip in bake_strips(owner.animation_data, mark)[:1] for bag in _bags_of(strip.action)]
        return neutral_values((one.data_path, one.array_index) for bag in bags for one in _baked_curves(bag))
    curves = [curve for bag in _bags_of(strips[0].action) for curve in bag.fcurves]
    return {(one.data_path, one.array_index): one.evaluate(0.0) for one in curves}


def neutral_values(curves: Iterable[Curve]) -> dict[Curve, float]:
    """Return the values of shape keys, or of bones at rest, by curve."""
    return {(path, index): float(path.endswith("rotation_quaternion") and index == 0) for path, index in curves}


def _new_action(name: str, owner: Any, mark: str, is_base: bool = False) -> bpy.types.Action:
    action = bpy.data.actions.new(name)
    tag_bake(action, is_base, mark)
    action.slots.new(id_type=_id_type(owner), name=owner.name)
    return action


def _id_type(owner: Any) -> str:
    return "OBJECT" if isinstance(owner, bpy.types.Object) else "KEY"


def new_strip(track: bpy.types.NlaTrack, name: str, first: int, action: bpy.types.Action) -> Any:
    """Return a new strip of a track, whose name is shortened by whole characters. first: its first frame.

    Blender cuts the names of strips inside of characters, and then cannot read them.
    """
    return track.strips.new(shorten_name(name, _MAX_STRIP_NAME), first, action)


def _add_strip(track: bpy.types.NlaTrack, action: bpy.types.Action, first: float) -> Any:
    strip = new_strip(track, action.name, int(first), action)
    strip.action_slot = action.slots[0]
    strip.extrapolation = "HOLD"
    return strip


def _write_curves(action: bpy.types.Action, slot: Any, points: Mapping[Curve, Array], is_cyclic: bool = False) -> None:
    layer = action.layers[0] if len(action.layers) else action.layers.new("Bake")
    strip = layer.strips[0] if len(layer.strips) else layer.strips.new(type="KEYFRAME")
    bag = strip.channelbag(slot, ensure=True)
    _remove_baked_curves(bag)
    # Interpolate linearly: with constant interpolation, subframes would repeat frames.
    linear = bpy.types.Keyframe.bl_rna.properties["interpolation"].enum_items["LINEAR"].value
    for (path, index), flat in points.items():
        curve = bag.fcurves.new(path, index=index)
        curve.keyframe_points.add(len(flat))
        curve.keyframe_points.foreach_set("co", flat.ravel())
        curve.keyframe_points.foreach_set("interpolation", np.full(len(flat), linear, dtype=np.int32))
        curve.update()
    record_curves(action, dict.fromkeys(path for path, _ in points))
    action.use_frame_range, action.use_cyclic = is_cyclic, is_cyclic
    if is_cyclic:
        action.frame_start, action.frame_end = _curve_span(action)


def _rewrite_strips(
    data: bpy.types.AnimData, strips: list[Any], points: Mapping[Curve, Array], is_cyclic: bool
) -> None:
    for action in {strip.action for strip in strips}:
        users = [strip for strip in strips if strip.action == action]
        slot, previous = users[0].action_slot, _curve_span(action)
        own = action
        is_shared = action.users - int(action.use_fake_user) > len(users) + int(data.action == action)
        if is_shared or not is_local(action):
            # A duplicate of the object plays it too, or the object of a library, from which this one was made local.
            own = action.copy().make_local()
        if slot is None or slot.identifier not in own.slots:
            slot = own.slots[0] if len(own.slots) else own.slots.new(id_type=_id_type(data.id_data), name="Bake")
        _write_curves(own, own.slots[slot.identifier], points, is_cyclic)
        for strip in users:
            strip.action = own
            strip.action_slot = own.slots[slot.identifier]
            _move_strip(strip, previous, _curve_span(own))


def _curve_span(action: bpy.types.Action) -> tuple[float, float]:
    """Return the first and last frame of the bake's F-curves."""
    ranges = [curve.range() for bag in _bags_of(action) for curve in _baked_curves(bag)]
    return (min(one[0] for one in ranges), max(one[1] for one in ranges)) if ranges else (0.0, 0.0)


def _move_strip(strip: Any, previous: tuple[float, float], span: tuple[float, float]) -> None:
    """Let a strip cover the new frames of the bake, at the same place in time. Ends that the user cut stay cut."""
    first, last = strip.action_frame_start, strip.action_frame_end
    new_first = span[0] if abs(first - previous[0]) < 0.5 else min(max(first, span[0]), span[1])
    new_last = max(span[1] if abs(last - previous[1]) < 0.5 else min(max(last, span[0]), span[1]), new_first + 1.0)
    if (new_first, new_last) == (first, last):
        return
    start = strip.frame_start + (new_first - first) * (0.0 if strip.use_reverse else strip.scale)
    end = start + (new_last - new_first) * strip.scale * strip.repeat
    kept = read_settings_of(strip, ("scale", "repeat", "blend_in", "blend_out"))
    strip.action_frame_start, strip.action_frame_end = new_first, new_last
    # Set the end first where the strip moves forwards, as Blender does not let the start pass it.
    for name, value in (("frame_end", end), ("frame_start", start), ("frame_end", end)):
        setattr(strip, name, value)
    apply_settings(strip, kept)


def _empty_base_track(data: bpy.types.AnimData, mark: str) -> bpy.types.NlaTrack:
    """Return an empty track beneath all strips of the bake: its base track, or a new one."""
    found = None
    is_beneath = True
    for track in list(data.nla_tracks):
        is_beneath &= not any(plays_bake(strip, mark) for strip in strips_within(track))
        base_strips = [strip for strip in track.strips if plays_bake(strip, mark, is_base=True)]
        for strip in base_strips:
            action = strip.action
            track.strips.remove(strip)
            remove_unused_action(action)
        if base_strips and not len(track.strips):
            if is_beneath and found is None:
                found = track
            else:
                data.nla_tracks.remove(track)
    return found or _new_track_beneath(data, mark)


def _fill_base(owner: Any, name: str, track: bpy.types.NlaTrack, base: Mapping[Curve, float], mark: str) -> None:
    """Add a strip to an empty track with the values between which and the bake Influence blends."""
    first = _curve_span(bake_strips(owner.animation_data, mark)[0].action)[0]
    track.name, track.mute = BASE_TRACK, False
    action = _new_action(f"{PREFIX}{name} Base", owner, mark, is_base=True)
    points = {curve: np.array([[first, value]], dtype=np.float32) for curve, value in base.items()}
    _write_curves(action, action.slots[0], points)
    _add_strip(track, action, first)


def _new_track_beneath(data: bpy.types.AnimData, mark: str) -> bpy.types.NlaTrack:
    """Return a new, empty track directly beneath the lowest strip of the bake."""
    tracks = list(data.nla_tracks)
    lowest = next(k for k, track in enumerate(tracks) if any(plays_bake(s, mark) for s in strips_within(track)))
    if lowest:
        return data.nla_tracks.new(prev=tracks[lowest - 1])
    # Blender cannot insert a track at the bottom, so the contents of the lowest one move up.
    bottom, track = tracks[0], data.nla_tracks.new(prev=tracks[0])
    name, is_muted = bottom.name, bottom.mute
    for strip in list(bottom.strips):
        if strip.type == "CLIP" and strip.action is not None:
            _copy_strip(strip, track)
        bottom.strips.remove(strip)
    bottom.name = BASE_TRACK
    track.name, track.mute = name, is_muted
    return track if not len(track.strips) else bottom


def _copy_strip(source: Any, track: bpy.types.NlaTrack) -> None:
    """Copy a strip with its influence and time curves to another track."""
    strip = new_strip(track, source.name, int(np.floor(source.frame_start)), source.action)
    strip.name, strip.action_slot = source.name, source.action_slot
    strip.action_frame_start, strip.action_frame_end = source.action_frame_start, source.action_frame_end
    strip.scale, strip.repeat = source.scale, source.repeat
    # The end first, as Blender does not let the start pass it; the rest depends on the length.
    strip.frame_end, strip.frame_start = source.frame_end, source.frame_start
    for prop in source.bl_rna.properties:
        is_plain = prop.type in ("BOOLEAN", "FLOAT", "ENUM") and not prop.is_readonly
        if is_plain and not prop.identifier.startswith(("frame_", "action_", "use_sync")):
            setattr(strip, prop.identifier, getattr(source, prop.identifier))
    # Blender clears these where automatic blending is switched off.
    strip.blend_in, strip.blend_out = source.blend_in, source.blend_out
    for curve in source.fcurves:
        copy = strip.fcurves.find(curve.data_path)
        if copy is not None:
            write_curve(copy, read_curve(curve))


def push_down_action(owner: Any, mark: str = "") -> None:
    """Move the active action to an NLA track of its own, beneath the bake if there is one. mark: see bake_strips()."""
    data = owner.animation_data
    action, slot = data.action, data.action_slot
    track = _new_track_beneath(data, mark) if bake_strips(data, mark) else data.nla_tracks.new()
    track.name = action.name
    strip = new_strip(track, action.name, int(np.floor(action.frame_range[0])), action)
    strip.action_slot, strip.blend_type = slot, data.action_blend_type
    strip.extrapolation = data.action_extrapolation
    if data.action_influence < 1.0:
        strip.use_animated_influence, strip.influence = True, data.action_influence
    data.action = None


@contextmanager
def play_bake_alone(owner: Any, mark: str = "") -> Iterator[None]:
    """Context in which the bake plays as written, whatever the user has set on its strips.

    owner: datablock that the bake animates, or None.  mark: see bake_strips().
    """
    strips = bake_strips(owner.animation_data, mark) if owner is not None else []
    if not strips:
        yield
        return
    track = owner.animation_data.nla_tracks.new()
    track.name = BAKE_TRACK
    strip = new_strip(track, strips[0].action.name, int(_curve_span(strips[0].action)[0]), strips[0].action)
    strip.action_slot, strip.extrapolation = strips[0].action_slot, "HOLD"
    try:
        yield
    finally:
        if owner.animation_data is not None and track in list(owner.animation_data.nla_tracks):
            owner.animation_data.nla_tracks.remove(track)


def remove_bake_animation(owner: Any, mark: str = "") -> None:
    """Remove all strips, tracks and F-curves of the bake. owner, mark: see write_tracks()."""
    data = owner.animation_data
    if data is None:
        return
    # While a strip is edited, Blender locks the actions.
    data.use_tweak_mode = False
    for track in list(data.nla_tracks):
        actions = {strip.action for strip in strips_within(track) if strip.action is not None}
        ours = {action for action in actions if has_bake(action, mark)}
        if ours and actions == ours:
            data.nla_tracks.remove(track)
        else:
            for strip in [strip for strip in track.strips if strip.action in ours]:
                track.strips.remove(strip)
        for action in ours:
            remove_unused_action(action)
    action = data.action
    if action is not None and has_bake(action, mark):
        if all(len(bag.fcurves) == len(_baked_curves(bag)) for bag in _bags_of(action)):
            data.action = None
            remove_unused_action(action)
        else:
            # The user has added keyframes to the action, so keep it without our curves.
            for bag in _bags_of(action):
                _remove_baked_curves(bag)
            untag_action(action)
            action.name = f"{owner.name}Action"
    if data.action is None and not data.nla_tracks and not data.drivers:
        owner.animation_data_clear()


def remove_unused_action(action: bpy.types.Action) -> None:
    """Remove an action unless a duplicate of the object uses it too."""
    if action.users == 0:
        bpy.data.actions.remove(action)


# Settings of strips that return with a kept bake.
# The end of a strip precedes its start, since Blender does not let the start pass it; fades depend on both.
_STRIP_SETTINGS = (
    *("action_frame_start", "action_frame_end", "scale", "repeat"),
    *("frame_end", "frame_start", "frame_end", "blend_in", "blend_out"),
)


class KeptStrips:
    """Strips of a bake with the contents of their actions. Strips stay in place while a bake replaces their actions.

    owner: animated datablock, the shape keys or a rig; None without one.  mark: see bake_strips().
    """

    def __init__(self, owner: Any, mark: str = "") -> None:
        self._mark = mark
        # Each with a copy of its previous contents, and its name.
        self._actions: list[tuple[bpy.types.Action, bpy.types.Action, str]] = []
        # Number of the action, slot, and settings.
        self._strips: list[tuple[int, str, list[tuple[str, Any]]]] = []
        self._base: dict[Curve, float] = base_values(owner, mark) if owner is not None else {}
        for strip in bake_strips(owner.animation_data if owner is not None else None, mark):
            action, actions = strip.action, [one for one, _, _ in self._actions]
            if action not in actions:
                self._actions.append((action, action.copy(), action.name))
                actions.append(action)
            slot = strip.action_slot.identifier if strip.action_slot is not None else ""
            self._strips.append((actions.index(action), slot, read_settings_of(strip, _STRIP_SETTINGS)))

    def restore(self, owner: Any, name: str) -> None:
        """Restore the actions and settings of the strips. owner, name: see write_tracks()."""
        if not self._strips:
            remove_bake_animation(owner, self._mark)
            return
        for action, copy, action_name in self._actions:
            # Everything that used it uses the copy.
            action.user_remap(copy)
            bpy.data.actions.remove(action)
            copy.name = action_name
        actions = [copy for _, copy, _ in self._actions]
        self._actions = []
        strips = bake_strips(owner.animation_data, self._mark)
        for (number, slot, settings), strip in zip(self._strips, strips, strict=True):
            unfinished = strip.action
            strip.action = actions[number]
            strip.action_slot = next((s for s in strip.action.slots if s.identifier == slot), strip.action.slots[0])
            apply_settings(strip, settings)
            if unfinished != strip.action:
                remove_unused_action(unfinished)
        fill_base_track(owner, name, self._base, self._mark)

    def discard(self) -> None:
        """Free the copies of the actions."""
        while self._actions:
            bpy.data.actions.remove(self._actions.pop()[1])

"""User animation of a datablock: F-curves, drivers and NLA strips, without those of a bake, and unkeyed changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import bpy
import numpy as np

from .dampsim_names import is_dampsim_fcurve, is_output_path, is_tagged_action, renamed_bake_keys


def is_playing() -> bool:
    """Return whether the animation plays in a window."""
    return any(window.screen.is_animation_playing for window in bpy.context.window_manager.windows)


def is_animated(block: Any) -> bool:
    """Return whether a datablock has an action, drivers or NLA tracks."""
    data = block.animation_data
    return data is not None and (data.action is not None or len(data.drivers) > 0 or len(data.nla_tracks) > 0)


def user_fcurves(block: bpy.types.ID) -> Iterator[bpy.types.FCurve]:
    """Iterate over the user's F-curves in the active action and in NLA strips, without other slots of these actions."""
    # Blender renames the curves of a shape key with it.
    renamed = renamed_bake_keys(block) if isinstance(block, bpy.types.Key) else ()
    renamed_paths = [key.path_from_id("value") for key in renamed]
    for bag in channelbags(block):
        action: Any = bag.id_data
        has_bake_curves = is_tagged_action(action)
        for curve in bag.fcurves:
            path = curve.data_path
            is_made = has_bake_curves and (is_dampsim_fcurve(action, path) or path in renamed_paths)
            if not is_made and not is_output_path(block, path):
                yield curve


def channelbags(block: bpy.types.ID) -> Iterator[bpy.types.ActionChannelbag]:
    """Iterate over the channelbags of a datablock's own slots, in the active action and in NLA strips."""
    # Datablocks such as images have no animation data.
    data = getattr(block, "animation_data", None)
    for owner in (data, *all_strips(data)) if data is not None else ():
        yield from slot_bags(owner)


def slot_bags(owner: Any) -> list[bpy.types.ActionChannelbag]:
    """Return the channelbags of the slot that animation data or an NLA strip plays; none without an action."""
    if owner.action is None or owner.action_slot is None:
        return []
    found = [strip.channelbag(owner.action_slot) for layer in owner.action.layers for strip in layer.strips]
    return [bag for bag in found if bag is not None]


def to_action_frame(player: Any, frame: float) -> float:
    """Return the frame of an action at which its player plays a frame of the scene. player: see to_scene_frame()."""
    if isinstance(player, bpy.types.AnimData):
        return float(player.nla_tweak_strip_time_to_scene(frame, invert=True))
    played = (frame - player.frame_start) / player.scale
    return float(player.action_frame_end - played if player.use_reverse else player.action_frame_start + played)


def to_scene_frame(player: Any, frame: float) -> float:
    """Return the frame of the scene at which a frame of an action plays.

    player: animation data, also in tweak mode, or an NLA strip, in the first of its repetitions.
    """
    if isinstance(player, bpy.types.AnimData):
        return float(player.nla_tweak_strip_time_to_scene(frame))
    played = player.action_frame_end - frame if player.use_reverse else frame - player.action_frame_start
    return float(player.frame_start + played * player.scale)


def to_first_repetition(player: Any, frame: float) -> float:
    """Return the frame in the first repetition of a strip that plays as a frame of the scene does.

    Frames outside of the strip play as its ends. player: see to_scene_frame(); animation data has no repetitions.
    """
    if isinstance(player, bpy.types.AnimData):
        return frame
    first, last = player.frame_start, player.frame_end
    length = repetition_length(player)
    if frame >= last and float(player.repeat).is_integer():
        return float(first + length)
    played = min(max(frame, first), last) - first
    return float(first + (played if played < length else played % length))


def repetition_length(strip: Any) -> float:
    """Return the length of one repetition of an NLA strip, in frames of the scene."""
    return float((strip.action_frame_end - strip.action_frame_start) * strip.scale)


def played_curves(block: bpy.types.ID, path: str) -> list[tuple[Any, bpy.types.FCurve]]:
    """Return the F-curves of one value in the active action and in heard strips, with players, see to_scene_frame().

    The active action comes first, then the strips from the highest track down.
    """
    data = block.animation_data
    if data is None:
        return []
    strips = [strip for track in audible_tracks(data) for strip in strips_within(track, only_audible=True)]
    found = ((player, bag.fcurves.find(path)) for player in (data, *reversed(strips)) for bag in slot_bags(player))
    return [(player, curve) for player, curve in found if curve is not None]


def players_at(data: bpy.types.AnimData, frame: float) -> list[Any]:
    """Return what plays at a frame of the scene: the animation data, and the strips from the highest track down."""
    playing = [_strip_at(track, frame) for track in audible_tracks(data)]
    return [data, *(strip for strip in reversed(playing) if strip is not None)]


def _strip_at(parent: Any, frame: float) -> Any:
    """Return the strip of a track or meta strip that plays or is held at a frame; None without one."""
    strips = list(parent.strips)
    found = next((strip for strip in strips if strip.frame_start <= frame <= strip.frame_end), None)
    if found is None and strips:
        before = [strip for strip in strips if strip.frame_end < frame]
        held = before[-1] if before else strips[0]
        found = held if held.extrapolation in (("HOLD", "HOLD_FORWARD") if before else ("HOLD",)) else None
    if found is None or found.mute:
        return None
    return _strip_at(found, min(max(frame, found.frame_start), found.frame_end)) if len(found.strips) else found


def audible_tracks(data: bpy.types.AnimData | None) -> list[Any]:
    """Return the NLA tracks that are heard, from the lowest up: solo tracks if there are any, or those not muted."""
    if data is None or not data.use_nla:
        return []
    return [track for track in data.nla_tracks if track.is_solo] or [t for t in data.nla_tracks if not t.mute]


def all_strips(data: bpy.types.AnimData | None) -> list[Any]:
    """Return the NLA strips of a datablock from the lowest track up, also those inside meta strips."""
    return [strip for track in (data.nla_tracks if data is not None else ()) for strip in strips_within(track)]


def strips_within(parent: Any, only_audible: bool = False) -> Iterator[Any]:
    """Iterate over the strips of an NLA track or a meta strip, also those inside meta strips.

    only_audible: leave out muted strips, and those inside of them.
    """
    for strip in parent.strips:
        if not (only_audible and strip.mute):
            yield strip
            yield from strips_within(strip, only_audible)


def animated_paths(block: bpy.types.ID) -> list[str]:
    """Return the data paths of a datablock that the user animates by keyframes, drivers or NLA strips."""
    return [curve.data_path for curve in (*user_fcurves(block), *drivers_of(block))]


def is_path_animated(block: bpy.types.ID, path: str) -> bool:
    """Return whether keyframes, drivers or NLA strips animate a single value of a datablock, found without a walk."""
    data = block.animation_data
    if data is None:
        return False
    is_driven = data.drivers.find(path) is not None
    return is_driven or any(bag.fcurves.find(path) is not None for bag in channelbags(block))


def stack_paths(block: bpy.types.ID) -> list[str]:
    """Return the data paths of the settings of modifiers and constraints that the user animates."""
    return [path for path in animated_paths(block) if "modifiers[" in path or "constraints[" in path]


def is_modifier_animated(modifier: bpy.types.Modifier, name: str = "") -> bool:
    """Return whether the user animates a modifier, or only its property of a name."""
    prefix = modifier.path_from_id() + (f".{name}" if name else "")
    return any(path.startswith(prefix) for path in animated_paths(modifier.id_data))


def drivers_of(block: bpy.types.ID) -> list[bpy.types.FCurve]:
    """Return the drivers of a datablock."""
    data = getattr(block, "animation_data", None)
    return [] if data is None else list(data.drivers)


def driver_targets(driver: bpy.types.Driver) -> list[bpy.types.DriverTarget]:
    """Return the targets of all variables of a driver."""
    return [target for variable in driver.variables for target in variable.targets]


def has_keyed_points(data: bpy.types.ID) -> bool:
    """Return whether keyframes, drivers or strips move the points of a mesh, lattice or curve itself."""
    return any(path.startswith(_POINT_PATHS) for path in animated_paths(data))


def has_keyed_attributes(data: bpy.types.ID) -> bool:
    """Return whether keyframes, drivers or strips change attributes of a mesh, which nodes may read."""
    return any(path.startswith("attributes[") for path in animated_paths(data))


# Values of a keyframe, with their numbers and types.
_POINT_VALUES = (
    ("co", 2, np.float32),
    ("interpolation", 1, np.int32),
    ("handle_left_type", 1, np.int32),
    ("handle_right_type", 1, np.int32),
    ("handle_left", 2, np.float32),
    ("handle_right", 2, np.float32),
)
# Beginnings of the paths of vertices, of the points of lattices, and of those of curves.
_POINT_PATHS = ("vertices[", 'attributes["position"]', "points[", "splines[")

VISIBILITY_PATH = "hide_viewport"
"""Path of the property Disable in Viewports. Blender does not evaluate the motion of disabled objects."""


def remove_animation(obj: bpy.types.Object, path: str) -> None:
    """Remove the keyframes and the driver of a property with a data path. Its current value stays."""
    for bag in list(channelbags(obj)):
        for curve in [curve for curve in bag.fcurves if curve.data_path == path]:
            bag.fcurves.remove(curve)
    obj.driver_remove(path)


def add_other_curves(block: bpy.types.ID, earlier: bpy.types.Action, slot_name: str) -> None:
    """Add the curves of an earlier action that the action of a datablock lacks.

    The result is a copy of the earlier action. Keyframes and modifiers that it has for the same values are left out.
    slot_name: identifier of the slot of the earlier action.
    """
    data = block.animation_data
    made, made_slot, made_bags = data.action, data.action_slot, slot_bags(data)
    action = earlier.copy()
    data.action = action
    data.action_slot = action.slots[slot_name]
    bags = slot_bags(data)
    if not bags:
        # A slot without keyframes.
        data.action, data.action_slot = made, made_slot
        bpy.data.actions.remove(action)
        return
    bag = bags[0]
    for curve in [curve for one in made_bags for curve in one.fcurves]:
        known = bag.fcurves.find(curve.data_path, index=curve.array_index)
        if known is not None:
            bag.fcurves.remove(known)
        copy = bag.fcurves.new(curve.data_path, index=curve.array_index)
        if curve.group is not None:
            copy.group = bag.groups.get(curve.group.name) or bag.groups.new(curve.group.name)
        _copy_keyframes(curve, copy)
    bpy.data.actions.remove(made)


def _copy_keyframes(source: bpy.types.FCurve, target: bpy.types.FCurve) -> None:
    count = len(source.keyframe_points)
    target.keyframe_points.add(count)
    for name, size, data_type in _POINT_VALUES:
        values = np.empty(count * size, dtype=data_type)
        source.keyframe_points.foreach_get(name, values)
        target.keyframe_points.foreach_set(name, values)
    target.update()


# Relative (below 1: absolute) difference up to which a value counts as that of its keyframes.
_TOLERANCE = 1e-4


def object_with_unkeyed_change(objects: Iterable[bpy.types.Object], frame: float) -> str:
    """Return the name of an object with a value unlike that of its keyframes at a frame; '' if there is none."""
    for obj in objects:
        for block in (obj, obj.data, getattr(obj.data, "shape_keys", None)):
            if block is not None and block.animation_data is not None and _has_unkeyed_change(block, frame):
                return str(obj.name)
    return ""


def _has_unkeyed_change(block: bpy.types.ID, frame: float) -> bool:
    if block.animation_data.action is None or block.animation_data.nla_tracks:
        # The result of NLA strips is not evaluated here, so an action on top of them counts as a change.
        return bool(block.animation_data.nla_tracks) and block.animation_data.action is not None
    curves = [curve for bag in channelbags(block) for curve in bag.fcurves if not curve.mute]
    for curve in [curve for curve in curves if not is_output_path(block, curve.data_path)]:
        try:
            value = block.path_resolve(curve.data_path)
        except ValueError:
            continue
        if isinstance(value, str) or value is None:
            continue
        number: Any = value[curve.array_index] if hasattr(value, "__len__") else value  # type: ignore[index]
        keyed_value = curve.evaluate(frame)
        if isinstance(number, (bool, int)):
            keyed_value = round(keyed_value)
        if abs(float(number) - keyed_value) > _TOLERANCE * max(1.0, abs(keyed_value)):
            return True
    return False

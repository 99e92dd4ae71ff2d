"""Bake checks of the animation that moves an object: errors that a bake would find only at a later frame."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import bpy
import numpy as np

from ...blender.animated_values import animated_values, is_driven
from ...blender.animation import all_strips, drivers_of, remove_animation, user_fcurves
from ...blender.modifiers import find_switched_modifiers
from ...model.colliders import active_colliders, simulation_view_layer
from ...model.groups import group_of
from ...scene_reader.bone_chains import bone_influences
from ...status.bake_inputs import motion_sources
from ...targets import PointCache
from ..common.issue import Issue, target_issue

# Part of the largest value of a curve, and least value, up to which two of its values count as equal.
_TOLERANCE = 1e-4
# Scales below this are zero.
_MIN_SCALE = 1e-9
_BONE = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]')


def _keyed_blocks(sources: list[bpy.types.Object]) -> Iterator[bpy.types.ID]:
    """Iterate over the datablocks with animation that moves some objects or their vertices."""
    for source in sources:
        keys = getattr(source.data, "shape_keys", None)
        yield from (block for block in (source, keys) if block is not None and block.animation_data is not None)


@dataclass(frozen=True)
class _Driver:
    """Driver of a property, whose values are read like those of a curve."""

    block: bpy.types.ID
    data_path: str
    array_index: int

    def evaluate(self, first: int, end: int) -> tuple[float, float]:
        """Return the values at two frames; the same number if they are uncertain."""
        values = animated_values(self.block, self.data_path, [first, end], self.array_index)
        return (0.0, 0.0) if values is None else (float(values[0]), float(values[1]))


def _motion_curves(obj: bpy.types.Object) -> list[tuple[str, bpy.types.FCurve | _Driver]] | None:
    """Return the curves that move an object and its group, by the name of their object or bone, and then the drivers.

    None if strips of the NLA take part, which play curves at other frames.
    """
    found: list[tuple[str, bpy.types.FCurve | _Driver]] = []
    drivers: list[tuple[str, bpy.types.FCurve | _Driver]] = []
    sources = [source for member in group_of(obj).members for source in motion_sources(member)]
    for block in _keyed_blocks(list(dict.fromkeys(sources))):
        curves = [one for one in user_fcurves(block) if not one.mute and not one.data_path.startswith("dampsim.")]
        if curves and all_strips(block.animation_data):
            return None
        found += [(_moved_name(block, curve.data_path), curve) for curve in curves]
        for one in drivers_of(block):
            if not one.mute and not one.data_path.startswith("dampsim."):
                driver = _Driver(block, one.data_path, one.array_index)
                drivers.append((_moved_name(block, one.data_path), driver))
    return found + drivers


def _moved_name(block: bpy.types.ID, path: str) -> str:
    """Return the name of the bone that a data path belongs to, or else of the datablock."""
    bone = _BONE.match(path)
    return bpy.utils.unescape_identifier(bone[1]) if bone else str(block.name)


def _repeats(curve: bpy.types.FCurve | _Driver, first: int, end: int) -> bool:
    """Return whether a curve has the same value at two frames. Full turns count as the same angle."""
    if isinstance(curve, _Driver):
        before, after = curve.evaluate(first, end)
    else:
        before, after = curve.evaluate(first), curve.evaluate(end)
    tolerance = _TOLERANCE * max(1.0, abs(before))
    if curve.data_path.endswith("rotation_euler"):
        return abs(math.remainder(after - before, math.tau)) <= tolerance
    if curve.data_path.endswith("rotation_quaternion"):
        return abs(abs(after) - abs(before)) <= tolerance
    return abs(after - before) <= tolerance


def unrepeated_animation(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report keyframes of a loop that do not return to the values of the first frame."""
    if not any(member.dampsim.loop for member in group_of(obj).members):
        return None
    curves, first, last = _motion_curves(obj), scene.frame_start, scene.frame_end
    if not curves:
        return None
    if last <= first:
        return None
    # Drivers take long to read, so they are read only if the keyframes repeat.
    keyed = [one for one in curves if not isinstance(one[1], _Driver)]
    driven = [one for one in curves if isinstance(one[1], _Driver)]
    differing = [_not_repeating(keyed, first, end) or _not_repeating(driven, first, end) for end in (last, last + 1)]
    if not all(differing):
        return None
    names = list(dict.fromkeys(name for name, _ in differing[1]))
    which = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    noun = "drivers" if all(isinstance(one, _Driver) for _, one in differing[1]) else "keyframes"
    text = (
        f"Loop needs the pose of frame {first} again at frame {last} or {last + 1}, but the {noun} of {which} do "
        "not return to it"
    )
    off = Issue("", "Turn Off Loop", _turn_off_loop, "Bake these objects without a loop")
    cycle_end = _find_cycle_end([curve for _, curve in [*differing[1], *curves]], first)
    if cycle_end is None:
        return replace(off, text=text)
    tooltip = f"Set the end of the frame range to the last frame before the pose returns, at frame {cycle_end}"
    return Issue(text, f"End at Frame {cycle_end - 1}", lambda o, s: setattr(s, "frame_end", cycle_end - 1), tooltip,
                 off)  # fmt: skip


def _not_repeating(
    curves: list[tuple[str, bpy.types.FCurve | _Driver]], first: int, end: int
) -> list[tuple[str, bpy.types.FCurve | _Driver]]:
    return [one for one in curves if not _repeats(one[1], first, end)]


def _turn_off_loop(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """Turn off Loop for an object and those that are simulated with it."""
    for member in group_of(obj).members:
        member.dampsim.loop = False


def _find_cycle_end(curves: list[bpy.types.FCurve | _Driver], first: int) -> int | None:
    """Return the last frame of the keyframes at which all curves return to the first one; None without such a frame."""
    last_key = max((int(one.range()[1]) for one in curves if not isinstance(one, _Driver)), default=first)
    found = (end for end in range(last_key, first + 1, -1) if all(_repeats(curve, first, end) for curve in curves))
    return next(found, None)


def vanishing_scale(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report animation that scales the object, a collider, a parent or a bone to zero during the shot."""
    owners = [obj, *active_colliders(obj, simulation_view_layer(scene))]
    for owner in owners:
        scaled: bpy.types.Object | None = owner
        while scaled is not None:
            frame = _zero_scales(scaled, scene).get("scale")
            if frame is not None:
                what = "It" if scaled == obj else scaled.name
                return Issue(f"{what} is scaled to zero at frame {frame}, where no motion can be simulated. "
                             f"{_small_scale(scaled, 'scale')}")  # fmt: skip
            scaled = scaled.parent
    bones = bone_influences(obj) if not obj.dampsim.bakes_to_file else ()
    found = {rig: _zero_scales(rig, scene) for rig in {one.rig for one in bones}}
    for one in bones:
        zeros, lowest = found[one.rig], one.rig.pose.bones[one.name]
        for bone in (lowest, *lowest.parent_recursive) if zeros else ():
            path = f"{bone.path_from_id()}.scale"
            if path in zeros:
                frame = zeros[path]
                return target_issue(
                    PointCache,
                    f"The bone {bone.name} is scaled to zero at frame {frame}, where shape keys cannot reach the "
                    f"simulated shape. {_small_scale(one.rig, path)}, or bake to a file",
                )
    return None


def _small_scale(block: bpy.types.Object, path: str) -> str:
    has_driver = any(is_driven(block, path, axis) for axis in range(3))
    return "Make its driver give a small scale instead" if has_driver else "Key a small scale instead"


def _zero_scales(block: bpy.types.Object, scene: bpy.types.Scene) -> dict[str, int]:
    """Return the first frame of the shot at which animation certainly sets each scale to zero, by its data path."""
    data = block.animation_data
    if data is None:
        return {}
    keyed = [one for one in user_fcurves(block) if one.data_path.endswith("scale") and _has_zero_key(one)]
    driven = [one for one in data.drivers if one.data_path.endswith("scale")]
    frames, found = range(scene.frame_start, scene.frame_end + 1), dict[str, int]()
    for path, axis in {(one.data_path, one.array_index) for one in (*keyed, *driven)}:
        values = animated_values(block, path, frames, axis)
        if values is not None and (is_zero := np.abs(values) < _MIN_SCALE).any():
            frame = frames[int(is_zero.argmax())]
            found[path] = min(frame, found.get(path, frame))
    return found


def _has_zero_key(curve: bpy.types.FCurve) -> bool:
    """Return whether a keyframe has the value zero. Other curves are rarely zero at a whole frame."""
    places = np.empty(2 * len(curve.keyframe_points), dtype=np.float32)
    curve.keyframe_points.foreach_get("co", places)
    return bool((np.abs(places[1::2]) < _MIN_SCALE).any())


def switched_modifiers(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report animation that switches modifiers which change the topology, or which the simulation leaves out."""
    found = find_switched_modifiers(obj)
    if not found:
        return None
    names = " and ".join(modifier.name for modifier in found)
    tooltip = f"Remove the animation that switches {names} in viewports, and keep that of renders"
    return Issue(
        f"Animation switches {names} in viewports, which gives the mesh other vertices during the bake",
        "Remove Keyframes", lambda o, s: _keep_switched(o, [modifier.name for modifier in found]), tooltip,
    )  # fmt: skip


def _keep_switched(obj: bpy.types.Object, names: list[str]) -> None:
    for name in names:
        remove_animation(obj, f"{obj.modifiers[name].path_from_id()}.show_viewport")

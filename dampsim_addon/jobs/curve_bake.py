"""Curve objects that follow the rope made of their centre line. Their motion is baked to absolute shape keys."""

from __future__ import annotations

from collections.abc import Generator

import bpy
import numpy as np

from ...core import SceneError
from ...core.geometry.mesh.rigid_motion import transform_points
from ..blender.curve_points import CurvePolyline, centre_line, fit_control_points, set_control_points
from ..blender.dampsim_names import BASIS, bake_keys, frame_name, mark_bake_key
from ..blender.sampler import mode_name
from ..targets import Shot, keys
from ..targets.bake_tracks import animate_keys
from ..work.steps import Step


def following_curve(obj: bpy.types.Object) -> bpy.types.Object | None:
    """Return the local curve object that follows a rope, or None."""
    curve = obj.dampsim.curve
    return curve if curve is not None and curve.type == "CURVE" and curve.library is None else None


def check_following_curve(obj: bpy.types.Object) -> None:
    """Raise SceneError if the curve of the object cannot be baked."""
    curve = following_curve(obj)
    if curve is None:
        return
    shape = curve.data.shape_keys
    if shape is not None and len(bake_keys(shape)) < len(shape.key_blocks):
        raise SceneError(f"{obj.name}: its curve {curve.name} already has shape keys; remove them before baking.")
    if curve.mode != "OBJECT":
        mode = mode_name(curve)
        raise SceneError(f"{curve.name}: leave {mode} Mode before baking.")
    _checked_line(obj, curve)


def _checked_line(obj: bpy.types.Object, curve: bpy.types.Object) -> CurvePolyline:
    line = centre_line(curve.data)
    if len(line.points) != len(obj.data.vertices):
        raise SceneError(
            f"{obj.name}: the points of its curve {curve.name} have changed; remove the rope and create a new one."
        )
    return line


def bake_following_curve(shot: Shot) -> Generator[Step]:
    """Bake the motion of the rope to the curve that follows it, if there is one."""
    obj = shot.sampler.obj
    curve = following_curve(obj)
    if curve is None:
        return
    line, point_offsets = _checked_line(obj, curve), fit_control_points(curve.data)
    keys.remove_baked_keys(curve)
    if curve.data.shape_keys is None:
        mark_bake_key(curve.shape_key_add(name=BASIS, from_mix=False))
    curve.data.shape_keys.reference_key.interpolation = "KEY_LINEAR"
    shape_keys = []
    for done, number in enumerate(shot.key_numbers, 1):
        # A loop ends with its first shape.
        shot.sampler.set_frame(shot.numbers[(done - 1) % len(shot.numbers)])
        world = shot.cache.read_shape(shot.numbers[(done - 1) % len(shot.numbers)], obj.name)
        local = transform_points(np.linalg.inv(shot.sampler.matrix()), np.asarray(world, dtype=float))
        key = curve.shape_key_add(name=frame_name(number), from_mix=False)
        mark_bake_key(key)
        key.interpolation = "KEY_LINEAR"
        set_control_points(key, point_offsets(local - line.points))
        shape_keys.append(key)
        yield Step(done, len(shot.key_numbers), "Baking the curve")
    block = curve.data.shape_keys
    block.use_relative = False
    times = [(number, key.frame) for number, key in zip(shot.key_numbers, shape_keys, strict=True)]
    animate_keys(curve, {"eval_time": times}, shot.cycle_end is not None)


def clear_following_curve(obj: bpy.types.Object) -> None:
    """Restore the curve to its state before the bake."""
    curve = following_curve(obj)
    if curve is not None:
        keys.clear_keys(curve)

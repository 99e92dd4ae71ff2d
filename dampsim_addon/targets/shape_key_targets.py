"""Targets that create shape keys: compressed ones, one for each frame, and absolute ones.

Compressed keys keep an error bound, with values keyed at every frame. A relative key for each frame with linear values
0-1-0 is exact on frames and interpolated between them. Absolute keys are the fastest to play, but cannot be exported.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import bpy
import numpy as np

from ...core import SceneError
from ...core.base.arrays import SinglePrecisionArray
from ...core.frames.compression import CompressedMotion, compress_motion
from ..blender.dampsim_names import OFFSET, bake_keys, frame_name, shape_name
from ..blender.sampler import largest_scale
from ..work.steps import run_in_thread
from . import keys
from .bake_tracks import animate_keys
from .influence import is_blended
from .target import Cost, OtherTargetError, Shot

# Largest error of a bake with a limited number of keys, relative to that of its keys. Modifiers can enlarge the error.
_LIMITED_KEYS_FACTOR = 2.0


class CompressedKeys(keys.KeyTarget):
    name = "SHAPE_KEYS"
    number = 0
    label = "Compressed Keys"
    description = (
        "Create as few shape keys as the largest error below allows. Small; exports to glTF and FBX; "
        "needs no other file"
    )
    exact = False
    can_export_to_gltf = True

    def compress(self, shot: Shot, collected: SinglePrecisionArray) -> Generator[None, None, CompressedMotion]:
        bound = shot.bound / largest_scale(shot.sampler.matrix())
        # One of the keys is the offset.
        max_shapes = shot.max_keys - 1 if shot.max_keys else None
        return (yield from run_in_thread(lambda: compress_motion(collected, bound, max_shapes)))

    def allowed_error(self, shot: Shot, compressed: CompressedMotion) -> float:
        if not compressed.is_limited:
            return shot.bound
        return max(shot.bound, _LIMITED_KEYS_FACTOR * largest_scale(shot.sampler.matrix()) * compressed.error)

    def write(self, shot: Shot, compressed: CompressedMotion) -> Cost:
        obj = shot.sampler.obj
        basis = keys.prepare_basis(obj)
        offset = keys.add_key(obj, OFFSET, basis + compressed.offset)
        offset.value = 1.0
        new_keys = [keys.add_key(obj, shape_name(k), basis + shape) for k, shape in enumerate(compressed.shapes, 1)]
        numbers = shot.key_numbers
        weights = compressed.weights[np.arange(len(numbers)) % len(shot.numbers)]
        # The offset is keyed too, because FBX treats keys without animation as zero.
        curves = {keys.value_path(offset): [(number, 1.0) for number in numbers]}
        for key, values in zip(new_keys, weights.T, strict=True):
            curves[keys.value_path(key)] = list(zip(numbers, values, strict=True))
        animate_keys(obj, curves, shot.cycle_end is not None)
        cost = keys.key_cost(len(basis), 1 + len(new_keys))
        return replace(cost, needed=1 + compressed.needed) if compressed.is_limited else cost


class FrameKeys(keys.KeyTarget):
    name = "FRAME_KEYS"
    number = 1
    label = "Key per Frame"
    description = "Create a shape key for each frame. Exact but large; exports to glTF and FBX"
    can_export_to_gltf = True

    def write(self, shot: Shot, compressed: SinglePrecisionArray) -> Cost:
        obj = shot.sampler.obj
        basis = keys.prepare_basis(obj)
        first, last = shot.numbers[0], shot.key_numbers[-1]
        curves = {}
        for number, move in zip(shot.numbers, compressed, strict=True):
            key = keys.add_key(obj, frame_name(number), basis + move)
            points = [(number - 1.0, 0.0), (float(number), 1.0), (number + 1.0, 0.0)]
            # The first and last shape hold outside the frame range.
            curves[keys.value_path(key)] = points[int(number == first) : 3 - int(number == last)]
            if number == first and last > shot.numbers[-1]:
                # A loop ends with its first shape.
                curves[keys.value_path(key)] += [(last - 1.0, 0.0), (float(last), 1.0)]
        animate_keys(obj, curves, shot.cycle_end is not None)
        return keys.key_cost(len(basis), len(shot.numbers))


class AbsoluteKeys(keys.KeyTarget):
    name = "ABSOLUTE_KEYS"
    number = 2
    label = "Absolute Keys"
    description = "Create absolute shape keys, played by Evaluation Time. Fast; not for glTF and FBX"

    def check(self, obj: bpy.types.Object) -> None:
        super().check(obj)
        shape_keys = obj.data.shape_keys
        if shape_keys is not None and len(bake_keys(shape_keys)) < len(shape_keys.key_blocks):
            raise SceneError(
                f"{obj.name}: absolute shape keys cannot be combined with its own shape keys; bake to another target."
            )
        if is_blended(obj):
            raise OtherTargetError(
                f"{obj.name}: absolute shape keys cannot be blended, but its bake has an Influence below 1 or a fade; "
                "bake to Key per Frame, or set Influence to 1 and remove the fade.",
                FrameKeys.name,
            )

    def write(self, shot: Shot, compressed: SinglePrecisionArray) -> Cost:
        obj = shot.sampler.obj
        basis = keys.prepare_basis(obj)
        new_keys = []
        numbers = shot.key_numbers
        for place, number in enumerate(numbers):
            # A loop ends with its first shape.
            key = keys.add_key(obj, frame_name(number), basis + compressed[place % len(shot.numbers)])
            key.interpolation = "KEY_LINEAR"
            new_keys.append(key)
        block = obj.data.shape_keys
        block.reference_key.interpolation = "KEY_LINEAR"
        block.use_relative = False
        # Read the positions that Blender has assigned to the keys; rounding makes them slightly uneven.
        times = [(number, key.frame) for number, key in zip(numbers, new_keys, strict=True)]
        animate_keys(obj, {"eval_time": times}, shot.cycle_end is not None)
        return keys.key_cost(len(basis), len(numbers))

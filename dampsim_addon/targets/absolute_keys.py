"""Absolute shape keys, one for each frame: the fastest keys to play; they cannot be exported."""

from __future__ import annotations

import bpy

from ...core import SceneError
from ...core.base.arrays import SinglePrecisionArray
from ..blender.dampsim_names import bake_keys, frame_name
from . import keys
from .bake_tracks import animate_keys
from .influence import is_blended
from .target import Cost, Shot


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
            raise SceneError(
                f"{obj.name}: absolute shape keys cannot be blended, but its bake has an Influence below 1 or a fade; "
                "bake to Key per Frame, or set Influence to 1 and remove the fade."
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

"""Absolute shape keys, one for each frame: the fastest keys to play; they cannot be exported."""

from __future__ import annotations

from typing import ClassVar

import bpy

from ...core.arrays import Single
from ...core.errors import SceneError
from ..blender.marks import frame_name, is_ours
from . import keys
from .target import Cost, Shot


class AbsoluteKeys(keys.KeyTarget):
    name: ClassVar[str] = "ABSOLUTE_KEYS"
    label: ClassVar[str] = "Absolute Keys"
    text: ClassVar[str] = "Create absolute shape keys, played by Evaluation Time. Fast; not for glTF and FBX"

    @classmethod
    def check(cls, obj: bpy.types.Object) -> None:
        super().check(obj)
        there = obj.data.shape_keys
        if there is not None and any(not is_ours(key.name) for key in there.key_blocks):
            raise SceneError(
                f"{obj.name}: absolute shape keys cannot be combined with its own shape keys; bake to another target."
            )

    @classmethod
    def store(cls, shot: Shot, fitted: Single) -> Cost:
        obj = shot.sampler.obj
        basis = keys.begin(obj)
        made = []
        for number, move in zip(shot.numbers, fitted, strict=True):
            key = keys.add(obj, frame_name(number), basis + move)
            key.interpolation = "KEY_LINEAR"
            made.append(key)
        block = obj.data.shape_keys
        block.reference_key.interpolation = "KEY_LINEAR"
        block.use_relative = False
        # Read the positions that Blender has assigned to the keys; rounding makes them slightly uneven.
        keys.animate(obj, {"eval_time": [(number, key.frame) for number, key in zip(shot.numbers, made, strict=True)]})
        return keys.cost(len(basis), len(shot.numbers))

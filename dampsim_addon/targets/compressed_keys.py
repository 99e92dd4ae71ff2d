"""Compressed shape keys within an error bound, with values keyed at every frame."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from ...core.base.arrays import SinglePrecisionArray
from ...core.frames.compression import CompressedMotion, compress_motion
from ..blender.dampsim_names import OFFSET, shape_name
from ..blender.sampler import largest_scale
from ..work.background_thread import run_in_thread
from . import keys
from .bake_tracks import animate_keys
from .target import Cost, Shot

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

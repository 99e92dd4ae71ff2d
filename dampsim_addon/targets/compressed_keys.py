"""Compressed shape keys within an error bound, with values keyed at every frame."""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar

import numpy as np

from ...core.arrays import Single
from ...core.frames.compression import Compressed, compress
from ..blender.marks import OFFSET, shape_name
from ..work.background import computed
from . import keys
from .target import Cost, Shot


class CompressedKeys(keys.KeyTarget):
    name: ClassVar[str] = "SHAPE_KEYS"
    label: ClassVar[str] = "Compressed Keys"
    text: ClassVar[str] = (
        "Create as few shape keys as the largest error below allows. Small; exports to glTF and FBX; "
        "needs no other file"
    )
    exact: ClassVar[bool] = False
    exports_morphs: ClassVar[bool] = True

    @classmethod
    def fit(cls, shot: Shot, record: Single) -> Generator[None, None, Compressed]:
        stretch = float(np.linalg.norm(shot.sampler.matrix()[:3, :3], ord=2))
        return (yield from computed(lambda: compress(record, shot.bound / stretch)))

    @classmethod
    def store(cls, shot: Shot, fitted: Compressed) -> Cost:
        obj = shot.sampler.obj
        basis = keys.begin(obj)
        offset = keys.add(obj, OFFSET, basis + fitted.offset)
        offset.value = 1.0
        made = [keys.add(obj, shape_name(k), basis + shape) for k, shape in enumerate(fitted.shapes, 1)]
        keys.animate(
            obj,
            {
                # The offset is keyed too, because FBX treats keys without animation as zero.
                keys.value_path(offset): [(number, 1.0) for number in shot.numbers],
                **{
                    keys.value_path(key): zip(shot.numbers, values, strict=True)
                    for key, values in zip(made, fitted.weights.T, strict=True)
                },
            },
        )
        return keys.cost(len(basis), 1 + len(made))

"""MDD file in the cache folder, played by a Mesh Cache modifier and readable by other programs."""

from __future__ import annotations

from typing import ClassVar

from ..blender.mesh_cache import mdd_header
from ..blender.sampler import frame_rate
from .cache_file import MeshCacheTarget
from .target import Shot


class Mdd(MeshCacheTarget):
    name: ClassVar[str] = "MDD"
    number: ClassVar[int] = 4
    label: ClassVar[str] = "MDD Cache"
    description: ClassVar[str] = (
        "Write an MDD file (LightWave and others), played by a Mesh Cache modifier at this frame rate"
    )
    file: ClassVar[str] = "bake.mdd"
    form: ClassVar[str] = "MDD"
    floats: ClassVar[str] = ">f4"

    @classmethod
    def header(cls, shot: Shot) -> bytes:
        fps = frame_rate(shot.sampler.scene)
        return mdd_header(shot.vertices, [number / fps for number in shot.numbers])

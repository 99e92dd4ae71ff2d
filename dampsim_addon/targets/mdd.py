"""MDD file in the cache folder, played by a Mesh Cache modifier and readable by other programs."""

from __future__ import annotations

from ..blender.mesh_cache import mdd_header
from ..blender.sampler import frame_rate
from .cache_file import MeshCacheTarget
from .target import Shot


class Mdd(MeshCacheTarget):
    name = "MDD"
    number = 4
    label = "MDD Cache"
    description = "Write an MDD file (LightWave and others), played by a Mesh Cache modifier at this frame rate"
    file = "bake.mdd"
    form = "MDD"
    floats = ">f4"

    def header(self, shot: Shot) -> bytes:
        fps = frame_rate(shot.sampler.scene)
        return mdd_header(shot.vertices, [number / fps for number in shot.numbers])

"""An MDD file beside the cache, played by a Mesh Cache modifier; other programs read it too."""

from __future__ import annotations

from typing import ClassVar

from ..blender.mesh_cache import mdd_header
from ..blender.sampler import frame_rate
from .cache_file import MeshCacheTarget
from .target import Shot


class Mdd(MeshCacheTarget):
    name: ClassVar[str] = "MDD"
    label: ClassVar[str] = "MDD Cache"
    text: ClassVar[str] = "As PC2, in the format of LightWave and others, at this frame rate"
    file: ClassVar[str] = "bake.mdd"
    form: ClassVar[str] = "MDD"
    floats: ClassVar[str] = ">f4"

    @classmethod
    def header(cls, shot: Shot) -> bytes:
        fps = frame_rate(shot.sampler.scene)
        return mdd_header(shot.vertices, [number / fps for number in shot.numbers])

"""PC2 file in the cache folder, played by a Mesh Cache modifier."""

from __future__ import annotations

from typing import ClassVar

from ..blender.mesh_cache import pc2_header
from .cache_file import MeshCacheTarget
from .target import Shot


class PointCache(MeshCacheTarget):
    name: ClassVar[str] = "POINT_CACHE"
    number: ClassVar[int] = 3
    label: ClassVar[str] = "PC2 Cache"
    description: ClassVar[str] = (
        "Write a PC2 file, played by a Mesh Cache modifier. Fast; does not change the mesh data"
    )
    file: ClassVar[str] = "bake.pc2"
    form: ClassVar[str] = "PC2"
    floats: ClassVar[str] = "<f4"

    @classmethod
    def header(cls, shot: Shot) -> bytes:
        return pc2_header(shot.vertices, float(shot.numbers[0]), len(shot.numbers))

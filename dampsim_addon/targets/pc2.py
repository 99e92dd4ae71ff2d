"""PC2 file in the cache folder, played by a Mesh Cache modifier."""

from __future__ import annotations

from ..blender.mesh_cache import pc2_header
from .cache_file import MeshCacheTarget
from .target import Shot


class PointCache(MeshCacheTarget):
    name = "POINT_CACHE"
    number = 3
    label = "PC2 Cache"
    description = "Write a PC2 file, played by a Mesh Cache modifier. Fast; does not change the mesh data"
    file = "bake.pc2"
    form = "PC2"
    floats = "<f4"

    def header(self, shot: Shot) -> bytes:
        return pc2_header(shot.vertices, float(shot.numbers[0]), len(shot.numbers))

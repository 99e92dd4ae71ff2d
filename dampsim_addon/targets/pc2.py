"""A PC2 file beside the cache, played by a Mesh Cache modifier."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import ClassVar

from ..blender.mesh_cache import pc2_header
from . import cache_file
from .target import Cost, Shot, as_it_is

_FILE = "bake.pc2"


class PointCache:
    name: ClassVar[str] = "POINT_CACHE"
    label: ClassVar[str] = "PC2 Cache"
    text: ClassVar[str] = "A PC2 file and a Mesh Cache modifier: fast to play, leaves the mesh's data alone"
    exact: ClassVar[bool] = True

    check = staticmethod(cache_file.check)
    cost = staticmethod(cache_file.cost)
    clear = staticmethod(cache_file.clear)
    fit = staticmethod(as_it_is)

    @staticmethod
    def record(shot: Shot) -> Generator[int, None, cache_file.Recorded]:
        header = pc2_header(len(shot.sampler.obj.data.vertices), float(shot.numbers[0]), len(shot.numbers))
        return (yield from cache_file.record(shot, _FILE, header, "<f4"))

    @staticmethod
    def store(shot: Shot, fitted: cache_file.Recorded) -> Cost:
        return cache_file.store_played(shot, fitted, _FILE, "PC2")

    @staticmethod
    def forget(folder: Path) -> None:
        cache_file.forget(folder, _FILE)

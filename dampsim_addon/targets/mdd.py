"""An MDD file beside the cache, played by a Mesh Cache modifier; other programs read it too."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import ClassVar

from ..blender.mesh_cache import mdd_header
from ..blender.sampler import frame_rate
from . import cache_file
from .target import Cost, Shot, as_it_is

_FILE = "bake.mdd"


class Mdd:
    name: ClassVar[str] = "MDD"
    label: ClassVar[str] = "MDD Cache"
    text: ClassVar[str] = "As PC2, in the format of LightWave and others, at this frame rate"
    exact: ClassVar[bool] = True

    check = staticmethod(cache_file.check)
    cost = staticmethod(cache_file.cost)
    clear = staticmethod(cache_file.clear)
    fit = staticmethod(as_it_is)

    @staticmethod
    def record(shot: Shot) -> Generator[int, None, cache_file.Recorded]:
        fps = frame_rate(shot.sampler.scene)
        times = [number / fps for number in shot.numbers]
        header = mdd_header(len(shot.sampler.obj.data.vertices), times)
        return (yield from cache_file.record(shot, _FILE, header, ">f4"))

    @staticmethod
    def store(shot: Shot, fitted: cache_file.Recorded) -> Cost:
        return cache_file.store_played(shot, fitted, _FILE, "MDD")

    @staticmethod
    def forget(folder: Path) -> None:
        cache_file.forget(folder, _FILE)

"""A PC2 file beside the cache, played by a Mesh Cache modifier."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import bpy
import numpy as np

from ...core.cache import FrameCache
from ...core.errors import CacheError, SceneError
from ...core.geometry.affine import transformed
from ..marks import MODIFIER, is_ours
from ..modifiers import DEFORMING

if TYPE_CHECKING:
    from ..snapshot import Sampler


_FILE = "bake.pc2"


class PointCache:
    name: ClassVar[str] = "POINT_CACHE"
    label: ClassVar[str] = "Point Cache"
    text: ClassVar[str] = "A PC2 file and a Mesh Cache modifier: fastest to play, leaves the mesh's data alone"

    @staticmethod
    def check(obj: bpy.types.Object) -> None:
        kinds = [m.type in DEFORMING for m in obj.modifiers if m.show_viewport and not is_ours(m.name)]
        last = max((place for place, deforms in enumerate(kinds) if deforms), default=-1)
        if not all(kinds[: last + 1]):
            raise SceneError(
                f"{obj.name}: a modifier that changes the number of vertices stands above a deforming one; "
                "move it down or bake to shape keys."
            )

    @staticmethod
    def write(sampler: Sampler, cache: FrameCache, numbers: list[int], folder: Path) -> Iterator[int]:
        obj = sampler.obj
        path = folder / _FILE
        part = path.with_suffix(".part")
        count = len(obj.data.vertices)
        try:
            with part.open("wb") as file:
                file.write(struct.pack("<12siiffi", b"POINTCACHE2\0", 1, count, float(numbers[0]), 1.0, len(numbers)))
                for done, number in enumerate(numbers, 1):
                    sampler.go(number)
                    local = transformed(np.linalg.inv(sampler.matrix()), cache.read(number).surface)
                    file.write(local.astype("<f4").tobytes())
                    yield done
            part.replace(path)
        except OSError as error:
            raise CacheError(
                f"{obj.name}: the point cache {path} cannot be written ({error.strerror or error}); "
                "choose another folder or free some space."
            ) from error
        finally:
            part.unlink(missing_ok=True)
        PointCache.clear(obj)
        active = obj.modifiers.active.name if obj.modifiers.active else ""
        modifier = obj.modifiers.new(MODIFIER, "MESH_CACHE")
        modifier.cache_format = "PC2"
        modifier.filepath = str(path)
        modifier.frame_start = float(numbers[0])
        modifier.interpolation = "LINEAR"
        place = max((k for k, m in enumerate(obj.modifiers) if m.type in DEFORMING and not is_ours(m.name)), default=-1)
        obj.modifiers.move(len(obj.modifiers) - 1, place + 1)
        if active:
            obj.modifiers.active = obj.modifiers[active]

    @staticmethod
    def clear(obj: bpy.types.Object) -> None:
        for modifier in [m for m in obj.modifiers if is_ours(m.name)]:
            obj.modifiers.remove(modifier)

    @staticmethod
    def forget(folder: Path) -> None:
        (folder / _FILE).unlink(missing_ok=True)

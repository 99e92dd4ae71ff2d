"""A PC2 file beside the cache, played by a Mesh Cache modifier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import bpy
import numpy as np

from ...core.cache import FrameCache
from ...core.errors import CacheError
from ...core.geometry.affine import transformed
from ..marks import MODIFIER, is_ours
from ..pc2 import attach, check_stack, detach, header

if TYPE_CHECKING:
    from ..snapshot import Sampler


_FILE = "bake.pc2"


class PointCache:
    name: ClassVar[str] = "POINT_CACHE"
    label: ClassVar[str] = "Point Cache"
    text: ClassVar[str] = "A PC2 file and a Mesh Cache modifier: fastest to play, leaves the mesh's data alone"

    @staticmethod
    def check(obj: bpy.types.Object) -> None:
        check_stack(obj)

    @staticmethod
    def write(sampler: Sampler, cache: FrameCache, numbers: list[int], folder: Path) -> Iterator[int]:
        obj = sampler.obj
        path = folder / _FILE
        part = path.with_suffix(".part")
        count = len(obj.data.vertices)
        try:
            with part.open("wb") as file:
                file.write(header(count, float(numbers[0]), len(numbers)))
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
        attach(obj, MODIFIER, str(path), float(numbers[0]))

    @staticmethod
    def clear(obj: bpy.types.Object) -> None:
        for modifier in [m for m in obj.modifiers if is_ours(m.name)]:
            detach(obj, modifier)

    @staticmethod
    def forget(folder: Path) -> None:
        (folder / _FILE).unlink(missing_ok=True)

"""The interface of a bake target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import bpy

from ...core.cache import FrameCache

if TYPE_CHECKING:
    from ..snapshot import Sampler


class Target(Protocol):
    """name, label, text: as shown in the panel."""

    name: ClassVar[str]
    label: ClassVar[str]
    text: ClassVar[str]

    @staticmethod
    def check(obj: bpy.types.Object) -> None:
        """Raise an error for the artist where the target does not fit the object; changes nothing."""

    @staticmethod
    def write(sampler: Sampler, cache: FrameCache, numbers: list[int], folder: Path) -> Iterator[int]:
        """Write the frames of the cache, yielding how many are done."""

    @staticmethod
    def clear(obj: bpy.types.Object) -> None:
        """Remove what write() made in the file."""

    @staticmethod
    def forget(folder: Path) -> None:
        """Remove what write() made in the cache's folder."""

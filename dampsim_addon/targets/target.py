"""What a bake target is."""

from __future__ import annotations

import abc
import enum
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import bpy

from ...core.frames.cache import FrameCache

if TYPE_CHECKING:
    from ..blender.sampler import Sampler

# Bytes of a vertex in single precision.
VERTEX_BYTES = 12


@dataclass(frozen=True)
class Cost:
    """keys: shape keys.  size: bytes, in the .blend file or beside it."""

    keys: int
    size: int


@dataclass(frozen=True)
class Shot:
    """What is to be written. sampler: within its context, at work.  cache: holds all of the numbers.

    folder: of the target's files.  bound: m in world space that no vertex may be off by; exact targets do without.
    """

    sampler: Sampler
    cache: FrameCache
    numbers: list[int]
    folder: Path
    bound: float

    @property
    def vertices(self) -> int:
        """How many are simulated, those that modifiers make among them."""
        return len(self.cache.shape(self.numbers[0], self.sampler.obj.name))


class Storage(enum.Enum):
    """Where a bake is kept. An object has one bake in each at most, and clear() of any target there removes it."""

    KEYS = "shape keys"
    FILE = "a file beside the cache"


class Target(abc.ABC):
    """name, label, text: as shown in the panel.  storage: where its bakes are.

    exact: but for rounding, whatever the bound is.  exports_morphs: whether glTF and FBX can hold it.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    text: ClassVar[str]
    storage: ClassVar[Storage]
    exact: ClassVar[bool] = True
    exports_morphs: ClassVar[bool] = False

    @classmethod
    @abc.abstractmethod
    def check(cls, obj: bpy.types.Object) -> None:
        """Raise an error for the artist where the target does not fit the object; changes nothing."""

    @classmethod
    @abc.abstractmethod
    def cost(cls, vertices: int, frames: int) -> Cost:
        """The most that a bake can cost."""

    @classmethod
    @abc.abstractmethod
    def record(cls, shot: Shot) -> Generator[int, None, Any]:
        """Read the frames, yielding how many are done. The artist's data stay as they are."""

    @classmethod
    def fit(cls, shot: Shot, record: Any) -> Generator[None, None, Any]:
        """Make of the record what will be stored, within the bound. The artist's data stay as they are."""
        yield
        return record

    @classmethod
    @abc.abstractmethod
    def store(cls, shot: Shot, fitted: Any) -> Cost:
        """Put it in the place of any bake before, all at once, and say what it cost."""

    @classmethod
    @abc.abstractmethod
    def clear(cls, obj: bpy.types.Object) -> None:
        """Remove what store() made in the file."""

    @classmethod
    @abc.abstractmethod
    def forget(cls, folder: Path) -> None:
        """Remove what record() and store() made in the folder."""

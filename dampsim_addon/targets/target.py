"""The interface of a bake target."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

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


class Target(Protocol):
    """name, label, text: as shown in the panel.  exact: but for rounding, whatever the bound is."""

    name: ClassVar[str]
    label: ClassVar[str]
    text: ClassVar[str]
    exact: ClassVar[bool]

    @staticmethod
    def check(obj: bpy.types.Object) -> None:
        """Raise an error for the artist where the target does not fit the object; changes nothing."""

    @staticmethod
    def cost(vertices: int, frames: int) -> Cost:
        """The most that a bake can cost."""

    @staticmethod
    def record(shot: Shot) -> Generator[int, None, Any]:
        """Read the frames, yielding how many are done. The artist's data stay as they are."""

    @staticmethod
    def fit(shot: Shot, record: Any) -> Generator[None, None, Any]:
        """Make of the record what will be stored, within the bound. The artist's data stay as they are."""

    @staticmethod
    def store(shot: Shot, fitted: Any) -> Cost:
        """Put it in the place of any bake before, all at once, and say what it cost."""

    @staticmethod
    def clear(obj: bpy.types.Object) -> None:
        """Remove what store() made in the file."""

    @staticmethod
    def forget(folder: Path) -> None:
        """Remove what record() and store() made in the folder."""


Record = TypeVar("Record")


def as_it_is(shot: Shot, record: Record) -> Generator[None, None, Record]:
    """The fit() of targets that store what they recorded."""
    yield
    return record

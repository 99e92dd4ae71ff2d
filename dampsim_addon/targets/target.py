"""Interface of bake targets."""

from __future__ import annotations

import abc
import enum
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import bpy

from ...core import Array, Index, SceneError
from ...core.frames.chain_fit import ChainChannels
from ..blender.sampler import Sampler

# Size of a vertex in single precision, bytes.
VERTEX_BYTES = 12


@dataclass(frozen=True)
class Cost:
    """Size of a bake. keys: number of shape keys.  size: bytes in the .blend file or the cache folder.

    needed: number of shape keys that the error limit takes, if the limit of their number does not allow so many.
    bones: number of new or animated bones.  is_over: whether they do not reach the error limit.  worst: frame with
    their largest error.  missing_part: their error, as a fraction of that without the bake.  missed_frames: number of
    those whose shape the modifiers of the object cannot produce.
    """

    keys: int
    size: int
    needed: int = 0
    bones: int = 0
    is_over: bool = False
    worst: int = 0
    missing_part: float = 0.0
    missed_frames: int = 0


class WorldShapes(Protocol):
    """Frames that a target writes: those of a cache, or those with the blends of the bake."""

    def read_shape(self, number: int, body: str) -> Array:
        """Return the shape (v, 3) m of a body at a frame, in world space."""


@dataclass(frozen=True)
class Shot:
    """Simulated frames of an object that a target writes.

    sampler: entered as a context.  cache: contains the frames in numbers.  folder: folder of the target's files.
    bound: largest allowed error in world space, m; exact targets ignore it.
    max_keys: largest allowed number of shape keys of a compressed bake, which takes precedence over the bound; 0 for
    any.
    max_bones, influences, keeps_shares: of a bake to new bones; see fit_bones().
    channels: of a bake to existing bones; see fit_chain().
    arc_frames, edges: numbers of frames near blends along arcs, and the edges (e, 2), which a bake to new bones keeps;
    () and None without such a blend.
    cycle_end: frame at which a loop repeats its first frame, the last frame or the one after it; None without a loop.
    """

    sampler: Sampler
    cache: WorldShapes
    numbers: list[int]
    folder: Path
    bound: float
    max_keys: int = 0
    cycle_end: int | None = None
    max_bones: int = 16
    influences: int = 8
    keeps_shares: bool = True
    channels: ChainChannels = ChainChannels.ROTATION
    arc_frames: tuple[int, ...] = ()
    edges: Index | None = None

    @property
    def key_numbers(self) -> list[int]:
        """Frames at which a bake has keys: numbers, and the frame after them where a loop starts again."""
        is_open = self.cycle_end is not None and self.cycle_end > self.numbers[-1]
        return [*self.numbers, self.numbers[-1] + 1] if is_open else self.numbers

    @property
    def vertices(self) -> int:
        """Number of simulated vertices, including those created by modifiers."""
        return len(self.cache.read_shape(self.numbers[0], self.sampler.obj.name))


class Storage(enum.Enum):
    """Place of a bake. An object has at most one bake in each, which clear() of any of its targets removes."""

    KEYS = "shape keys"
    FILE = "a file in the cache folder"
    BONES = "bones of the rig"


class KeptBake(abc.ABC):
    """Bake of an object in one storage, as it was before a new one."""

    @abc.abstractmethod
    def restore(self) -> None:
        """Replace the unfinished bake by the kept one; remove it if there was none before."""

    @abc.abstractmethod
    def discard(self) -> None:
        """Free the kept bake."""


def read_settings_of(owner: Any, names: Iterable[str]) -> list[tuple[str, Any]]:
    """Return the values of those properties that an owner has, by name; vectors as tuples."""
    found = [(name, getattr(owner, name)) for name in names if hasattr(owner, name)]
    return [(name, value if isinstance(value, (int, float, str, set)) else tuple(value)) for name, value in found]


def apply_settings(owner: Any, settings: Iterable[tuple[str, Any]]) -> None:
    """Set properties to the values of read_settings_of(), as far as they differ."""
    for name, value in settings:
        if getattr(owner, name) != value:
            setattr(owner, name, value)


class UnplayableMotionError(SceneError):
    """Motion that the target cannot play, but a file can."""


class OtherTargetError(SceneError):
    """Object that its target cannot hold, but another target can. target: name of the other one."""

    def __init__(self, message: str, target: str) -> None:
        super().__init__(message)
        self.target = target


class LibraryBakeError(SceneError):
    """Library override whose bake in the library stays; a local object has none."""


class ClashingKeysError(SceneError):
    """Chosen bones that the active action of their rig keys."""


class MotionCheck:
    """Check for animation that would make a bake fail after its simulation. It changes no user data.

    Visit all frames of the bake in order, then finish with their numbers. Both raise DampSimError.
    """

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    def visit(self, number: int) -> None:
        """Check the current frame, a number."""

    def finish(self, numbers: Sequence[int]) -> Generator[int]:
        """Check frames with changes to the file, which are undone. Yield the number of frames."""
        yield from ()

    def check_shape(self, number: int, shape: Array) -> bool:
        """Check a simulated shape (v, 3) m in world space at a frame, and return whether frames were evaluated for it.

        Changes to the file are undone.
        """
        return False


class Target(abc.ABC):
    """Bake target. Work proceeds in the order check(), collect(), compress(), write().

    name, label, description, number: identifier, label and tooltip of the enum item.  storage: place of its bakes.
    exact: whether the bake is exact up to rounding, regardless of the bound.
    can_export_to_gltf: whether glTF and FBX can export it.
    modifier_type: of a modifier that plays it, all of whose settings a library override can change; '' otherwise.
    """

    name: ClassVar[str]
    number: ClassVar[int]
    label: ClassVar[str]
    description: ClassVar[str]
    storage: ClassVar[Storage]
    exact: ClassVar[bool] = True
    can_export_to_gltf: ClassVar[bool] = False
    modifier_type: ClassVar[str] = ""

    @abc.abstractmethod
    def check(self, obj: bpy.types.Object) -> None:
        """Raise DampSimError if the object cannot be baked to this target. Changes nothing."""

    def motion_check(self, sampler: Sampler) -> MotionCheck:
        """Return the check of the object's animation before its simulation. sampler: entered as a context."""
        return MotionCheck(sampler)

    def check_folder(self, obj: bpy.types.Object, folder: Path) -> None:
        """Raise DampSimError if the target cannot write its files to a folder. Changes nothing."""
        return

    @abc.abstractmethod
    def cost(self, vertices: int, frames: int) -> Cost:
        """Return the largest possible cost of a bake."""

    @abc.abstractmethod
    def collect(self, shot: Shot) -> Generator[int, None, Any]:
        """Read the frames, yield the number of those read, and return the data. Changes no user data."""

    def compress(self, shot: Shot, collected: Any) -> Generator[None, None, Any]:
        """Compress the collected data within the bound and return the result. Changes no user data."""
        yield
        return collected

    def allowed_error(self, shot: Shot, compressed: Any) -> float:
        """Return the largest error with which the compressed data may play, m; exact targets ignore it."""
        return shot.bound

    def states_any_error(self, obj: bpy.types.Object) -> bool:
        """Return whether a bake of the object is kept with any error, which the panel states."""
        return False

    def animated_data(self, obj: bpy.types.Object) -> tuple[Any, str]:
        """Return the datablock whose NLA tracks play a bake, or None, and its mark; see bake_strips()."""
        return obj.data.shape_keys, ""

    @abc.abstractmethod
    def keep(self, obj: bpy.types.Object, folder: Path) -> KeptBake:
        """Return the object's bake in this storage, to be restored or discarded. folder: of the target's files."""

    @abc.abstractmethod
    def write(self, shot: Shot, compressed: Any) -> Cost:
        """Replace any previous bake in one step and return the cost."""

    def remark(self, shot: Shot, cost: Cost, error: float) -> str:
        """Return a remark on a bake for the panel and the report, or ''. error: m, as measured."""
        return ""

    @abc.abstractmethod
    def clear(self, obj: bpy.types.Object) -> None:
        """Remove the result of write() from the .blend file."""

    def remove_files(self, folder: Path) -> None:
        """Remove the files of collect() and write() from the folder, if there are any. Raises CacheError."""
        return

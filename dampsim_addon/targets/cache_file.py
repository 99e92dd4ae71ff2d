"""Targets that write vertices to a file, which a modifier plays."""

from __future__ import annotations

import abc
import contextlib
import hashlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import bpy
import numpy as np

from ...core.errors import CacheError
from ...core.frames.part import begun
from ..blender.marks import MODIFIER, PREFIX, is_ours
from ..blender.mesh_cache import attach, detach, play
from .motion import NoShapeError, can_precede, places
from .target import VERTEX_BYTES, Cost, Shot, Storage, Target

# Suffix of the file with the checksum of a bake.
_SUM = ".sha256"


@dataclass(frozen=True)
class Recorded:
    """Complete file under its temporary name. part: its path.  checksum: its SHA-256.

    before_modifiers: whether it holds the vertices before the object's modifiers, else after them.
    """

    part: Path
    before: bool
    sum: str


def cost(vertices: int, frames: int) -> Cost:
    """Return the cost of a file with uncompressed single-precision vertices."""
    return Cost(0, VERTEX_BYTES * vertices * frames)


def record(shot: Shot, file: str, header: bytes, kind: str) -> Generator[int, None, Recorded]:
    """Write the header and the vertices of all frames. dtype: numpy dtype of the vertices.

    The vertices are those before the modifiers, so that a rig can still move them. They are those after the modifiers
    if that is impossible, or if modifiers create some of the vertices.
    """
    obj = shot.sampler.obj
    part = shot.folder / f"{file}.part"
    if can_precede(obj) and not shot.sampler.makes:
        try:
            found = yield from _written(shot, part, header, kind, before=True)
            return Recorded(part, True, found)
        except NoShapeError:
            pass
    found = yield from _written(shot, part, header, kind, before=False)
    return Recorded(part, False, found)


def _written(shot: Shot, part: Path, header: bytes, kind: str, before: bool) -> Generator[int, None, str]:
    shapes = places(shot.sampler, shot.cache, shot.numbers, before)
    whole, total = False, hashlib.sha256(header)
    with contextlib.closing(shapes), saying_why(shot, part):
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            with begun(part) as out:
                out.write(header)
                for done, shape in enumerate(shapes, 1):
                    content = np.asarray(shape).astype(kind).tobytes()
                    out.write(content)
                    total.update(content)
                    yield done
            whole = True
        finally:
            if not whole:
                part.unlink(missing_ok=True)
    return total.hexdigest()


@contextlib.contextmanager
def saying_why(shot: Shot, path: Path) -> Generator[None]:
    """Context that converts OSError to a CacheError with a message for the user."""
    try:
        yield
    except OSError as error:
        raise CacheError(
            f"{shot.sampler.obj.name}: {path.name.removesuffix('.part')} cannot be written to {path.parent} "
            f"({error.strerror or error}); choose another folder or free some space."
        ) from error


def store(shot: Shot, recorded: Recorded, file: str, attached: Callable[[str], None]) -> Cost:
    """Move the file to its final path and attach a modifier. attach_modifier: creates it, given the path."""
    path = shot.folder / file
    # No modifier may read the file while it is replaced.
    clear(shot.sampler.obj)
    with saying_why(shot, path):
        recorded.part.replace(path)
        with begun(_sum_file(path)) as file_of_sum:
            file_of_sum.write(recorded.sum.encode())
        size = path.stat().st_size
    relative = shot.sampler.obj.dampsim.cache_folder.startswith("//") and bpy.data.filepath
    attached(bpy.path.relpath(str(path)) if relative else str(path))
    return Cost(0, size)


def clear(obj: bpy.types.Object) -> None:
    """Remove the modifiers and Blender's cache files of a bake."""
    for modifier in [m for m in obj.modifiers if is_ours(m.name)]:
        used = modifier.cache_file if modifier.type == "MESH_SEQUENCE_CACHE" else None
        detach(obj, modifier)
        # An open cache file counts as one user.
        if used is not None and used.name.startswith(PREFIX) and used.users <= 1:
            bpy.data.batch_remove([used])


def forget(folder: Path, file: str) -> None:
    """Remove a file, its temporary file and its checksum. Raises CacheError."""
    for path in (folder / name for name in (file, f"{file}.part", f"{file}{_SUM}")):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CacheError(
                f"{path} cannot be removed ({error.strerror or error}); close programs that use it, or delete it."
            ) from error


def played(obj: bpy.types.Object) -> Path | None:
    """Return the file of the object's bake; None if it is not baked to a file."""
    for modifier in obj.modifiers:
        if modifier.name == MODIFIER:
            file = modifier.cache_file.filepath if modifier.type == "MESH_SEQUENCE_CACHE" else modifier.filepath
            return Path(bpy.path.abspath(file))
    return None


def _sum_file(path: Path) -> Path:
    return path.with_name(path.name + _SUM)


def fault(path: Path) -> str:
    """Return 'gone' or 'damaged' for a missing or damaged file of a bake; '' if it is intact."""
    if not path.is_file():
        return "gone"
    try:
        known = _sum_file(path).read_text(encoding="utf-8")
        with path.open("rb") as file:
            return "" if hashlib.file_digest(file, "sha256").hexdigest() == known else "damaged"
    except (OSError, UnicodeDecodeError):
        return "damaged"


class FileTarget(Target):
    """Target that writes a file to the cache folder. A subclass defines name, label, text, file, collect() and write().

    file: file name, unique among the targets.
    """

    storage: ClassVar[Storage] = Storage.FILE
    file: ClassVar[str]

    @classmethod
    def check(cls, obj: bpy.types.Object) -> None:
        """Accept every mesh."""

    @classmethod
    def cost(cls, vertices: int, frames: int) -> Cost:
        return cost(vertices, frames)

    @classmethod
    def clear(cls, obj: bpy.types.Object) -> None:
        clear(obj)

    @classmethod
    def forget(cls, folder: Path) -> None:
        forget(folder, cls.file)


class MeshCacheTarget(FileTarget):
    """Target whose file a Mesh Cache modifier plays. A subclass defines the names, file, form, floats and header().

    form: cache format of the modifier.  floats: numpy dtype of the vertices in the file.
    """

    form: ClassVar[str]
    floats: ClassVar[str]

    @classmethod
    @abc.abstractmethod
    def header(cls, shot: Shot) -> bytes:
        """Return the bytes before the vertices."""

    @classmethod
    def record(cls, shot: Shot) -> Generator[int, None, Recorded]:
        return record(shot, cls.file, cls.header(shot), cls.floats)

    @classmethod
    def store(cls, shot: Shot, fitted: Recorded) -> Cost:
        def attached(path: str) -> None:
            modifier = attach(shot.sampler.obj, MODIFIER, "MESH_CACHE", fitted.before)
            play(modifier, cls.form, path, float(shot.numbers[0]))

        return store(shot, fitted, cls.file, attached)

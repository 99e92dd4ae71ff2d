"""What the targets have in common that write vertices into a file and let a modifier play it."""

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

# A file beside the bake that tells whether it is whole.
_SUM = ".sha256"


@dataclass(frozen=True)
class Recorded:
    """part: the file, whole, but not in its place yet.  before: of the object's modifiers, else after them.

    sum: SHA-256 of the file.
    """

    part: Path
    before: bool
    sum: str


def cost(vertices: int, frames: int) -> Cost:
    return Cost(0, VERTEX_BYTES * vertices * frames)


def record(shot: Shot, file: str, header: bytes, kind: str) -> Generator[int, None, Recorded]:
    """Write the vertices of all frames behind the header, as floats of a kind.

    They stand before the modifiers, so that a rig moves them on; after them where that can't be, or where modifiers
    make some of the vertices.
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
    """Errors of the disk as a sentence for the artist."""
    try:
        yield
    except OSError as error:
        raise CacheError(
            f"{shot.sampler.obj.name}: {path.name.removesuffix('.part')} cannot be written to {path.parent} "
            f"({error.strerror or error}); choose another folder or free some space."
        ) from error


def store(shot: Shot, recorded: Recorded, file: str, attached: Callable[[str], None]) -> Cost:
    """Put the file in its place and let a modifier play it. attached: makes it, given the file's path."""
    path = shot.folder / file
    # Nothing may read the file while it is exchanged.
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
    for modifier in [m for m in obj.modifiers if is_ours(m.name)]:
        used = modifier.cache_file if modifier.type == "MESH_SEQUENCE_CACHE" else None
        detach(obj, modifier)
        # Blender counts the opening of the file as a user.
        if used is not None and used.name.startswith(PREFIX) and used.users <= 1:
            bpy.data.batch_remove([used])


def forget(folder: Path, file: str) -> None:
    for path in (folder / name for name in (file, f"{file}.part", f"{file}{_SUM}")):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CacheError(
                f"{path} cannot be removed ({error.strerror or error}); close what uses it, or remove it by hand."
            ) from error


def played(obj: bpy.types.Object) -> Path | None:
    """The file that the object's bake is in; None where it is in none."""
    for modifier in obj.modifiers:
        if modifier.name == MODIFIER:
            file = modifier.cache_file.filepath if modifier.type == "MESH_SEQUENCE_CACHE" else modifier.filepath
            return Path(bpy.path.abspath(file))
    return None


def _sum_file(path: Path) -> Path:
    return path.with_name(path.name + _SUM)


def fault(path: Path) -> str:
    """What is wrong with a bake's file: 'gone', 'damaged', or nothing."""
    if not path.is_file():
        return "gone"
    try:
        known = _sum_file(path).read_text(encoding="utf-8")
        with path.open("rb") as file:
            return "" if hashlib.file_digest(file, "sha256").hexdigest() == known else "damaged"
    except (OSError, UnicodeDecodeError):
        return "damaged"


class FileTarget(Target):
    """Of a file beside the cache. What is left to say: name, label, text, file, record() and store().

    file: its name, which no other target's is.
    """

    storage: ClassVar[Storage] = Storage.FILE
    file: ClassVar[str]

    @classmethod
    def check(cls, obj: bpy.types.Object) -> None:
        """A file goes with every mesh."""

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
    """Of a file that a Mesh Cache modifier plays. What is left to say beside the names and file: form, floats and
    header().

    form: as the modifier calls it.  floats: their kind in the file, behind the header.
    """

    form: ClassVar[str]
    floats: ClassVar[str]

    @classmethod
    @abc.abstractmethod
    def header(cls, shot: Shot) -> bytes:
        """What stands before the vertices."""

    @classmethod
    def record(cls, shot: Shot) -> Generator[int, None, Recorded]:
        return record(shot, cls.file, cls.header(shot), cls.floats)

    @classmethod
    def store(cls, shot: Shot, fitted: Recorded) -> Cost:
        def attached(path: str) -> None:
            modifier = attach(shot.sampler.obj, MODIFIER, "MESH_CACHE", fitted.before)
            play(modifier, cls.form, path, float(shot.numbers[0]))

        return store(shot, fitted, cls.file, attached)

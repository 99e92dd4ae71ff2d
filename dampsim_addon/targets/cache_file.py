"""Targets that write vertices to a file, which a modifier plays, and those of PC2 and MDD files."""

from __future__ import annotations

import abc
import contextlib
import hashlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import bpy
import numpy as np

from ...core import CacheError
from ...core.base.untrusted_files import open_new_file, open_regular_file, require_unlinked_folder
from ..blender.archives import is_whole_alembic
from ..blender.dampsim_names import (
    CACHE_MODIFIER,
    PREFIX,
    bake_modifier,
    is_bake_cache_file,
    live_modifiers,
    played_file,
    tag_bake,
)
from ..blender.modifiers import add_cache_modifier, mdd_header, pc2_header, play_file, remove_modifier
from ..blender.sampler import frame_rate
from ..session import SessionState
from ..work.operators import call_operator
from .influence import remove_factor_curve
from .pre_modifier_shapes import NoShapeError, can_edit_before_modifiers, pre_modifier_positions
from .target import (
    VERTEX_BYTES,
    Cost,
    KeptBake,
    LibraryBakeError,
    Shot,
    Storage,
    Target,
    apply_settings,
    read_settings_of,
)

# Suffix of a file that was set aside while a bake replaces it.
_KEPT_SUFFIX = ".kept"
_SETTING_TYPES = {"BOOLEAN", "INT", "FLOAT", "ENUM", "STRING"}
# Suffix of the file with the checksum of a bake.
_CHECKSUM_SUFFIX = ".sha256"
# Name in place of that of a damaged Alembic file. No file has it, so that Blender opens none.
DETACHED_FILE = "bake_damaged.abc"
# Size in bytes up to which an Alembic file is read to its end before Blender opens it: a fraction of a second.
_MAX_CHECKED = 256_000_000


@dataclass(frozen=True)
class RecordedFile:
    """Complete file under its temporary name. part: its path.  checksum: its SHA-256.

    before_modifiers: whether it holds the vertices before the object's modifiers, else after them.
    """

    part: Path
    before_modifiers: bool
    checksum: str


def write_vertices(shot: Shot, file: str, header: bytes, dtype: str) -> Generator[int, None, RecordedFile]:
    """Write the header and the vertices of all frames. dtype: numpy dtype of the vertices.

    The vertices are those before the modifiers, so that a rig can still move them. They are those after the modifiers
    if that is impossible, or if modifiers create some of the vertices.
    """
    part = shot.folder / f"{file}.part"
    if can_edit_before_modifiers(shot.sampler.obj) and not shot.sampler.changes_topology:
        with contextlib.suppress(NoShapeError):
            return (yield from _write_part_file(shot, part, header, dtype, before_modifiers=True))
    return (yield from _write_part_file(shot, part, header, dtype, before_modifiers=False))


def _write_part_file(
    shot: Shot, part: Path, header: bytes, dtype: str, before_modifiers: bool
) -> Generator[int, None, RecordedFile]:
    shapes = pre_modifier_positions(shot.sampler, shot.cache, shot.numbers, before_modifiers)
    require_unlinked_folder(shot.folder, shot.sampler.obj.name)
    is_complete, digest = False, hashlib.sha256(header)
    with contextlib.closing(shapes), os_errors_as_cache_errors(shot.sampler.obj.name, part):
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            with open_new_file(part) as out:
                out.write(header)
                for done, shape in enumerate(shapes, 1):
                    content = np.asarray(shape).astype(dtype).tobytes()
                    out.write(content)
                    digest.update(content)
                    yield done
            is_complete = True
        finally:
            if not is_complete:
                part.unlink(missing_ok=True)
    return RecordedFile(part, before_modifiers, digest.hexdigest())


@contextlib.contextmanager
def os_errors_as_cache_errors(name: str, path: Path) -> Generator[None]:
    """Context that converts OSError to a CacheError with a message for the user. name: of the object."""
    try:
        yield
    except OSError as error:
        raise CacheError(
            f"{name}: {path.name.removesuffix('.part')} cannot be written to {path.parent} "
            f"({error.strerror or error}); choose another folder or free some space."
        ) from error


def add_bake_modifier(obj: bpy.types.Object, modifier_type: str, is_first: bool) -> Any:
    """Add the modifier of a bake and record its name, which is the same for each bake of the object.

    Raises SceneError, see add_cache_modifier().
    """
    modifier = add_cache_modifier(obj, obj.dampsim.cache_modifier or CACHE_MODIFIER, modifier_type, is_first)
    obj.dampsim.cache_modifier = modifier.name
    return modifier


def remove_cache_modifiers(obj: bpy.types.Object) -> None:
    """Remove the modifiers and Blender's cache files of a bake."""
    played = bake_modifier(obj)
    for modifier in ([] if played is None else [played]) + live_modifiers(obj):
        cache_file = modifier.cache_file if modifier.type == "MESH_SEQUENCE_CACHE" else None
        remove_modifier(obj, modifier)
        # An open cache file counts as one user.
        if cache_file is not None and is_bake_cache_file(cache_file) and cache_file.users <= 1:
            bpy.data.batch_remove([cache_file])


def clear_file(obj: bpy.types.Object) -> None:
    """Remove the modifier of a bake, and the user's F-curve of its factor."""
    played = bake_modifier(obj)
    name = obj.dampsim.cache_modifier or (played.name if played is not None else "")
    remove_cache_modifiers(obj)
    if name:
        remove_factor_curve(obj, name)
    obj.dampsim.cache_modifier = ""


def open_cache_file(obj: bpy.types.Object, path: str) -> bpy.types.CacheFile:
    """Return a new datablock of Blender for an Alembic file. Raises CacheError."""
    files_before = set(bpy.data.cache_files)
    text = f"{obj.name}: Blender cannot open the Alembic file {path}"
    call_operator(bpy.ops.cachefile.open, text, "bake to another target", filepath=path)
    file = next(file for file in bpy.data.cache_files if file not in files_before)
    file.name = f"{PREFIX}{obj.name}"
    tag_bake(file)
    return file


def remove_cache_files(folder: Path, file: str) -> None:
    """Remove a file, its temporary file, its checksum, and those that were set aside. Raises CacheError."""
    require_unlinked_folder(folder, file)
    names = [file, f"{file}{_CHECKSUM_SUFFIX}"]
    for path in (folder / name for name in (f"{file}.part", *names, *(f"{name}{_KEPT_SUFFIX}" for name in names))):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CacheError(
                f"{path} cannot be removed ({error.strerror or error}); close programs that use it, or delete it."
            ) from error


def check_library_modifier(obj: bpy.types.Object, modifier_type: str) -> None:
    """Raise LibraryBakeError if a library override would get the modifier of its library's bake back later.

    Blender restores such a modifier when the file is opened.

    modifier_type: of the modifier that plays the new bake and can replace it; see Target.
    """
    # Modifier that plays the bake of the object from which the override is made.
    modifier = bake_modifier(obj.override_library.reference) if obj.override_library is not None else None
    if modifier is not None and modifier.type != modifier_type:
        raise LibraryBakeError(
            f"{obj.name}: it is baked in {Path(modifier.id_data.library.filepath).name} to a modifier, which Blender "
            "cannot remove from a library override; clear the bake there, or make the object local."
        )


def baked_file(obj: bpy.types.Object) -> Path | None:
    """Return the file of the object's bake; None if it is not baked to a file."""
    modifier = bake_modifier(obj)
    if modifier is None:
        return None
    path = Path(bpy.path.abspath(played_file(modifier)))
    return path.with_name(f"bake{path.suffix}") if path.name == DETACHED_FILE else path


def is_detached(obj: bpy.types.Object) -> bool:
    """Return whether the file of an object's bake is not played because it is damaged."""
    modifier = bake_modifier(obj)
    return modifier is not None and Path(played_file(modifier)).name == DETACHED_FILE


class _KnownArchives(SessionState, dict[Path, tuple[object, bool]]):
    """Results of is_playable_archive(), each with the times of change and the sizes of the files that it read."""


def is_playable_archive(path: Path) -> bool:
    """Return whether Blender can open an Alembic file. Only small files are compared with their checksum.

    A file is read again only after it or its checksum has changed.
    """
    try:
        archive, checksum = (_size_and_time(one) if one.is_file() else None for one in (path, _checksum_file(path)))
    except OSError:
        return False
    if archive is None:
        return False
    known, state = _KnownArchives.current(), (archive, checksum)
    if path not in known or known[path][0] != state:
        is_checked = checksum is not None and archive[0] <= _MAX_CHECKED
        known[path] = state, is_whole_alembic(path) and not (is_checked and file_fault(path))
    return known[path][1]


def played_state(obj: bpy.types.Object) -> tuple[int, int] | None:
    """Return the size in bytes and the time of change, ns, of the file of an object's bake; None without one."""
    path = baked_file(obj)
    try:
        return None if path is None else _size_and_time(path)
    except OSError:
        return None


def _size_and_time(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _checksum_file(path: Path) -> Path:
    return path.with_name(path.name + _CHECKSUM_SUFFIX)


def _kept_file(path: Path) -> Path:
    return path.with_name(path.name + _KEPT_SUFFIX)


def file_fault(path: Path) -> str:
    """Return 'gone' or 'damaged' for a missing or damaged file of a bake; '' if it is intact."""
    if not path.is_file():
        return "gone"
    try:
        checksum_file, _ = open_regular_file(_checksum_file(path), follow_link=True)
        with checksum_file:
            # One byte more than a checksum has, whatever the size of the file.
            checksum = checksum_file.read(2 * hashlib.sha256().digest_size + 1)
        file, _ = open_regular_file(path, follow_link=True)
        with file:
            is_intact = checksum == hashlib.file_digest(file, "sha256").hexdigest().encode()
    except (OSError, ValueError):
        return "damaged"
    return "" if is_intact else "damaged"


@dataclass(frozen=True)
class _KeptModifier:
    """Cache modifier of a bake. index: place in the stack.  file: path of the file that it plays."""

    name: str
    type: str
    index: int
    file: str
    settings: list[tuple[str, Any]]

    @staticmethod
    def read(modifier: Any) -> _KeptModifier:
        """Read a modifier. Whether it is the active one is no setting."""
        plain = [p for p in modifier.bl_rna.properties if p.type in _SETTING_TYPES and not p.is_readonly]
        settings = read_settings_of(modifier, (p.identifier for p in plain if p.identifier != "is_active"))
        index = modifier.id_data.modifiers.find(modifier.name)
        return _KeptModifier(modifier.name, modifier.type, index, played_file(modifier), settings)

    def restore(self, obj: bpy.types.Object) -> None:
        """Replace the modifier of this name, if it exists."""
        if self.name in obj.modifiers:
            remove_modifier(obj, obj.modifiers[self.name])
        modifier: Any = obj.modifiers.new(self.name, self.type)
        obj.modifiers.move(len(obj.modifiers) - 1, self.index)
        if self.type == "MESH_SEQUENCE_CACHE":
            path = Path(bpy.path.abspath(self.file))
            name = path.name if is_playable_archive(path) else DETACHED_FILE
            modifier.cache_file = open_cache_file(obj, self.file.removesuffix(path.name) + name)
        apply_settings(modifier, self.settings)


class KeptFile(KeptBake):
    """File of a bake and its modifier. paths: files that the new bake replaces, which FileTarget.write() sets aside."""

    def __init__(self, obj: bpy.types.Object, paths: list[Path]) -> None:
        self._obj, self._paths = obj, paths
        self.discard()
        self._active = obj.modifiers.active.name if obj.modifiers.active else ""
        modifier = bake_modifier(obj)
        self._modifier = _KeptModifier.read(modifier) if modifier is not None else None

    def restore(self) -> None:
        obj = self._obj
        remove_cache_modifiers(obj)
        if self._modifier is None:
            clear_file(obj)
        for path in self._paths:
            if _kept_file(path).exists():
                _kept_file(path).replace(path)
        if self._modifier is not None:
            self._modifier.restore(obj)
        if self._active in obj.modifiers:
            obj.modifiers.active = obj.modifiers[self._active]

    def discard(self) -> None:
        for path in self._paths:
            _kept_file(path).unlink(missing_ok=True)


class FileTarget(Target):
    """Target that writes a file to the cache folder.

    A subclass defines name, number, label, description, file, collect() and attach_modifier().
    file: file name, unique among the targets: bake.SUFFIX or bake_NAME.SUFFIX, by which a modifier of the bake is
    recognised.
    """

    storage = Storage.FILE
    file: ClassVar[str]

    def check(self, obj: bpy.types.Object) -> None:
        """Accept every mesh."""

    def cost(self, vertices: int, frames: int) -> Cost:
        # Uncompressed vertices in single precision.
        return Cost(0, VERTEX_BYTES * vertices * frames)

    def keep(self, obj: bpy.types.Object, folder: Path) -> KeptBake:
        require_unlinked_folder(folder, obj.name)
        path = folder / self.file
        with os_errors_as_cache_errors(obj.name, path):
            return KeptFile(obj, [path, _checksum_file(path)])

    @abc.abstractmethod
    def attach_modifier(self, shot: Shot, before_modifiers: bool, path: str) -> None:
        """Add the modifier that plays a file. before_modifiers: see RecordedFile."""

    def write(self, shot: Shot, compressed: RecordedFile) -> Cost:
        obj, path = shot.sampler.obj, shot.folder / self.file
        require_unlinked_folder(shot.folder, obj.name)
        # No modifier may read the file while it is replaced.
        remove_cache_modifiers(obj)
        with os_errors_as_cache_errors(obj.name, path):
            for earlier in (path, _checksum_file(path)):
                if earlier.exists():
                    earlier.replace(_kept_file(earlier))
            compressed.part.replace(path)
            with open_new_file(_checksum_file(path)) as file_of_sum:
                file_of_sum.write(compressed.checksum.encode())
            size = path.stat().st_size
        relative = obj.dampsim.cache_folder.startswith("//") and bpy.data.filepath
        played = bpy.path.relpath(str(path)) if relative else str(path)
        self.attach_modifier(shot, compressed.before_modifiers, played)
        return Cost(0, size)

    def clear(self, obj: bpy.types.Object) -> None:
        clear_file(obj)

    def remove_files(self, folder: Path) -> None:
        remove_cache_files(folder, self.file)


class MeshCacheTarget(FileTarget):
    """Target whose file a Mesh Cache modifier plays. A subclass defines the names, file, form, floats and header().

    form: cache format of the modifier.  floats: numpy dtype of the vertices in the file.
    """

    modifier_type = "MESH_CACHE"
    form: ClassVar[str]
    floats: ClassVar[str]

    @abc.abstractmethod
    def header(self, shot: Shot) -> bytes:
        """Return the bytes before the vertices."""

    def collect(self, shot: Shot) -> Generator[int, None, RecordedFile]:
        return write_vertices(shot, self.file, self.header(shot), self.floats)

    def attach_modifier(self, shot: Shot, before_modifiers: bool, path: str) -> None:
        modifier = add_bake_modifier(shot.sampler.obj, self.modifier_type, before_modifiers)
        play_file(modifier, self.form, path, float(shot.numbers[0]))


class PointCache(MeshCacheTarget):
    name = "POINT_CACHE"
    number = 3
    label = "PC2 Cache"
    description = "Write a PC2 file, played by a Mesh Cache modifier. Fast; does not change the mesh data"
    file = "bake.pc2"
    form = "PC2"
    floats = "<f4"

    def header(self, shot: Shot) -> bytes:
        return pc2_header(shot.vertices, float(shot.numbers[0]), len(shot.numbers))


class Mdd(MeshCacheTarget):
    name = "MDD"
    number = 4
    label = "MDD Cache"
    description = "Write an MDD file (LightWave and others), played by a Mesh Cache modifier at this frame rate"
    file = "bake.mdd"
    form = "MDD"
    floats = ">f4"

    def header(self, shot: Shot) -> bytes:
        fps = frame_rate(shot.sampler.scene)
        return mdd_header(shot.vertices, [number / fps for number in shot.numbers])

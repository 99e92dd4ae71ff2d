"""Locations and ownership of the caches of simulated frames."""

from __future__ import annotations

import contextlib
import hashlib
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import bpy

from ...core.errors import CacheError
from ...core.frames.cache import FrameCache
from .groups import Group, group_of, marks

# Pattern of the cache names that ensure_own_cache() assigns.
_OWN = re.compile("[0-9a-f]{16}")
_ROOT = __package__.removesuffix(".dampsim_addon.scene")


def default_folder() -> Path:
    """Return the folder of caches for objects without a cache folder of their own."""
    try:
        return Path(bpy.utils.extension_path_user(_ROOT, path="cache"))
    except ValueError:
        # Loaded from a checkout, not installed as an extension.
        return Path(bpy.utils.user_resource("DATAFILES", path="dampsim"))


def _base(obj: bpy.types.Object) -> Path:
    group = obj.dampsim
    base = Path(bpy.path.abspath(group.cache_folder)) if group.cache_folder else default_folder()
    return base.absolute()


def cache_folder(obj: bpy.types.Object) -> Path:
    """Return the folder of the simulated frames of an object or its group."""
    group = group_of(obj)
    if group.alone:
        return target_folder(obj)
    return _base(group.members[0]) / _folder(obj.dampsim.together)


def target_folder(obj: bpy.types.Object) -> Path:
    """Return the folder of the files of an object's bake."""
    return _base(obj) / _folder(obj.dampsim.cache_id)


def is_own_name(name: str) -> bool:
    """Return whether a folder name may be that of a DampSim cache."""
    return bool(_OWN.fullmatch(name))


def _folder(name: str) -> str:
    """Return a safe folder name for a name stored in a .blend, which is untrusted: names of other forms are hashed."""
    return name if is_own_name(name) else hashlib.sha256(_bytes(name)).hexdigest()[:16]


def _bytes(text: str) -> bytes:
    """Encode a path, which may contain surrogates."""
    return text.encode("utf-8", "surrogatepass")


# Path under which the current file will be saved, where it differs from the current path.
_saved_as: list[str] = []


@contextlib.contextmanager
def saved_as(path: str) -> Iterator[None]:
    """Use the caches of the path under which the current file will be saved."""
    _saved_as.append(str(Path(path).resolve()))
    try:
        yield
    finally:
        _saved_as.pop()


def file_name() -> str:
    """Return the path of the .blend file that owns the caches; '' where it was never saved."""
    return _saved_as[-1] if _saved_as else bpy.data.filepath


def frame_cache(obj: bpy.types.Object) -> FrameCache:
    """Return the cache of an object and those simulated together with it."""
    group = group_of(obj)
    return FrameCache(cache_folder(obj), group.name, file_name(), marks(group))


def own_cache(group: Group) -> Iterator[tuple[int, int]]:
    """Assign a cache of its own to a group; yields (done, total) numbers of copied frames.

    A duplicated object still refers to the cache of the original, which keeps it. A file saved under another name
    refers to the cache of the first file, and its frames are copied. The cache name is a hash of the names of file and
    object, so that a bake killed before the file was saved is found again. It never changes afterwards.
    """
    first = group.members[0]
    source = frame_cache(first) if _has_frames(first) and not is_owner(first) else None
    for obj in group.members:
        _own_name(obj, source if group.alone else None)
    if source is not None and not group.alone:
        mark = uuid.uuid4().hex[:16]
        for obj in group.members:
            obj.dampsim.together = mark
    # An existing cache is left by a killed bake. Frames of another version are not copied: they cannot be read.
    if source is not None and source.folder != cache_folder(first) and frame_cache(first).header() is None:
        header = source.header()
        if header is not None and not header.foreign:
            yield from frame_cache(first).copy_from(source)


def _has_frames(obj: bpy.types.Object) -> bool:
    """Return whether the cache name belongs to the object or its group, so that frames may exist."""
    group = obj.dampsim
    return bool(group.together or (group.cache_id and group.cache_id not in others(obj)))


def _own_name(obj: bpy.types.Object, source: FrameCache | None) -> None:
    """Assign an unused cache name to an object. source: cache of another file, whose frames will be copied."""
    group, taken = obj.dampsim, others(obj)
    name = "" if source is not None else group.cache_id
    if not name and file_name():
        name = hashlib.sha256(_bytes(f"{file_name()}\n{obj.name}")).hexdigest()[:16]
    if not name or name in taken or (source and source.folder.name == name):
        name = uuid.uuid4().hex[:16]
    group.cache_id = name


def others(obj: bpy.types.Object) -> set[str]:
    """Return the cache names of all other objects in the file."""
    return {other.dampsim.cache_id for other in bpy.data.objects if other != obj}


def is_owner(obj: bpy.types.Object) -> bool:
    """Return whether this file owns the object's cache; it does not while the file that made it still exists."""
    if not (obj.dampsim.cache_id or obj.dampsim.together):
        return False
    try:
        header = frame_cache(obj).header()
    except CacheError:
        # A damaged cache will be created anew.
        return True
    there = header.owner if header else ""
    try:
        if not there or not Path(there).exists():
            return True
        # Symbolic links give a file more than one name.
        return bool(file_name()) and Path(there).resolve() == Path(file_name()).resolve()
    except (OSError, ValueError):
        # The owner may exist where it cannot be read.
        return False


def frames_done(obj: bpy.types.Object) -> int:
    """Return the number of frames in the cache; 0 where it cannot be read."""
    try:
        return len(frame_cache(obj).numbers()) if obj.dampsim.cache_id or obj.dampsim.together else 0
    except CacheError:
        return 0

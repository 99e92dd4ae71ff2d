"""Where an object's simulated frames are, and whose they are."""

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

# A cache's name as own_cache() gives it.
_OWN = re.compile("[0-9a-f]{16}")
_ROOT = __package__.removesuffix(".dampsim_addon.scene")


def default_folder() -> Path:
    """Where caches go unless the artist says otherwise."""
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
    """Of the simulated frames: the object's own, or its group's."""
    group = group_of(obj)
    if group.alone:
        return target_folder(obj)
    return _base(group.members[0]) / _folder(obj.dampsim.together)


def target_folder(obj: bpy.types.Object) -> Path:
    """Of the files that its bake is in."""
    return _base(obj) / _folder(obj.dampsim.cache_id)


def is_own_name(name: str) -> bool:
    """Whether a folder may be one of our caches."""
    return bool(_OWN.fullmatch(name))


def _folder(name: str) -> str:
    """A folder's name for what a .blend says; that may come from anywhere, and only our own names are taken as such."""
    return name if is_own_name(name) else hashlib.sha256(_bytes(name)).hexdigest()[:16]


def _bytes(text: str) -> bytes:
    """Of a path, which need not be text."""
    return text.encode("utf-8", "surrogatepass")


# The name under which the file at hand will be saved, where that is another one than it has.
_saved_as: list[str] = []


@contextlib.contextmanager
def saved_as(path: str) -> Iterator[None]:
    """Within, caches are those of the file that the one at hand will be saved as."""
    _saved_as.append(str(Path(path).resolve()))
    try:
        yield
    finally:
        _saved_as.pop()


def file_name() -> str:
    """Of the file whose caches are at hand; '' where it has none yet."""
    return _saved_as[-1] if _saved_as else bpy.data.filepath


def frame_cache(obj: bpy.types.Object) -> FrameCache:
    """Of an object and those that are simulated with it."""
    group = group_of(obj)
    return FrameCache(cache_folder(obj), group.name, file_name(), marks(group))


def own_cache(group: Group) -> Iterator[tuple[int, int]]:
    """Give a group a cache of its own; yields how many (done, total) frames were copied into it.

    A duplicate has still got the original's, which stays the original's. So has a file that was saved under another
    name, but its frames are the same ones and are copied. The name comes from the file and the object, so that a bake
    killed before the file was saved is found again; from then on it stays with the object, whatever that or the file
    is called.
    """
    first = group.members[0]
    source = frame_cache(first) if _has_frames(first) and not is_owner(first) else None
    for obj in group.members:
        _own_name(obj, source if group.alone else None)
    if source is not None and not group.alone:
        mark = uuid.uuid4().hex[:16]
        for obj in group.members:
            obj.dampsim.together = mark
    # One that is there is of a bake that was killed. Frames of another DampSim stay where they are: none can be read.
    if source is not None and source.folder != cache_folder(first) and frame_cache(first).header() is None:
        header = source.header()
        if header is not None and not header.foreign:
            yield from frame_cache(first).copy_from(source)


def _has_frames(obj: bpy.types.Object) -> bool:
    """Whether the name of its cache is its own, so that frames may be there."""
    group = obj.dampsim
    return bool(group.together or (group.cache_id and group.cache_id not in others(obj)))


def _own_name(obj: bpy.types.Object, source: FrameCache | None) -> None:
    """Give an object a folder that no other one has. source: of frames that are another file's."""
    group, taken = obj.dampsim, others(obj)
    name = "" if source is not None else group.cache_id
    if not name and file_name():
        name = hashlib.sha256(_bytes(f"{file_name()}\n{obj.name}")).hexdigest()[:16]
    if not name or name in taken or (source and source.folder.name == name):
        name = uuid.uuid4().hex[:16]
    group.cache_id = name


def others(obj: bpy.types.Object) -> set[str]:
    """The caches of all other objects in the file."""
    return {other.dampsim.cache_id for other in bpy.data.objects if other != obj}


def is_owner(obj: bpy.types.Object) -> bool:
    """Whether the object's cache is this file's: not where the file that made it is still there under its old name."""
    if not (obj.dampsim.cache_id or obj.dampsim.together):
        return False
    try:
        header = frame_cache(obj).header()
    except CacheError:
        # It is damaged, and will be made anew.
        return True
    there = header.owner if header else ""
    try:
        if not there or not Path(there).exists():
            return True
        # Links give a file more than one name.
        return bool(file_name()) and Path(there).resolve() == Path(file_name()).resolve()
    except (OSError, ValueError):
        # Where nobody may look, it may well be.
        return False


def frames_done(obj: bpy.types.Object) -> int:
    """How many frames the cache holds; none where it cannot be read."""
    try:
        return len(frame_cache(obj).numbers()) if obj.dampsim.cache_id or obj.dampsim.together else 0
    except CacheError:
        return 0

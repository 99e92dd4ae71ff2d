"""Locations and ownership of the caches of simulated frames."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import bpy

from ...core import CacheError, FrameCache
from ...core.base.untrusted_files import is_link
from ...core.frames.header import Header
from .groups import Group, cache_ids, group_of

# Pattern of the cache names that ensure_own_cache() assigns.
_CACHE_NAME = re.compile("[0-9a-f]{16}")
# Name of the folder of caches beside a .blend file.
DEFAULT_FOLDER_NAME = "dampsim_cache"
_ADDON_PACKAGE = __package__.removesuffix(".dampsim_addon.model")


def private_cache_folder() -> Path:
    """Return DampSim's folder in the user files: for caches of earlier versions, and of files in read-only folders."""
    try:
        return Path(bpy.utils.extension_path_user(_ADDON_PACKAGE, path="cache"))
    except ValueError:
        # Loaded from a checkout, not installed as an extension.
        return Path(bpy.utils.user_resource("DATAFILES", path="dampsim"))


def unsaved_cache_folder() -> Path:
    """Return the folder of caches of a file that was never saved: within Blender's temporary folder."""
    return Path(bpy.app.tempdir) / DEFAULT_FOLDER_NAME


def _named_folder(chosen: str, name: str) -> Path:
    """Return the folder with a cache name in a chosen cache folder.

    An object without one has its caches in the temporary folder until the file is saved, or in DampSim's own folder.
    """
    if chosen:
        return Path(bpy.path.abspath(chosen)).absolute() / name
    unsaved, private = unsaved_cache_folder() / name, private_cache_folder() / name
    is_unsaved = not blend_path() and not is_folder(private)
    return unsaved if is_unsaved or is_folder(unsaved) else private


def is_folder(path: Path) -> bool:
    """Return whether a path leads to a folder that can be read."""
    try:
        return path.is_dir()
    except OSError:
        return False


def cache_folder(obj: bpy.types.Object) -> Path:
    """Return the folder of the simulated frames of an object or its group."""
    group = group_of(obj)
    if group.is_single:
        return target_folder(obj)
    return _named_folder(group.members[0].dampsim.cache_folder, _safe_folder_name(obj.dampsim.together))


def target_folder(obj: bpy.types.Object) -> Path:
    """Return the folder of the files of an object's bake."""
    return _named_folder(obj.dampsim.cache_folder, _safe_folder_name(obj.dampsim.cache_id))


def group_folders(group: Group) -> list[Path]:
    """Return the folders of the simulated frames and of the files of the bakes of a group."""
    return list(dict.fromkeys([cache_folder(group.members[0]), *(target_folder(obj) for obj in group.members)]))


def writable_default_folder(blend: str) -> Path | None:
    """Create the folder of caches beside a .blend file. Return None if it is a link, or not writable."""
    folder = Path(blend).absolute().parent / DEFAULT_FOLDER_NAME
    try:
        folder.mkdir(exist_ok=True)
        if is_link(folder):
            return None
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


def _expected_default_folder(blend: str) -> Path | None:
    """Return what writable_default_folder() will return, as far as this is known without writing."""
    folder = Path(blend).absolute().parent / DEFAULT_FOLDER_NAME
    try:
        if is_link(folder):
            return None
        there = folder if folder.exists() else folder.parent
        return folder if there.is_dir() and os.access(there, os.W_OK) else None
    except OSError:
        return None


def remove_empty_default_folder(folder: Path) -> None:
    """Remove a folder of caches beside a .blend file, if it is empty."""
    if folder.name == DEFAULT_FOLDER_NAME:
        with contextlib.suppress(OSError):
            folder.rmdir()


def relative_path(path: str, start: str) -> str:
    """Return a path in Blender's notation, relative to a folder.

    It stays absolute if the file is unsaved, or on another drive of Windows.
    """
    try:
        return bpy.path.relpath(path, start=start) if bpy.data.filepath else path
    except ValueError:
        return path


def folder_message(obj: bpy.types.Object) -> str:
    """Return a sentence if the frames of an object cannot lie beside its .blend file; otherwise ''."""
    if obj.dampsim.cache_folder or not blend_path() or writable_default_folder(blend_path()) is not None:
        return ""
    return (
        f"its frames are in {private_cache_folder()}, because {Path(blend_path()).absolute().parent} is read-only or "
        f"{DEFAULT_FOLDER_NAME} in it is a link; choose a Cache folder under Advanced to move with the file"
    )


def is_cache_name(name: str) -> bool:
    """Return whether a folder name may be that of a DampSim cache."""
    return bool(_CACHE_NAME.fullmatch(name))


def _safe_folder_name(name: str) -> str:
    """Return a safe folder name for a name stored in a .blend, which is untrusted: names of other forms are hashed."""
    return name if is_cache_name(name) else hashlib.sha256(_encode_path(name)).hexdigest()[:16]


def _encode_path(text: str) -> bytes:
    """Encode a path, which may contain surrogates."""
    return text.encode("utf-8", "surrogatepass")


# Path under which the current file will be saved, where it differs from the current path.
_blend_path_overrides: list[str] = []


@contextlib.contextmanager
def override_blend_path(path: str) -> Iterator[None]:
    """Use the caches of the path under which the current file will be saved."""
    _blend_path_overrides.append(str(Path(path).resolve()))
    try:
        yield
    finally:
        _blend_path_overrides.pop()


def blend_path() -> str:
    """Return the path of the .blend file that owns the caches; '' where it was never saved."""
    return _blend_path_overrides[-1] if _blend_path_overrides else bpy.data.filepath


def frame_cache(obj: bpy.types.Object) -> FrameCache:
    """Return the cache of an object and those simulated together with it."""
    group = group_of(obj)
    return FrameCache(cache_folder(obj), group.name, blend_path(), cache_ids(group))


@dataclass(frozen=True)
class _CachePlan:
    """Cache that the next bake of a group will use.

    names, parents: cache name and chosen cache folder of each member.  group_id: name of the group's cache.
    source: cache of another file, or of the original of a duplicate, from which this one is copied if it has no frames;
    None to copy none.
    """

    group: Group
    names: Mapping[bpy.types.Object, str]
    parents: Mapping[bpy.types.Object, str]
    group_id: str
    source: FrameCache | None

    @property
    def folder(self) -> Path:
        """Return the folder of the simulated frames."""
        first = self.group.members[0]
        name = self.names[first] if self.group.is_single else self.group_id
        return _named_folder(self.parents[first], _safe_folder_name(name))

    @property
    def folders(self) -> list[Path]:
        """Return the folders of the simulated frames and of the files of the bakes."""
        files = (_named_folder(self.parents[obj], _safe_folder_name(name)) for obj, name in self.names.items())
        return [self.folder, *files]

    def cache(self) -> FrameCache:
        """Return the cache, which may not exist."""
        return FrameCache(self.folder, self.group.name, blend_path(), cache_ids(self.group))

    def copied_cache(self) -> FrameCache | None:
        """Return the cache to copy from. None if there is none, or this cache has frames, which a killed bake left."""
        source = self.source
        if source is None or source.folder == self.folder or _readable_header(self.cache()) is not None:
            return None
        header = _readable_header(source)
        # Frames of another version are not copied: they cannot be read.
        return None if header is None or header.incompatibility else source


def _readable_header(cache: FrameCache) -> Header | None:
    """Return the header of a cache; None for a damaged one, which will be created anew."""
    try:
        return cache.header()
    except CacheError:
        return None


def ensure_own_cache(group: Group, *, needs_frames: bool = True) -> Iterator[tuple[int, int]]:
    """Assign a cache of its own to a group; yields (done, total) numbers of copied frames.

    needs_frames: False if all frames will be simulated again, so that none is copied.

    A file saved under another name refers to the cache of the first file, and a duplicated object to that of its
    original. Its frames are copied. The cache name is a hash of the names of file and object, or group, so that a bake
    killed before the file was saved is found again. It changes only if frames are copied.
    """
    plan = _plan_cache(group)
    for obj in group.members:
        settings = obj.dampsim
        settings.cache_id, settings.cache_folder = plan.names[obj], plan.parents[obj]
        if not group.is_single:
            settings.together = plan.group_id
    copied = plan.copied_cache() if needs_frames else None
    if copied is not None:
        yield from plan.cache().copy_from(copied)


def upcoming_cache(group: Group) -> FrameCache:
    """Return the cache with the frames that the next bake of a group finds, without assigning or creating one."""
    plan = _plan_cache(group, _expected_default_folder)
    return plan.copied_cache() or plan.cache()


def found_cache(obj: bpy.types.Object) -> FrameCache | None:
    """Return the cache of an object's frames, which may be that of a bake that was not saved with the file.

    Return None if no folder can have frames. This is known without reading all objects of the file.
    """
    group = group_of(obj)
    own = frame_cache(obj)
    has_name = bool(obj.dampsim.cache_id or obj.dampsim.together)
    if has_name and is_folder(own.folder):
        return own
    return upcoming_cache(group) if any(map(is_folder, _unsaved_folders(group))) else None


def _unsaved_folders(group: Group) -> list[Path]:
    """Return all folders with names of their own in which a bake of a group that was not saved may have left frames.

    New names, which _plan_cache() gives instead of those that are taken, have no folder yet.
    """
    first = group.members[0]
    stored, own = str(first.dampsim.cache_id), str(first.name)
    if not group.is_single:
        stored = own = str(first.dampsim.together)
    names = [_safe_folder_name(name) for name in (stored, _hashed_name(own)) if name]
    parents = [str(first.dampsim.cache_folder)]
    if blend_path():
        parents.append(str(Path(blend_path()).absolute().parent / DEFAULT_FOLDER_NAME))
    return [_named_folder(parent, name) for parent in parents for name in names]


def unsaved_bake_folders(obj: bpy.types.Object) -> list[Path]:
    """Return the folder of the frames of a bake that was not saved with the file, and those of the files of its bake.

    Return [] without such a bake.
    """
    plan = _plan_cache(group_of(obj), _expected_default_folder)
    header = None if plan.source is not None or not blend_path() else _readable_header(plan.cache())
    # The name of the folder is that of this file and object, but another file may have taken its frames over.
    return plan.folders if header is not None and header.owner and _is_this_file(header.owner) else []


def _is_this_file(path: str) -> bool:
    """Return whether the path of a .blend file, which may be any text, leads to the opened one."""
    try:
        # Symbolic links give a file more than one name.
        return bool(blend_path()) and Path(path).resolve() == Path(blend_path()).resolve()
    except (OSError, ValueError):
        return False


def _plan_cache(group: Group, find_default: Callable[[str], Path | None] = writable_default_folder) -> _CachePlan:
    """Return the cache that the next bake of a group will use. Changes nothing in the file.

    find_default: returns the folder of caches beside a .blend file, or None if it cannot be used.
    """
    source, together = _cache_to_copy(group), str(group.members[0].dampsim.together)
    names = {obj: str(obj.dampsim.cache_id) for obj in bpy.data.objects}
    for obj in group.members:
        previous = names.pop(obj)
        # The files of the bakes belong to the other file or object, too.
        name = previous if previous and source is None else _hashed_name(obj.name)
        if not name or name in names.values() or (source is not None and name == previous):
            name = uuid.uuid4().hex[:16]
        names[obj] = name
    if source is not None and not group.is_single:
        taken = {"", *(str(obj.dampsim.together) for obj in bpy.data.objects)}
        together = _hashed_name(together)
        if together in taken:
            together = uuid.uuid4().hex[:16]
    kept = {obj: str(obj.dampsim.cache_folder) for obj in group.members}
    plan = _CachePlan(group, {obj: names[obj] for obj in group.members}, kept, together, source)
    return replace(plan, parents=_default_folders(plan, find_default))


def _default_folders(plan: _CachePlan, find_default: Callable[[str], Path | None]) -> Mapping[bpy.types.Object, str]:
    """Return the cache folders of the members: beside the .blend file, unless the user has chosen others.

    Caches of earlier versions stay where they are.
    """
    chosen = plan.parents
    is_of_other_file = plan.source is not None and not is_cache_owner(plan.group.members[0])
    if not blend_path() or (not is_of_other_file and any(map(is_folder, plan.folders))):
        return chosen
    replaced = [
        obj for obj, one in chosen.items()
        if not one or (is_of_other_file and Path(bpy.path.abspath(one)).name == DEFAULT_FOLDER_NAME)
    ]  # fmt: skip
    folder = find_default(blend_path()) if replaced else None
    place = relative_path(str(folder), str(Path(bpy.data.filepath).parent)) if folder else ""
    return {**chosen, **dict.fromkeys(replaced, place)}


def _hashed_name(name: str) -> str:
    """Return the cache name of an object or a group of this file; '' for a file that was never saved."""
    # A file opened through a link is the same file.
    path = str(Path(blend_path()).resolve()) if blend_path() else ""
    return hashlib.sha256(_encode_path(f"{path}\n{name}")).hexdigest()[:16] if path else ""


def _cache_to_copy(group: Group) -> FrameCache | None:
    """Return the cache of a group if it belongs to another file, or if other objects refer to it; otherwise None."""
    first = group.members[0]
    together, name = str(first.dampsim.together), str(first.dampsim.cache_id)
    if not (together or name):
        return None
    if group.is_single:
        is_shared = bool(name) and name in other_cache_ids(first)
    else:
        # A copied scene has a group of the same name.
        others = (obj for obj in bpy.data.objects if obj.library is None and obj not in group.members)
        is_shared = any(obj.dampsim.together == together for obj in others)
    return frame_cache(first) if is_shared or not is_cache_owner(first) else None


def other_cache_ids(obj: bpy.types.Object) -> set[str]:
    """Return the cache names of all other objects in the file."""
    return {other.dampsim.cache_id for other in bpy.data.objects if other != obj}


def is_cache_owner(obj: bpy.types.Object) -> bool:
    """Return whether this file owns the object's cache; it does not while the file that made it still exists."""
    if not (obj.dampsim.cache_id or obj.dampsim.together):
        return False
    try:
        header = frame_cache(obj).header()
    except CacheError:
        # A damaged cache will be created anew.
        return True
    owner_path = header.owner if header else ""
    try:
        if not owner_path or not Path(owner_path).exists():
            return True
    except (OSError, ValueError):
        # The owner may exist where it cannot be read.
        return False
    return _is_this_file(owner_path)


def cached_frame_count(obj: bpy.types.Object) -> int:
    """Return the number of frames in the cache, see found_cache(); 0 where it cannot be read."""
    cache = found_cache(obj)
    try:
        return 0 if cache is None else len(cache.frame_numbers())
    except CacheError:
        return 0

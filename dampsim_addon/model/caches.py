"""Locations and ownership of the caches of simulated frames."""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import bpy

from ...core import CacheError, FrameCache
from ...core.base.untrusted_files import is_link
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


def _named_folder(obj: bpy.types.Object, name: str) -> Path:
    """Return the folder with a cache name in the object's cache folder.

    An object without one has its caches in the temporary folder until the file is saved, or in DampSim's own folder.
    """
    folder = obj.dampsim.cache_folder
    if folder:
        return Path(bpy.path.abspath(folder)).absolute() / name
    unsaved, private = unsaved_cache_folder() / name, private_cache_folder() / name
    is_unsaved = not blend_path() and not _is_folder(private)
    return unsaved if is_unsaved or _is_folder(unsaved) else private


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def cache_folder(obj: bpy.types.Object) -> Path:
    """Return the folder of the simulated frames of an object or its group."""
    group = group_of(obj)
    if group.is_single:
        return target_folder(obj)
    return _named_folder(group.members[0], _safe_folder_name(obj.dampsim.together))


def target_folder(obj: bpy.types.Object) -> Path:
    """Return the folder of the files of an object's bake."""
    return _named_folder(obj, _safe_folder_name(obj.dampsim.cache_id))


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


def remove_empty_default_folder(folder: Path) -> None:
    """Remove a folder of caches beside a .blend file, if it is empty."""
    if folder.name == DEFAULT_FOLDER_NAME:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _choose_cache_folder(group: Group, is_copy: bool) -> None:
    """Let the caches of a group lie beside the .blend file, unless the user has chosen a folder.

    Caches of earlier versions stay where they are.  is_copy: whether the frames come from another file.
    """
    if not blend_path() or (not is_copy and any(_is_folder(folder) for folder in group_folders(group))):
        return
    chosen = [obj.dampsim.cache_folder for obj in group.members]
    is_default = [not one or (is_copy and Path(bpy.path.abspath(one)).name == DEFAULT_FOLDER_NAME) for one in chosen]
    folder = writable_default_folder(blend_path()) if any(is_default) else None
    for obj in (obj for obj, replace in zip(group.members, is_default, strict=True) if replace):
        obj.dampsim.cache_folder = relative_path(str(folder), str(Path(bpy.data.filepath).parent)) if folder else ""


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


def ensure_own_cache(group: Group) -> Iterator[tuple[int, int]]:
    """Assign a cache of its own to a group; yields (done, total) numbers of copied frames.

    A duplicated object still refers to the cache of the original, which keeps it. A file saved under another name
    refers to the cache of the first file, and its frames are copied. The cache name is a hash of the names of file and
    object, so that a bake killed before the file was saved is found again. It never changes afterwards.
    """
    first, source = group.members[0], _cache_to_copy(group)
    for obj in group.members:
        _assign_cache_id(obj, source if group.is_single else None)
    if source is not None and not group.is_single:
        group_id = uuid.uuid4().hex[:16]
        for obj in group.members:
            obj.dampsim.together = group_id
    _choose_cache_folder(group, source is not None)
    # An existing cache is left by a killed bake. Frames of another version are not copied: they cannot be read.
    if source is not None and source.folder != cache_folder(first) and frame_cache(first).header() is None:
        header = source.header()
        if header is not None and not header.incompatibility:
            yield from frame_cache(first).copy_from(source)


def upcoming_cache(group: Group) -> FrameCache:
    """Return the cache with the frames that the next bake of a group finds, without assigning one."""
    first, source = group.members[0], _cache_to_copy(group)
    if source is not None or not group.is_single:
        return source or frame_cache(first)
    name = _free_cache_id(first)
    folder = _named_folder(first, _safe_folder_name(name))
    beside = Path(blend_path()).absolute().parent / DEFAULT_FOLDER_NAME / folder.name
    if name and not first.dampsim.cache_folder and blend_path() and _is_folder(beside):
        folder = beside
    return FrameCache(folder, group.name, blend_path(), cache_ids(group))


def _cache_to_copy(group: Group) -> FrameCache | None:
    """Return the cache of another file, if its frames will be copied by the next bake of a group."""
    first = group.members[0]
    settings = first.dampsim
    # Otherwise the cache name belongs to another object.
    can_have_frames = settings.together or (settings.cache_id and settings.cache_id not in other_cache_ids(first))
    return frame_cache(first) if can_have_frames and not is_cache_owner(first) else None


def _assign_cache_id(obj: bpy.types.Object, source: FrameCache | None) -> None:
    """Assign an unused cache name to an object. source: cache of another file, whose frames will be copied."""
    name = _free_cache_id(obj, is_copy=source is not None)
    if not name or (source and source.folder.name == name):
        name = uuid.uuid4().hex[:16]
    obj.dampsim.cache_id = name


def _free_cache_id(obj: bpy.types.Object, *, is_copy: bool = False) -> str:
    """Return the own cache name of an object, or else that of its file and name; '' if other objects use it."""
    name = "" if is_copy else str(obj.dampsim.cache_id)
    if not name and blend_path():
        name = hashlib.sha256(_encode_path(f"{blend_path()}\n{obj.name}")).hexdigest()[:16]
    return "" if name in other_cache_ids(obj) else name


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
        # Symbolic links give a file more than one name.
        return bool(blend_path()) and Path(owner_path).resolve() == Path(blend_path()).resolve()
    except (OSError, ValueError):
        # The owner may exist where it cannot be read.
        return False


def cached_frame_count(obj: bpy.types.Object) -> int:
    """Return the number of frames in the cache; 0 where it cannot be read."""
    try:
        return len(frame_cache(obj).frame_numbers()) if obj.dampsim.cache_id or obj.dampsim.together else 0
    except CacheError:
        return 0

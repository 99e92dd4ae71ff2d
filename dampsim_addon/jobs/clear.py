"""Removal and replacement of bakes, and removal of caches in DampSim's default folder whose file no longer exists."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bpy

from ...core import CacheError, FrameCache
from .. import live, targets
from ..model.cache_status import locked_cache, refresh_status
from ..model.caches import (
    frame_cache,
    is_cache_name,
    is_cache_owner,
    is_folder,
    other_cache_ids,
    private_cache_folder,
    remove_empty_default_folder,
    target_folder,
    unsaved_bake_folders,
)
from ..model.groups import group_of
from ..model.objects import all_simulated, check_editable
from ..session import SessionState, Subscriber
from ..targets import TARGETS, Storage, Target
from ..targets.cache_file import FileTarget, baked_file, check_library_modifier
from ..targets.influence import read_influence, write_influence
from ..targets.keys import check_shared_mesh, remove_joined_keys
from ..targets.retiming import set_time_scale, time_scale
from . import curve_bake
from .landing import has_kept_seconds

# Age, s, from which a cache of a file that was never saved counts as unused. A younger one may belong to a running
# Blender.
_UNSAVED_EXPIRY = 24 * 3600.0


def clear_bake(obj: bpy.types.Object) -> None:
    """Restore the object to its state before the bake, and remove the cache if this object owns it.

    The frames of a group stay as long as another member is baked. Raises CacheError if the cache cannot be removed, and
    SceneError for a linked object.
    """
    check_editable(obj)
    check_shared_mesh(obj)
    check_library_modifier(obj, "")
    live.drop_session(obj)
    # An unbaked duplicate still refers to the original's cache, and so does a file saved under another name.
    owns_cache = obj.dampsim.cache_id and obj.dampsim.cache_id not in other_cache_ids(obj) and is_cache_owner(obj)
    is_cache_needed = any(other.dampsim.baked for other in group_of(obj).members if other != obj)
    folder = target_folder(obj)
    if owns_cache and (frame_cache(obj).folder.exists() or folder.exists()):
        with locked_cache(obj) as cache:
            _clear_scene(obj)
            for kind in TARGETS:
                kind().remove_files(folder)
            if folder != cache.folder:
                # Frames from before the object joined its group.
                FrameCache(folder, obj.name).clear()
            if not is_cache_needed:
                cache.clear()
        remove_empty_default_folder(folder.parent)
    elif not is_cache_needed:
        _clear_unsaved_bake(obj)
    _clear_scene(obj)
    refresh_status(obj)


def _clear_unsaved_bake(obj: bpy.types.Object) -> None:
    """Remove the frames and files of a bake that was not saved with the file, which the next bake would find."""
    folders = unsaved_bake_folders(obj)
    if not folders:
        return
    with FrameCache(folders[0], obj.name).write_lock():
        for folder in folders:
            for kind in TARGETS:
                kind().remove_files(folder)
            FrameCache(folder, obj.name).clear()
    remove_empty_default_folder(folders[0].parent)


def _clear_scene(obj: bpy.types.Object) -> None:
    for storage in Storage:
        targets.clear_storage(obj, storage)
    remove_joined_keys(obj)
    curve_bake.clear_following_curve(obj)
    obj.dampsim.baked = obj.dampsim.blended_frames = ""


@contextlib.contextmanager
def replaced_bake(obj: bpy.types.Object, scene: bpy.types.Scene, target: Target, folder: Path) -> Iterator[None]:
    """Context in which a new bake is written and checked, and replaces the earlier one at the end.

    An earlier bake in another storage stays until then, and passes its influence and time scale on. If the context
    fails or is stopped, the earlier bake returns with all edits of its strips.

    folder: of the files of bakes. Those of other targets are removed when the .blend file is saved.
    """
    previous = obj.dampsim.baked
    made_by = targets.find_target(previous)
    other_target = "" if made_by is not None and made_by.storage is target.storage else previous
    needs_own_speed = has_kept_seconds(obj, scene)
    influence, scale, kept = read_influence(obj), time_scale(obj), target.keep(obj, folder)
    try:
        obj.dampsim.baked = other_target
        yield
    except BaseException:
        kept.restore()
        obj.dampsim.baked = previous
        raise
    kept.discard()
    for storage in Storage:
        if storage is not target.storage:
            targets.clear_storage(obj, storage)
    if other_target or not previous:
        write_influence(obj, influence)
        if scale is not None and time_scale(obj) is not None:
            set_time_scale(obj, scale)
    remove_at_save(obj)
    if needs_own_speed and time_scale(obj) is not None:
        set_time_scale(obj, 1.0)


@dataclass(frozen=True)
class UnusedCache:
    """Unused cache. Its fields are keys of the JSON report.

    folder: path.  why: reason, in words.  size: bytes.  used: time of the last write, s since 1970.
    """

    folder: str
    why: str
    size: int
    used: float


def unused_caches() -> Iterator[UnusedCache]:
    """Yield the caches whose .blend file is missing, and those of unsaved files that are more than a day old.

    Caches that the current file refers to are skipped.
    """
    named = {name for obj in bpy.data.objects for name in (obj.dampsim.cache_id, obj.dampsim.together)}
    root = private_cache_folder()
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if not is_cache_name(folder.name) or folder.name in named or folder.is_symlink() or not folder.is_dir():
            continue
        with contextlib.suppress(CacheError, OSError, ValueError):
            stats = [path.lstat() for path in (folder, *folder.iterdir())]
            last_write = max(about.st_mtime for about in stats)
            reason = _unused_reason(FrameCache(folder, folder.name), last_write)
            if reason:
                yield UnusedCache(str(folder), reason, sum(about.st_size for about in stats[1:]), last_write)


def _unused_reason(cache: FrameCache, last_write: float) -> str:
    header = cache.header()
    if header is None:
        return ""
    if not header.owner:
        return "its file was never saved" if time.time() - last_write > _UNSAVED_EXPIRY else ""
    owner = Path(header.owner)
    # A drive that is missing or not readable now may come back.
    return f"{owner} no longer exists" if owner.parent.is_dir() and owner.parent.stat() and not owner.exists() else ""


def remove_unused_cache(unused_cache: UnusedCache) -> None:
    """Remove our files in a cache, and its folder if empty then. Raises CacheError, as while a bake uses it."""
    folder = Path(unused_cache.folder)
    cache = FrameCache(folder, folder.name)
    with cache.write_lock():
        for kind in TARGETS:
            kind().remove_files(folder)
        cache.clear()


# Files of replaced bakes: until a save, the .blend file on disk plays them, and so does the open file after an undo.


class _ReplacedBakes(SessionState, set[int]):
    """Session uids of the objects that may have files of replaced bakes."""


def remove_at_save(obj: bpy.types.Object) -> None:
    """Remove the files of an object's replaced bakes at the next save."""
    _ReplacedBakes.current().add(obj.session_uid)


def _resolved(path: Path) -> Path:
    """Return a path without links, or as it is if it leads nowhere."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path.absolute()


def _remove_replaced_files(path: str, _: object = None) -> None:
    waiting = _ReplacedBakes.current()
    # If Blender has saved a copy, the open file is not saved.
    if path != bpy.data.filepath or not waiting:
        return
    objects = all_simulated()
    played = {_resolved(file) for obj in objects if (file := baked_file(obj)) is not None}
    for obj in [one for one in objects if one.session_uid in waiting]:
        folder = target_folder(obj)
        # Under another name, the files still belong to the first .blend file. Locking creates a missing folder.
        if is_cache_owner(obj) and is_folder(folder):
            try:
                with locked_cache(obj):
                    for kind in TARGETS:
                        if issubclass(kind, FileTarget) and _resolved(folder / kind.file) not in played:
                            kind().remove_files(folder)
            except CacheError as error:
                # The next save tries again, for example after a bake that is writing into the folder.
                print(f"dampsim: {error}")
                continue
        waiting.discard(obj.session_uid)


SUBSCRIBER = Subscriber("clear", {"save_post": _remove_replaced_files})

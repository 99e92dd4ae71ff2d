"""Cached status of an object's files on disk. Draw and poll functions use it instead of accessing the disk.

It is refreshed after writing, opening, saving and undo. A timer detects changes to the active object's files by other
programs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
from bpy.app.handlers import persistent

from ...core.frames.cache import FrameCache
from ..blender.handlers import unwatch, watch
from ..blender.marks import MODIFIER
from ..blender.views import redraw
from ..targets.cache_file import played
from .caches import cache_folder, frame_cache, frames_done
from .groups import group_of
from .objects import everywhere, is_simulated, working
from .registry import resting, trusting

# Interval of the timer, s.
_PAUSE = 2.0


@dataclass(frozen=True)
class OnDisk:
    """Status of an object's files on disk.

    is_known: whether it was ever read.  frame_count: frames in the cache.  missing_file: path of its baked file, if it
    is missing.  folder_mtime: ns, modification time of the cache folder, which changes with every file in it.
    """

    looked: bool = False
    frames: int = 0
    gone: str = ""
    stamp: int = 0


_known: dict[tuple[str, ...], OnDisk] = {}


def _key(obj: bpy.types.Object) -> tuple[str, ...]:
    """Return the properties that determine the locations of the files, without disk access."""
    group, modifier = obj.dampsim, obj.modifiers.get(MODIFIER)
    source = getattr(modifier, "cache_file", None) or modifier
    return bpy.data.filepath, group.cache_folder, group.together, group.cache_id, getattr(source, "filepath", "")


def known(obj: bpy.types.Object) -> OnDisk:
    """Return the last known status; an empty one where it was never read."""
    return _known.get(_key(obj), OnDisk())


def look(obj: bpy.types.Object) -> OnDisk:
    """Read and store the status. Frames are counted only if the folder has changed."""
    before, path = known(obj), played(obj)
    stamp = _stamp(obj)
    frames = before.frames if before.looked and stamp == before.stamp else frames_done(obj)
    _known[_key(obj)] = OnDisk(True, frames, str(path) if path is not None and not _is_there(path) else "", stamp)
    return known(obj)


def _stamp(obj: bpy.types.Object) -> int:
    try:
        return cache_folder(obj).stat().st_mtime_ns if obj.dampsim.cache_id or obj.dampsim.together else 0
    except OSError:
        return 0


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


@contextlib.contextmanager
def held(obj: bpy.types.Object) -> Iterator[FrameCache]:
    """Lock the cache of an object's group, and refresh the status at the end."""
    cache = frame_cache(obj)
    try:
        with cache.held():
            yield cache
    finally:
        for member in group_of(obj).members:
            # Two writes within the resolution of the file system's clock give the same modification time.
            _known.pop(_key(member), None)
            look(member)


@persistent
def look_at_all(*_: object) -> None:
    """Refresh all statuses, which may be of another undo step or file."""
    with resting():
        for obj in everywhere():
            look(obj)


@persistent
def after_update(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Read the status of objects whose cache location has changed."""
    with trusting():
        for obj in everywhere():
            if not known(obj).looked:
                look(obj)


@persistent
def forget(*_: object) -> None:
    """Discard all statuses."""
    _known.clear()


def _again() -> float:
    obj = bpy.context.view_layer.objects.active if bpy.context.view_layer else None
    if obj is not None and is_simulated(obj) and not working(bpy.context):
        before = known(obj)
        if look(obj) != before:
            redraw()
    return _PAUSE


_HANDLERS = {
    "load_pre": forget,
    "load_post": look_at_all,
    "save_post": look_at_all,
    "undo_post": look_at_all,
    "redo_post": look_at_all,
    "depsgraph_update_post": after_update,
}


def register() -> None:
    watch(_HANDLERS)
    if not bpy.app.background:
        bpy.app.timers.register(_again, first_interval=_PAUSE, persistent=True)


def unregister() -> None:
    if bpy.app.timers.is_registered(_again):
        bpy.app.timers.unregister(_again)
    unwatch(_HANDLERS)
    forget()

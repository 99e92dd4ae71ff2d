"""What is on the disk for an object, as last looked at: drawing and polling ask here, and look at no disk themselves.

Whoever writes looks again; so do opening, saving and undo. A timer sees what other programs do to the active object's.
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

# How often the timer looks, s.
_PAUSE = 2.0


@dataclass(frozen=True)
class OnDisk:
    """looked: whether anybody has.  frames: how many the cache holds.  gone: the file of its bake, if that is no more.

    stamp: of the cache's folder, which changes with every file in it.
    """

    looked: bool = False
    frames: int = 0
    gone: str = ""
    stamp: int = 0


_known: dict[tuple[str, ...], OnDisk] = {}


def _key(obj: bpy.types.Object) -> tuple[str, ...]:
    """What says where things are; made without a look at the disk."""
    group, modifier = obj.dampsim, obj.modifiers.get(MODIFIER)
    source = getattr(modifier, "cache_file", None) or modifier
    return bpy.data.filepath, group.cache_folder, group.together, group.cache_id, getattr(source, "filepath", "")


def known(obj: bpy.types.Object) -> OnDisk:
    """As last looked at; nothing where nobody has yet."""
    return _known.get(_key(obj), OnDisk())


def look(obj: bpy.types.Object) -> OnDisk:
    """Look at the disk, and remember it. The frames are counted only where the folder has changed."""
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
    """The cache of an object and its group, kept from others; looked at again at the end."""
    cache = frame_cache(obj)
    try:
        with cache.held():
            yield cache
    finally:
        for member in group_of(obj).members:
            # A folder that is written to twice within its clock's tick has one stamp.
            _known.pop(_key(member), None)
            look(member)


@persistent
def look_at_all(*_: object) -> None:
    """What is remembered may be another time's or another file's."""
    with resting():
        for obj in everywhere():
            look(obj)


@persistent
def after_update(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Look at what has got another cache."""
    with trusting():
        for obj in everywhere():
            if not known(obj).looked:
                look(obj)


@persistent
def forget(*_: object) -> None:
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

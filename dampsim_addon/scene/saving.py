"""Handlers for saving under another name: relative cache folders and ownership of caches."""

from __future__ import annotations

import contextlib
from pathlib import Path

import bpy
from bpy.app.handlers import persistent

from ...core.errors import CacheError
from ..blender.handlers import unwatch, watch
from .caches import frame_cache
from .objects import everywhere

# Cache folders before a save, by object, to restore them if Blender only writes a copy.
_before: dict[str, str] = {}
_from = ""


@persistent
def before_save(path: str, _: object = None) -> None:
    """Make relative cache folders relative to the new file. Blender only does that for its own paths."""
    global _from
    _before.clear()
    _from = bpy.data.filepath
    if not path or not _from or Path(path).parent == Path(_from).parent:
        return
    for obj in everywhere():
        folder = obj.dampsim.cache_folder
        if folder.startswith("//"):
            _before[obj.name_full] = folder
            obj.dampsim.cache_folder = _from_there(bpy.path.abspath(folder), str(Path(path).parent))


def _from_there(folder: str, start: str) -> str:
    try:
        return bpy.path.relpath(folder, start=start)
    except ValueError:
        # On another drive of Windows.
        return folder


@persistent
def after_save(_path: str, _: object = None) -> None:
    """Restore the folders after saving a copy, and claim caches that were made before the file had a name."""
    if _before and bpy.data.filepath == _from:
        for obj in everywhere():
            if obj.name_full in _before:
                obj.dampsim.cache_folder = _before[obj.name_full]
    _before.clear()
    for obj in everywhere():
        if not (obj.dampsim.cache_id or obj.dampsim.together):
            continue
        cache = frame_cache(obj)
        with contextlib.suppress(CacheError):
            header = cache.header()
            if header is not None and not header.owner:
                cache.claim()


# A failed save keeps the name of the file, like saving a copy.
_HANDLERS = {"save_pre": before_save, "save_post": after_save, "save_post_fail": after_save}


def register() -> None:
    watch(_HANDLERS)


def unregister() -> None:
    unwatch(_HANDLERS)

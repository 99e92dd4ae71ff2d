"""What has to go along when a file gets another name: cache folders beside it, and whose the caches are."""

from __future__ import annotations

import contextlib
from pathlib import Path

import bpy
from bpy.app.handlers import persistent

from ...core.errors import CacheError
from ..blender.handlers import unwatch, watch
from .caches import frame_cache
from .objects import everywhere

# Folders as they were before a save, by object: Blender may only write a copy.
_before: dict[str, str] = {}
_from = ""


@persistent
def before_save(path: str, _: object = None) -> None:
    """Let folders beside the old file be found from the new one: Blender moves only its own paths along."""
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
        # Another drive of Windows.
        return folder


@persistent
def after_save(_path: str, _: object = None) -> None:
    """Undo it for a copy; and say of caches made before the file had a name that they are its own."""
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


# A save that fails leaves the file its name, as a copy does.
_HANDLERS = {"save_pre": before_save, "save_post": after_save, "save_post_fail": after_save}


def register() -> None:
    watch(_HANDLERS)


def unregister() -> None:
    unwatch(_HANDLERS)

"""Handlers for saving under another name: relative cache folders and ownership of caches."""

from __future__ import annotations

import contextlib
from pathlib import Path

import bpy
from bpy.app.handlers import persistent

from ...core import CacheError
from ..blender.handlers import add_handlers, remove_handlers
from .caches import frame_cache
from .objects import all_simulated

# Cache folders before a save, by object, to restore them if Blender only writes a copy.
_previous_folders: dict[str, str] = {}
_previous_path = ""


@persistent
def rebase_cache_folders(path: str, _: object = None) -> None:
    """Make relative cache folders relative to the new file. Blender only does that for its own paths."""
    global _previous_path
    _previous_folders.clear()
    _previous_path = bpy.data.filepath
    if not path or not _previous_path or Path(path).parent == Path(_previous_path).parent:
        return
    for obj in all_simulated():
        folder = obj.dampsim.cache_folder
        if folder.startswith("//"):
            _previous_folders[obj.name_full] = folder
            obj.dampsim.cache_folder = _relative_path(bpy.path.abspath(folder), str(Path(path).parent))


def _relative_path(folder: str, start: str) -> str:
    try:
        return bpy.path.relpath(folder, start=start)
    except ValueError:
        # On another drive of Windows.
        return folder


@persistent
def restore_and_claim_caches(_path: str, _: object = None) -> None:
    """Restore the folders after saving a copy, and claim caches that were made before the file had a name."""
    if _previous_folders and bpy.data.filepath == _previous_path:
        for obj in all_simulated():
            if obj.name_full in _previous_folders:
                obj.dampsim.cache_folder = _previous_folders[obj.name_full]
    _previous_folders.clear()
    for obj in all_simulated():
        if not (obj.dampsim.cache_id or obj.dampsim.together):
            continue
        cache = frame_cache(obj)
        with contextlib.suppress(CacheError):
            header = cache.header()
            if header is not None and not header.owner:
                cache.take_ownership()


# A failed save keeps the name of the file, like saving a copy.
_HANDLERS = {
    "save_pre": rebase_cache_folders,
    "save_post": restore_and_claim_caches,
    "save_post_fail": restore_and_claim_caches,
}


def register() -> None:
    add_handlers(_HANDLERS)


def unregister() -> None:
    remove_handlers(_HANDLERS)

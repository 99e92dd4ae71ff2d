"""Handlers for saving under another name: relative cache folders and ownership of caches."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

import bpy

from ...core import CacheError
from ..session import SessionState, Subscriber
from .caches import frame_cache
from .objects import all_simulated


@dataclass
class _Previous(SessionState):
    """Cache folders by object and path of the file before a save, to restore them if Blender only writes a copy."""

    folders: dict[str, str] = field(default_factory=dict)
    path: str = ""


def rebase_cache_folders(path: str, _: object = None) -> None:
    """Make relative cache folders relative to the new file. Blender only does that for its own paths."""
    previous = _Previous.current()
    previous.folders, previous.path = {}, bpy.data.filepath
    if not path or not previous.path or Path(path).parent == Path(previous.path).parent:
        return
    for obj in all_simulated():
        folder = obj.dampsim.cache_folder
        if folder.startswith("//"):
            previous.folders[obj.name_full] = folder
            obj.dampsim.cache_folder = _relative_path(bpy.path.abspath(folder), str(Path(path).parent))


def _relative_path(folder: str, start: str) -> str:
    try:
        return bpy.path.relpath(folder, start=start)
    except ValueError:
        # On another drive of Windows.
        return folder


def restore_and_claim_caches(_path: str, _: object = None) -> None:
    """Restore the folders after saving a copy, and claim caches that were made before the file had a name."""
    previous = _Previous.current()
    if previous.folders and bpy.data.filepath == previous.path:
        for obj in all_simulated():
            if obj.name_full in previous.folders:
                obj.dampsim.cache_folder = previous.folders[obj.name_full]
    previous.folders.clear()
    for obj in all_simulated():
        if not (obj.dampsim.cache_id or obj.dampsim.together):
            continue
        cache = frame_cache(obj)
        with contextlib.suppress(CacheError):
            header = cache.header()
            if header is not None and not header.owner:
                cache.take_ownership()


SUBSCRIBER = Subscriber(
    "save_handlers",
    {
        "save_pre": rebase_cache_folders,
        "save_post": restore_and_claim_caches,
        # A failed save keeps the name of the file, like saving a copy.
        "save_post_fail": restore_and_claim_caches,
    },
)

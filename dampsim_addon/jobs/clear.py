"""Removal of bakes."""

from __future__ import annotations

import bpy

from ...core import FrameCache
from .. import live, targets
from ..model.cache_status import locked_cache, refresh_status
from ..model.caches import (
    frame_cache,
    is_cache_owner,
    other_cache_ids,
    remove_empty_default_folder,
    target_folder,
)
from ..model.groups import group_of
from ..model.objects import check_editable
from ..targets import TARGETS, Storage
from ..targets.cache_file import check_library_modifier
from ..targets.keys import check_shared_mesh, remove_joined_keys
from . import curve_bake


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
    _clear_scene(obj)
    refresh_status(obj)


def _clear_scene(obj: bpy.types.Object) -> None:
    for storage in Storage:
        targets.clear_storage(obj, storage)
    remove_joined_keys(obj)
    curve_bake.clear_following_curve(obj)
    obj.dampsim.baked = obj.dampsim.blended_frames = ""

"""Removal of bakes."""

from __future__ import annotations

import bpy

from ...core.frames.cache import FrameCache
from .. import live, targets
from ..scene.caches import frame_cache, is_owner, others, target_folder
from ..scene.groups import group_of
from ..scene.on_disk import held, look
from ..targets import TARGETS, Storage
from ..targets.keys import check_alone
from . import led_curves


def clear(obj: bpy.types.Object) -> None:
    """Restore the object to its state before the bake, and remove the cache if this object owns it.

    The frames of a group stay as long as another member is baked. Raises CacheError if the cache cannot be removed.
    """
    check_alone(obj)
    live.drop(obj)
    # An unbaked duplicate still refers to the original's cache, and so does a file saved under another name.
    own = obj.dampsim.cache_id and obj.dampsim.cache_id not in others(obj) and is_owner(obj)
    needed = any(other.dampsim.baked for other in group_of(obj).members if other != obj)
    if own and (frame_cache(obj).folder.exists() or target_folder(obj).exists()):
        with held(obj) as cache:
            _clear_scene(obj)
            for kind in TARGETS:
                kind.forget(target_folder(obj))
            if target_folder(obj) != cache.folder:
                # Frames from before the object joined its group.
                FrameCache(target_folder(obj), obj.name).clear()
            if not needed:
                cache.clear()
    _clear_scene(obj)
    look(obj)


def _clear_scene(obj: bpy.types.Object) -> None:
    for storage in Storage:
        targets.clear(obj, storage)
    led_curves.clear(obj)
    obj.dampsim.baked = ""

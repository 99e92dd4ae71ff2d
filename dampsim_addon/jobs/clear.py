"""The way back: an object as it was before its bake."""

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
    """Give the object back as it was before the bake, and remove its cache, where it is its own.

    The frames of a group stay as long as another member is baked.
    """
    check_alone(obj)
    live.drop(obj)
    # A duplicate that was not baked itself has still got the original's cache, and a file saved under another name too.
    own = obj.dampsim.cache_id and obj.dampsim.cache_id not in others(obj) and is_owner(obj)
    needed = any(other.dampsim.baked for other in group_of(obj).members if other != obj)
    if own and (frame_cache(obj).folder.exists() or target_folder(obj).exists()):
        with held(obj) as cache:
            _clear_scene(obj)
            for kind in TARGETS:
                kind.forget(target_folder(obj))
            if target_folder(obj) != cache.folder:
                # Frames of when it was alone.
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

"""The way back: an object as it was before its bake."""

from __future__ import annotations

import bpy

from .. import live, targets
from ..scene.caches import frame_cache, is_owner, others
from ..scene.on_disk import held, look
from ..targets import TARGETS, Storage
from ..targets.keys import check_alone


def clear(obj: bpy.types.Object) -> None:
    """Give the object back as it was before the bake, and remove its cache, where it is its own."""
    check_alone(obj)
    live.drop(obj)
    # A duplicate that was not baked itself has still got the original's cache, and a file saved under another name too.
    own = obj.dampsim.cache_id and obj.dampsim.cache_id not in others(obj) and is_owner(obj)
    if own and frame_cache(obj).folder.exists():
        with held(obj) as cache:
            _clear_scene(obj)
            for kind in TARGETS:
                kind.forget(cache.folder)
            cache.clear()
    _clear_scene(obj)
    look(obj)


def _clear_scene(obj: bpy.types.Object) -> None:
    for storage in Storage:
        targets.clear(obj, storage)
    obj.dampsim.baked = ""

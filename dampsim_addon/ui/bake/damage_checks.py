"""Bake check of results that the user has removed or changed since."""

from __future__ import annotations

import bpy

from ....core.base.wording import format_count
from ...blender.dampsim_names import bake_keys, bake_modifier
from ...targets import Storage, Target, find_target
from ...targets.bake_tracks import bake_strips
from ..common.issue import Issue


def damaged_bake(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report a bake of which shape keys, their animation or the modifier are missing, so that it does not play."""
    target = find_target(obj.dampsim.baked)
    if target is None:
        return None
    if target.storage is Storage.FILE:
        text = _missing_file_part(obj)
    elif target.storage is Storage.KEYS:
        # A bake without motion has no keys.
        text = _missing_keys(obj) or (obj.dampsim.baked_keys and _missing_strip(obj, target)) or _muted_keys(obj)
    else:
        text = _missing_strip(obj, target)
    if not text:
        return None
    return Issue(f"{text}, so the bake does not play as simulated. Bake again to restore it, or press Clear")


def _missing_file_part(obj: bpy.types.Object) -> str:
    return "" if bake_modifier(obj) is not None else "The modifier that plays the bake is missing"


def _keys_of_bake(obj: bpy.types.Object) -> list[bpy.types.ShapeKey]:
    keys = obj.data.shape_keys
    return [key for key in bake_keys(keys) if key != keys.reference_key]


def _missing_keys(obj: bpy.types.Object) -> str:
    missing = obj.dampsim.baked_keys - len(_keys_of_bake(obj))
    if missing <= 0:
        return ""
    return f"{format_count(missing, 'shape key')} of the bake {'is' if missing == 1 else 'are'} missing"


def _missing_strip(obj: bpy.types.Object, target: type[Target]) -> str:
    owner, mark = target.animated_data(obj)
    is_playing = owner is not None and bool(bake_strips(owner.animation_data, mark))
    return "" if is_playing else "The NLA strip of the bake is missing"


def _muted_keys(obj: bpy.types.Object) -> str:
    muted = [key for key in _keys_of_bake(obj) if key.mute]
    if not muted:
        return ""
    return f"{format_count(len(muted), 'shape key')} of the bake {'is' if len(muted) == 1 else 'are'} muted"

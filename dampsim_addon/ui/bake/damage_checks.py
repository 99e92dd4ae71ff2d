"""Bake check of results that the user has removed or changed since."""

from __future__ import annotations

import bpy

from ....core.base.wording import format_count
from ...blender.dampsim_names import bake_keys, bake_modifier
from ...targets import Storage, find_target
from ...targets.bake_tracks import bake_strips
from ..common.issue import Issue


def damaged_bake(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report a bake of which shape keys, their animation or the modifier are missing, so that it does not play."""
    target = find_target(obj.dampsim.baked)
    if target is None:
        return None
    text = _missing_file_part(obj) if target.storage is Storage.FILE else _missing_key_part(obj)
    if not text:
        return None
    return Issue(f"{text}, so the bake does not play as simulated. Bake again to restore it, or press Clear")


def _missing_file_part(obj: bpy.types.Object) -> str:
    return "" if bake_modifier(obj) is not None else "The modifier that plays the bake is missing"


def _missing_key_part(obj: bpy.types.Object) -> str:
    keys, total = obj.data.shape_keys, obj.dampsim.baked_keys
    found = [key for key in bake_keys(keys) if key != keys.reference_key]
    if len(found) < total:
        missing = format_count(total - len(found), "shape key")
        return f"{missing} of the bake {'is' if total - len(found) == 1 else 'are'} missing"
    if not bake_strips(keys.animation_data):
        return "The NLA strip of the bake is missing"
    muted = [key for key in found if key.mute]
    if muted:
        return f"{format_count(len(muted), 'shape key')} of the bake {'is' if len(muted) == 1 else 'are'} muted"
    return ""

"""Detection of changed keyframed values that are not keyed yet. Visiting another frame would lose them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import bpy

from ..blender.animation import channelbags
from ..blender.dampsim_names import is_output_path

# Relative (below 1: absolute) difference up to which a value counts as that of its keyframes.
_TOLERANCE = 1e-4


def object_with_unkeyed_change(objects: Iterable[bpy.types.Object], frame: float) -> str:
    """Return the name of an object with such a change at a frame; '' if there is none."""
    for obj in objects:
        for block in (obj, obj.data, getattr(obj.data, "shape_keys", None)):
            if block is not None and block.animation_data is not None and _has_unkeyed_change(block, frame):
                return str(obj.name)
    return ""


def _has_unkeyed_change(block: bpy.types.ID, frame: float) -> bool:
    if block.animation_data.action is None or block.animation_data.nla_tracks:
        # The result of NLA strips is not evaluated here, so an action on top of them counts as a change.
        return bool(block.animation_data.nla_tracks) and block.animation_data.action is not None
    for bag in channelbags(block):
        for curve in bag.fcurves:
            if curve.mute or is_output_path(block, curve.data_path):
                continue
            try:
                value = block.path_resolve(curve.data_path)
            except ValueError:
                continue
            if isinstance(value, str) or value is None:
                continue
            number: Any = value[curve.array_index] if hasattr(value, "__len__") else value  # type: ignore[index]
            keyed_value = curve.evaluate(frame)
            if isinstance(number, (bool, int)):
                keyed_value = round(keyed_value)
            if abs(float(number) - keyed_value) > _TOLERANCE * max(1.0, abs(keyed_value)):
                return True
    return False

"""Parts of an object as the simulation reads them, and new parts from vertex groups and bones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import bpy
import numpy as np

from ...core import Array, PinError
from ...core.base.wording import closest_name
from ...core.scene.part import KEYABLE_PART_DIALS, Part
from ..blender.animation import animated_paths, channelbags, drivers_of
from ..blender.vertex_groups import read_weights
from ..model.objects import remove_item
from .bone_chains import bone_influences, influence_names, selected_influences

# Largest difference of equal weights. Written weights are rounded to 1/256.
_EQUAL_WEIGHT = 1.0 / 256.0
# Data path of a property of a part, by number or by name.
_PART_PATH = re.compile(
    r"""dampsim\.parts\[(?:(?P<number>\d+)|(?P<quote>["'])(?P<name>.*)(?P=quote))\]\.(?P<dial>\w+)"""
)


def assigned_parts(obj: bpy.types.Object) -> list[bpy.types.PropertyGroup]:
    """Return the parts of an object that have a vertex group. The others have no effect."""
    return [part for part in obj.dampsim.parts if part.vertex_group]


def find_animated_dial(obj: bpy.types.Object, path: str) -> tuple[int, str] | None:
    """Return the index of the part and the name of the dial that a data path of an object animates; None for others."""
    found = _PART_PATH.fullmatch(path)
    if found is None:
        return None
    parts = obj.dampsim.parts
    index = int(found["number"]) if found["number"] else parts.find(bpy.utils.unescape_identifier(found["name"]))
    return (index, found["dial"]) if 0 <= index < len(parts) and found["dial"] in KEYABLE_PART_DIALS else None


def animated_part_dials(obj: bpy.types.Object) -> set[tuple[str, str]]:
    """Return the names of the parts and of their dials that keyframes, drivers or NLA strips animate."""
    found = (find_animated_dial(obj, path) for path in animated_paths(obj))
    return {(str(obj.dampsim.parts[one[0]].name), one[1]) for one in found if one is not None}


def part_settings(obj: bpy.types.Object) -> tuple[tuple[object, ...], ...]:
    """Return the name, vertex group and dials of each part of an object; None for dials that are animated."""
    keyed = animated_part_dials(obj)
    return tuple(
        (
            part.name,
            part.vertex_group,
            part.own_sag,
            *(None if (part.name, name) in keyed else getattr(part, name) for name in KEYABLE_PART_DIALS),
        )
        for part in assigned_parts(obj)
    )


def part_dial_values(obj: bpy.types.Object) -> list[tuple[float | None, ...]]:
    """Return the values of KEYABLE_PART_DIALS of each part of an object, at the current frame; None without own Sag."""
    return [
        tuple(float(getattr(part, name)) if part.own_sag or name != "sag" else None for name in KEYABLE_PART_DIALS)
        for part in assigned_parts(obj)
    ]


def remove_part(obj: bpy.types.Object, index: int) -> None:
    """Remove a part with its keyframes and drivers. Those of the parts behind it follow their parts.

    Raises SceneError if the library of a library override has the part.
    """
    name, parts = bpy.utils.escape_identifier(obj.dampsim.parts[index].name), obj.dampsim.parts
    remove_item(obj, parts, index)
    for curves, curve in _part_curves(obj):
        found = _PART_PATH.fullmatch(curve.data_path)
        if found is not None and (found["number"] == str(index) or found["name"] == name):
            curves.remove(curve)
        elif found is not None and found["number"] and int(found["number"]) > index:
            curve.data_path = f"dampsim.parts[{int(found['number']) - 1}].{found['dial']}"
    obj.dampsim.active_part = max(min(obj.dampsim.active_part, len(parts) - 1), 0)
    obj.update_tag()


def _part_curves(obj: bpy.types.Object) -> Iterator[tuple[Any, bpy.types.FCurve]]:
    """Iterate over the F-curves and drivers of an object, each with the collection that contains it."""
    for bag in list(channelbags(obj)):
        yield from ((bag.fcurves, curve) for curve in list(bag.fcurves))
    yield from ((obj.animation_data.drivers, curve) for curve in drivers_of(obj))


def find_wrong_part(obj: bpy.types.Object) -> tuple[int, str] | None:
    """Return the index of the first part that lacks a name or vertex group of its own, and one sentence about it.

    A part for which no group is chosen yet is not wrong.
    """
    parts = list(obj.dampsim.parts)
    names, groups = [part.name for part in parts], [part.vertex_group for part in parts]
    for index, part in enumerate(parts):
        if not part.vertex_group:
            continue
        if names.index(part.name) < index:
            return index, f"two parts are called '{part.name}'. Rename one of them."
        if groups.index(part.vertex_group) < index:
            return index, (
                f"parts '{names[groups.index(part.vertex_group)]}' and '{part.name}' have the same vertex group. "
                "Choose another one, or remove a part."
            )
        if part.vertex_group not in obj.vertex_groups:
            closest = closest_name(part.vertex_group, obj.vertex_groups.keys())
            hint = f"Did you mean '{closest}'?" if closest else "Choose another group, or remove the part."
            return index, f"vertex group '{part.vertex_group}' of part '{part.name}' is missing. {hint}"
    return None


def read_parts(obj: bpy.types.Object, rest: bpy.types.Object) -> tuple[Part, ...]:
    """Return the parts of an object that have a group. All groups must exist. rest: see Sampler.rest_pose()."""
    parts = assigned_parts(obj)
    weights = read_weights(rest, [part.vertex_group for part in parts])
    return tuple(
        Part(str(part.name), values, *dials)
        for part, values, dials in zip(parts, weights, part_dial_values(obj), strict=True)
    )


def append_part(obj: bpy.types.Object, vertex_group: str) -> str:
    """Add a part with the dials of the object, and make it the active one. Return its name."""
    group, number = obj.dampsim, 1
    known, name = {part.name for part in group.parts}, vertex_group or "Part"
    while name in known:
        number += 1
        name = f"{vertex_group or 'Part'} {number}"
    part = group.parts.add()
    part.name, part.vertex_group = name, vertex_group
    for dial in KEYABLE_PART_DIALS:
        setattr(part, dial, getattr(group, dial))
    group.active_part = len(group.parts) - 1
    return name


def find_equal_part(obj: bpy.types.Object, weights: Array) -> int | None:
    """Return the index of the first part that has the same weights (v,) within a rounding step, or None."""
    known = [(index, part.vertex_group) for index, part in enumerate(obj.dampsim.parts)]
    known = [(index, name) for index, name in known if name in obj.vertex_groups]
    found = zip(known, read_weights(obj, [name for _, name in known]), strict=True)
    return next((i for (i, _), other in found if np.abs(other - weights).max(initial=0.0) < _EQUAL_WEIGHT), None)


def selected_bone_weights(obj: bpy.types.Object) -> tuple[str, Array]:
    """Return the name of the first selected bone that moves an object, and the sum (v,) of all their weights.

    Raises PinError if no selected bone moves it.
    """
    bones = selected_influences([pull for pull in bone_influences(obj) if pull.is_skinned])
    if not bones:
        raise PinError(f"{obj.name}: select the bones that move the part in Pose Mode.")
    names = influence_names(bones)
    return names[0], np.minimum(np.sum(read_weights(obj, names), axis=0), 1.0)

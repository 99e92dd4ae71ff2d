"""Parts of an object as the simulation reads them, and new parts from vertex groups and bones."""

from __future__ import annotations

import bpy
import numpy as np

from ...core import Array, PinError
from ...core.base.wording import closest_name
from ...core.scene.part import PART_DIALS, Part
from ..blender.vertex_groups import read_weights
from .bone_chains import bone_influences, selected_influences

# Largest difference of equal weights. Written weights are rounded to 1/256.
_EQUAL_WEIGHT = 1.0 / 256.0


def assigned_parts(obj: bpy.types.Object) -> list[bpy.types.PropertyGroup]:
    """Return the parts of an object that have a vertex group. The others have no effect."""
    return [part for part in obj.dampsim.parts if part.vertex_group]


def part_settings(obj: bpy.types.Object) -> tuple[tuple[object, ...], ...]:
    """Return the name, vertex group and dials of each part of an object."""
    return tuple(
        (part.name, part.vertex_group, *(getattr(part, name) for name in PART_DIALS)) for part in assigned_parts(obj)
    )


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


def part_problem(obj: bpy.types.Object) -> str:
    """Return one sentence about the first wrong part, see find_wrong_part(); '' if there is none."""
    found = find_wrong_part(obj)
    return "" if found is None else found[1]


def read_parts(obj: bpy.types.Object, rest: bpy.types.Object) -> tuple[Part, ...]:
    """Return the parts of an object that have a group. All groups must exist. rest: see Sampler.rest_pose()."""
    parts = assigned_parts(obj)
    weights = read_weights(rest, [part.vertex_group for part in parts])
    return tuple(
        Part(str(part.name), values, **{name: float(getattr(part, name)) for name in PART_DIALS})
        for part, values in zip(parts, weights, strict=True)
    )


def unique_part_name(obj: bpy.types.Object, wanted: str) -> str:
    """Return a name that no other part of the object has."""
    known, name, number = {part.name for part in obj.dampsim.parts}, wanted or "Part", 1
    while name in known:
        number += 1
        name = f"{wanted or 'Part'} {number}"
    return name


def add_part(obj: bpy.types.Object, vertex_group: str) -> str:
    """Add a part with the dials of the object, and make it the active one. Return its name."""
    group = obj.dampsim
    name, part = unique_part_name(obj, vertex_group), group.parts.add()
    part.name, part.vertex_group = name, vertex_group
    for dial in PART_DIALS:
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
    names = [pull.name for pull in bones]
    return names[0], np.minimum(np.sum(read_weights(obj, names), axis=0), 1.0)

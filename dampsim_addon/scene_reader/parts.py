"""Parts of an object as the simulation reads them, and new parts from vertex groups and bones."""

from __future__ import annotations

import bpy
import numpy as np

from ...core import Array, PinError
from ...core.base.wording import closest_name
from ...core.scene.part import PART_DIALS, Part
from ..blender.vertex_groups import read_weights
from .bone_chains import bone_influences, selected_influences


def part_settings(obj: bpy.types.Object) -> tuple[tuple[object, ...], ...]:
    """Return the name, vertex group and dials of each part of an object."""
    return tuple(
        (part.name, part.vertex_group, *(getattr(part, name) for name in PART_DIALS)) for part in obj.dampsim.parts
    )


def find_wrong_part(obj: bpy.types.Object) -> tuple[int, str] | None:
    """Return the index of the first part without a vertex group or name of its own, and one sentence about it."""
    names = [part.name for part in obj.dampsim.parts]
    for index, part in enumerate(obj.dampsim.parts):
        if names.index(part.name) < index:
            return index, f"two parts are called '{part.name}'. Rename one of them."
        if not part.vertex_group:
            return index, f"part '{part.name}' has no vertex group. Choose one, or remove the part."
        if part.vertex_group not in obj.vertex_groups:
            closest = closest_name(part.vertex_group, obj.vertex_groups.keys())
            hint = f"Did you mean '{closest}'?" if closest else "Choose another group, or remove the part."
            return index, f"vertex group '{part.vertex_group}' of part '{part.name}' is missing. {hint}"
    return None


def part_problem(obj: bpy.types.Object) -> str:
    """Return one sentence about the first wrong part, see find_wrong_part(); '' if there is none."""
    found = find_wrong_part(obj)
    return "" if found is None else found[1]


def read_parts(obj: bpy.types.Object, mesh: bpy.types.Mesh | None = None) -> tuple[Part, ...]:
    """Return the parts of an object. All their groups must exist. mesh: see read_weights()."""
    parts = list(obj.dampsim.parts)
    weights = read_weights(obj, [part.vertex_group for part in parts], mesh)
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


def selected_bone_weights(obj: bpy.types.Object) -> tuple[str, Array]:
    """Return the name of the first selected bone that moves an object, and the sum (v,) of all their weights.

    Raises PinError if no selected bone moves it.
    """
    bones = selected_influences([pull for pull in bone_influences(obj) if pull.is_skinned])
    if not bones:
        raise PinError(f"{obj.name}: select the bones that move the part in Pose Mode.")
    names = [pull.name for pull in bones]
    return names[0], np.minimum(np.sum(read_weights(obj, names), axis=0), 1.0)

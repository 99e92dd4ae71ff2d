"""Detection of objects and bones that were renamed since a bake, which is no other change.

A bake stores objects by name. A stored name that no object of the file has any more is taken for the previous name of a
newly reported object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import bpy

from ...core import PARAMETERS
from ..blender.dampsim_names import bake_mark
from .bake_inputs import COLLIDER_PREFIXES, PARENT_PREFIX, POSE_PREFIX, influencing_objects, motion_sources

# Force Field Weight is a dial.
_LABELS = {parameter.label for parameter in PARAMETERS.values()}
# Prefix of the settings of one object, and key of the list of these objects.
_LIST_KEYS = (("Collider ", "Colliders of the Scene"), ("Force Field ", "Force Fields of the Scene"))


def previous_names(obj: bpy.types.Object, bake_inputs: Iterable[str]) -> dict[bpy.types.Object, str]:
    """Return the names at the time of a bake of influencing objects that were renamed since.

    bake_inputs: input digests of the bake. They list the object itself first, and have a parent entry for each object.
    """
    stored = [part.removeprefix(PARENT_PREFIX) for part in bake_inputs if part.startswith(PARENT_PREFIX)]
    if not stored:
        return {}
    _, *others = influencing_objects(obj)
    missing = [name for name in stored[1:] if bpy.data.objects.get(name) is None]
    new = [other for other in others if other.name not in stored]
    # The previous name of a copy belongs to another object.
    found = {obj: stored[0]}
    if len(missing) == len(new):
        # Both lists are in the order of dependency, independently of names.
        found |= dict(zip(new, missing, strict=True))
    return {one: name for one, name in found.items() if name != one.name}


def previous_bone_names(obj: bpy.types.Object, bake_inputs: Iterable[str]) -> dict[str, str]:
    """Return the names at the time of a bake of the bones that were renamed since, by their current names.

    bake_inputs: input digests of the bake, which list the poses of all bones that move the object in their order.
    """
    stored = [part.removeprefix(POSE_PREFIX) for part in bake_inputs if part.startswith(POSE_PREFIX)]
    poses = [source.pose for source in motion_sources(obj) if source.pose is not None] if stored else []
    current = list(dict.fromkeys(str(one.name) for pose in poses for one in pose.bones if not bake_mark(one.bone)))
    if len(stored) != len(current):
        return {}
    pairs = zip(current, stored, strict=True)
    return {name: earlier for name, earlier in pairs if name not in stored and earlier not in current}


def with_current_name(part: str, names: Mapping[str, str]) -> str:
    """Replace the name in an input by the current one. names: current names, by previous ones."""
    for earlier, name in names.items():
        if part.endswith(f" of {earlier}"):
            return f"{part.removesuffix(earlier)}{name}"
    return part


def rename_colliders(bake_inputs: Mapping[str, str], current: Mapping[str, str]) -> dict[str, str]:
    """Return the input digests of a bake with the current names of its colliders."""
    # Records of earlier versions have only the motion and the shape.
    pairs = _match_names(bake_inputs, current, COLLIDER_PREFIXES[:2])
    found = {}
    for part, digest in bake_inputs.items():
        prefix = next((one for one in COLLIDER_PREFIXES if part.startswith(one)), "")
        name = part.removeprefix(prefix)
        found[f"{prefix}{pairs.get(name, name)}" if prefix else part] = digest
    return found


def rename_shared_settings(bake_settings: Mapping[str, str], current: Mapping[str, str]) -> dict[str, str]:
    """Return the settings stored with a bake, with the current names of colliders and force fields."""
    found = dict(bake_settings)
    for prefix, list_key in _LIST_KEYS:
        pairs = _match_names(bake_settings, current, (prefix,))
        if not pairs:
            continue
        names = _names_after_prefix(bake_settings, prefix)
        for name in names:
            found.pop(f"{prefix}{name}")
        found |= {f"{prefix}{pairs.get(name, name)}": bake_settings[f"{prefix}{name}"] for name in names}
        if {pairs.get(name, name) for name in names} == set(_names_after_prefix(current, prefix)):
            found[list_key] = current[list_key]
    return found


def _names_after_prefix(parts: Iterable[str], prefix: str) -> list[str]:
    return [part.removeprefix(prefix) for part in parts if part.startswith(prefix) and part not in _LABELS]


def _match_names(bake_values: Mapping[str, str], current: Mapping[str, str], prefixes: Sequence[str]) -> dict[str, str]:
    """Return current names by previous ones: first those with equal digests, then the rest in order."""
    current_names = _names_after_prefix(current, prefixes[0])
    missing = [
        name
        for name in _names_after_prefix(bake_values, prefixes[0])
        if name not in current_names and bpy.data.objects.get(name) is None
    ]
    new = [name for name in current_names if f"{prefixes[0]}{name}" not in bake_values]
    found = {}
    for name in [*missing]:
        equal = [one for one in new if all(bake_values.get(f"{h}{name}") == current.get(f"{h}{one}") for h in prefixes)]
        if equal:
            found[name] = equal[0]
            missing.remove(name)
            new.remove(equal[0])
    return found | dict(zip(missing, new, strict=False))

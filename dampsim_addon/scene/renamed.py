"""Detection of objects that were renamed since a bake, which is no other change.

A bake stores objects by name. A stored name that no object of the file has any more is taken for the previous name of a
newly reported object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import bpy

from ...core.scene.parameters import PARAMETERS
from .entering import MOVES, PARENT, SHAPE, moving

# Force Field Weight is a dial.
_LABELS = {parameter.label for parameter in PARAMETERS.values()}
# Prefix of the settings of one object, and key of the list of these objects.
_SHARED = (("Collider ", "Colliders of the Scene"), ("Force Field ", "Force Fields of the Scene"))


def earlier_names(obj: bpy.types.Object, before: Iterable[str]) -> dict[bpy.types.Object, str]:
    """Return the names at the time of a bake of influencing objects that were renamed since.

    before: input digests of the bake. They list the object itself first, and have a parent entry for each object.
    """
    told = [part.removeprefix(PARENT) for part in before if part.startswith(PARENT)]
    if not told:
        return {}
    _, *others = moving(obj)
    gone = [name for name in told[1:] if bpy.data.objects.get(name) is None]
    new = [other for other in others if other.name not in told]
    # The previous name of a copy belongs to another object.
    found = {obj: told[0]}
    if len(gone) == len(new):
        # Both lists are in the order of dependency, independently of names.
        found |= dict(zip(new, gone, strict=True))
    return {one: name for one, name in found.items() if name != one.name}


def told_now(part: str, names: Mapping[str, str]) -> str:
    """Replace the name in an input by the current one. names: current names, by previous ones."""
    for earlier, name in names.items():
        if part.endswith(f" of {earlier}"):
            return f"{part.removesuffix(earlier)}{name}"
    return part


def of_colliders(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return the input digests of a bake with the current names of its colliders."""
    pairs = _pairs(before, now, (MOVES, SHAPE))
    found = {}
    for part, digest in before.items():
        head = next((one for one in (MOVES, SHAPE) if part.startswith(one)), "")
        name = part.removeprefix(head)
        found[f"{head}{pairs.get(name, name)}" if head else part] = digest
    return found


def of_shared(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return the settings stored with a bake, with the current names of colliders and force fields."""
    found = dict(before)
    for head, listed in _SHARED:
        pairs = _pairs(before, now, (head,))
        if not pairs:
            continue
        names = _names(before, head)
        for name in names:
            found.pop(f"{head}{name}")
        found |= {f"{head}{pairs.get(name, name)}": before[f"{head}{name}"] for name in names}
        if {pairs.get(name, name) for name in names} == set(_names(now, head)):
            found[listed] = now[listed]
    return found


def _names(parts: Iterable[str], head: str) -> list[str]:
    return [part.removeprefix(head) for part in parts if part.startswith(head) and part not in _LABELS]


def _pairs(before: Mapping[str, str], now: Mapping[str, str], heads: Sequence[str]) -> dict[str, str]:
    """Return current names by previous ones: first those with equal digests, then the rest in order."""
    there = _names(now, heads[0])
    gone = [name for name in _names(before, heads[0]) if name not in there and bpy.data.objects.get(name) is None]
    new = [name for name in there if f"{heads[0]}{name}" not in before]
    found = {}
    for name in [*gone]:
        same = [one for one in new if all(before.get(f"{h}{name}") == now.get(f"{h}{one}") for h in heads)]
        if same:
            found[name] = same[0]
            gone.remove(name)
            new.remove(same[0])
    return found | dict(zip(gone, new, strict=False))

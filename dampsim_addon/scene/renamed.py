"""What has another name than when a bake was made: nothing else of it is otherwise.

Names are all that a bake keeps of objects. One that was told, and that no object of the file has any more, is the
earlier one of what is told in its stead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import bpy

from ...core.scene.parameters import PARAMETERS
from .entering import MOVES, PARENT, SHAPE, moving

# Force Field Weight is a dial.
_LABELS = {parameter.label for parameter in PARAMETERS.values()}
# How what is set begins that is of one object, and what their list is called.
_SHARED = (("Collider ", "Colliders of the Scene"), ("Force Field ", "Force Fields of the Scene"))


def earlier_names(obj: bpy.types.Object, before: Iterable[str]) -> dict[bpy.types.Object, str]:
    """Under which names that was told for a bake what moves an object, where it has others by now.

    before: what entered. The object itself comes first there, and each of what moves it has a parent, if only none.
    """
    told = [part.removeprefix(PARENT) for part in before if part.startswith(PARENT)]
    if not told:
        return {}
    _, *others = moving(obj)
    gone = [name for name in told[1:] if bpy.data.objects.get(name) is None]
    new = [other for other in others if other.name not in told]
    # A copy's own earlier name is another's.
    found = {obj: told[0]}
    if len(gone) == len(new):
        # They are told in the order in which they hold each other, whatever they are called.
        found |= dict(zip(new, gone, strict=True))
    return {one: name for one, name in found.items() if name != one.name}


def told_now(part: str, names: Mapping[str, str]) -> str:
    """A part of what entered, told by the names of now. names: of now, by earlier ones."""
    for earlier, name in names.items():
        if part.endswith(f" of {earlier}"):
            return f"{part.removesuffix(earlier)}{name}"
    return part


def of_colliders(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """What entered a bake, told by the names that its colliders have by now."""
    pairs = _pairs(before, now, (MOVES, SHAPE))
    found = {}
    for part, digest in before.items():
        head = next((one for one in (MOVES, SHAPE) if part.startswith(one)), "")
        name = part.removeprefix(head)
        found[f"{head}{pairs.get(name, name)}" if head else part] = digest
    return found


def of_shared(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """What was set for a bake of colliders and force fields, told by the names that they have by now."""
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
    """Names of now by earlier ones: of what is the same first, then of the rest in their order."""
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

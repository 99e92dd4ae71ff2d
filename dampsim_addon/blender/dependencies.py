"""References between datablocks, and the objects that an object depends on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import bpy

# Types of datablocks that refer to objects, but through which none of them moves another one.
_NOT_FOLLOWED = (
    bpy.types.Scene,
    bpy.types.WindowManager,
    bpy.types.Screen,
    bpy.types.WorkSpace,
    bpy.types.World,
    bpy.types.Material,
)


class References:
    """References of all datablocks of the file, from Blender's own list of them.

    The list covers parents, constraints, drivers, modifiers, node trees, textures, particles, collections and custom
    properties, also of future versions.
    """

    def __init__(self) -> None:
        self._targets = defaultdict[bpy.types.ID, set[bpy.types.ID]](set)
        for target, users in bpy.data.user_map().items():
            for user in users:
                self._targets[user].add(target)

    def reachable(self, roots: Iterable[bpy.types.ID]) -> set[bpy.types.ID]:
        """Return all datablocks that may influence some datablocks, including those."""
        found, queue = set[bpy.types.ID](), list(roots)
        while queue:
            one = queue.pop()
            if one in found or isinstance(one, _NOT_FOLLOWED):
                continue
            found.add(one)
            queue += self._targets.get(one, ())
        return found

    def reachable_objects(self, roots: Iterable[bpy.types.ID]) -> list[bpy.types.Object]:
        """Return the objects among reachable(), in the order of their names."""
        found = [one for one in self.reachable(roots) if isinstance(one, bpy.types.Object)]
        return sorted(found, key=lambda obj: str(obj.name_full))


def is_local(*blocks: bpy.types.ID) -> bool:
    """Return whether datablocks belong to this file alone: neither linked nor library overrides."""
    return all(one.library is None and one.override_library is None for one in blocks)

"""Bake targets. A new target is one file here with a KeyTarget or FileTarget, and one name in TARGETS."""

from __future__ import annotations

import bpy

from ...core import SceneError
from .alembic import Alembic
from .bones import Bones
from .cache_file import Mdd, PointCache
from .existing_bones import ExistingBones
from .shape_key_targets import AbsoluteKeys, CompressedKeys, FrameKeys
from .target import Cost, Shot, Storage, Target

# The first one is the default.
TARGETS: tuple[type[Target], ...] = (
    CompressedKeys, FrameKeys, AbsoluteKeys, PointCache, Mdd, Alembic, Bones, ExistingBones,
)  # fmt: skip


def find_target(name: str) -> Target | None:
    """Return a target by name; None if this version does not have it."""
    return next((target() for target in TARGETS if target.name == name), None)


def get_target(name: str) -> Target:
    """Return a target by name. Raises SceneError if this version does not have it."""
    found = find_target(name)
    if found is None:
        raise SceneError(f"The bake target '{name}' is unknown; choose another target, or update DampSim.")
    return found


class HasTarget:
    """Mixin of property groups that have a bake target. target: its name."""

    target: str

    @property
    def bakes_to_file(self) -> bool:
        """Return whether a file will hold the vertices, instead of shape keys or bones that move those of the mesh."""
        found = find_target(self.target)
        return found is not None and found.storage is Storage.FILE

    @property
    def bakes_to_bones(self) -> bool:
        """Return whether the bake animates bones."""
        found = find_target(self.target)
        return found is not None and found.storage is Storage.BONES


def clear_storage(obj: bpy.types.Object, storage: Storage) -> None:
    """Remove the bake in a storage, whichever target made it."""
    next(target for target in TARGETS if target.storage is storage)().clear(obj)


__all__ = [
    "TARGETS",
    "Cost",
    "HasTarget",
    "PointCache",
    "Shot",
    "Storage",
    "Target",
    "clear_storage",
    "find_target",
    "get_target",
]

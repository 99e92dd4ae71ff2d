"""What a bake can become. A new target is one file here, a KeyTarget or a FileTarget, and one name in TARGETS."""

from __future__ import annotations

import bpy

from ...core.errors import SceneError
from .absolute_keys import AbsoluteKeys
from .alembic import Alembic
from .compressed_keys import CompressedKeys
from .frame_keys import FrameKeys
from .mdd import Mdd
from .pc2 import PointCache
from .target import Cost, Shot, Storage, Target

# The first one is the default.
TARGETS: tuple[type[Target], ...] = (CompressedKeys, FrameKeys, AbsoluteKeys, PointCache, Mdd, Alembic)


def find(name: str) -> type[Target] | None:
    """By name; None where it is another version's."""
    return next((cls for cls in TARGETS if cls.name == name), None)


def target(name: str) -> type[Target]:
    """By name. Raises SceneError where it is another version's."""
    found = find(name)
    if found is None:
        raise SceneError(f"This DampSim knows no bake to '{name}'; choose another target, or use a newer DampSim.")
    return found


class HasTarget:
    """Of what the artist chose a target for. target: by name."""

    target: str

    @property
    def bakes_to_keys(self) -> bool:
        """Whether the bake will be shape keys, which move the mesh before its modifiers."""
        found = find(self.target)
        return found is not None and found.storage is Storage.KEYS


def clear(obj: bpy.types.Object, storage: Storage) -> None:
    """Remove the bake that is kept there, whichever target made it."""
    next(cls for cls in TARGETS if cls.storage is storage).clear(obj)


__all__ = ["TARGETS", "Cost", "HasTarget", "PointCache", "Shot", "Storage", "Target", "clear", "find", "target"]

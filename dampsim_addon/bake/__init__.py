"""What a bake can become. A new target is one file here and one line in TARGETS."""

from __future__ import annotations

from .point_cache import PointCache
from .shape_keys import ShapeKeys
from .target import Target

TARGETS: tuple[type[Target], ...] = (ShapeKeys, PointCache)


def target(name: str) -> type[Target]:
    return next(cls for cls in TARGETS if cls.name == name)


__all__ = ["TARGETS", "Target", "target"]

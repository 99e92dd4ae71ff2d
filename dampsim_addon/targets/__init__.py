"""What a bake can become. A new target is one file here and one line in TARGETS."""

from __future__ import annotations

from .absolute_keys import AbsoluteKeys
from .alembic import Alembic
from .compressed_keys import CompressedKeys
from .frame_keys import FrameKeys
from .mdd import Mdd
from .pc2 import PointCache
from .target import Cost, Shot, Target

# The first one is the default.
TARGETS: tuple[type[Target], ...] = (CompressedKeys, FrameKeys, AbsoluteKeys, PointCache, Mdd, Alembic)


def target(name: str) -> type[Target]:
    return next(cls for cls in TARGETS if cls.name == name)


__all__ = ["TARGETS", "Cost", "Shot", "Target", "target"]

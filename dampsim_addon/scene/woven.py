"""Whether the yarns that one sees are those of a woven object as it is now; asked at every drawing of its panel."""

from __future__ import annotations

import enum
import zlib
from typing import Any

import bpy
import numpy as np

from ..blender.animation import animated_paths
from ..blender.modifiers import simulated_makers
from ..blender.yarns import drawn_of, shows_yarns, woven_by
from .asked import Asked


class Yarns(enum.Enum):
    """How the yarns of a woven object stand, in words."""

    DRAWN = ""
    MISSING = "Nothing shows its yarns"
    EARLIER = "Its yarns are of an earlier mesh or thickness"


_asked = Asked(shows_yarns)


def standing(obj: bpy.types.Object, scene: bpy.types.Scene) -> Yarns:
    """How a woven object's yarns stand in a scene."""
    found = [one for one in _asked.now() if woven_by(one) == obj and one.name in scene.objects]
    if not found:
        return Yarns.MISSING
    # Of yarns that an earlier DampSim drew, nobody knows.
    return Yarns.DRAWN if drawn_of(found[0]) in ("", drawn_by(obj)) else Yarns.EARLIER


def drawn_by(obj: bpy.types.Object) -> str:
    """A digest of what decides which yarns are drawn of a woven object, but for what is keyframed of it."""
    mesh, keyed = obj.data, animated_paths(obj)
    said: list[object] = [len(mesh.vertices), _crc(mesh.edges, 2), _crc(mesh.loops, 1)]
    if "dampsim.thickness" not in keyed:
        said.append(f"{obj.dampsim.thickness:.6g}")
    if "scale" not in keyed:
        # Yarns are children, and as thick as is dialled in the world.
        said.append(f"{np.abs(np.array(obj.scale)).mean():.4g}")
    # Of each what another Blender knows of it too.
    said += [(m.type, getattr(m, "levels", 0), *getattr(m, "use_axis", ())) for m in simulated_makers(obj)]
    return f"{zlib.crc32(repr(said).encode()):08x}"


def _crc(collection: Any, width: int) -> int:
    values = np.empty(width * len(collection), dtype=np.int32)
    collection.foreach_get("vertices" if width > 1 else "vertex_index", values)
    return zlib.crc32(values.tobytes())


register = _asked.watch
unregister = _asked.unwatch

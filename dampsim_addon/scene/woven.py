"""Status of the displayed yarns of a woven object, queried at each redraw of its panel."""

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
    """Status of a woven object's displayed yarns, as a message; '' if they are current."""

    DRAWN = ""
    MISSING = "Its yarns are not displayed"
    EARLIER = "Its yarns are outdated: mesh or thickness has changed"


_asked = Asked(shows_yarns)


def standing(obj: bpy.types.Object, scene: bpy.types.Scene) -> Yarns:
    """Return the status of a woven object's yarns in a scene."""
    found = [one for one in _asked.now() if woven_by(one) == obj and one.name in scene.objects]
    if not found:
        return Yarns.MISSING
    # Yarns without a stored digest count as current.
    return Yarns.DRAWN if drawn_of(found[0]) in ("", drawn_by(obj)) else Yarns.EARLIER


def drawn_by(obj: bpy.types.Object) -> str:
    """Return a digest of the inputs of a woven object's yarns that are not animated."""
    mesh, keyed = obj.data, animated_paths(obj)
    said: list[object] = [len(mesh.vertices), _crc(mesh.edges, 2), _crc(mesh.loops, 1)]
    if "dampsim.thickness" not in keyed:
        said.append(f"{obj.dampsim.thickness:.6g}")
    if "scale" not in keyed:
        # Yarns are children of the object, but their thickness is in world units.
        said.append(f"{np.abs(np.array(obj.scale)).mean():.4g}")
    # Only use settings that exist in all supported versions of Blender.
    said += [(m.type, getattr(m, "levels", 0), *getattr(m, "use_axis", ())) for m in simulated_makers(obj)]
    return f"{zlib.crc32(repr(said).encode()):08x}"


def _crc(collection: Any, width: int) -> int:
    values = np.empty(width * len(collection), dtype=np.int32)
    collection.foreach_get("vertices" if width > 1 else "vertex_index", values)
    return zlib.crc32(values.tobytes())


register = _asked.watch
unregister = _asked.unwatch

"""Status of the displayed yarns of a woven object, queried at each redraw of its panel."""

from __future__ import annotations

import enum
import zlib
from typing import Any

import bpy
import numpy as np

from ..blender.animation import animated_paths
from ..blender.modifiers import simulated_topology_modifiers
from ..blender.yarns import shows_yarns, stored_yarn_digest, yarn_source
from ..model.object_index import ObjectIndex


class YarnStatus(enum.Enum):
    """Status of a woven object's displayed yarns, as a message; '' if they are current."""

    DRAWN = ""
    MISSING = "Its yarns are not displayed"
    OUTDATED = "Its yarns are outdated: mesh or thickness has changed"


class YarnIndex(ObjectIndex):
    """Index of the displayed yarns."""

    is_match = staticmethod(shows_yarns)


def yarn_status(obj: bpy.types.Object, scene: bpy.types.Scene) -> YarnStatus:
    """Return the status of a woven object's yarns in a scene."""
    found = [one for one in YarnIndex.current().objects() if yarn_source(one) == obj and one.name in scene.objects]
    if not found:
        return YarnStatus.MISSING
    # Yarns without a stored digest count as current.
    return YarnStatus.DRAWN if stored_yarn_digest(found[0]) in ("", yarn_digest(obj)) else YarnStatus.OUTDATED


def yarn_digest(obj: bpy.types.Object) -> str:
    """Return a digest of the inputs of a woven object's yarns that are not animated."""
    mesh, keyed = obj.data, animated_paths(obj)
    inputs: list[object] = [len(mesh.vertices), index_checksum(mesh.edges, 2), index_checksum(mesh.loops, 1)]
    if "dampsim.thickness" not in keyed:
        inputs.append(f"{obj.dampsim.thickness:.6g}")
    if "scale" not in keyed:
        # Yarns are children of the object, but their thickness is in world units.
        inputs.append(f"{np.abs(np.array(obj.scale)).mean():.4g}")
    # Only use settings that exist in all supported versions of Blender.
    inputs += [
        (m.type, getattr(m, "levels", 0), *getattr(m, "use_axis", ())) for m in simulated_topology_modifiers(obj)
    ]
    return f"{zlib.crc32(repr(inputs).encode()):08x}"


def index_checksum(collection: Any, width: int) -> int:
    """Return a checksum of the vertex indices of edges (width 2) or face corners (width 1)."""
    values = np.empty(width * len(collection), dtype=np.int32)
    collection.foreach_get("vertices" if width > 1 else "vertex_index", values)
    return zlib.crc32(values.tobytes())

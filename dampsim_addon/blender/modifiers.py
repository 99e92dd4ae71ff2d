"""What DampSim knows of Blender's modifiers."""

from __future__ import annotations

import bpy

from .marks import is_ours

# Those that move vertices and keep their number. Pins follow these; all others are muted while sampling.
DEFORMING = frozenset(
    {
        "ARMATURE",
        "CAST",
        "CORRECTIVE_SMOOTH",
        "CURVE",
        "DISPLACE",
        "HOOK",
        "LAPLACIANDEFORM",
        "LAPLACIANSMOOTH",
        "LATTICE",
        "MESH_CACHE",
        "MESH_DEFORM",
        "MESH_SEQUENCE_CACHE",
        "SHRINKWRAP",
        "SIMPLE_DEFORM",
        "SMOOTH",
        "SURFACE_DEFORM",
        "VERTEX_WEIGHT_EDIT",
        "VERTEX_WEIGHT_MIX",
        "VERTEX_WEIGHT_PROXIMITY",
        "VOLUME_DISPLACE",
        "WARP",
        "WAVE",
    }
)


def deforms(obj: bpy.types.Object) -> bool:
    """Whether a modifier of the artist's moves the vertices after the shape keys."""
    return any(m.type in DEFORMING and m.show_viewport and not is_ours(m.name) for m in obj.modifiers)

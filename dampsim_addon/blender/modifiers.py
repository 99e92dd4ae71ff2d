"""What DampSim knows of Blender's modifiers, and which of an object's are simulated."""

from __future__ import annotations

from collections.abc import Collection

import bpy

from .marks import is_ours

# Those that move vertices and keep their number. Pins follow these.
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
# Those that leave the vertices as they are, or simulate something of their own. All others may make vertices.
_KEEPING = DEFORMING | {
    "CLOTH",
    "COLLISION",
    "DATA_TRANSFER",
    "DYNAMIC_PAINT",
    "NORMAL_EDIT",
    "PARTICLE_SYSTEM",
    "SOFT_BODY",
    "SURFACE",
    "TRIANGULATE",
    "UV_PROJECT",
    "UV_WARP",
    "WEIGHTED_NORMAL",
}


def base(obj: bpy.types.Object, muted: Collection[str] = ()) -> list[bpy.types.Modifier]:
    """The artist's modifiers that are shown, up to the last one that deforms or mirrors. What lies behind them is
    never simulated.

    muted: names of modifiers that are switched off for a while, and count.
    """
    shown = [m for m in obj.modifiers if (m.show_viewport or m.name in muted) and not is_ours(m.name)]
    last = max((k for k, m in enumerate(shown) if m.type in DEFORMING or m.type == "MIRROR"), default=-1)
    return shown[: last + 1]


def makes(modifier: bpy.types.Modifier) -> bool:
    """Whether it may make vertices, or take some away."""
    return modifier.type not in _KEEPING


def makers(obj: bpy.types.Object, muted: Collection[str] = ()) -> list[bpy.types.Modifier]:
    """Those of the base that make vertices, or take some away."""
    return [m for m in base(obj, muted) if makes(m)]


def simulated_makers(obj: bpy.types.Object) -> list[bpy.types.Modifier]:
    """Those of the base whose vertices are simulated; where there are none, the mesh's own vertices are.

    Shape keys move the mesh before all modifiers, so that they can do without what Subdivision makes of it, but not
    without the half that a Mirror makes.
    """
    found = makers(obj)
    mirrors = any(modifier.type == "MIRROR" for modifier in found)
    return found if mirrors or not obj.dampsim.bakes_to_keys else []


def dialled_of(modifier: bpy.types.Modifier) -> list[object]:
    """Its name and kind, and what is set of it beside what it refers to."""
    plain = [p for p in modifier.bl_rna.properties if p.type in ("BOOLEAN", "INT", "FLOAT", "ENUM")]
    names = [p.identifier for p in plain if not p.is_readonly and not p.identifier.startswith(("show_", "is_"))]
    return [modifier.name, modifier.type, *(_plain(getattr(modifier, name)) for name in names)]


def _plain(value: object) -> object:
    if isinstance(value, (bool, int, float, str)):
        return value
    return sorted(value) if isinstance(value, set) else tuple(value)  # type: ignore[var-annotated, arg-type]


def thickener(obj: bpy.types.Object) -> bpy.types.Modifier | None:
    """What gives the mesh its thickness only behind what is simulated."""
    simulated = simulated_makers(obj)
    found = [m for m in obj.modifiers if m.type == "SOLIDIFY" and m.show_viewport and m not in simulated]
    return found[0] if found else None


def deforms(obj: bpy.types.Object) -> bool:
    """Whether a modifier of the artist's moves the vertices after the shape keys."""
    return any(m.type in DEFORMING and m.show_viewport and not is_ours(m.name) for m in obj.modifiers)

"""Classes of Blender's modifiers, and the part of an object's stack that is simulated."""

from __future__ import annotations

from collections.abc import Collection

import bpy

from .dampsim_names import is_dampsim_name

# Types that move vertices and keep the topology. Pins follow these.
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
# Types that keep the topology, or run a simulation of their own. All others may change the topology.
_TOPOLOGY_PRESERVING = DEFORMING | {
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


def deform_stack(obj: bpy.types.Object, muted: Collection[str] = ()) -> list[bpy.types.Modifier]:
    """Return the user's visible modifiers up to the last one that deforms or mirrors. Later ones are never simulated.

    muted: names of modifiers that count as visible, although they are temporarily switched off.
    """
    visible = [m for m in obj.modifiers if (m.show_viewport or m.name in muted) and not is_dampsim_name(m.name)]
    last = max((k for k, m in enumerate(visible) if m.type in DEFORMING or m.type == "MIRROR"), default=-1)
    return visible[: last + 1]


def can_change_topology(modifier: bpy.types.Modifier) -> bool:
    """Return whether a modifier may add or remove vertices."""
    return modifier.type not in _TOPOLOGY_PRESERVING


def topology_modifiers(obj: bpy.types.Object, muted: Collection[str] = ()) -> list[bpy.types.Modifier]:
    """Return the modifiers of the deform stack that may add or remove vertices."""
    return [m for m in deform_stack(obj, muted) if can_change_topology(m)]


def simulated_topology_modifiers(obj: bpy.types.Object) -> list[bpy.types.Modifier]:
    """Return the topology-changing modifiers whose vertices are simulated; if none, the mesh's own vertices are.

    Shape keys act before all modifiers. A bake to shape keys can therefore leave out subdivided vertices, but not the
    half that a Mirror adds.
    """
    found = topology_modifiers(obj)
    mirrors = any(modifier.type == "MIRROR" for modifier in found)
    return found if mirrors or not obj.dampsim.bakes_to_keys else []


def modifier_settings(modifier: bpy.types.Modifier) -> list[object]:
    """Return the name, type and editable settings of a modifier or constraint, without the objects it refers to."""
    plain = [p for p in modifier.bl_rna.properties if p.type in ("BOOLEAN", "INT", "FLOAT", "ENUM")]
    names = [p.identifier for p in plain if not p.is_readonly and not p.identifier.startswith(("show_", "is_"))]
    return [modifier.name, modifier.type, *(_comparable(getattr(modifier, name)) for name in names)]


def _comparable(value: object) -> object:
    if isinstance(value, (bool, int, float, str)):
        return value
    return sorted(value) if isinstance(value, set) else tuple(value)  # type: ignore[var-annotated, arg-type]


def trailing_solidify(obj: bpy.types.Object) -> bpy.types.Modifier | None:
    """Return the first visible Solidify modifier after the simulated ones; None where there is none."""
    simulated = simulated_topology_modifiers(obj)
    found = [m for m in obj.modifiers if m.type == "SOLIDIFY" and m.show_viewport and m not in simulated]
    return found[0] if found else None


def has_deform_modifier(obj: bpy.types.Object) -> bool:
    """Return whether a visible modifier of the user moves vertices after the shape keys."""
    return any(m.type in DEFORMING and m.show_viewport and not is_dampsim_name(m.name) for m in obj.modifiers)

"""Classes of Blender's modifiers, the simulated part of a stack, and modifiers that play vertices from a file."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

import bpy
import numpy as np

from ...core import SceneError
from .animation import is_modifier_animated
from .dampsim_names import is_output_modifier
from .geometry_nodes import modifier_effect
from .movers import MODIFIER_EFFECTS, PARTICLE_USERS, ModifierEffect, modifier_type_effect, moves_on_its_own

# Types that always move vertices and keep the topology. Pins follow these. See also is_deforming().
DEFORMING = frozenset(name for name, effect in MODIFIER_EFFECTS.items() if effect is ModifierEffect.MOVES)

# Types that change the weights of a vertex group, with the property that names it.
WEIGHT_MODIFIERS = {
    "VERTEX_WEIGHT_EDIT": "vertex_group",
    "VERTEX_WEIGHT_MIX": "vertex_group_a",
    "VERTEX_WEIGHT_PROXIMITY": "vertex_group",
}


# Types that build a new mesh, whose vertices have no weights.
_REBUILDING = ("REMESH", "NODES", "SKIN", "FLUID", "OCEAN", "MESH_SEQUENCE_CACHE")


def is_deforming(modifier: bpy.types.Modifier) -> bool:
    """Return whether a modifier keeps the topology, and moves vertices over time or changes pin weights."""
    pin_group = modifier.id_data.dampsim.pin_group
    if modifier.type == "NODES":
        effect = modifier_effect(modifier)
        return effect.keeps_topology and (moves_on_its_own(modifier) or changes_weights(modifier, pin_group))
    if modifier.type == "DATA_TRANSFER":
        return changes_weights(modifier, pin_group)
    return modifier.type in DEFORMING or bool(modifier.type == "OCEAN" and modifier.geometry_mode == "DISPLACE")


def deform_stack(
    obj: bpy.types.Object, muted: Collection[str] = (), new: bpy.types.Modifier | None = None
) -> list[bpy.types.Modifier]:
    """Return the user's visible modifiers up to the last one that deforms or mirrors. Later ones are never simulated.

    muted: names of modifiers that count as visible, although they are temporarily switched off.
    new: modifier of DampSim that has no file yet.
    """
    visible = [m for m in _visible_modifiers(obj, muted) if m != new]
    last = max((k for k, m in enumerate(visible) if is_deforming(m) or m.type == "MIRROR"), default=-1)
    return visible[: last + 1]


def _visible_modifiers(obj: bpy.types.Object, muted: Collection[str]) -> list[bpy.types.Modifier]:
    """Return the user's visible modifiers. muted: see deform_stack()."""
    return [m for m in obj.modifiers if (m.show_viewport or m.name in muted) and not is_output_modifier(m)]


def can_change_topology(modifier: bpy.types.Modifier) -> bool:
    """Return whether a modifier may add or remove vertices."""
    if modifier.type == "NODES":
        return not modifier_effect(modifier).keeps_topology
    if modifier.type == "OCEAN":
        return bool(modifier.geometry_mode == "GENERATE")
    if modifier.type in MODIFIER_EFFECTS:
        return MODIFIER_EFFECTS[modifier.type] is ModifierEffect.GENERATES or modifier.type == "FLUID"
    return True


def weight_removing_modifiers(obj: bpy.types.Object) -> list[bpy.types.Modifier]:
    """Return the visible modifiers that may remove the weights of all vertices."""
    return [m for m in obj.modifiers if m.show_viewport and m.type in _REBUILDING and can_change_topology(m)]


def topology_modifiers(obj: bpy.types.Object, muted: Collection[str] = ()) -> list[bpy.types.Modifier]:
    """Return the modifiers of the deform stack that may add or remove vertices."""
    return [m for m in deform_stack(obj, muted) if can_change_topology(m)]


def simulated_topology_modifiers(obj: bpy.types.Object, muted: Collection[str] = ()) -> list[bpy.types.Modifier]:
    """Return the topology-changing modifiers whose vertices are simulated; if none, the mesh's own vertices are.

    Shape keys act before all modifiers. A bake to shape keys can therefore leave out subdivided vertices, but not the
    half that a Mirror adds.  muted: see deform_stack().
    """
    found = topology_modifiers(obj, muted)
    mirrors = any(modifier.type == "MIRROR" for modifier in found)
    return found if mirrors or obj.dampsim.bakes_to_file else []


# Properties by which modifiers are bound to the vertices that they had then.
_BINDINGS = {
    "CORRECTIVE_SMOOTH": "is_bind",
    "LAPLACIANDEFORM": "is_bind",
    "MESH_DEFORM": "is_bound",
    "SURFACE_DEFORM": "is_bound",
}


def modifier_bound_to_generated(obj: bpy.types.Object) -> bpy.types.Modifier | None:
    """Return a modifier that Blender cannot apply while the object is sampled, because it is bound to more vertices."""
    stack, sampled = deform_stack(obj), sampled_modifiers(obj)
    left_out = next((k for k, m in enumerate(stack) if m not in sampled and can_change_topology(m)), len(stack))
    bound = (m for m in stack[left_out:] if getattr(m, _BINDINGS.get(m.type, ""), False))
    return next((m for m in bound if getattr(m, "rest_source", "BIND") == "BIND"), None)


def sampled_modifiers(obj: bpy.types.Object, muted: Collection[str] = ()) -> list[bpy.types.Modifier]:
    """Return the modifiers whose effect the simulation feels: those of the deform stack that keep the topology.

    If generated vertices are simulated, the whole deform stack counts.  muted: see deform_stack().
    """
    stack = deform_stack(obj, muted)
    if simulated_topology_modifiers(obj, muted):
        return stack
    felt = (ModifierEffect.MOVES, ModifierEffect.PREPARES)
    kept = [m for m in stack if not can_change_topology(m)]
    return [m for m in kept if m.type in ("NODES", "OCEAN") or modifier_type_effect(m.type) in felt]


def has_weight_modifier(obj: bpy.types.Object, group: str) -> bool:
    """Return whether a sampled modifier changes the weights of a vertex group."""
    return any(changes_weights(modifier, group) for modifier in sampled_modifiers(obj))


def changes_weights(modifier: Any, group: str) -> bool:
    """Return whether a modifier may change the weights of a vertex group of its object."""
    if group not in modifier.id_data.vertex_groups:
        return False
    if modifier.type == "NODES":
        return modifier_effect(modifier).may_store(group)
    if modifier.type == "DATA_TRANSFER":
        return bool(modifier.use_vert_data) and "VGROUP_WEIGHTS" in modifier.data_types_verts
    name = WEIGHT_MODIFIERS.get(modifier.type)
    return name is not None and getattr(modifier, name) == group


def unfelt_modifiers(obj: bpy.types.Object, muted: Collection[str] = ()) -> list[bpy.types.Modifier]:
    """Return the modifiers that move vertices over time without being sampled, unless the user accepted them.

    muted: see deform_stack().
    """
    sampled, accepted = sampled_modifiers(obj, muted), obj.dampsim.accepted_modifiers.split("\n")
    others = [m for m in _visible_modifiers(obj, muted) if m not in sampled and m.name not in accepted]
    return list(filter(moves_on_its_own, others))


def find_switched_modifiers(obj: bpy.types.Object) -> list[bpy.types.Modifier]:
    """Return the modifiers that animation switches in viewports, and that give the mesh other vertices or are not felt.

    No sampler can keep them switched off.
    """
    switched = [m for m in obj.modifiers if is_modifier_animated(m, "show_viewport") and not is_output_modifier(m)]
    return [m for m in switched if can_change_topology(m) or not is_deforming(m)]


# Settings that Blender stores as one number, by type of modifier.
_SHARED_SETTINGS = {"SIMPLE_DEFORM": ({"factor", "angle"},), "BEVEL": ({"width", "width_pct"},)}


def modifier_settings(modifier: bpy.types.Modifier, keyed: Collection[str] = ()) -> list[object]:
    """Return the name, type and editable settings of a modifier or constraint, without the objects it refers to.

    keyed: data paths of settings that are left out.
    """
    plain = [p for p in modifier.bl_rna.properties if p.type in ("BOOLEAN", "INT", "FLOAT", "ENUM")]
    names = [p.identifier for p in plain if not p.is_readonly and not p.identifier.startswith(("show_", "is_"))]
    path = f"{modifier.path_from_id()}." if keyed else ""
    left_out = {name for name in names if f"{path}{name}" in keyed}
    for shared in _SHARED_SETTINGS.get(modifier.type, ()):
        left_out |= shared if shared & left_out else set()
    values = [_comparable(getattr(modifier, name)) for name in names if name not in left_out]
    return [modifier.name, modifier.type, *values]


def _comparable(value: object) -> object:
    if isinstance(value, (bool, int, float, str)):
        return value
    return sorted(value) if isinstance(value, set) else tuple(value)  # type: ignore[var-annotated, arg-type]


def is_read_by_others(modifier: bpy.types.Modifier) -> bool:
    """Return whether a modifier that moves no vertex may move other objects: by collisions, or by its particles."""
    if modifier.type != "PARTICLE_SYSTEM":
        return modifier_type_effect(modifier.type) is ModifierEffect.NONE
    # Particles take long to evaluate, so they are switched off where nothing uses them.
    own = modifier.id_data
    users = (m for obj in bpy.data.objects for m in obj.modifiers if m.type in PARTICLE_USERS)
    return any(m.type != "PARTICLE_INSTANCE" or m.object == own for m in users)


def trailing_solidify(obj: bpy.types.Object) -> bpy.types.Modifier | None:
    """Return the first visible Solidify modifier after the simulated ones; None where there is none."""
    simulated = simulated_topology_modifiers(obj)
    visible = (m for m in obj.modifiers if m.type == "SOLIDIFY" and m.show_viewport)
    return next((m for m in visible if m not in simulated), None)


def has_deform_modifier(obj: bpy.types.Object) -> bool:
    """Return whether a visible modifier of the user moves vertices after the shape keys."""
    return any(map(is_deforming, _visible_modifiers(obj, ())))


def pc2_header(vertices: int, first: float, samples: int) -> bytes:
    """Return the header of a PC2 file with one sample per frame from the first on; little-endian floats follow it."""
    return struct.pack("<12siiffi", b"POINTCACHE2\0", 1, vertices, first, 1.0, samples)


def mdd_header(vertices: int, times: list[float]) -> bytes:
    """Return the header of an MDD file with a sample for each of the times (s); big-endian floats follow it."""
    return struct.pack(">ii", len(times), vertices) + np.asarray(times, dtype=">f4").tobytes()


def add_cache_modifier(obj: bpy.types.Object, name: str, modifier_type: str, is_first: bool = False) -> Any:
    """Add a modifier, before all others or after the deform stack. The active modifier stays active.

    Raises SceneError where modifiers from a library leave no place for it.
    """
    active = obj.modifiers.active.name if obj.modifiers.active else ""
    modifier: Any = obj.modifiers.new(name, modifier_type)
    if not place_modifier(obj, modifier, is_first):
        obj.modifiers.remove(modifier)
        raise SceneError(
            f"{obj.name}: its modifiers are linked from another file and leave no place for a cache. Bake it there."
        )
    if active:
        obj.modifiers.active = obj.modifiers[active]
    return modifier


def place_modifier(obj: bpy.types.Object, modifier: bpy.types.Modifier, is_first: bool = False) -> bool:
    """Move a DampSim modifier before all others or after the deform stack. Return whether that was possible."""
    target_index = 0 if is_first else _index_after_deform_stack(obj, modifier)
    current_index = obj.modifiers.find(modifier.name)
    if current_index != target_index:
        obj.modifiers.move(current_index, target_index)
    return bool(obj.modifiers.find(modifier.name) == target_index)


def _index_after_deform_stack(obj: bpy.types.Object, new: bpy.types.Modifier) -> int:
    """Return the index after the deform stack, and after hidden modifiers that deform once they are shown.

    new: modifier to be placed, which does not count.
    """
    stack, simulated = [one for one in obj.modifiers if one != new], deform_stack(obj, new=new)
    index = stack.index(simulated[-1]) + 1 if simulated else 0
    for number, modifier in enumerate(stack[index:], index + 1):
        if can_change_topology(modifier) and (modifier.show_viewport or modifier.show_render):
            break
        if is_deforming(modifier):
            index = number
    return index


def play_file(modifier: Any, file_format: str, path: str, first_frame: float) -> None:
    """Set a Mesh Cache modifier to play a PC2 or MDD file from a frame on."""
    modifier.cache_format, modifier.filepath = file_format, path
    modifier.frame_start, modifier.interpolation = first_frame, "LINEAR"


def remove_modifier(obj: bpy.types.Object, modifier: bpy.types.Modifier) -> None:
    """Remove a modifier and keep the active one active, unlike Blender."""
    active = obj.modifiers.active.name if obj.modifiers.active else ""
    obj.modifiers.remove(modifier)
    if active in obj.modifiers:
        obj.modifiers.active = obj.modifiers[active]

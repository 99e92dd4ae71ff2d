"""Bone envelopes: the weights that Blender computes from the places of vertices, and their conversion to vertex groups.

Shape keys come before the Armature modifier. A key that moves a vertex through the edge of an envelope also changes the
weights of the vertex, so that often no key reaches the simulated shape. Weights in vertex groups stay as they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import bpy
import numpy as np

from ...core import Array, Index
from ...core.base.arrays import Mask
from ...core.geometry.mesh.rigid_motion import transform_points
from .animation import animated_paths, is_modifier_animated
from .dampsim_names import is_output_modifier, is_rig_modifier
from .movers import count_mesh_users, is_local, node_inputs
from .sampler import GroupSampler, local_vertices, mesh_positions, read_array

# Paths of the properties that place an object.
_TRANSFORM_PATHS = ("location", "rotation", "scale", "delta_")
# Types of parents that move without animation of the parent object.
_MOVING_PARENT_TYPES = ("BONE", "VERTEX", "VERTEX_3")
# Names of the settings of a bone that give its envelope.
_ENVELOPE_SETTINGS = (
    "envelope_distance", "envelope_weight", "head_radius", "tail_radius", "use_deform", "use_envelope_multiply",
)  # fmt: skip
# Largest motion of a vertex by a conversion, as a fraction of the size, that is invisible.
_MAX_CHANGE = 1e-4


def envelope_modifiers(obj: bpy.types.Object) -> list[Any]:
    """Return the visible Armature modifiers of an object with bone envelopes, except for those of a bake."""
    return [
        modifier
        for modifier in obj.modifiers
        if modifier.type == "ARMATURE" and modifier.show_viewport and not is_rig_modifier(modifier)
        and modifier.object is not None and modifier.use_bone_envelopes
    ]  # fmt: skip


def enveloped_vertices(obj: bpy.types.Object) -> Mask:
    """Return the vertices (v,) that an Armature modifier moves by envelopes, because they are in no group of a bone."""
    found = np.zeros(len(obj.data.vertices), dtype=np.bool_)
    for modifier in envelope_modifiers(obj):
        vertices, weights = _envelopes_of(obj, modifier)
        found[vertices] |= (weights > 0.0).any(axis=0)
    return found


def convert_deforming_parent(obj: bpy.types.Object, scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer) -> None:
    """Replace the deformation by a parent, see has_deforming_parent(), by a modifier before all others.

    Weights replace its envelopes where convert_envelopes() can do so.
    """
    parent: Any = obj.parent
    modifier: Any = obj.modifiers.new(parent.type.title(), parent.type)
    modifier.object = parent
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    obj.parent_type = "OBJECT"
    if parent.type == "ARMATURE":
        # Blender's parent type uses both.
        modifier.use_vertex_groups = modifier.use_bone_envelopes = True
        convert_envelopes(obj, scene, view_layer)


def can_convert_envelopes(obj: bpy.types.Object) -> bool:
    """Return whether weights can replace the bone envelopes of an object without changing its look at any frame.

    The object needs a mesh of its own, relative shape keys without masks and animation, one Armature modifier with
    envelopes that no modifier precedes, and a fixed place among the bones. Nothing else may read the vertex groups.
    """
    modifiers = envelope_modifiers(obj)
    if len(modifiers) != 1 or not is_local(obj.data) or count_mesh_users(obj.data) > 1 or not _has_still_keys(obj):
        return False
    modifier, bones = modifiers[0], _deforming_bones(modifiers[0])
    names = {bone.name for bone in bones}
    # Vertex groups that the modifier has not used would begin to act.
    if not modifier.use_vertex_groups and not names.isdisjoint(obj.vertex_groups.keys()):
        return False
    # Blender multiplies weights by these envelopes again.
    if any(bone.use_envelope_multiply for bone in bones) or not names.isdisjoint(_read_groups(obj, modifier)):
        return False
    return _has_still_envelopes(modifier) and not _has_input_modifier(obj, modifier) and _is_still_among(obj, modifier)


def _has_still_keys(obj: bpy.types.Object) -> bool:
    """Return whether the user's shape keys give the same shape at all frames, see _mixed_positions()."""
    keys = obj.data.shape_keys
    if keys is None:
        return True
    return bool(keys.use_relative) and not any(key.vertex_group for key in keys.key_blocks) and not animated_paths(keys)


def _has_still_envelopes(modifier: Any) -> bool:
    """Return whether no animation changes the settings of an Armature modifier or the envelopes of its rig."""
    return not is_modifier_animated(modifier) and not any(
        path.endswith(_ENVELOPE_SETTINGS) for path in animated_paths(modifier.object.data)
    )


def _has_input_modifier(obj: bpy.types.Object, modifier: Any) -> bool:
    """Return whether another modifier of the user precedes one in viewports or renders."""
    before = itertools.takewhile(lambda one: one != modifier, obj.modifiers)
    return any(
        not is_output_modifier(one) and (one.show_viewport or one.show_render or is_modifier_animated(one))
        for one in before
    )


def _is_still_among(obj: bpy.types.Object, modifier: Any) -> bool:
    """Return whether an object keeps its place among the envelopes of a modifier's rig.

    Animation, constraints and physics of the object, of the rig, or of parents that only one of them has, may move it.
    So may parents that are bones or vertices.
    """
    chain, other = (list(_with_parents(one)) for one in (obj, modifier.object))
    separate = [one for one in (*chain, *other) if (one in chain) != (one in other)]
    return not any(
        one.rigid_body is not None
        or (one.parent is not None and one.parent_type in _MOVING_PARENT_TYPES)
        or any(not constraint.mute for constraint in one.constraints)
        or any(path.startswith(_TRANSFORM_PATHS) for path in animated_paths(one))
        for one in separate
    )


def _with_parents(obj: bpy.types.Object) -> Iterator[bpy.types.Object]:
    one: bpy.types.Object | None = obj
    while one is not None:
        yield one
        one = one.parent


def _read_groups(obj: bpy.types.Object, modifier: Any) -> set[str]:
    """Return the names of vertex groups that the object reads, except for those of the bones of a modifier."""
    others = [m for m in obj.modifiers if m.type == "ARMATURE" and m != modifier and m.object is not None]
    found = {bone.name for one in others for bone in _deforming_bones(one)}
    found |= {name for m in obj.modifiers if m.type == "NODES" for name in node_inputs(m) if isinstance(name, str)}
    for owner in (*obj.modifiers, *obj.particle_systems, obj.dampsim):
        found |= set(_group_names(owner))
    return found


def _group_names(owner: Any) -> Iterator[str]:
    """Iterate over the vertex groups that a struct names, also in the structs that it contains."""
    for one in owner.bl_rna.properties:
        if one.type == "STRING" and "group" in one.identifier:
            yield str(getattr(owner, one.identifier))
        elif one.type == "POINTER" and "settings" in one.identifier:
            settings = getattr(owner, one.identifier)
            yield from () if settings is None or isinstance(settings, bpy.types.ID) else _group_names(settings)
        elif one.type == "COLLECTION" and owner == owner.id_data.dampsim:
            for item in getattr(owner, one.identifier):
                yield from _group_names(item)


def convert_envelopes(obj: bpy.types.Object, scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer) -> bool:
    """Write the weights of the bone envelopes of an object to vertex groups, and switch the envelopes off.

    Return False, and change nothing, if this would change the look, see can_convert_envelopes(), also at the current
    frame. Output of DampSim does not count, as the sampler mutes it.
    """
    if obj.mode == "EDIT" or not can_convert_envelopes(obj):
        return False
    modifier = envelope_modifiers(obj)[0]
    flags, known = (modifier.use_vertex_groups, modifier.use_bone_envelopes), set(obj.vertex_groups.keys())
    with GroupSampler(scene, view_layer, [obj]).at_current_frame():
        before = local_vertices(obj, view_layer)
        written = _write_envelopes(obj, modifier)
        view_layer.update()
        after = local_vertices(obj, view_layer)
        size = float(np.linalg.norm(np.ptp(before, axis=0))) if len(before) else 0.0
        if before.shape == after.shape and np.abs(after - before).max(initial=0.0) <= _MAX_CHANGE * size:
            return True
        modifier.use_vertex_groups, modifier.use_bone_envelopes = flags
        for name, vertices in written.items():
            if name in known:
                obj.vertex_groups[name].remove(vertices)
            else:
                obj.vertex_groups.remove(obj.vertex_groups[name])
        obj.data.update()
    return False


def _write_envelopes(obj: bpy.types.Object, modifier: Any) -> dict[str, list[int]]:
    """Write the weights of envelopes to vertex groups, and return the vertices that were added to each group."""
    vertices, weights = _envelopes_of(obj, modifier)
    # Vertex groups hold weights up to 1. Armatures divide by the sum.
    weights /= np.maximum(weights.max(axis=0, initial=1.0), 1.0)
    written: dict[str, list[int]] = {}
    for bone, values in zip(_deforming_bones(modifier), weights, strict=True):
        for place in np.flatnonzero(values > 0.0).tolist():
            group = obj.vertex_groups.get(bone.name) or obj.vertex_groups.new(name=bone.name)
            group.add([int(vertices[place])], float(values[place]), "REPLACE")
            written.setdefault(bone.name, []).append(int(vertices[place]))
    modifier.use_vertex_groups, modifier.use_bone_envelopes = True, False
    obj.data.update()
    return written


def envelope_weights(bone: bpy.types.Bone, points: Array) -> Array:
    """Return the weights (p,) that the envelope of a bone gives to points (p, 3) in the space of the armature.

    Blender computes them so (`distfactor_to_bone`): 1 within the radius of the bone, fading to 0 over its envelope
    distance, times its envelope weight.
    """
    head, tail = np.array(bone.head_local), np.array(bone.tail_local)
    length = float(np.linalg.norm(tail - head))
    along = (points - head) @ (tail - head) / max(length, 1e-12)
    part = np.clip(along / max(length, 1e-12), 0.0, 1.0)
    distance = np.linalg.norm(points - head - part[:, None] * (tail - head), axis=1)
    beyond = distance - (part * bone.tail_radius + (1.0 - part) * bone.head_radius)
    reach = float(bone.envelope_distance)
    if reach == 0.0:
        return np.asarray(np.where(beyond < 0.0, bone.envelope_weight, 0.0))
    fading = 1.0 - np.clip(beyond / reach, 0.0, 1.0) ** 2
    return np.asarray(bone.envelope_weight * fading)


def _deforming_bones(modifier: Any) -> list[bpy.types.Bone]:
    return [bone for bone in modifier.object.data.bones if bone.use_deform]


def _envelopes_of(obj: bpy.types.Object, modifier: Any) -> tuple[Index, Array]:
    """Return the vertices (e,) that envelopes may move, and their weights (b, e) for each deforming bone."""
    vertices, bones = np.flatnonzero(~_grouped_vertices(obj, modifier)), _deforming_bones(modifier)
    matrix = np.array(modifier.object.matrix_world.inverted_safe() @ obj.matrix_world)
    points = transform_points(matrix, _mixed_positions(obj)[vertices])
    weights = np.array([envelope_weights(bone, points) for bone in bones])
    return vertices, weights.reshape(len(bones), len(vertices))


def _grouped_vertices(obj: bpy.types.Object, modifier: Any) -> Mask:
    """Return the vertices (v,) in a vertex group of a deforming bone, with any weight, which envelopes do not move."""
    names = {bone.name for bone in _deforming_bones(modifier)}
    indices = {group.index for group in obj.vertex_groups if group.name in names} if modifier.use_vertex_groups else {}
    found = (any(one.group in indices for one in vertex.groups) for vertex in obj.data.vertices)
    return np.fromiter(found, dtype=np.bool_, count=len(obj.data.vertices))


def _mixed_positions(obj: bpy.types.Object) -> Array:
    """Return the vertices (v, 3) with the relative shape keys of the current frame, in object space."""
    found, keys = mesh_positions(obj.data).astype(float), obj.data.shape_keys
    for key in keys.key_blocks if keys is not None and keys.use_relative else ():
        if not key.mute and key.value and key != key.relative_key:
            offsets = read_array(key.data, "co", np.float32, 3) - read_array(key.relative_key.data, "co", np.float32, 3)
            found += key.value * offsets
    return found

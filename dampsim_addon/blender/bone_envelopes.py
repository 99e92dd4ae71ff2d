"""Bone envelopes: the weights that Blender computes from the places of vertices, and their conversion to vertex groups.

Shape keys come before the Armature modifier. A key that moves a vertex through the edge of an envelope also changes the
weights of the vertex, so that often no key reaches the simulated shape. Weights in vertex groups stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bpy
import numpy as np

from ...core import Array, Index
from ...core.base.arrays import Mask
from ...core.geometry.mesh.rigid_motion import transform_points
from .animation import animated_paths
from .dampsim_names import is_rig_modifier
from .sampler import mesh_positions, read_array

# Paths of the properties that place an object.
_TRANSFORM_PATHS = ("location", "rotation", "scale", "delta_")


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


def convert_deforming_parent(obj: bpy.types.Object) -> None:
    """Replace the deformation by a parent, see has_deforming_parent(), by a modifier before all others."""
    parent: Any = obj.parent
    modifier: Any = obj.modifiers.new(parent.type.title(), parent.type)
    modifier.object = parent
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    obj.parent_type = "OBJECT"
    if parent.type == "ARMATURE":
        # Blender's parent type uses both.
        modifier.use_vertex_groups = modifier.use_bone_envelopes = True
        if has_constant_envelopes(obj, modifier):
            convert_envelopes(obj, modifier)


def has_constant_envelopes(obj: bpy.types.Object, modifier: Any) -> bool:
    """Return whether an object keeps its place among the envelopes of a modifier's rig, so that weights replace them.

    Animation and constraints of the object, of the rig, or of parents that only one of them has, may move it.
    """
    chain, other = (list(_with_parents(one)) for one in (obj, modifier.object))
    separate = [one for one in (*chain, *other) if (one in chain) != (one in other)]
    return not any(
        any(not constraint.mute for constraint in one.constraints)
        or any(path.startswith(_TRANSFORM_PATHS) for path in animated_paths(one))
        for one in separate
    )


def _with_parents(obj: bpy.types.Object) -> Iterator[bpy.types.Object]:
    one: bpy.types.Object | None = obj
    while one is not None:
        yield one
        one = one.parent


def convert_envelopes(obj: bpy.types.Object, modifier: Any) -> None:
    """Write the weights of the envelopes of an Armature modifier to vertex groups, and switch the envelopes off.

    The pose moves the vertices as before, see has_constant_envelopes(). Shape keys of the user count with their values
    at the current frame.
    """
    vertices, weights = _envelopes_of(obj, modifier)
    # Vertex groups hold weights up to 1. Armatures divide by the sum.
    weights /= np.maximum(weights.max(axis=0, initial=1.0), 1.0)
    for bone, values in zip(_deforming_bones(modifier), weights, strict=True):
        for place in np.flatnonzero(values > 0.0).tolist():
            group = obj.vertex_groups.get(bone.name) or obj.vertex_groups.new(name=bone.name)
            group.add([int(vertices[place])], float(values[place]), "REPLACE")
    modifier.use_vertex_groups, modifier.use_bone_envelopes = True, False
    obj.data.update()


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

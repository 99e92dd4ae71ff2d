"""Reading and writing of vertex group weights."""

from __future__ import annotations

from collections.abc import Sequence

import bmesh
import bpy
import numpy as np

from ...core import Array, Index

# Number of bones that game engines, and glTF files as Blender writes them, store for each vertex.
MAX_EXPORTED_BONES = 4


def read_weights(obj: bpy.types.Object, names: Sequence[str], mesh: bpy.types.Mesh | None = None) -> list[Array]:
    """Return the weights (v,) of each vertex group; zero where a vertex is not in it. All groups must exist.

    mesh: the evaluated mesh, if its vertices are simulated instead of the object's own.

    bmesh returns all weights of a vertex at once, four times faster than `vertex.groups`.
    """
    mesh = mesh or obj.data
    count = len(mesh.vertices)
    if not names:
        return []
    copy = bmesh.new(use_operators=False)
    try:
        copy.from_mesh(mesh, face_normals=False, vertex_normals=False)
        layer = copy.verts.layers.deform.active
        if layer is None:
            return [np.zeros(count) for _ in names]
        vertex_layers = [vertex[layer] for vertex in copy.verts]
        indices = [obj.vertex_groups[name].index for name in names]
        # Rounding turns single precision back into the number that the user typed.
        return [np.round(np.array([one.get(index, 0.0) for one in vertex_layers]), 6) for index in indices]
    finally:
        copy.free()


def sum_weights(obj: bpy.types.Object, names: Sequence[str]) -> tuple[Array, Index]:
    """Return the sum (v,) of the weights of each vertex in some groups, and the number (v,) of positive weights.

    One pass over the vertices. All groups must exist.
    """
    weights = positive_weights(obj, names)
    return np.array([sum(one.values()) for one in weights], dtype=float), np.array([len(one) for one in weights], int)


def keep_largest_weights(obj: bpy.types.Object, names: Sequence[str], limit: int) -> None:
    """Keep at most so many weights of each vertex in some groups, the largest ones, and scale them to the old sum.

    All groups must exist. The object must not be in Edit Mode.
    """
    for vertex, weights in enumerate(positive_weights(obj, names)):
        if len(weights) <= limit:
            continue
        kept = sorted(weights, key=lambda index, weights=weights: -weights[index])[:limit]
        scale = sum(weights.values()) / sum(weights[index] for index in kept)
        # Blender limits each weight to 1, which would change their ratios. Armatures ignore the sum.
        scale = min(scale, 1.0 / weights[kept[0]])
        for index in weights:
            if index in kept:
                obj.vertex_groups[index].add([vertex], scale * weights[index], "REPLACE")
            else:
                obj.vertex_groups[index].remove([vertex])
    obj.data.update()


def positive_weights(obj: bpy.types.Object, names: Sequence[str]) -> list[dict[int, float]]:
    """Return the positive weights of each vertex in some groups, by the index of the group."""
    indices = {obj.vertex_groups[name].index for name in names}
    copy = bmesh.new(use_operators=False)
    try:
        copy.from_mesh(obj.data, face_normals=False, vertex_normals=False)
        layer = copy.verts.layers.deform.active
        if layer is None:
            return [{} for _ in obj.data.vertices]
        return [
            {index: weight for index, weight in vertex[layer].items() if index in indices and weight > 0.0}
            for vertex in copy.verts
        ]
    finally:
        copy.free()


# Weights are quantised to this many levels: one call per level is a thousand times faster than one per vertex.
_WEIGHT_LEVELS = 256


def write_own_weights(obj: bpy.types.Object, chosen: str, default: str, values: Array) -> bpy.types.VertexGroup:
    """Write the weights (v,) of the vertex group that the user has chosen, or else of a new one.

    default: name of a new group. A group of the user with this name stays as it is, and the new one gets a number.
    """
    return write_weights(obj, chosen or obj.vertex_groups.new(name=default).name, values)


def write_weights(obj: bpy.types.Object, name: str, values: Array) -> bpy.types.VertexGroup:
    """Write the weights (v,) of a vertex group, created if needed. Works in any mode."""
    group = obj.vertex_groups.get(name) or obj.vertex_groups.new(name=name)
    levels = np.round(np.clip(values, 0.0, 1.0) * _WEIGHT_LEVELS).astype(int)
    if obj.mode == "EDIT":
        mesh = bmesh.from_edit_mesh(obj.data)
        layer = mesh.verts.layers.deform.verify()
        for vertex, level in zip(mesh.verts, levels.tolist(), strict=True):
            if level:
                vertex[layer][group.index] = level / _WEIGHT_LEVELS
            elif group.index in vertex[layer]:
                del vertex[layer][group.index]
        bmesh.update_edit_mesh(obj.data)
        return group
    group.remove(np.flatnonzero(levels == 0).tolist())
    for level in np.unique(levels[levels > 0]).tolist():
        group.add(np.flatnonzero(levels == level).tolist(), level / _WEIGHT_LEVELS, "REPLACE")
    obj.data.update()
    return group

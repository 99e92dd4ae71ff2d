"""Vertex group weights, and edge selections and values, stored as attributes that survive edits and modifiers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import bmesh
import bpy
import numpy as np
import numpy.typing as npt

from ...core import Array, Index, SceneError
from ...core.base.arrays import Mask, SinglePrecisionArray
from .modifiers import weight_removing_modifiers
from .sampler import read_array

# Number of bones that game engines, and glTF files as Blender writes them, store for each vertex.
MAX_EXPORTED_BONES = 4


def read_weights(obj: bpy.types.Object, names: Sequence[str]) -> list[Array]:
    """Return the weights (v,) of each vertex group; zero where a vertex is not in it. All groups must exist.

    Weights above 1 are read as 1.

    obj: an evaluated object, if the vertices after its modifiers are needed instead of the object's own. Its groups
    are found by name, as modifiers can add those of other objects before them.

    Raises SceneError where modifiers remove all weights of a group.

    bmesh returns all weights of a vertex at once, four times faster than `vertex.groups`.
    """
    if not names:
        return []
    with _vertex_layers(obj) as vertex_layers:
        return [_read_group(obj, name, vertex_layers) for name in names]


@contextmanager
def _vertex_layers(obj: bpy.types.Object) -> Iterator[list[Any]]:
    """Provide all weights of each vertex by index of the group; nothing if the mesh has no weights."""
    copy = bmesh.new(use_operators=False)
    try:
        copy.from_mesh(obj.data, face_normals=False, vertex_normals=False)
        layer = copy.verts.layers.deform.active
        yield [vertex[layer] for vertex in copy.verts] if layer is not None else []
    finally:
        copy.free()


def _read_group(obj: bpy.types.Object, name: str, vertex_layers: Sequence[Mapping[int, float]]) -> Array:
    """Return the weights (v,) of a vertex group. vertex_layers: weights by index of each vertex, empty without any."""
    index = obj.vertex_groups.find(name) if obj.is_evaluated else obj.vertex_groups[name].index
    if obj.is_evaluated and not any(index in one for one in vertex_layers):
        _check_removed_weights(obj.original, name, is_certain=not vertex_layers or index < 0)
    weights = np.array([one.get(index, 0.0) for one in vertex_layers] or np.zeros(len(obj.data.vertices)))
    # Geometry Nodes can store weights above 1, which Blender's own tools limit. Infinite ones are refused later.
    limited = np.where(np.isfinite(weights), np.minimum(weights, 1.0), weights)
    # Rounding turns single precision back into the number that the user typed.
    return np.round(limited, 6)


def check_evaluated_weights(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer, name: str) -> None:
    """Raise SceneError if modifiers remove all weights of a vertex group, as far as this is known without reading them.

    Panels can call it at every redraw.
    """
    evaluated = obj.evaluated_get(view_layer.depsgraph)
    if evaluated == obj or obj.data.is_editmode or not weight_removing_modifiers(obj):
        return
    if evaluated.vertex_groups.find(name) < 0 or not any(vertex.groups for vertex in evaluated.data.vertices):
        _check_removed_weights(obj, name, is_certain=True)


def _check_removed_weights(obj: bpy.types.Object, name: str, is_certain: bool) -> None:
    """Raise SceneError about a group that is empty after the modifiers, unless the object itself has no weights in it.

    is_certain: whether no vertex has weights at all. Otherwise it may be that the weighted vertices are masked.
    """
    modifiers = weight_removing_modifiers(obj)
    if (is_certain or modifiers) and read_weights(obj, [name])[0].any():
        lost = f"the weights of vertex group '{name}'"
        is_single = len(modifiers) == 1
        cause = f"the modifier {modifiers[0].name} removes {lost}" if is_single else f"its modifiers remove {lost}"
        raise SceneError(
            f"{obj.name}: {cause}. Apply the modifiers and paint the group again, or choose another group or none."
        )


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
    with _vertex_layers(obj) as layers:
        found = [{k: weight for k, weight in one.items() if k in indices and weight > 0.0} for one in layers]
        return found or [{} for _ in obj.data.vertices]


class Weights(NamedTuple):
    """Positive weights of a mesh, sorted by vertex and group.

    vertices (n,), groups (n,): index of the vertex and of the vertex group of each.  values (n,).
    """

    vertices: Index
    groups: Index
    values: SinglePrecisionArray

    def in_groups(self, indices: Sequence[int]) -> Weights:
        """Return the weights in some groups, with the places of these in `indices` instead of their own indices."""
        size = 1 + max([*indices, int(self.groups.max(initial=0))])
        places = np.full(size, -1, dtype=np.int64)
        places[list(indices)] = np.arange(len(indices))
        groups = places[self.groups]
        kept = groups >= 0
        vertices, groups, values = self.vertices[kept], groups[kept], self.values[kept]
        order = np.lexsort((groups, vertices))
        return Weights(vertices[order], groups[order], values[order])


def all_weights(obj: bpy.types.Object) -> Weights:
    """Return the positive weights of a mesh in all of its vertex groups. Blender lists them in any order.

    Weights above 1 are read as 1: Blender's automatic weights are sometimes 1.0001, and its glTF exporter limits those.
    """
    pair = np.dtype([("group", np.int64), ("value", np.float32)])
    with _vertex_layers(obj) as layers:
        counts = np.fromiter((len(one) for one in layers), dtype=np.int64)
        pairs = np.fromiter(chain.from_iterable(one.items() for one in layers), dtype=pair)
    vertices, groups = np.repeat(np.arange(len(counts)), counts), pairs["group"]
    values = np.minimum(pairs["value"], np.float32(1.0))
    order = np.lexsort((groups, vertices))
    order = order[values[order] > 0.0]
    return Weights(vertices[order], groups[order], values[order])


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


def marked_edges(mesh: bpy.types.Mesh, name: str) -> Index:
    """Return the vertices (k, 2) of the edges that a boolean attribute marks; none where the attribute is missing."""
    flags = _read_layer(mesh, name, "BOOLEAN")
    if flags is None:
        return np.zeros((0, 2), dtype=np.int64)
    if mesh.is_editmode:
        ends = np.array([[vertex.index for vertex in edge.verts] for edge in bmesh.from_edit_mesh(mesh).edges])
    else:
        ends = read_array(mesh.edges, "vertices", np.int32, 2)
    return np.asarray(ends.reshape(-1, 2)[flags], dtype=np.int64)


def edge_values(mesh: bpy.types.Mesh, name: str) -> Array | None:
    """Return the values (e,) of a float edge attribute; None where the mesh has none with this name."""
    values = _read_layer(mesh, name, "FLOAT")
    # Rounding turns single precision back into the number that the user typed.
    return None if values is None else np.array([float(f"{value:.6g}") for value in values.tolist()])


def _read_layer(mesh: bpy.types.Mesh, name: str, data_type: str) -> npt.NDArray[Any] | None:
    """Return the values (e,) of an edge attribute; None where the mesh has none with this name and type."""
    layer = mesh.attributes.get(name) if name else None
    if layer is None or layer.domain != "EDGE" or layer.data_type != data_type:
        return None
    dtype = np.bool_ if data_type == "BOOLEAN" else np.float32
    if not mesh.is_editmode:
        return read_array(layer.data, "value", dtype)
    content = bmesh.from_edit_mesh(mesh)
    values = (content.edges.layers.bool if data_type == "BOOLEAN" else content.edges.layers.float)[name]
    return np.array([edge[values] for edge in content.edges], dtype=dtype)


def selected_edges(obj: bpy.types.Object) -> Mask:
    """Return the edge selection (e,), in Edit Mode or as it was when Edit Mode was last left."""
    obj.update_from_editmode()
    return read_array(obj.data.edges, "select", np.bool_)


def mark_edges(obj: bpy.types.Object, name: str, flags: Mask) -> None:
    """Write a boolean edge attribute (e,), created if needed. Works in Object and Edit Mode."""
    if obj.mode == "EDIT":
        mesh = bmesh.from_edit_mesh(obj.data)
        layer = mesh.edges.layers.bool.get(name) or mesh.edges.layers.bool.new(name)
        for edge, value in zip(mesh.edges, flags.tolist(), strict=True):
            edge[layer] = value
        bmesh.update_edit_mesh(obj.data)
        return
    layer = obj.data.attributes.get(name) or obj.data.attributes.new(name, "BOOLEAN", "EDGE")
    layer.data.foreach_set("value", flags)
    obj.data.update()


def remove_edge_attribute(obj: bpy.types.Object, name: str) -> None:
    """Remove an edge attribute, if it exists. Works in Object and Edit Mode."""
    if obj.mode == "EDIT":
        mesh = bmesh.from_edit_mesh(obj.data)
        layer = mesh.edges.layers.bool.get(name)
        if layer is not None:
            mesh.edges.layers.bool.remove(layer)
            bmesh.update_edit_mesh(obj.data)
    elif name in obj.data.attributes:
        obj.data.attributes.remove(obj.data.attributes[name])

"""Edge selections and values per edge, stored as attributes that survive edits and modifiers."""

from __future__ import annotations

import bmesh
import bpy
import numpy as np

from ...core import Array, Index
from ...core.base.arrays import Mask


def marked_edges(mesh: bpy.types.Mesh, name: str) -> Index:
    """Return the vertices (k, 2) of the edges that a boolean attribute marks; none where the attribute is missing."""
    if not _has_edge_attribute(mesh, name, "BOOLEAN"):
        return np.zeros((0, 2), dtype=np.int64)
    if mesh.is_editmode:
        content = bmesh.from_edit_mesh(mesh)
        layer = content.edges.layers.bool[name]
        marked = [[vertex.index for vertex in edge.verts] for edge in content.edges if edge[layer]]
        return np.array(marked, dtype=np.int64).reshape(-1, 2)
    ends = np.empty(2 * len(mesh.edges), dtype=np.int32)
    mesh.edges.foreach_get("vertices", ends)
    flags = np.empty(len(mesh.edges), dtype=np.bool_)
    mesh.attributes[name].data.foreach_get("value", flags)
    return np.asarray(ends.reshape(-1, 2)[flags], dtype=np.int64)


def edge_values(mesh: bpy.types.Mesh, name: str) -> Array | None:
    """Return the values (e,) of a float edge attribute; None where the mesh has none with this name."""
    if not _has_edge_attribute(mesh, name, "FLOAT"):
        return None
    if mesh.is_editmode:
        content = bmesh.from_edit_mesh(mesh)
        layer = content.edges.layers.float[name]
        values = np.array([edge[layer] for edge in content.edges], dtype=np.float32)
    else:
        values = np.empty(len(mesh.edges), dtype=np.float32)
        mesh.attributes[name].data.foreach_get("value", values)
    # Rounding turns single precision back into the number that the user typed.
    return np.array([float(f"{value:.6g}") for value in values.tolist()])


def _has_edge_attribute(mesh: bpy.types.Mesh, name: str, data_type: str) -> bool:
    layer = mesh.attributes.get(name) if name else None
    return layer is not None and layer.domain == "EDGE" and layer.data_type == data_type


def selected_edges(obj: bpy.types.Object) -> Mask:
    """Return the edge selection (e,), in Edit Mode or as it was when Edit Mode was last left."""
    obj.update_from_editmode()
    found = np.empty(len(obj.data.edges), dtype=np.bool_)
    obj.data.edges.foreach_get("select", found)
    return found


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

"""Edge selections and values per edge, stored as attributes that survive edits and modifiers."""

from __future__ import annotations

from typing import Any

import bmesh
import bpy
import numpy as np
import numpy.typing as npt

from ...core import Array, Index
from ...core.base.arrays import Mask
from .sampler import read_array


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

"""Weights of vertex groups."""

from __future__ import annotations

from collections.abc import Sequence

import bmesh
import bpy
import numpy as np

from ...core.arrays import Array


def weights(obj: bpy.types.Object, names: Sequence[str], mesh: bpy.types.Mesh | None = None) -> list[Array]:
    """Weights (v,) of each vertex group; zero where a vertex is not in it. All groups are there.

    mesh: what the object's modifiers made of its own, and of the weights.

    Through bmesh, which hands out a vertex's weights at once: `vertex.groups` takes four times as long.
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
        found = [vertex[layer] for vertex in copy.verts]
        indices = [obj.vertex_groups[name].index for name in names]
        # Rounded, so that single precision reads as what the artist typed.
        return [np.round(np.array([one.get(index, 0.0) for one in found]), 6) for index in indices]
    finally:
        copy.free()

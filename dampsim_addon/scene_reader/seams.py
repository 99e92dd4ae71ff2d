"""Seams of an object: borders marked by vertex groups, and loose edges where the user chose to sew them."""

from __future__ import annotations

import bpy
import numpy as np

from ...core import Array, Index, MeshError, Surface
from ...core.geometry.mesh.seams import SeamError, pair_border_vertices
from ..blender.vertex_groups import read_weights

# Prefix of the names of seam groups, in lower case.
_SEAM_PREFIX = "seam"


def seam_groups(obj: bpy.types.Object) -> list[str]:
    """Return the names of the vertex groups that mark seams."""
    return [group.name for group in obj.vertex_groups if group.name.lower().startswith(_SEAM_PREFIX)]


def seam_pairs(obj: bpy.types.Object, rest: bpy.types.Object, surface: Surface) -> Index:
    """Return pairs (s, 2) of sewn vertices. Raises MeshError where the borders of a group do not match.

    rest: see Sampler.rest_pose().
    """
    loose = _loose_edges(rest.data) if obj.dampsim.sew_loose_edges else np.zeros((0, 2), np.int64)
    names, found = seam_groups(obj), [loose]
    for name, painted in zip(names, read_weights(rest, names), strict=True):
        found.append(_group_seam_pairs(obj.name, name, surface, painted))
    return np.concatenate(found)


def _group_seam_pairs(owner: str, name: str, surface: Surface, painted: Array) -> Index:
    try:
        return pair_border_vertices(surface.vertices, surface.triangles, painted > 0.0)
    except SeamError as error:
        raise MeshError(
            f"{owner}: vertex group '{name}' {error}. Assign the vertices of both borders to be sewn, "
            "or rename the group."
        ) from error


def _loose_edges(mesh: bpy.types.Mesh) -> Index:
    """Return the edges (e, 2) without faces."""
    ends = np.empty(2 * len(mesh.edges), dtype=np.int32)
    mesh.edges.foreach_get("vertices", ends)
    used = np.empty(len(mesh.loops), dtype=np.int32)
    mesh.loops.foreach_get("edge_index", used)
    is_loose = np.ones(len(mesh.edges), dtype=bool)
    is_loose[used] = False
    return np.asarray(ends.reshape(-1, 2)[is_loose], dtype=np.int64)

"""Rules that exclude pairs of points and triangles from contact, for numpy and for the compiled trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.arrays import Array, Index, Mask
from ...native.box_tree import RuleArrays
from ..mesh.triangles import Triangles

# A point touches only triangles that face one of its own faces: the dot product of their normals is below this.
_OPPOSING_COSINE = -0.1


def has_opposing_face(surface: Triangles, vertex_triangles: Index, points: Index, normals: Array) -> Mask:
    """Return whether any triangle at each of the points (k,) faces against normals (k, 3).

    vertex_triangles: (v, d) the triangles at each vertex.
    """
    opposes = np.asarray(np.einsum("ki,ki->k", surface.vertex_normals[points], normals) < _OPPOSING_COSINE)
    remaining = np.flatnonzero(~opposes)
    cosines = np.einsum("kdi,ki->kd", surface.normals[vertex_triangles[points[remaining]]], normals[remaining])
    opposes[remaining] = cosines.min(axis=1) < _OPPOSING_COSINE
    return opposes


@dataclass(frozen=True)
class StartRule:
    """Points that started behind a triangle.

    points: (p, 3) m at the start.  surface: triangles at the start.  min_height: m above a triangle's plane.
    """

    points: Array
    surface: Triangles
    min_height: float

    def excludes(self, point: Index, triangle: Index) -> Mask:
        """Return which pairs (k,), (k,) of points and triangles are excluded."""
        corner = self.surface.vertices[self.surface.triangles[triangle, 0]]
        height = np.einsum("ki,ki->k", self.points[point] - corner, self.surface.normals[triangle])
        return np.asarray(height < self.min_height)


@dataclass(frozen=True)
class FacingRule:
    """Points of a closed surface whose triangles all face away.

    surface: that of the points.  vertex_triangles: (v, d) its triangles at each vertex.  vertices: (p,) of the points.
    other: the triangles to touch.
    """

    surface: Triangles
    vertex_triangles: Index
    vertices: Index
    other: Triangles

    def excludes(self, point: Index, triangle: Index) -> Mask:
        """Return which pairs (k,), (k,) of points and triangles are excluded."""
        vertices, normals = self.vertices[point], self.other.normals[triangle]
        return ~has_opposing_face(self.surface, self.vertex_triangles, vertices, normals)


@dataclass(frozen=True)
class OwnRule:
    """Points and triangles of one surface that are neighbours, or that cannot move.

    vertices: (p,) of the points.  triangles: (t, 3).  is_dynamic: (v,) vertices that can move.
    rest: (v, 3) m, the vertices at rest.  spheres: (t, 3) m, (t,) m, bounding spheres of the triangles at rest.
    seam: (v,) the vertex across the nearest seam, and (v,) m its distance, or None.  min_distance: m, at rest.
    """

    vertices: Index
    triangles: Index
    is_dynamic: Mask
    rest: Array
    spheres: tuple[Array, Array]
    seam: tuple[Index, Array] | None
    min_distance: float

    def excludes(self, point: Index, triangle: Index) -> Mask:
        """Return which pairs (k,), (k,) of points and triangles are excluded."""
        middle, radius = self.spheres
        vertices, corners = self.vertices[point], self.triangles[triangle]
        distance = np.linalg.norm(self.rest[vertices] - middle[triangle], axis=1) - radius[triangle]
        if self.seam is not None:
            # The shortest rest distance may lead across a seam.
            sewn, along = (part[vertices] for part in self.seam)
            across = along + np.linalg.norm(self.rest[sewn] - middle[triangle], axis=1) - radius[triangle]
            distance = np.minimum(distance, across)
        is_excluded = (distance < self.min_distance) | (corners == vertices[:, None]).any(axis=1)
        return np.asarray(is_excluded | (~self.is_dynamic[vertices] & ~self.is_dynamic[corners].any(axis=1)))


@dataclass(frozen=True)
class PairRules:
    """Rules of a search, each or None."""

    start: StartRule | None = None
    facing: FacingRule | None = None
    neighbours: OwnRule | None = None

    def __call__(self, point: Index, triangle: Index) -> Mask:
        """Return which pairs (k,), (k,) of points and triangles are excluded."""
        found = np.zeros(len(point), dtype=bool)
        for rule in (self.start, self.facing, self.neighbours):
            if rule is not None:
                found |= rule.excludes(point, triangle)
        return found

    def arrays(self, normals: Array | None, surface: Triangles, max_normal_cosine: float) -> RuleArrays:
        """Return the rules for the kernel. normals: (p, 3) that triangles of the surface must oppose, or None."""
        start, facing, own = self.start, self.facing, self.neighbours
        found: dict[str, Any] = {}
        if own is not None:
            found["vertices"] = own.vertices
            found["can_move"] = own.is_dynamic[own.vertices], own.is_dynamic[own.triangles].any(axis=1)
            found["rest"] = own.rest[own.vertices], *own.spheres
            if own.seam is not None:
                partner, along = own.seam
                found["seam"] = own.rest[partner[own.vertices]], along[own.vertices]
        if start is not None:
            begun = start.surface
            found["start"] = start.points, begun.vertices[begun.triangles[:, 0]], begun.normals
        if normals is not None:
            found["opposing"] = normals, surface.normals
        if facing is not None:
            vertex_normals, faces = facing.surface.vertex_normals, facing.vertex_triangles[facing.vertices]
            found["facing"] = vertex_normals[facing.vertices], faces, facing.surface.normals, surface.normals
        distance, height = 0.0 if own is None else own.min_distance, 0.0 if start is None else start.min_height
        return RuleArrays(**found, limits=(distance, height, max_normal_cosine, _OPPOSING_COSINE))

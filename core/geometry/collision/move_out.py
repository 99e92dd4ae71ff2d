"""Ways out of closed colliders for vertices of a body that start inside them.

The nearest way out of each vertex would tear a sheet around a limb: some vertices leave at its front, others at its
back. So all vertices of a patch leave in the same direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from ...base.arrays import Array, Index, Mask
from ..mesh.surface import label_connected
from ..mesh.triangles import Triangles
from .intersections import first_exits, points_inside
from .proximity import nearest_triangles

# Rounds after which vertices that are still inside stay there.
_MAX_ROUNDS = 3
# Sweeps that spread the ways out over neighbours, until no edge is stretched by more than this fraction.
_SWEEPS, _MAX_SWEEPS, _MAX_STRETCH = 10, 200, 0.02
# Longest way relative to the distance from a vertex that stays: edges next to pins are stretched by at most 22%.
_MAX_SLOPE = 0.7
# Sum of normals, relative to that of their lengths, below which a patch faces all directions.
_MIN_NORMAL = 1e-3


@dataclass(frozen=True)
class Obstacle:
    """Surface to move out of.

    surface: closed; None for an infinite plane.  point, normal: (3,) m, (3,) unit, of a plane; pointing to its upper
    side.  margin: distance from the surface at which vertices end, m.
    """

    surface: Triangles | None
    margin: float
    point: Array | None = None
    normal: Array | None = None

    def inside(self, points: Array) -> Mask:
        """Return which points (p, 3) are inside, or below a plane."""
        if self.surface is not None:
            return points_inside(points, self.surface)
        return np.asarray(self._heights(points) < 0.0)

    def near(self, points: Array) -> Mask:
        """Return which points (p, 3) are closer than the margin."""
        if self.surface is None:
            return np.asarray(np.abs(self._heights(points)) < self.margin)
        found = np.zeros(len(points), dtype=bool)
        found[nearest_triangles(self.surface, points, self.margin).point] = True
        return found

    def ways_out(self, points: Array, direction: Array) -> Array:
        """Return the distances (p,) in m to the outside along a unit direction (3,): infinite if there is no way."""
        if self.surface is not None:
            return first_exits(points, direction, self.surface)
        assert self.normal is not None
        cosine = float(direction @ self.normal)
        depths = -self._heights(points)
        return np.where(depths <= 0.0, 0.0, depths / cosine if cosine > _MIN_NORMAL else np.inf)

    def _heights(self, points: Array) -> Array:
        assert self.point is not None
        assert self.normal is not None
        return np.asarray((points - self.point) @ self.normal)


def move_out(vertices: Array, triangles: Index, edges: Index, is_free: Mask, obstacles: Sequence[Obstacle]) -> Array:
    """Return offsets (v, 3) in m that move the free vertices of a sheet out of obstacles.

    vertices: (v, 3) m.  triangles: (t, 3).  edges: (e, 2), all of them.  is_free: (v,) vertices that may move.

    A patch consists of connected vertices that are inside, with neighbours that are closer than the margin. It moves
    along its mean normal, to the side on which its longest way out is shorter; each vertex moves its own way plus the
    margin. Neighbours follow, so that edges are stretched little. Vertices without a way out stay inside, as do those
    next to inner pins.
    """
    positions = np.array(vertices, dtype=float)
    neighbours = _Neighbours(len(positions), edges, is_free, vertices)
    for _ in range(_MAX_ROUNDS):
        ways = np.zeros_like(positions)
        for obstacle in obstacles:
            inside = obstacle.inside(positions) & is_free
            if inside.any():
                patches = neighbours.patches(inside, inside | (obstacle.near(positions) & is_free))
                for patch in patches:
                    ways[patch] = _patch_ways(positions, triangles, patch, obstacle)
        if not ways.any():
            break
        positions = vertices + neighbours.limited(positions + neighbours.extend(positions, ways) - vertices)
    return positions - vertices


def _patch_ways(positions: Array, triangles: Index, patch: Index, obstacle: Obstacle) -> Array:
    """Return the ways (p, 3) in m by which the vertices of a patch (p,) move."""
    in_patch = np.zeros(len(positions), dtype=bool)
    in_patch[patch] = True
    a, b, c = (positions[triangles[in_patch[triangles].any(axis=1), k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    mean = normals.sum(axis=0)
    if not np.linalg.norm(mean) > _MIN_NORMAL * np.linalg.norm(normals, axis=1).sum():
        return np.zeros((len(patch), 3))
    best, longest = np.zeros((len(patch), 3)), np.inf
    for direction in (mean / np.linalg.norm(mean), -mean / np.linalg.norm(mean)):
        ways = obstacle.ways_out(positions[patch], direction)
        if ways.max() < longest:
            lengths = np.where(ways > 0.0, ways + obstacle.margin, 0.0)
            best, longest = lengths[:, None] * direction, float(ways.max())
    return best


class _Neighbours:
    """Edges of a sheet with v vertices, for its patches and for the spreading of ways."""

    def __init__(self, count: int, edges: Index, is_free: Mask, vertices: Array) -> None:
        both = np.concatenate([edges, edges[:, ::-1]])
        self._count, self._edges, self._is_free = count, edges, is_free
        sums = csr_matrix((np.ones(len(both)), both.T), shape=(count, count))
        self._mean = csr_matrix(sums / np.maximum(np.asarray(sums.sum(axis=1)), 1.0))
        self._lengths = np.maximum(self._lengths_of(vertices), 1e-300)

    def patches(self, inside: Mask, grown: Mask) -> list[Index]:
        """Return the connected sets of grown vertices that contain one inside."""
        kept = self._edges[grown[self._edges].all(axis=1)]
        labels = label_connected(self._count, kept)
        return [np.flatnonzero((labels == one) & grown) for one in np.unique(labels[inside])]

    def extend(self, positions: Array, ways: Array) -> Array:
        """Return the ways (v, 3) with those of free neighbours, which follow smoothly. No way becomes shorter."""
        lengths, found = np.linalg.norm(ways, axis=1), ways.copy()
        follows, moving = self._is_free & (lengths == 0.0), np.flatnonzero(lengths)
        directions = ways[moving] / lengths[moving, None]
        for _ in range(_MAX_SWEEPS // _SWEEPS):
            for _ in range(_SWEEPS):
                means = self._mean @ found
                found[follows] = means[follows]
                along = (means[moving] * directions).sum(axis=1)
                found[moving] = np.maximum(lengths[moving], along)[:, None] * directions
            if self._stretch(positions + found) <= _MAX_STRETCH:
                break
        return found

    def limited(self, ways: Array) -> Array:
        """Return ways (v, 3) that are no longer than the distance along the sheet to a vertex that stays allows."""
        lengths = np.linalg.norm(ways, axis=1)
        limits = _MAX_SLOPE * self._distances
        return np.asarray(ways * np.minimum(1.0, limits / np.maximum(lengths, 1e-300))[:, None])

    @cached_property
    def _distances(self) -> Array:
        """Distances (v,) in m along the edges to the nearest vertex that is not free."""
        graph = csr_matrix((self._lengths, self._edges.T), shape=(self._count, self._count))
        held = np.flatnonzero(~self._is_free & (np.bincount(self._edges.ravel(), minlength=self._count) > 0))
        if not len(held):
            return np.full(self._count, np.inf)
        return np.asarray(dijkstra(graph, directed=False, indices=held, min_only=True))

    def _stretch(self, positions: Array) -> float:
        return float((self._lengths_of(positions) / self._lengths).max(initial=1.0)) - 1.0

    def _lengths_of(self, positions: Array) -> Array:
        return np.asarray(np.linalg.norm(positions[self._edges[:, 0]] - positions[self._edges[:, 1]], axis=1))

"""Exact nearest-triangle queries within a search radius, and inside/outside tests of closed surfaces.

A k-d tree of triangle centres proposes candidates. The bounding disc of a triangle gives a lower bound of its distance,
and so excludes most candidates before the exact test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..arrays import Array, Index, Mask
from .closest import closest_on_triangles
from .discs import Discs, discs_of, whole_discs
from .triangles import Topology, Triangles, closed, unit
from .winding import WindingNumber

__all__ = ["Forbidden", "Nearest", "Topology", "Triangles", "closed", "nearest", "nearest_among", "signed"]

Forbidden = Callable[[Index, Index], Mask]

# Approximate number of pairs per chunk, which limits memory.
_PAIRS = 1_000_000
# Up to this number of pairs of points and discs, all of them are tested.
_FEW = 4_000
# Upper limit of search radii, m.
_FARTHEST = 1e150
# Distances that differ by less than this, relative to the size of the surface, are ties; bounds are no sharper.
_TIE = 1e-12
# A point closer than this, relative to the size, is on the surface: its offset has no direction.
_ON = 1e-9


@dataclass(frozen=True)
class Nearest:
    """Nearest triangles of points.

    point: (k,) query point, ascending.  triangle: (k,).  weights: (k, 3) barycentric coordinates of the closest point.
    offset: (k, 3) m from the closest point to the query point.  distance: (k,) m.
    """

    point: Index
    triangle: Index
    weights: Array
    way: Array
    distance: Array


def nearest(
    surface: Triangles,
    points: Array,
    reach: float | Array,
    *,
    normals: Array | None = None,
    opposing: float = -0.1,
    forbidden: Forbidden | None = None,
) -> Nearest:
    """Return the nearest allowed triangle of each point (p, 3) that has one within reach, in m: a number or (p,).

    normals: (p, 3) unit; only triangles whose normal has a dot product below max_normal_cosine with the point's are
    allowed, degenerate ones never.  is_excluded: returns a mask of pairs of points and triangles that are not allowed;
    it may be called twice for a pair. Of equally near triangles the first one wins, degenerate ones last, independently
    of the other points.
    """
    points = np.asarray(points, dtype=np.float64).reshape(-1, 3)
    rows = np.ascontiguousarray(points.T)
    reaches = np.broadcast_to(np.asarray(reach, dtype=np.float64), (len(points),))
    near, among = _in_box(surface, rows, reaches)
    size = np.full(len(near), surface.size)
    search = _Search(surface, rows.take(near, axis=1), reaches[near], size, near, normals, opposing, forbidden)
    if len(near) and len(among):
        search.look(discs_of(surface, among, search.points, float(reaches[near].max())))
    return search.found()


def nearest_among(
    surface: Triangles,
    points: Array,
    reach: Array,
    size: Array,
    triangles: Index,
    pairs: tuple[Index, Index],
    forbidden: Forbidden,
) -> Nearest:
    """Return the nearest allowed triangles among candidate pairs, for several surfaces stored as one.

    reach: (p,) m.  size: (p,) m, size of the surface that a point is tested against.  triangles: (t,) candidates.
    pairs: (k,), (k,) points and positions in `triangles` to test.
    """
    every = np.arange(len(points))
    search = _Search(surface, np.ascontiguousarray(points.T), reach, size, every, None, 0.0, forbidden)
    if len(pairs[0]):
        asked, place = np.unique(pairs[1], return_inverse=True)
        search.look_at(whole_discs(surface, triangles[asked]), pairs[0], place)
    return search.found()


def signed(surface: Triangles, found: Nearest, size: float | Array | None = None) -> tuple[Array, Array]:
    """Return the sides (k,) of a closed surface (+1 outside, -1 inside) and its outward unit normals (k, 3) there.

    size: m, a number or (k,); the size of the surface if None.

    The sign comes from the pseudo-normal of the closest face, edge or vertex (Baerentzen, Aanaes 2005). Next to
    degenerate triangles, which have no normal, it comes from the winding number.
    """
    zero = found.weights == 0.0
    feature = surface.normals[found.triangle]
    on_edge, on_vertex = zero.sum(axis=1) == 1, zero.sum(axis=1) >= 2
    doubtful = surface.degenerate[found.triangle]
    any_degenerate = bool(surface.degenerate.any())
    if on_edge.any():
        # The side from a corner to the next one is opposite the previous corner.
        side = (zero[on_edge].argmax(axis=1) + 1) % 3
        edge = surface.topology.sides[found.triangle[on_edge], side]
        feature[on_edge] = surface.edge_normals[edge]
        if any_degenerate:
            doubtful[on_edge] |= surface.doubtful[0][edge]
    if on_vertex.any():
        corner = found.weights[on_vertex].argmax(axis=1)
        vertex = surface.triangles[found.triangle[on_vertex], corner]
        feature[on_vertex] = surface.vertex_normals[vertex]
        if any_degenerate:
            doubtful[on_vertex] |= surface.doubtful[1][vertex]
    sign = np.where((found.way * feature).sum(axis=1) >= 0.0, 1.0, -1.0)
    off = found.distance > _ON * (surface.size if size is None else size)
    ask = np.flatnonzero(doubtful & off)
    if len(ask):
        corners = surface.vertices[surface.triangles[found.triangle[ask]]]
        places = (found.weights[ask][:, :, None] * corners).sum(axis=1) + found.way[ask]
        inside = np.abs(WindingNumber(surface.vertices, surface.triangles)(places)) > 0.5
        sign[ask] = np.where(inside, -1.0, 1.0)
    straight = sign[:, None] * found.way / np.where(off, found.distance, 1.0)[:, None]
    return sign, np.where(off[:, None], straight, unit(feature))


def _in_box(surface: Triangles, rows: Array, reaches: Array) -> tuple[Index, Index]:
    """Return points whose reach overlaps the bounding box of the surface, and triangles that overlap theirs."""
    none = np.zeros(0, dtype=np.int64)
    if len(surface) == 0 or rows.shape[1] == 0:
        return none, none
    low, high = surface.low.min(axis=1), surface.high.max(axis=1)
    meets = np.isfinite(rows).all(axis=0)
    for row, bottom, top in zip(rows, low, high, strict=True):
        meets &= (row >= bottom - reaches) & (row <= top + reaches)
    near = np.flatnonzero(meets)
    if len(near) == 0:
        return none, none
    there, far = rows.take(near, axis=1), float(reaches[near].max())
    bottoms, tops = there.min(axis=1) - far, there.max(axis=1) + far
    some = np.ones(len(surface), dtype=bool)
    for k in range(3):
        some &= (surface.high[k] >= bottoms[k]) & (surface.low[k] <= tops[k])
    return near, np.flatnonzero(some)


class _Search:
    """State of a nearest-triangle search: upper bounds (k,) of the distances, and the exactly tested pairs."""

    def __init__(
        self,
        surface: Triangles,
        points: Array,
        reaches: Array,
        sizes: Array,
        names: Index,
        normals: Array | None,
        opposing: float,
        forbidden: Forbidden | None,
    ) -> None:
        self.points = points
        self._surface, self._names, self._forbidden, self._opposing = surface, names, forbidden, opposing
        self._normals = None if normals is None else np.ascontiguousarray(np.asarray(normals)[names].T)
        self._slack = _TIE * np.maximum(sizes, 1e-3 * float(np.abs(surface.corners).max(initial=0.0)))
        self._reach = reaches
        self._bound = np.array(reaches, dtype=np.float64)
        self._looked: list[tuple[Index, Index, Array]] = []

    def look(self, discs: Discs) -> None:
        """Search large and small discs separately: the largest radius determines how many centres are candidates."""
        large = discs.radii > 8.0 * float(np.median(discs.radii))
        if large.any() and len(discs.radii) * self.points.shape[1] > _FEW:
            self._look(discs.some(~large))
            self.look(discs.some(large))
        else:
            self._look(discs)

    def found(self) -> Nearest:
        """Return the nearest triangles found."""
        place, triangle = self._winners()
        corners = self._surface.corners.take(triangle, axis=2)
        weights, way, square = closest_on_triangles(self.points.take(place, axis=1), corners)
        across = np.ascontiguousarray(weights.T), np.ascontiguousarray(way.T)
        return Nearest(self._names[place], triangle, *across, np.sqrt(square))

    def _winners(self) -> tuple[Index, Index]:
        """Return the points (k,) that have a triangle in reach, and those triangles (k,)."""
        if not self._looked:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        point, triangle, distance = (np.concatenate(parts) for parts in zip(*self._looked, strict=True))
        tied = distance <= self._limit(point)
        point, triangle = point[tied], triangle[tied]
        count = len(self._surface)
        rank = triangle + np.where(self._surface.degenerate[triangle], count, 0)
        best = np.full(self.points.shape[1], 2 * count)
        np.minimum.at(best, point, rank)
        there = np.flatnonzero(best < 2 * count)
        return there, best[there] % count

    def _look(self, discs: Discs) -> None:
        count, number = self.points.shape[1], len(discs.radii)
        if number * count <= _FEW:
            self.look_at(discs, np.arange(count).repeat(number), np.tile(np.arange(number), count))
            return
        radius = (float(discs.radii.max()) + float(self._slack.max())) * (1.0 + 1e-9)
        tree = cKDTree(discs.centres.T, balanced_tree=False, compact_nodes=True, leafsize=16)
        limit = (float(self._bound.max()) + radius) * (1.0 + 1e-9)
        _, disc = tree.query(self.points.T, distance_upper_bound=limit)
        asked = np.flatnonzero(disc < number)
        self.look_at(discs, asked, disc[asked])
        # Only discs with centres closer than this can contain a nearer point.
        needed = (self._bound + radius) * (1.0 + 1e-9)
        self._around(discs, tree, asked[np.argsort(needed[asked], kind="stable")], needed)

    def _around(self, discs: Discs, tree: cKDTree, asked: Index, needed: Array) -> None:
        """Test all discs with centres closer than needed (p,), for the points asked (k,), smallest radius first."""
        while len(asked):
            first = int(np.searchsorted(needed[asked], 1.3 * needed[asked[0]], side="right"))
            lot = asked[: max(first, _FEW // 8)]
            farthest = min(float(needed[lot[-1]]), _FARTHEST)
            here = cKDTree(self.points[:, lot].T, balanced_tree=False, compact_nodes=True, leafsize=16)
            if len(lot) * tree.n > _PAIRS and here.count_neighbors(tree, farthest) > _PAIRS:
                lot = lot[: max(len(lot) // 4, _PAIRS // tree.n, 1)]
                farthest = min(float(needed[lot[-1]]), _FARTHEST)
                here = cKDTree(self.points[:, lot].T, balanced_tree=False, compact_nodes=True, leafsize=16)
            asked = asked[len(lot) :]
            pairs = here.sparse_distance_matrix(tree, farthest, output_type="ndarray")
            point, disc = lot[pairs["i"]], pairs["j"]
            some = np.flatnonzero(pairs["v"] <= needed[point])
            self.look_at(discs, point[some], disc[some])

    def look_at(self, discs: Discs, point: Index, disc: Index) -> None:
        """Test pairs of points (k,) and discs (k,) exactly, unless their bounds exclude them."""
        low, high = discs.bounds(disc, self.points.take(point, axis=1))
        keep = np.flatnonzero(low <= self._limit(point))
        point, triangle, low, high = point[keep], discs.triangles[disc[keep]], low[keep], high[keep]
        if self._normals is not None:
            against = self._normals.take(point, axis=1) * self._surface.unit_rows.take(triangle, axis=1)
            keep = np.flatnonzero(against.sum(axis=0) < self._opposing)
            point, triangle, low, high = point[keep], triangle[keep], low[keep], high[keep]
        if self._forbidden is not None and len(point):
            keep = np.flatnonzero(~self._forbidden(self._names[point], triangle))
            point, triangle, low, high = point[keep], triangle[keep], low[keep], high[keep]
        np.minimum.at(self._bound, point, high)
        keep = np.flatnonzero(low <= self._limit(point))
        point, triangle = point[keep], triangle[keep]
        corners = self._surface.corners.take(triangle, axis=2)
        _, _, square = closest_on_triangles(self.points.take(point, axis=1), corners)
        distance = np.sqrt(square)
        within = np.flatnonzero(distance <= self._reach[point])
        point, triangle, distance = point[within], triangle[within], distance[within]
        np.minimum.at(self._bound, point, distance)
        self._looked.append((point, triangle, distance))

    def _limit(self, point: Index) -> Array:
        """Return the largest distances (k,) in m that count as ties with the nearest one."""
        return np.asarray(self._bound[point] * (1.0 + _TIE) + self._slack[point])

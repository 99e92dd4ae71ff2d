"""The closest allowed triangle of each point within reach, exactly, and on which side of a closed surface a point is.

A tree of triangle centres proposes a few; the disc around each triangle bounds its distance from below, and how far the
last proposed centre is bounds that of all others. Where the bounds do not suffice, twice as many are proposed.
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

# About so many pairs at once.
_PAIRS = 1_000_000
# Below so many pairs of points and discs, all are looked at.
_FEW = 4_000
# Farther than anything is.
_FARTHEST = 1e150
# Distances that differ by less than this part of the surface's size are ties, and bounds are no sharper.
_TIE = 1e-12
# Below this part of the size a point is on the surface, and the way there has no direction.
_ON = 1e-9


@dataclass(frozen=True)
class Nearest:
    """point: (k,) which of the points, ascending.  triangle: (k,).  weights: (k, 3) of the closest point in it.

    way: (k, 3) m from the closest point to the point.  distance: (k,) m.
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
    """The closest allowed triangle of each point (p, 3) that has one within reach, m, one for all or (p,).

    normals: (p, 3) unit; a triangle is allowed where its normal times the point's is below opposing, a degenerate one
    never.  forbidden: of pairs of points and triangles, those that are not allowed; it may be asked twice for a pair.
    Of equally near triangles the first counts, degenerate ones last, whatever else is asked.
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
    """The same of surfaces that are kept as one: each point is asked about some of its triangles only.

    reach: (p,) m.  size: (p,) m, of the surface that a point is asked about.  triangles: (t,) of all that is asked.
    pairs: (k,), (k,) which points and which of the triangles are looked at.
    """
    every = np.arange(len(points))
    search = _Search(surface, np.ascontiguousarray(points.T), reach, size, every, None, 0.0, forbidden)
    if len(pairs[0]):
        asked, place = np.unique(pairs[1], return_inverse=True)
        search.look_at(whole_discs(surface, triangles[asked]), pairs[0], place)
    return search.found()


def signed(surface: Triangles, found: Nearest, size: float | Array | None = None) -> tuple[Array, Array]:
    """Sides (k,) of a closed surface, outside +1, inside -1, and its unit normals (k, 3) there, outwards.

    size: m, one for all or (k,); that of the surface if None.

    The sign is that of the closest face, edge or vertex's pseudo-normal (Baerentzen, Aanaes 2005); beside degenerate
    triangles, which have none, that of the winding number.
    """
    zero = found.weights == 0.0
    feature = surface.normals[found.triangle]
    on_edge, on_vertex = zero.sum(axis=1) == 1, zero.sum(axis=1) >= 2
    doubtful = surface.degenerate[found.triangle]
    any_degenerate = bool(surface.degenerate.any())
    if on_edge.any():
        # The side from each corner to the next is opposite to the corner before.
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
    """Points that reach into the surface's box, and the triangles that meet theirs."""
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
    """What is known so far: (k,) the bounds of the points' distances, and the pairs that were looked at exactly."""

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
        """At all the discs, large ones apart from small ones: the largest radius says how many centres are near."""
        large = discs.radii > 8.0 * float(np.median(discs.radii))
        if large.any() and len(discs.radii) * self.points.shape[1] > _FEW:
            self._look(discs.some(~large))
            self.look(discs.some(large))
        else:
            self._look(discs)

    def found(self) -> Nearest:
        place, triangle = self._winners()
        corners = self._surface.corners.take(triangle, axis=2)
        weights, way, square = closest_on_triangles(self.points.take(place, axis=1), corners)
        across = np.ascontiguousarray(weights.T), np.ascontiguousarray(way.T)
        return Nearest(self._names[place], triangle, *across, np.sqrt(square))

    def _winners(self) -> tuple[Index, Index]:
        """The points that have a triangle (k,), and which (k,)."""
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
        # Only a disc whose centre is nearer than this can hold something nearer.
        needed = (self._bound + radius) * (1.0 + 1e-9)
        self._around(discs, tree, asked[np.argsort(needed[asked], kind="stable")], needed)

    def _around(self, discs: Discs, tree: cKDTree, asked: Index, needed: Array) -> None:
        """Look at all discs whose centres are nearer than needed (p,), for the points asked (k,), the nearest first."""
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
        """Look at pairs of points (k,) and discs (k,)."""
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
        """How far what is as near as the nearest may seem to be, m."""
        return np.asarray(self._bound[point] * (1.0 + _TIE) + self._slack[point])

"""Exact nearest-triangle queries within a search radius, and inside/outside tests of closed surfaces.

A compiled tree of bounding boxes finds the triangles. Without the kernel, a k-d tree of triangle centres proposes
candidates. The bounding disc of a triangle gives a lower bound of its distance, and so excludes most of them before the
exact test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ...base.arrays import Array, Index, Mask
from ...native.library import load_library
from ...native.surfaces import sheet_heights
from ..mesh.primitives import closest_points_on_triangles
from ..mesh.surface import CornerFans
from ..mesh.triangles import Triangles, dot_rows, unit_vectors
from ..tetmesh.winding_number import WindingNumber
from .bounding_discs import BoundingDiscs, discs_within_reach, one_disc_per_triangle
from .pair_rules import PairRules

PairExclusion = Callable[[Index, Index], Mask]

# Approximate number of pairs per chunk, which limits memory.
_MAX_PAIRS = 1_000_000
# Up to this number of pairs of points and discs, all of them are tested.
_BRUTE_FORCE_PAIRS = 4_000
# Upper limit of search radii, m.
_MAX_REACH = 1e150
# Distances that differ by less than this, relative to the size of the surface, are ties; bounds are no sharper.
_TIE_TOLERANCE = 1e-12
# A point closer than this, relative to the size, is on the surface: its offset has no direction.
_ON_SURFACE = 1e-9


@dataclass(frozen=True)
class NearestTriangles:
    """Nearest triangles of points.

    point: (k,) query point, ascending.  triangle: (k,).  weights: (k, 3) barycentric coordinates of the closest point.
    offset: (k, 3) m from the closest point to the query point.  distance: (k,) m.
    """

    point: Index
    triangle: Index
    weights: Array
    offset: Array
    distance: Array


def nearest_triangles(
    surface: Triangles,
    points: Array,
    reach: float | Array,
    *,
    normals: Array | None = None,
    max_normal_cosine: float = -0.1,
    is_excluded: PairExclusion | None = None,
) -> NearestTriangles:
    """Return the nearest allowed triangle of each point (p, 3) that has one within reach, in m: a number or (p,).

    normals: (p, 3) unit; only triangles whose normal has a dot product below max_normal_cosine with the point's are
    allowed, degenerate ones never.  is_excluded: returns a mask of pairs of points and triangles that are not allowed;
    it may be called twice for a pair. Of equally near triangles the first one wins, degenerate ones last, independently
    of the other points.
    """
    points = np.asarray(points, dtype=np.float64).reshape(-1, 3)
    reaches = np.broadcast_to(np.asarray(reach, dtype=np.float64), (len(points),))
    if surface.box_tree is not None and (is_excluded is None or isinstance(is_excluded, PairRules)):
        rules = (is_excluded or PairRules()).arrays(normals, surface, max_normal_cosine)
        ties = np.full(len(points), _TIE_TOLERANCE * max(surface.size, 1e-3 * surface.max_coordinate)), _TIE_TOLERANCE
        allowed = np.where((reaches >= 0.0) & np.isfinite(points).all(axis=1), reaches, np.nan)
        return NearestTriangles(*surface.box_tree.nearest(points, allowed, ties, surface.is_degenerate, rules))
    rows = np.ascontiguousarray(points.T)
    near = _points_near(surface, rows, reaches)
    size = np.full(len(near), surface.size)
    search = _NearestSearch(
        surface, rows.take(near, axis=1), reaches[near], size, near, normals, max_normal_cosine, is_excluded
    )
    if len(near) and not search.search_tree():
        among = _triangles_near(surface, search.points, float(reaches[near].max()))
        if len(among):
            search.search(discs_within_reach(surface, among, search.points, float(reaches[near].max())))
    return search.result()


def nearest_triangles_among(
    surface: Triangles,
    points: Array,
    reach: Array,
    sizes: Array,
    triangles: Index,
    pairs: tuple[Index, Index],
    is_excluded: PairExclusion,
) -> NearestTriangles:
    """Return the nearest allowed triangles among candidate pairs, for several surfaces stored as one.

    reach: (p,) m.  sizes: (p,) m, size of the surface that a point is tested against.  triangles: (t,) candidates.
    pairs: (k,), (k,) points and positions in `triangles` to test.
    """
    all_points = np.arange(len(points))
    search = _NearestSearch(surface, np.ascontiguousarray(points.T), reach, sizes, all_points, None, 0.0, is_excluded)
    if len(pairs[0]):
        tested, disc = np.unique(pairs[1], return_inverse=True)
        search.test_pairs(one_disc_per_triangle(surface, triangles[tested]), pairs[0], disc)
    return search.result()


def side_of_surface(
    surface: Triangles, found: NearestTriangles, size: float | Array | None = None
) -> tuple[Array, Array]:
    """Return the sides (k,) of a closed surface (+1 outside, -1 inside) and its outward unit normals (k, 3) there.

    size: m, a number or (k,); the size of the surface if None.

    The sign comes from the pseudo-normal of the closest face, edge or vertex (Baerentzen, Aanaes 2005). Next to
    degenerate triangles, which have no normal, it comes from the winding number.
    """
    is_zero = found.weights == 0.0
    feature = surface.normals[found.triangle]
    on_edge, on_vertex = is_zero.sum(axis=1) == 1, is_zero.sum(axis=1) >= 2
    is_degenerate = surface.is_degenerate[found.triangle]
    any_degenerate = bool(surface.is_degenerate.any())
    if on_edge.any():
        # The side from a corner to the next one is opposite the previous corner.
        side = (is_zero[on_edge].argmax(axis=1) + 1) % 3
        edge = surface.topology.triangle_edges[found.triangle[on_edge], side]
        feature[on_edge] = surface.edge_normals[edge]
        if any_degenerate:
            is_degenerate[on_edge] |= surface.has_degenerate_triangle[0][edge]
    if on_vertex.any():
        corner = found.weights[on_vertex].argmax(axis=1)
        vertex = surface.triangles[found.triangle[on_vertex], corner]
        feature[on_vertex] = surface.vertex_normals[vertex]
        if any_degenerate:
            is_degenerate[on_vertex] |= surface.has_degenerate_triangle[1][vertex]
    sign = np.where((found.offset * feature).sum(axis=1) >= 0.0, 1.0, -1.0)
    is_off_surface = found.distance > _ON_SURFACE * (surface.size if size is None else size)
    ambiguous = np.flatnonzero(is_degenerate & is_off_surface)
    if len(ambiguous):
        corners = surface.vertices[surface.triangles[found.triangle[ambiguous]]]
        query_points = (found.weights[ambiguous][:, :, None] * corners).sum(axis=1) + found.offset[ambiguous]
        inside = np.abs(WindingNumber(surface.vertices, surface.triangles)(query_points)) > 0.5
        sign[ambiguous] = np.where(inside, -1.0, 1.0)
    direction = sign[:, None] * found.offset / np.where(is_off_surface, found.distance, 1.0)[:, None]
    return sign, np.where(is_off_surface[:, None], direction, unit_vectors(feature))


def heights_above_sheet(surface: Triangles, fans: CornerFans, triangle: Index, points: Array) -> Array:
    """Return the signed distances (k,) m of points (k, 3) from the part of an open surface around triangles (k,).

    fans: of the triangles of the surface.

    A point beside its triangle may be behind the plane of that triangle and yet in front of the surface, which bends
    there. If the triangles around it disagree, the nearest one decides. At a common edge or vertex, the one that faces
    the point most decides, as the pseudo-normal does. Triangles across a junction of sheets do not count: their fronts
    may be on the other side.
    """
    library = load_library()
    if library is not None:
        mesh = surface.vertices, surface.triangles, surface.normals, surface.is_degenerate
        return sheet_heights(
            library,
            mesh,
            (fans.fan, fans.first, fans.count, fans.members),
            _ON_SURFACE * surface.size,
            points,
            triangle,
        )
    height = plane_heights(surface, triangle[:, None], points)[:, 0]
    weights = closest_points_on_triangles(np.ascontiguousarray(points.T), surface.corners.take(triangle, axis=2))[0]
    unclear = np.flatnonzero((weights == 0.0).any(axis=0))
    around, row = fans.triangles_of_fans(triangle[unclear])
    heights = plane_heights(surface, around[:, None], points[unclear[row]])[:, 0]
    differs = np.bincount(row, heights * height[unclear[row]] < 0.0, minlength=len(unclear)) > 0.0
    kept = np.flatnonzero(differs[row])
    if not len(kept):
        return np.asarray(height)
    unclear, around, heights = unclear[differs], around[kept], heights[kept]
    _, first, row = np.unique(row[kept], return_index=True, return_inverse=True)
    rows = np.ascontiguousarray(points[unclear[row]].T)
    square = closest_points_on_triangles(rows, surface.corners.take(around, axis=2))[2]
    distance = np.where(surface.is_degenerate[around], np.inf, np.sqrt(square))
    nearest = np.minimum.reduceat(distance, first)
    is_tied = distance <= nearest[row] + _ON_SURFACE * surface.size
    rank = np.where(is_tied, np.abs(heights), -1.0)
    best = np.flatnonzero(rank == np.maximum.reduceat(rank, first)[row])
    deciding = best[np.unique(row[best], return_index=True)[1]]
    height[unclear] = np.copysign(nearest, heights[deciding])
    return np.asarray(height)


def plane_heights(surface: Triangles, triangles: Index, points: Array) -> Array:
    """Return the heights (k, m) m of points (k, 3) above the planes of triangles (k, m); 0 for degenerate ones."""
    offset = points[:, None] - surface.vertices[surface.triangles[triangles, 0]]
    # In the order of the kernel's sums.
    return dot_rows(np.moveaxis(offset, 2, 0), np.moveaxis(surface.normals[triangles], 2, 0))


def _points_near(surface: Triangles, rows: Array, reaches: Array) -> Index:
    """Return the finite points, rows (3, p), that have a reach (p,) that overlaps the bounding box of the surface."""
    if len(surface) == 0:
        return np.zeros(0, dtype=np.int64)
    low, high = surface.low.min(axis=1)[:, None], surface.high.max(axis=1)[:, None]
    return np.flatnonzero((np.isfinite(rows) & (rows >= low - reaches) & (rows <= high + reaches)).all(axis=0))


def _triangles_near(surface: Triangles, rows: Array, reach: float) -> Index:
    """Return the triangles whose boxes are within reach, m, of the box of points, rows (3, p)."""
    bottom, top = rows.min(axis=1)[:, None] - reach, rows.max(axis=1)[:, None] + reach
    return np.flatnonzero(((surface.high >= bottom) & (surface.low <= top)).all(axis=0))


class _NearestSearch:
    """State of a nearest-triangle search: upper bounds (k,) of the distances, and the exactly tested pairs."""

    def __init__(
        self,
        surface: Triangles,
        points: Array,
        reaches: Array,
        sizes: Array,
        point_ids: Index,
        normals: Array | None,
        max_normal_cosine: float,
        is_excluded: PairExclusion | None,
    ) -> None:
        self.points = points
        self._surface, self._point_ids = surface, point_ids
        self._is_excluded, self._max_normal_cosine = is_excluded, max_normal_cosine
        self._point_normals = None if normals is None else np.asarray(normals)[point_ids]
        self._normals = None if self._point_normals is None else np.ascontiguousarray(self._point_normals.T)
        self._slack = _TIE_TOLERANCE * np.maximum(sizes, 1e-3 * surface.max_coordinate)
        self._reach = reaches
        self._upper_bound = np.array(reaches, dtype=np.float64)
        self._tested: list[tuple[Index, Index, Array]] = []

    def search_tree(self) -> bool:
        """Search with the compiled tree, and return whether it exists and did not find too many triangles."""
        tree, excluded = self._surface.box_tree, self._is_excluded
        if tree is None or excluded is None:
            return False
        arrays = PairRules().arrays(self._point_normals, self._surface, self._max_normal_cosine)
        reach = np.where(self._reach >= 0.0, self._reach, np.nan)
        found = tree.near(self.points.T, reach, self._slack, arrays)
        if found is None:
            return False
        keep = np.flatnonzero(~excluded(self._point_ids[found[0]], found[1]))
        point, triangle = found[0][keep], found[1][keep]
        corners = self._surface.corners.take(triangle, axis=2)
        distance = np.sqrt(closest_points_on_triangles(self.points.take(point, axis=1), corners)[2])
        np.minimum.at(self._upper_bound, point, distance)
        self._tested.append((point, triangle, distance))
        return True

    def search(self, discs: BoundingDiscs) -> None:
        """Search large and small discs separately: the largest radius determines how many centres are candidates."""
        large = discs.radii > 8.0 * float(np.median(discs.radii))
        if large.any() and len(discs.radii) * self.points.shape[1] > _BRUTE_FORCE_PAIRS:
            self._search_discs(discs.select(~large))
            self.search(discs.select(large))
        else:
            self._search_discs(discs)

    def result(self) -> NearestTriangles:
        """Return the nearest triangles found."""
        place, triangle = self._nearest_pairs()
        corners = self._surface.corners.take(triangle, axis=2)
        weights, way, square = closest_points_on_triangles(self.points.take(place, axis=1), corners)
        across = np.ascontiguousarray(weights.T), np.ascontiguousarray(way.T)
        return NearestTriangles(self._point_ids[place], triangle, *across, np.sqrt(square))

    def _nearest_pairs(self) -> tuple[Index, Index]:
        """Return the points (k,) that have a triangle in reach, and those triangles (k,)."""
        if not self._tested:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        point, triangle, distance = (np.concatenate(parts) for parts in zip(*self._tested, strict=True))
        tied = distance <= self._tie_limit(point)
        point, triangle = point[tied], triangle[tied]
        count = len(self._surface)
        rank = triangle + np.where(self._surface.is_degenerate[triangle], count, 0)
        best = np.full(self.points.shape[1], 2 * count)
        np.minimum.at(best, point, rank)
        there = np.flatnonzero(best < 2 * count)
        return there, best[there] % count

    def _search_discs(self, discs: BoundingDiscs) -> None:
        count, number = self.points.shape[1], len(discs.radii)
        if number * count <= _BRUTE_FORCE_PAIRS:
            self.test_pairs(discs, np.arange(count).repeat(number), np.tile(np.arange(number), count))
            return
        radius = (float(discs.radii.max()) + float(self._slack.max())) * (1.0 + 1e-9)
        tree = cKDTree(discs.centres.T, balanced_tree=False, compact_nodes=True, leafsize=16)
        limit = (float(self._upper_bound.max()) + radius) * (1.0 + 1e-9)
        _, disc = tree.query(self.points.T, distance_upper_bound=limit)
        points = np.flatnonzero(disc < number)
        self.test_pairs(discs, points, disc[points])
        # Only discs with centres closer than this can contain a nearer point.
        radii = (self._upper_bound + radius) * (1.0 + 1e-9)
        self._search_near_centres(discs, tree, points[np.argsort(radii[points], kind="stable")], radii)

    def _search_near_centres(self, discs: BoundingDiscs, tree: cKDTree, points: Index, radii: Array) -> None:
        """Test all discs with centres closer than needed (p,), for the points asked (k,), smallest radius first."""
        while len(points):
            first = int(np.searchsorted(radii[points], 1.3 * radii[points[0]], side="right"))
            chunk = points[: max(first, _BRUTE_FORCE_PAIRS // 8)]
            farthest = min(float(radii[chunk[-1]]), _MAX_REACH)
            chunk_tree = cKDTree(self.points[:, chunk].T, balanced_tree=False, compact_nodes=True, leafsize=16)
            if len(chunk) * tree.n > _MAX_PAIRS and chunk_tree.count_neighbors(tree, farthest) > _MAX_PAIRS:
                chunk = chunk[: max(len(chunk) // 4, _MAX_PAIRS // tree.n, 1)]
                farthest = min(float(radii[chunk[-1]]), _MAX_REACH)
                chunk_tree = cKDTree(self.points[:, chunk].T, balanced_tree=False, compact_nodes=True, leafsize=16)
            points = points[len(chunk) :]
            pairs = chunk_tree.sparse_distance_matrix(tree, farthest, output_type="ndarray")
            point, disc = chunk[pairs["i"]], pairs["j"]
            some = np.flatnonzero(pairs["v"] <= radii[point])
            self.test_pairs(discs, point[some], disc[some])

    def test_pairs(self, discs: BoundingDiscs, point: Index, disc: Index) -> None:
        """Test pairs of points (k,) and discs (k,) exactly, unless their bounds exclude them."""
        low, high = discs.distance_bounds(disc, self.points.take(point, axis=1))
        keep = np.flatnonzero(low <= self._tie_limit(point))
        point, triangle, low, high = point[keep], discs.triangles[disc[keep]], low[keep], high[keep]
        if self._normals is not None:
            against = self._normals.take(point, axis=1) * self._surface.normal_rows.take(triangle, axis=1)
            keep = np.flatnonzero(against.sum(axis=0) < self._max_normal_cosine)
            point, triangle, low, high = point[keep], triangle[keep], low[keep], high[keep]
        if self._is_excluded is not None and len(point):
            keep = np.flatnonzero(~self._is_excluded(self._point_ids[point], triangle))
            point, triangle, low, high = point[keep], triangle[keep], low[keep], high[keep]
        np.minimum.at(self._upper_bound, point, high)
        keep = np.flatnonzero(low <= self._tie_limit(point))
        point, triangle = point[keep], triangle[keep]
        corners = self._surface.corners.take(triangle, axis=2)
        _, _, square = closest_points_on_triangles(self.points.take(point, axis=1), corners)
        distance = np.sqrt(square)
        within = np.flatnonzero(distance <= self._reach[point])
        point, triangle, distance = point[within], triangle[within], distance[within]
        np.minimum.at(self._upper_bound, point, distance)
        self._tested.append((point, triangle, distance))

    def _tie_limit(self, point: Index) -> Array:
        """Return the largest distances (k,) in m that count as ties with the nearest one."""
        return np.asarray(self._upper_bound[point] * (1.0 + _TIE_TOLERANCE) + self._slack[point])

"""Exact intersections of surfaces and their penetration depth, as measured by tests and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index, Mask
from .near_balls import near_balls, pieces, sorted_pairs
from .proximity import Triangles, closed, nearest
from .triangles import Topology, cross_rows
from .winding import WindingNumber

# An end of an edge is on a triangle's plane if it is closer than this, relative to the size of the surface.
_ON = 1e-9
# Number of samples per interval of an edge between two intersections, at which its depth is measured.
_PLACES = 9


@dataclass(frozen=True)
class Passages:
    """Intersections of segments with triangles.

    segment: (k,) ascending.  triangle: (k,).  parameter: (k,) position along the segment, 0 to 1.
    weights: (k, 3) barycentric coordinates in the triangle.
    """

    segment: Index
    triangle: Index
    part: Array
    weights: Array


def passages(
    starts: Array,
    ends: Array,
    surface: Triangles,
    tolerance: float = 0.0,
    forbidden: Callable[[Index, Index], Mask] | None = None,
) -> Passages:
    """Return where segments (e, 3) pass through triangles. One that hits a shared edge hits both of its triangles.

    tolerance: m; a segment with an end closer than this to a triangle's plane does not count as passing through it.
    is_excluded: returns a mask of pairs of segments and triangles to ignore.
    """
    segment, triangle = _meeting(starts, ends, surface)
    if forbidden is not None and len(segment):
        keep = ~forbidden(segment, triangle)
        segment, triangle = segment[keep], triangle[keep]
    start, end = starts[segment].T, ends[segment].T
    corners = surface.corners.take(triangle, axis=2)
    normal = surface.unit_rows.take(triangle, axis=1)
    from_start, from_end = (((x - corners[0]) * normal).sum(axis=0) for x in (start, end))
    crosses = (from_start * from_end < 0.0) & (np.minimum(np.abs(from_start), np.abs(from_end)) > tolerance)
    way = end - start
    names = surface.triangles[triangle].T
    volumes = np.empty((3, len(segment)))
    for k in range(3):
        # Order the ends of each side by vertex index: both of its triangles get the same volume up to sign.
        a, b = (k + 1) % 3, (k + 2) % 3
        swap = names[a] > names[b]
        low = np.where(swap, corners[b], corners[a]) - start
        high = np.where(swap, corners[a], corners[b]) - start
        volumes[k] = np.where(swap, -1.0, 1.0) * (cross_rows(low, high) * way).sum(axis=0)
    total = volumes.sum(axis=0)
    through = crosses & ((volumes >= 0.0).all(axis=0) | (volumes <= 0.0).all(axis=0)) & (total != 0.0)
    kept = np.flatnonzero(through)
    part = from_start[kept] / (from_start[kept] - from_end[kept])
    weights = np.ascontiguousarray((volumes[:, kept] / total[kept]).T)
    return Passages(segment[kept], triangle[kept], part, weights)


def crossing_edges(
    vertices_a: Array,
    triangles_a: Index,
    vertices_b: Array,
    triangles_b: Index,
    tolerance: float | None = None,
    forbidden: Callable[[Index, Index], Mask] | None = None,
) -> tuple[Index, Index]:
    """Return edges (k, 2) of a that pass through triangles (k,) of b; touching does not count.

    tolerance: m; by default a billionth of b's size.  is_excluded: returns a mask of pairs of edges (k, 2) and
    triangles (k,) to ignore. For self-intersections pass the same array of vertices twice: an edge is then never tested
    against triangles that share one of its vertices.
    """
    surface = Triangles(vertices_b, triangles_b)
    edges = Topology.of(np.asarray(triangles_a, dtype=np.int64).reshape(-1, 3)).ends
    same = vertices_a is vertices_b

    def barred(edge: Index, triangle: Index) -> Mask:
        out = np.zeros(len(edge), dtype=bool)
        if same:
            out |= (edges[edge][:, :, None] == surface.triangles[triangle][:, None, :]).any(axis=(1, 2))
        if forbidden is not None:
            out |= forbidden(edges[edge], triangle)
        return out

    limit = _ON * surface.size if tolerance is None else tolerance
    found = passages(vertices_a[edges[:, 0]], vertices_a[edges[:, 1]], surface, limit, barred)
    return edges[found.segment], found.triangle


def inside_depth(points: Array, surface: Triangles) -> Array:
    """Return the depths (p,) in m of points (p, 3) inside a closed surface: the distance to it, 0 outside."""
    depth = np.zeros(len(points))
    if len(surface) == 0 or len(points) == 0:
        return depth
    low, high = surface.low.min(axis=1), surface.high.max(axis=1)
    boxed = np.flatnonzero(((points >= low) & (points <= high)).all(axis=1))
    if len(boxed) == 0:
        return depth
    winding = WindingNumber(surface.vertices, surface.triangles)(points[boxed])
    inside = boxed[np.abs(winding) > 0.5]
    found = nearest(surface, points[inside], np.inf)
    depth[inside[found.point]] = found.distance
    return depth


def depth_between(vertices_a: Array, triangles_a: Index, vertices_b: Array, triangles_b: Index) -> float:
    """Return the penetration depth of two surfaces in m: the largest depth of a vertex or edge sample in the other one.

    An open surface has no inside and gives a depth of 0.
    """
    a, b = Triangles(vertices_a, triangles_a), Triangles(vertices_b, triangles_b)
    return max(_depth_in(a, b), _depth_in(b, a))


def _depth_in(body: Triangles, other: Triangles) -> float:
    if len(body) == 0 or not closed(other.triangles):
        return 0.0
    edges = body.topology.ends
    starts, ends = body.vertices[edges[:, 0]], body.vertices[edges[:, 1]]
    found = passages(starts, ends, other)
    every = np.unique(found.segment)
    # Intervals between consecutive ends and intersections of an edge.
    segment = np.concatenate([found.segment, every, every])
    part = np.concatenate([found.part, np.zeros(len(every)), np.ones(len(every))])
    order = np.lexsort((part, segment))
    segment, part = segment[order], part[order]
    same = np.flatnonzero(segment[1:] == segment[:-1])
    steps = (np.arange(_PLACES) + 0.5) / _PLACES
    parts = part[same][:, None] + steps * (part[same + 1] - part[same])[:, None]
    owner = segment[same].repeat(_PLACES)
    places = starts[owner] + parts.reshape(-1, 1) * (ends - starts)[owner]
    points = np.concatenate([body.vertices[np.unique(body.triangles)], places])
    return float(inside_depth(points, other).max(initial=0.0))


def _meeting(starts: Array, ends: Array, surface: Triangles) -> tuple[Index, Index]:
    """Return pairs of segments (k,) and triangles (k,) whose bounding boxes overlap."""
    none = np.zeros(0, dtype=np.int64)
    if len(surface) == 0 or len(starts) == 0:
        return none, none
    low, high = np.minimum(starts, ends), np.maximum(starts, ends)
    some = np.flatnonzero(((low <= surface.high.max(axis=1)) & (high >= surface.low.min(axis=1))).all(axis=1))
    if len(some) == 0:
        return none, none
    bottom, top = low[some].min(axis=0)[:, None], high[some].max(axis=0)[:, None]
    among = np.flatnonzero(((surface.low <= top) & (surface.high >= bottom)).all(axis=0))
    if len(among) == 0:
        return none, none
    middles = 0.5 * (surface.low + surface.high)[:, among]
    radii = 0.5 * np.sqrt(((surface.high - surface.low)[:, among] ** 2).sum(axis=0))
    radii = radii * (1.0 + 1e-9) + 1e-12 * np.abs(middles).max()
    centres, reaches, owner, _ = pieces(starts[some], ends[some], 4.0 * float(np.median(radii)))
    first, second = near_balls(centres, reaches, np.ascontiguousarray(middles.T), radii)
    segment, triangle = sorted_pairs(some[owner[first]], among[second])
    meets = (surface.high.take(triangle, axis=1) >= low[segment].T) & (
        surface.low.take(triangle, axis=1) <= high[segment].T
    )
    kept = np.flatnonzero(meets.all(axis=0))
    return segment[kept], triangle[kept]

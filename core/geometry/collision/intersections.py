"""Exact intersections of surfaces and their penetration depth, as measured by tests and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...base.arrays import Array, Index, Mask
from ..mesh.triangles import Topology, Triangles, cross_rows, is_closed
from ..tetmesh.winding_number import WindingNumber
from .broad_phase import overlapping_spheres, sorted_pairs, split_segments
from .proximity import nearest_triangles

# An end of an edge is on a triangle's plane if it is closer than this, relative to the size of the surface.
_ON_PLANE = 1e-9
# Number of samples per interval of an edge between two intersections, at which its depth is measured.
_SAMPLES_PER_INTERVAL = 9
# Slopes of rays against the axes, so that the vertices and edges of a mesh in line with the axes are not hit exactly.
_RAY_SLOPES = (1.3e-4, 0.7e-4)


@dataclass(frozen=True)
class SegmentHits:
    """Intersections of segments with triangles.

    segment: (k,) ascending.  triangle: (k,).  parameter: (k,) position along the segment, 0 to 1.
    weights: (k, 3) barycentric coordinates in the triangle.
    """

    segment: Index
    triangle: Index
    parameter: Array
    weights: Array


def segment_triangle_hits(
    starts: Array,
    ends: Array,
    surface: Triangles,
    tolerance: float = 0.0,
    is_excluded: Callable[[Index, Index], Mask] | None = None,
    labels: tuple[Index, Index] | None = None,
) -> SegmentHits:
    """Return where segments (e, 3) pass through triangles. One that hits a shared edge hits both of its triangles.

    tolerance: m; a segment with an end closer than this to a triangle's plane does not count as passing through it.
    is_excluded: returns a mask of pairs of segments and triangles to ignore.
    labels: (e, 2) of segments and (t, 3) of triangles; pairs with a common one are ignored, such as neighbours.
    """
    segment, triangle = _candidate_pairs(starts, ends, surface, labels)
    if is_excluded is not None and len(segment):
        keep = ~is_excluded(segment, triangle)
        segment, triangle = segment[keep], triangle[keep]
    start, end = starts[segment].T, ends[segment].T
    corners = surface.corners.take(triangle, axis=2)
    normal = surface.normal_rows.take(triangle, axis=1)
    from_start, from_end = (((x - corners[0]) * normal).sum(axis=0) for x in (start, end))
    crosses = (from_start * from_end < 0.0) & (np.minimum(np.abs(from_start), np.abs(from_end)) > tolerance)
    direction = end - start
    vertex_ids = surface.triangles[triangle].T
    volumes = np.empty((3, len(segment)))
    for k in range(3):
        # Order the ends of each side by vertex index: both of its triangles get the same volume up to sign.
        a, b = (k + 1) % 3, (k + 2) % 3
        swap = vertex_ids[a] > vertex_ids[b]
        low = np.where(swap, corners[b], corners[a]) - start
        high = np.where(swap, corners[a], corners[b]) - start
        volumes[k] = np.where(swap, -1.0, 1.0) * (cross_rows(low, high) * direction).sum(axis=0)
    total = volumes.sum(axis=0)
    through = crosses & ((volumes >= 0.0).all(axis=0) | (volumes <= 0.0).all(axis=0)) & (total != 0.0)
    hits = np.flatnonzero(through)
    parameter = from_start[hits] / (from_start[hits] - from_end[hits])
    weights = np.ascontiguousarray((volumes[:, hits] / total[hits]).T)
    return SegmentHits(segment[hits], triangle[hits], parameter, weights)


def intersecting_edges(
    vertices_a: Array,
    triangles_a: Index,
    vertices_b: Array,
    triangles_b: Index,
    tolerance: float | None = None,
    is_excluded: Callable[[Index, Index], Mask] | None = None,
) -> tuple[Index, Index]:
    """Return edges (k, 2) of a that pass through triangles (k,) of b; touching does not count.

    tolerance: m; by default a billionth of b's size.  is_excluded: returns a mask of pairs of edges (k, 2) and
    triangles (k,) to ignore. For self-intersections pass the same array of vertices twice: an edge is then never tested
    against triangles that share one of its vertices.
    """
    surface = Triangles(vertices_b, triangles_b)
    edges = Topology.from_triangles(np.asarray(triangles_a, dtype=np.int64).reshape(-1, 3)).edges
    labels = (edges, surface.triangles) if vertices_a is vertices_b else None
    is_excluded_pair = None if is_excluded is None else lambda edge, triangle: is_excluded(edges[edge], triangle)
    limit = _ON_PLANE * surface.size if tolerance is None else tolerance
    found = segment_triangle_hits(
        vertices_a[edges[:, 0]], vertices_a[edges[:, 1]], surface, limit, is_excluded_pair, labels
    )
    return edges[found.segment], found.triangle


def points_inside(points: Array, surface: Triangles) -> Mask:
    """Return a mask (p,) of the points (p, 3) inside a closed surface, also inside several of its parts at once.

    The winding number is the sum of the signed crossings of a ray. Two rays are followed; where they disagree, as next
    to edges or between normals that disagree, the generalised winding number decides. Points on the surface may count
    either way.
    """
    inside = np.zeros(len(points), dtype=bool)
    if len(surface) == 0 or len(points) == 0:
        return inside
    low, high = surface.low.min(axis=1), surface.high.max(axis=1)
    in_box = np.flatnonzero(((points >= low) & (points <= high)).all(axis=1))
    # Rays along the two shorter sides of the bounding box meet fewer triangles.
    first, second = (_ray_windings(points[in_box], surface, axis) for axis in np.argsort(high - low)[:2])
    inside[in_box] = np.abs(first) > 0.5
    unclear = in_box[np.abs(first) != np.abs(second)]
    if len(unclear):
        inside[unclear] = np.abs(WindingNumber(surface.vertices, surface.triangles)(points[unclear])) > 0.5
    return inside


def _ray_windings(points: Array, surface: Triangles, axis: int) -> Array:
    """Return the signed crossings (p,) of rays from points (p, 3) along an axis, towards the nearer side of the box."""
    low, high = surface.low[axis].min(), surface.high[axis].max()
    up = 2.0 * points[:, axis] > low + high
    length = np.where(up, high - points[:, axis], points[:, axis] - low) + 1e-3 * surface.size
    direction = np.empty(points.shape)
    direction[:, axis] = np.where(up, 1.0, -1.0)
    direction[:, (axis + 1) % 3], direction[:, (axis + 2) % 3] = _RAY_SLOPES
    found = segment_triangle_hits(points, points + length[:, None] * direction, surface)
    signs = np.sign((direction[found.segment] * surface.normals[found.triangle]).sum(axis=1))
    return np.bincount(found.segment, signs, minlength=len(points)).astype(float)


def first_exits(points: Array, direction: Array, surface: Triangles) -> Array:
    """Return the distances (p,) in m from points (p, 3) along a unit direction (3,) to the outside of a closed surface.

    They are 0 for points outside. Behind the exit the ray may enter the surface again.
    """
    exits = np.zeros(len(points))
    if len(surface) == 0 or len(points) == 0:
        return exits
    corners = np.stack([surface.low.min(axis=1), surface.high.max(axis=1)])
    skewed = direction + np.array([*_RAY_SLOPES, -_RAY_SLOPES[0]])
    reach = surface.size + np.linalg.norm(points - corners.mean(axis=0), axis=1).max()
    found = segment_triangle_hits(points, points + reach * skewed, surface)
    signs = np.sign(surface.normals[found.triangle] @ skewed)
    # The winding number at a place of the ray is the sum of the signed crossings behind it.
    order = np.lexsort((found.parameter, found.segment))
    segment, parameter, signs = found.segment[order], found.parameter[order], signs[order]
    totals = np.bincount(segment, signs, minlength=len(points))
    sums = np.cumsum(signs)
    before = np.concatenate([[0.0], sums])[np.searchsorted(segment, segment)]
    after = totals[segment] - (sums - before)
    left = np.flatnonzero((np.abs(after) < 0.5) & (np.abs(totals[segment]) > 0.5))
    first, place = np.unique(segment[left], return_index=True)
    exits[first] = parameter[left[place]] * reach
    return exits


def depth_inside(points: Array, surface: Triangles) -> Array:
    """Return the depths (p,) in m of points (p, 3) inside a closed surface: the distance to it, 0 outside."""
    depth = np.zeros(len(points))
    inside = np.flatnonzero(points_inside(points, surface))
    found = nearest_triangles(surface, points[inside], np.inf)
    depth[inside[found.point]] = found.distance
    return depth


def penetration_depth(vertices_a: Array, triangles_a: Index, vertices_b: Array, triangles_b: Index) -> float:
    """Return the penetration depth of two surfaces in m: the largest depth of a vertex or edge sample in the other one.

    An open surface has no inside and gives a depth of 0.
    """
    a, b = Triangles(vertices_a, triangles_a), Triangles(vertices_b, triangles_b)
    return max(_depth_into(body, other) if is_closed(other.triangles) else 0.0 for body, other in ((a, b), (b, a)))


def penetration_depth_of_closed(a: Triangles, b: Triangles) -> float:
    """Return penetration_depth() of two surfaces that are known to be closed."""
    return max(_depth_into(a, b), _depth_into(b, a))


def _depth_into(body: Triangles, other: Triangles) -> float:
    """Return the largest depth in m of a vertex or edge sample of a surface in a closed one."""
    edges = body.topology.edges
    starts, ends = body.vertices[edges[:, 0]], body.vertices[edges[:, 1]]
    found = segment_triangle_hits(starts, ends, other)
    hit_segments = np.unique(found.segment)
    # Intervals between consecutive ends and intersections of an edge.
    segment = np.concatenate([found.segment, hit_segments, hit_segments])
    parameter = np.concatenate([found.parameter, np.zeros(len(hit_segments)), np.ones(len(hit_segments))])
    order = np.lexsort((parameter, segment))
    segment, parameter = segment[order], parameter[order]
    same = np.flatnonzero(segment[1:] == segment[:-1])
    steps = (np.arange(_SAMPLES_PER_INTERVAL) + 0.5) / _SAMPLES_PER_INTERVAL
    sample_parameters = parameter[same][:, None] + steps * (parameter[same + 1] - parameter[same])[:, None]
    owner = segment[same].repeat(_SAMPLES_PER_INTERVAL)
    samples = starts[owner] + sample_parameters.reshape(-1, 1) * (ends - starts)[owner]
    is_used = np.zeros(len(body.vertices), dtype=bool)
    is_used[body.triangles] = True
    points = np.concatenate([body.vertices[is_used], samples])
    return float(depth_inside(points, other).max(initial=0.0))


def _candidate_pairs(
    starts: Array, ends: Array, surface: Triangles, labels: tuple[Index, Index] | None = None
) -> tuple[Index, Index]:
    """Return pairs of segments (k,) and triangles (k,) without a common label whose bounding boxes overlap."""
    none = np.zeros(0, dtype=np.int64)
    if len(surface) == 0 or len(starts) == 0:
        return none, none
    low, high = np.minimum(starts, ends), np.maximum(starts, ends)
    if surface.box_tree is not None:
        return surface.box_tree.overlaps(np.concatenate([low, high], axis=1), labels=labels)
    near_segments = np.flatnonzero(((low <= surface.high.max(axis=1)) & (high >= surface.low.min(axis=1))).all(axis=1))
    if len(near_segments) == 0:
        return none, none
    bottom, top = low[near_segments].min(axis=0)[:, None], high[near_segments].max(axis=0)[:, None]
    near_triangles = np.flatnonzero(((surface.low <= top) & (surface.high >= bottom)).all(axis=0))
    if len(near_triangles) == 0:
        return none, none
    middles = 0.5 * (surface.low + surface.high)[:, near_triangles]
    radii = 0.5 * np.sqrt(((surface.high - surface.low)[:, near_triangles] ** 2).sum(axis=0))
    radii = radii * (1.0 + 1e-9) + 1e-12 * np.abs(middles).max()
    centres, reaches, owner, _ = split_segments(
        starts[near_segments], ends[near_segments], 4.0 * float(np.median(radii))
    )
    first, second = overlapping_spheres(centres, reaches, np.ascontiguousarray(middles.T), radii)
    segment, triangle = sorted_pairs(near_segments[owner[first]], near_triangles[second])
    meets = (surface.high.take(triangle, axis=1) >= low[segment].T) & (
        surface.low.take(triangle, axis=1) <= high[segment].T
    )
    is_candidate = meets.all(axis=0)
    if labels is not None:
        is_candidate &= (labels[0][segment][:, :, None] != labels[1][triangle][:, None]).all(axis=(1, 2))
    kept = np.flatnonzero(is_candidate)
    return segment[kept], triangle[kept]

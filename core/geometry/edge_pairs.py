"""Close pairs of edges, and the sharp edges of a surface, where contact between vertices and faces is not enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index
from .closest import closest_of_lines
from .near_balls import near_balls, pieces, sorted_pairs
from .proximity import Forbidden, Triangles
from .triangles import Topology, unit

# Sine of the angle below which edges count as parallel: their closest points are then ill-defined.
_PARALLEL = 0.05
# Up to this number of pairs, testing all of them is faster than a broad phase.
_FEW = 3_000


@dataclass(frozen=True)
class EdgePairs:
    """Pairs of close edges.

    first: (k,) edge of a, ascending.  second: (k,) edge of b.  s, t: (k,) parameters of the closest points, 0 to 1.
    offset: (k, 3) m from the closest point on b to that on a.  distance: (k,) m.
    """

    first: Index
    second: Index
    s: Array
    t: Array
    way: Array
    distance: Array


def near_edges(
    points_a: Array,
    edges_a: Index,
    points_b: Array,
    edges_b: Index,
    reach: float | Array,
    forbidden: Forbidden | None = None,
    pairs: tuple[Index, Index] | None = None,
) -> EdgePairs:
    """Return all pairs of edges (m, 2), (n, 2) closer than reach (m) whose closest points are in the interior of both.

    Nearly parallel pairs are left out.  is_excluded: returns a mask of pairs of edges (k,), (k,) to ignore.
    pairs: (k,), (k,) restricts the test to these edges, ascending by the first; reach may then be (k,), one per pair.
    """
    first, second = pairs or edges_that_may(points_a, edges_a, points_b, edges_b, float(reach))
    start_a, end_a, start_b, end_b = (
        np.ascontiguousarray(points[edges[which, k]].T)
        for points, edges, which in ((points_a, edges_a, first), (points_b, edges_b, second))
        for k in (0, 1)
    )
    way_a, way_b = end_a - start_a, end_b - start_b
    s, t, sines = closest_of_lines(start_a, way_a, start_b, way_b)
    between = start_a - start_b + s * way_a - t * way_b
    distance = np.sqrt((between * between).sum(axis=0))
    kept = np.flatnonzero((s > 0.0) & (s < 1.0) & (t > 0.0) & (t < 1.0) & (sines > _PARALLEL**2) & (distance < reach))
    if forbidden is not None and len(kept):
        kept = kept[~forbidden(first[kept], second[kept])]
    return EdgePairs(
        first[kept], second[kept], s[kept], t[kept], np.ascontiguousarray(between[:, kept].T), distance[kept]
    )


def sharp_edges(
    vertices: Array, triangles: Index, angle: float, topology: Topology | None = None
) -> tuple[Index, Array, Index]:
    """Return convex edges at which the face normals differ by more than angle (rad), and border edges.

    Returns edges (m, 2), the normalised means (m, 3) of their face normals, and their faces (m, 2), the second being -1
    at a border. Edges of more than two faces and convex edges of degenerate triangles are left out.
    """
    surface = Triangles(vertices, triangles, topology)
    ends, sides = surface.topology.ends, surface.topology.sides.ravel()
    order = np.argsort(sides, kind="stable")
    counts = np.bincount(sides, minlength=len(ends))
    start = np.cumsum(counts) - counts
    border, pair = np.flatnonzero(counts == 1), np.flatnonzero(counts == 2)
    side, other = order[start[pair]], order[start[pair] + 1]
    normal, opposite = surface.normals[side // 3], surface.normals[other // 3]
    # The corner of the other face opposite the edge: the second one after the corner at which the side starts.
    apex = surface.vertices[surface.triangles[other // 3, (other % 3 + 2) % 3]]
    convex = (normal * (apex - surface.vertices[ends[pair, 0]])).sum(axis=1) < 0.0
    tilt = np.arctan2(np.linalg.norm(np.cross(normal, opposite), axis=1), (normal * opposite).sum(axis=1))
    # A fully folded edge (its faces coincide) is neither convex nor concave.
    folded = tilt > np.pi - 1e-6
    whole = ~surface.degenerate[side // 3] & ~surface.degenerate[other // 3]
    sharp = np.flatnonzero((convex | folded) & (tilt > angle) & whole)
    means = unit(normal[sharp] + opposite[sharp])
    blades = np.flatnonzero(folded[sharp])
    if len(blades):
        # The normals cancel: use the direction away from the faces instead.
        edge = pair[sharp[blades]]
        faces = np.stack([side[sharp[blades]], other[sharp[blades]]]) // 3
        middles = surface.vertices[surface.triangles[faces]].mean(axis=2).mean(axis=0)
        along = unit(surface.vertices[ends[edge, 1]] - surface.vertices[ends[edge, 0]])
        away = surface.vertices[ends[edge, 0]] - middles
        means[blades] = unit(unit(away - (away * along).sum(axis=1)[:, None] * along))
    faces = np.concatenate(
        [
            np.stack([side[sharp], other[sharp]], axis=1) // 3,
            np.stack([order[start[border]] // 3, np.full(len(border), -1)], axis=1),
        ]
    )
    edges = np.concatenate([ends[pair[sharp]], ends[border]])
    normals = np.concatenate([means, surface.normals[order[start[border]] // 3]])
    return edges, normals, faces


def edges_that_may(
    points_a: Array, edges_a: Index, points_b: Array, edges_b: Index, reach: float
) -> tuple[Index, Index]:
    """Return candidate pairs (k,), (k,) of edges, ascending by the first: a superset of those closer than reach (m)."""
    none = np.zeros(0, dtype=np.int64)
    if len(edges_a) == 0 or len(edges_b) == 0:
        return none, none
    if len(edges_a) * len(edges_b) <= _FEW:
        return np.arange(len(edges_a)).repeat(len(edges_b)), np.tile(np.arange(len(edges_b)), len(edges_a))
    kept, spans = [], []
    for points, edges in ((points_a, edges_a), (points_b, edges_b)):
        start, end = points[edges[:, 0]], points[edges[:, 1]]
        spans.append((start, end, np.minimum(start, end), np.maximum(start, end)))
    for (_, _, low, high), (_, _, bottom, top) in ((spans[0], spans[1]), (spans[1], spans[0])):
        box = (low <= top.max(axis=0) + reach) & (high >= bottom.min(axis=0) - reach)
        kept.append(np.flatnonzero(box.all(axis=1)))
    if len(kept[0]) == 0 or len(kept[1]) == 0:
        return none, none
    lengths = [
        np.linalg.norm(end[some] - start[some], axis=1) for (start, end, _, _), some in zip(spans, kept, strict=True)
    ]
    # Edges much longer than the smaller of the two median lengths are split.
    length = 2.0 * max(min(float(np.median(each)) for each in lengths), 0.5 * reach)
    balls = [pieces(start[some], end[some], length) for (start, end, _, _), some in zip(spans, kept, strict=True)]
    (centres_a, radii_a, owner_a, _), (centres_b, radii_b, owner_b, _) = balls
    first, second = near_balls(centres_a, radii_a + reach, centres_b, radii_b)
    return sorted_pairs(kept[0][owner_a[first]], kept[1][owner_b[second]])

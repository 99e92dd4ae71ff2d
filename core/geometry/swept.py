"""Continuous collision detection (CCD) for linear motion: point-triangle and edge-edge crossings within a step.

Times are relative to the step, from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index, Mask
from .closest import closest_of_lines
from .coplanar import Coplanar
from .near_balls import near_balls, pieces, sorted_pairs
from .proximity import Forbidden
from .triangles import Triangles, cross_rows

# Barycentric weights down to minus this count as inside, so that rounding opens no gap between triangles.
_BESIDE = 1e-6
# Hits closer in time than this are simultaneous.
_AT_ONCE = 1e-12
# Approximate maximum number of parts into which all paths together are split.
_PIECES = 1_000_000


@dataclass(frozen=True)
class Hits:
    """First crossings of points through triangles.

    point: (k,) ascending, each at most once.  triangle: (k,).  time: (k,).  weights: (k, 3) at the crossing.
    side: (k,) side of the triangle from which the point came: +1 on the side of the normal, else -1.
    """

    point: Index
    triangle: Index
    time: Array
    weights: Array
    side: Array


@dataclass(frozen=True)
class EdgeHits:
    """First crossings of pairs of edges.

    first: (k,) edge of a, ascending.  second: (k,) edge of b.  time: (k,).  s, t: (k,) parameters along the edges.
    side: (k,) the sign of (direction of a × direction of b) · (offset from a to b) before the crossing.
    """

    first: Index
    second: Index
    time: Array
    s: Array
    t: Array
    side: Array


def swept_points(
    points0: Array,
    points1: Array,
    vertices0: Array,
    vertices1: Array,
    triangles: Index,
    margin: float = 0.0,
    forbidden: Forbidden | None = None,
) -> Hits:
    """Return the first triangle that each point (p, 3) crosses; both may move.

    margin: m by which triangles are enlarged in their planes.  is_excluded: returns a mask of pairs of points and
    triangles to ignore. A point that starts in the plane of a triangle counts as starting on its positive side.
    """
    corners0, corners1 = (x[triangles].transpose(1, 0, 2) for x in (vertices0, vertices1))
    point, triangle = _meeting(points0[None], points1[None], corners0, corners1, margin)
    if forbidden is not None and len(point):
        keep = ~forbidden(point, triangle)
        point, triangle = point[keep], triangle[keep]

    def volume(point: Index, triangle: Index) -> Coplanar:
        pairs = []
        for points, corners in ((points0, corners0), (points1, corners1)):
            a, b, c = (corner[triangle].T for corner in corners)
            pairs.append((b - a, c - a, points[point].T - a))
        return Coplanar(*zip(*pairs, strict=True))

    keep = volume(point, triangle).may_change() if len(point) else np.zeros(0, dtype=bool)
    point, triangle = point[keep], triangle[keep]
    times, signs = volume(point, triangle).crossings()
    time, weights, side = np.full(len(point), np.inf), np.zeros((len(point), 3)), np.ones(len(point))
    for k in (2, 1, 0):
        some = np.flatnonzero(np.isfinite(times[k]))
        now = times[k, some]
        there = points0[point[some]].T + now * (points1[point[some]] - points0[point[some]]).T
        moved = [
            a[triangle[some]].T + now * (b[triangle[some]] - a[triangle[some]]).T
            for a, b in zip(corners0, corners1, strict=True)
        ]
        inside, found = _weights(there, moved, margin)
        some, found = some[inside], found[:, inside].T
        time[some], weights[some], side[some] = times[k, some], found, signs[k, some]
    hit = np.flatnonzero(np.isfinite(time))
    first = np.full(len(points0), np.inf)
    np.minimum.at(first, point[hit], time[hit])
    hit = hit[time[hit] <= first[point[hit]] + _AT_ONCE]
    # Hits are sorted by point, then triangle: keep the first of simultaneous ones.
    hit = hit[np.unique(point[hit], return_index=True)[1]]
    return Hits(point[hit], triangle[hit], time[hit], weights[hit], side[hit])


def swept_into(began: Triangles, ended: Triangles, low: Array, high: Array) -> Index:
    """Return the triangles whose swept bounding box overlaps a box (3,), (3,) m; only these can be crossed in it."""
    # Crossings this far beside a triangle still count.
    slack = 10.0 * _BESIDE * ended.size
    meets = np.ones(len(began), dtype=bool)
    for axis in range(3):
        meets &= np.minimum(began.low[axis], ended.low[axis]) <= high[axis] + slack
        meets &= np.maximum(began.high[axis], ended.high[axis]) >= low[axis] - slack
    return np.flatnonzero(meets)


def swept_edges(
    points_a0: Array,
    points_a1: Array,
    edges_a: Index,
    points_b0: Array,
    points_b1: Array,
    edges_b: Index,
    forbidden: Forbidden | None = None,
) -> EdgeHits:
    """Return the first crossing of each pair of edges (m, 2) and (n, 2) that pass through each other."""
    a0, a1 = (x[edges_a].transpose(1, 0, 2) for x in (points_a0, points_a1))
    b0, b1 = (x[edges_b].transpose(1, 0, 2) for x in (points_b0, points_b1))
    first, second = _meeting(a0, a1, b0, b1, 0.0)
    if forbidden is not None and len(first):
        keep = ~forbidden(first, second)
        first, second = first[keep], second[keep]

    def volume(first: Index, second: Index) -> Coplanar:
        pairs = []
        for a, b in ((a0, b0), (a1, b1)):
            (p, q), (r, s) = (end[first].T for end in a), (end[second].T for end in b)
            pairs.append((q - p, s - r, r - p))
        return Coplanar(*zip(*pairs, strict=True))

    keep = volume(first, second).may_change() if len(first) else np.zeros(0, dtype=bool)
    first, second = first[keep], second[keep]
    times, signs = volume(first, second).crossings()
    time, parts, side = np.full(len(first), np.inf), np.zeros((2, len(first))), np.ones(len(first))
    for k in (2, 1, 0):
        some = np.flatnonzero(np.isfinite(times[k]))
        now = times[k, some]
        p, q = (x[first[some]].T + now * (y[first[some]] - x[first[some]]).T for x, y in zip(a0, a1, strict=True))
        r, u = (x[second[some]].T + now * (y[second[some]] - x[second[some]]).T for x, y in zip(b0, b1, strict=True))
        s, t, sines = closest_of_lines(p, q - p, r, u - r)
        both = np.stack([s, t])
        inside = ((both >= -_BESIDE) & (both <= 1.0 + _BESIDE)).all(axis=0) & (sines > 0.0)
        some, both = some[inside], both[:, inside]
        time[some], parts[:, some], side[some] = times[k, some], np.clip(both, 0.0, 1.0), signs[k, some]
    hit = np.flatnonzero(np.isfinite(time))
    return EdgeHits(first[hit], second[hit], time[hit], parts[0, hit], parts[1, hit], side[hit])


def _weights(points: Array, corners: list[Array], margin: float) -> tuple[Mask, Array]:
    """Return whether points (3, k) in the planes of triangles are inside them (k,), and non-negative weights (3, k)."""
    a, b, c = corners
    u, v, w = b - a, c - a, points - a
    normal = cross_rows(u, v)
    square = (normal * normal).sum(axis=0)
    flat = square <= 1e-24 * (u * u).sum(axis=0) * (v * v).sum(axis=0)
    safe = np.where(flat, 1.0, square)
    weights = np.empty((3, points.shape[1]))
    weights[1] = (normal * cross_rows(w, v)).sum(axis=0) / safe
    weights[2] = (normal * cross_rows(u, w)).sum(axis=0) / safe
    weights[0] = 1.0 - weights[1] - weights[2]
    least = np.full(weights.shape, -_BESIDE)
    if margin > 0.0:
        opposite = np.stack([c - b, c - a, b - a])
        heights = np.sqrt(safe / np.maximum((opposite * opposite).sum(axis=1), 1e-300))
        least -= margin / np.maximum(heights, 1e-300)
    inside = ~flat & (weights >= least).all(axis=0)
    weights = np.maximum(weights, 0.0)
    return inside, weights / np.maximum(weights.sum(axis=0), 1e-300)


def _meeting(a0: Array, a1: Array, b0: Array, b1: Array, margin: float) -> tuple[Index, Index]:
    """Return pairs (k,), (k,) of primitives with overlapping swept boxes. Corners (c, n, 3) are given at both times."""
    none = np.zeros(0, dtype=np.int64)
    if a0.shape[1] == 0 or b0.shape[1] == 0:
        return none, none
    # Only relative motion matters: remove the mean displacement.
    shift = (b1 - b0).mean(axis=(0, 1))
    if not np.isfinite(shift).all():
        shift = np.zeros(3)
    a1, b1 = a1 - shift, b1 - shift
    boxes = []
    for start, end in ((a0, a1), (b0, b1)):
        both = np.concatenate([start, end])
        boxes.append((both.min(axis=0), both.max(axis=0)))
    (low_a, high_a), (low_b, high_b) = boxes
    slack = margin + 1e-12 * float(np.nanmax(np.abs(np.concatenate([low_b, high_b])), initial=0.0))
    some_a = np.flatnonzero(_overlap(low_a, high_a, np.nanmin(low_b, axis=0), np.nanmax(high_b, axis=0), slack))
    if len(some_a) == 0:
        return none, none
    bottom, top = low_a[some_a].min(axis=0), high_a[some_a].max(axis=0)
    some_b = np.flatnonzero(_overlap(low_b, high_b, bottom, top, slack))
    if len(some_b) == 0:
        return none, none
    a, b = (_Sweep(x0[:, some], x1[:, some]) for x0, x1, some in ((a0, a1, some_a), (b0, b1, some_b)))
    # Split paths into parts about as long as the primitives, but into a limited number.
    length = 2.0 * max(float(np.median(b.radii)), float(np.median(a.radii)), (a.travel + b.travel) / _PIECES, 1e-12)
    (centres_a, radii_a, owner_a, span_a), (centres_b, radii_b, owner_b, span_b) = a.cut(length), b.cut(length)
    # Keep only parts of paths that reach the bounding box of the other set.
    bottom, top = low_b[some_b].min(axis=0), high_b[some_b].max(axis=0)
    grown = (radii_a + slack)[:, None]
    kept = np.flatnonzero(((centres_a >= bottom - grown) & (centres_a <= top + grown)).all(axis=1))
    first, second = near_balls(centres_a[kept], radii_a[kept] + slack, centres_b, radii_b)
    first = kept[first]
    together = (span_a[first, 0] <= span_b[second, 1]) & (span_b[second, 0] <= span_a[first, 1])
    first, second = sorted_pairs(some_a[owner_a[first[together]]], some_b[owner_b[second[together]]])
    meets = _overlap(low_a[first], high_a[first], low_b[second], high_b[second], slack)
    return first[meets], second[meets]


class _Sweep:
    """Bounding spheres of linearly moving primitives with corners (c, n, 3) at both times."""

    def __init__(self, start: Array, end: Array) -> None:
        self._centre0, self._centre1 = start.mean(axis=0), end.mean(axis=0)
        spread = np.stack([start - self._centre0, end - self._centre1])
        # The offset of a corner from the centre is linear in time, so it is longest at an end.
        self.radii = np.sqrt((spread * spread).sum(axis=3).max(axis=(0, 1)))
        self.travel = float(np.sqrt(((self._centre1 - self._centre0) ** 2).sum(axis=1)).sum())

    def cut(self, length: float) -> tuple[Array, Array, Index, Array]:
        """Return bounding spheres of the paths split at length (m), see split_segments."""
        centres, radii, owner, span = pieces(self._centre0, self._centre1, length)
        return centres, radii + self.radii[owner] * (1.0 + 1e-9), owner, span


def _overlap(low_a: Array, high_a: Array, low_b: Array, high_b: Array, slack: float) -> Mask:
    return np.asarray(((low_a <= high_b + slack) & (high_a >= low_b - slack)).all(axis=1))

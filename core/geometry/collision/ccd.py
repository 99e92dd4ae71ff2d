"""Continuous collision detection (CCD) for linear motion: point-triangle and edge-edge crossings within a step.

Times are relative to the step, from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...base.arrays import Array, Index, Mask
from ...native.box_tree import BoxTree, SweptTree
from ...native.library import load_library
from ..mesh.primitives import bounding_box, closest_points_of_lines
from ..mesh.triangles import Triangles, cross_rows, dot_rows
from .broad_phase import overlapping_spheres, sorted_pairs, split_segments
from .proximity import PairExclusion

# Barycentric weights above minus this count as inside, so that rounding opens no gap between triangles.
_WEIGHT_TOLERANCE = 1e-6
# Distance outside a triangle's box, relative to the size of the surface, within which crossings still count.
_BOX_TOLERANCE = 10.0 * _WEIGHT_TOLERANCE
# Hits closer in time than this are simultaneous.
_SIMULTANEOUS = 1e-12
# Approximate maximum number of parts into which all paths together are split.
_MAX_PIECES = 1_000_000


@dataclass(frozen=True)
class PointTriangleHits:
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
class PointPairHits:
    """First crossings of given pairs of points and triangles.

    pair: (k,) ascending.  time: (k,).  weights: (k, 3) at the crossing.  side: (k,) see PointTriangleHits.
    """

    pair: Index
    time: Array
    weights: Array
    side: Array


@dataclass(frozen=True)
class EdgePairHits:
    """First crossings of given pairs of edges.

    pair: (k,) ascending.  time: (k,).  s, t: (k,) parameters along the edges.
    side: (k,) the sign of (direction of a × direction of b) · (offset from a to b) before the crossing.
    """

    pair: Index
    time: Array
    s: Array
    t: Array
    side: Array


@dataclass(frozen=True)
class EdgeEdgeHits(EdgePairHits):
    """First crossings of edges. first: (k,) edge of a, ascending.  second: (k,) edge of b."""

    first: Index
    second: Index


def point_triangle_ccd(
    points0: Array,
    points1: Array,
    vertices0: Array,
    vertices1: Array,
    triangles: Index,
    margin: float = 0.0,
    is_excluded: PairExclusion | None = None,
) -> PointTriangleHits:
    """Return the first triangle that each point (p, 3) crosses; both may move.

    margin: m by which triangles are enlarged in their planes.  is_excluded: returns a mask of pairs of points and
    triangles to ignore. A point that starts in the plane of a triangle counts as starting on its positive side.
    """
    library = load_library()
    if library is not None and margin == 0.0 and is_excluded is None and len(triangles):
        return _first_hits_in_tree(SweptTree(library, vertices0, vertices1, triangles), points0, points1)
    corners0, corners1 = (x[triangles].transpose(1, 0, 2) for x in (vertices0, vertices1))
    point, triangle = _candidate_pairs(points0[None], points1[None], corners0, corners1, margin)
    if is_excluded is not None and len(point):
        keep = ~is_excluded(point, triangle)
        point, triangle = point[keep], triangle[keep]

    hits = _point_crossings((points0, points1), (corners0, corners1), point, triangle, margin)
    point, triangle, time = point[hits.pair], triangle[hits.pair], hits.time
    first = np.full(len(points0), np.inf)
    np.minimum.at(first, point, time)
    hit = np.flatnonzero(time <= first[point] + _SIMULTANEOUS)
    # Hits are sorted by point, then triangle: keep the first of simultaneous ones.
    hit = hit[np.unique(point[hit], return_index=True)[1]]
    return PointTriangleHits(point[hit], triangle[hit], time[hit], hits.weights[hit], hits.side[hit])


def point_pair_crossings(start: Array, end: Array, triangles: Index, point: Index, triangle: Index) -> PointPairHits:
    """Return the first crossing of each of the pairs point (k,), triangle (k,) that cross in a step.

    start, end: (v, 3) m, the vertices of triangles (t, 3), which move along straight lines.
    """
    corners = tuple(x[triangles[triangle]].transpose(1, 0, 2) for x in (start, end))
    return _point_crossings((start, end), (corners[0], corners[1]), point, np.arange(len(triangle)), 0.0)


def _point_crossings(
    moving: tuple[Array, Array], moving_corners: tuple[Array, Array], point: Index, triangle: Index, margin: float
) -> PointPairHits:
    """Return the first crossings of pairs, from the points (p, 3) and the corners (3, t, 3) at both times."""
    (points0, points1), (corners0, corners1) = moving, moving_corners

    def volume(point: Index, triangle: Index) -> CoplanarityPolynomial:
        pairs = []
        for points, corners in ((points0, corners0), (points1, corners1)):
            a, b, c = (corner[triangle].T for corner in corners)
            pairs.append((b - a, c - a, points[point].T - a))
        return CoplanarityPolynomial(*zip(*pairs, strict=True))

    pair = np.flatnonzero(volume(point, triangle).may_have_root()) if len(point) else np.zeros(0, dtype=np.int64)
    if not len(pair):
        return PointPairHits(pair, np.zeros(0), np.zeros((0, 3)), np.zeros(0))
    point, triangle = point[pair], triangle[pair]
    times, signs = volume(point, triangle).sign_changes()
    time, weights, side = np.full(len(point), np.inf), np.zeros((len(point), 3)), np.ones(len(point))
    for k in (2, 1, 0):
        roots = np.flatnonzero(np.isfinite(times[k]))
        now = times[k, roots]
        positions = points0[point[roots]].T + now * (points1[point[roots]] - points0[point[roots]]).T
        moved_corners = [
            a[triangle[roots]].T + now * (b[triangle[roots]] - a[triangle[roots]]).T
            for a, b in zip(corners0, corners1, strict=True)
        ]
        inside, found = _inside_weights(positions, moved_corners, margin)
        roots, found = roots[inside], found[:, inside].T
        time[roots], weights[roots], side[roots] = times[k, roots], found, signs[k, roots]
    hit = np.flatnonzero(np.isfinite(time))
    return PointPairHits(pair[hit], time[hit], weights[hit], side[hit])


class SweptTriangles:
    """Triangles that move along straight lines between two times."""

    def __init__(self, start: Triangles, end: Triangles) -> None:
        self._start, self._end = start, end

    def first_hits(self, points0: Array, points1: Array) -> PointTriangleHits:
        """Return the first triangle that each point (p, 3) crosses; see point_triangle_ccd()."""
        if self._tree is not None:
            return _first_hits_in_tree(self._tree, points0, points1)
        # Test only triangles near the paths, which are few of a large surface.
        nearby = self._sweeping_box(*bounding_box(np.concatenate([points0, points1])))
        triangles = self._end.triangles[nearby]
        hits = point_triangle_ccd(points0, points1, self._start.vertices, self._end.vertices, triangles)
        return replace(hits, triangle=nearby[hits.triangle])

    @cached_property
    def _tree(self) -> SweptTree | None:
        library = load_library()
        if library is None or not len(self._end):
            return None
        return SweptTree(library, self._start.vertices, self._end.vertices, self._end.triangles)

    def _sweeping_box(self, low: Array, high: Array) -> Index:
        """Return the triangles whose swept bounding box overlaps a box from low to high (3,) m.

        Points that stay in the box can cross only these triangles.
        """
        start, end = self._start, self._end
        slack = _BOX_TOLERANCE * end.size
        is_near = np.ones(len(start), dtype=bool)
        for axis in range(3):
            is_near &= np.minimum(start.low[axis], end.low[axis]) <= high[axis] + slack
            is_near &= np.maximum(start.high[axis], end.high[axis]) >= low[axis] - slack
        return np.flatnonzero(is_near)


def _first_hits_in_tree(tree: SweptTree, points0: Array, points1: Array) -> PointTriangleHits:
    return PointTriangleHits(*tree.crossings(points0, points1, _BOX_TOLERANCE))


def edge_edge_ccd(
    points_a0: Array,
    points_a1: Array,
    edges_a: Index,
    points_b0: Array,
    points_b1: Array,
    edges_b: Index,
    is_excluded: PairExclusion | None = None,
) -> EdgeEdgeHits:
    """Return the first crossing of each pair of edges (m, 2) and (n, 2) that pass through each other."""
    a0, a1 = (x[edges_a].transpose(1, 0, 2) for x in (points_a0, points_a1))
    b0, b1 = (x[edges_b].transpose(1, 0, 2) for x in (points_b0, points_b1))
    first, second = _candidate_pairs(a0, a1, b0, b1, 0.0)
    if is_excluded is not None and len(first):
        keep = ~is_excluded(first, second)
        first, second = first[keep], second[keep]

    hits = _pair_crossings((a0, a1), (b0, b1), first, second)
    return EdgeEdgeHits(**vars(hits), first=first[hits.pair], second=second[hits.pair])


def edge_pair_crossings(start: Array, end: Array, edges: Index, first: Index, second: Index) -> EdgePairHits:
    """Return the first crossing of each of the pairs first (k,), second (k,) of edges (m, 2) that cross in a step.

    start, end: (v, 3) m, the points, which move along straight lines.
    """
    moving_a, moving_b = (
        (start[edges[which]].transpose(1, 0, 2), end[edges[which]].transpose(1, 0, 2)) for which in (first, second)
    )
    each = np.arange(len(first))
    return _pair_crossings(moving_a, moving_b, each, each)


def _pair_crossings(
    moving_a: tuple[Array, Array], moving_b: tuple[Array, Array], first: Index, second: Index
) -> EdgePairHits:
    """Return the first crossings of pairs of edges, from the ends (2, m, 3), (2, n, 3) at both times."""
    (a0, a1), (b0, b1) = moving_a, moving_b

    def volume(first: Index, second: Index) -> CoplanarityPolynomial:
        pairs = []
        for a, b in ((a0, b0), (a1, b1)):
            (p, q), (r, s) = (end[first].T for end in a), (end[second].T for end in b)
            pairs.append((q - p, s - r, r - p))
        return CoplanarityPolynomial(*zip(*pairs, strict=True))

    hit = np.flatnonzero(volume(first, second).may_have_root()) if len(first) else np.zeros(0, dtype=np.int64)
    if not len(hit):
        return EdgePairHits(hit, *np.zeros((4, 0)))
    first, second = first[hit], second[hit]
    times, signs = volume(first, second).sign_changes()
    time, parameters, side = np.full(len(first), np.inf), np.zeros((2, len(first))), np.ones(len(first))
    for k in (2, 1, 0):
        roots = np.flatnonzero(np.isfinite(times[k]))
        now = times[k, roots]
        p, q = (x[first[roots]].T + now * (y[first[roots]] - x[first[roots]]).T for x, y in zip(a0, a1, strict=True))
        r, u = (x[second[roots]].T + now * (y[second[roots]] - x[second[roots]]).T for x, y in zip(b0, b1, strict=True))
        s, t, sines = closest_points_of_lines(p, q - p, r, u - r)
        edge_parameters = np.stack([s, t])
        inside = ((edge_parameters >= -_WEIGHT_TOLERANCE) & (edge_parameters <= 1.0 + _WEIGHT_TOLERANCE)).all(
            axis=0
        ) & (sines > 0.0)
        roots, edge_parameters = roots[inside], edge_parameters[:, inside]
        time[roots], side[roots] = times[k, roots], signs[k, roots]
        parameters[:, roots] = np.clip(edge_parameters, 0.0, 1.0)
    crossing = np.flatnonzero(np.isfinite(time))
    return EdgePairHits(hit[crossing], time[crossing], parameters[0, crossing], parameters[1, crossing], side[crossing])


def _inside_weights(points: Array, corners: list[Array], margin: float) -> tuple[Mask, Array]:
    """Return whether points (3, k) in the planes of triangles are inside (k,), and non-negative weights (3, k)."""
    a, b, c = corners
    u, v, w = b - a, c - a, points - a
    normal = cross_rows(u, v)
    square = (normal * normal).sum(axis=0)
    is_degenerate = square <= 1e-24 * (u * u).sum(axis=0) * (v * v).sum(axis=0)
    safe = np.where(is_degenerate, 1.0, square)
    weights = np.empty((3, points.shape[1]))
    weights[1] = (normal * cross_rows(w, v)).sum(axis=0) / safe
    weights[2] = (normal * cross_rows(u, w)).sum(axis=0) / safe
    weights[0] = 1.0 - weights[1] - weights[2]
    min_weights = np.full(weights.shape, -_WEIGHT_TOLERANCE)
    if margin > 0.0:
        opposite = np.stack([c - b, c - a, b - a])
        heights = np.sqrt(safe / np.maximum((opposite * opposite).sum(axis=1), 1e-300))
        min_weights -= margin / np.maximum(heights, 1e-300)
    inside = ~is_degenerate & (weights >= min_weights).all(axis=0)
    weights = np.maximum(weights, 0.0)
    return inside, weights / np.maximum(weights.sum(axis=0), 1e-300)


def _candidate_pairs(a0: Array, a1: Array, b0: Array, b1: Array, margin: float) -> tuple[Index, Index]:
    """Return pairs (k,), (k,) of primitives with overlapping swept boxes, from corners (c, n, 3) at both times."""
    empty = np.zeros(0, dtype=np.int64)
    if a0.shape[1] == 0 or b0.shape[1] == 0:
        return empty, empty
    # Only relative motion matters: remove the mean displacement.
    shift = _columns((b1 - b0).reshape(-1, 3)).mean(axis=1)
    if not np.isfinite(shift).all():
        shift = np.zeros(3)
    a1, b1 = a1 - shift, b1 - shift
    boxes = []
    for start, end in ((a0, a1), (b0, b1)):
        both = np.concatenate([start, end])
        boxes.append((both.min(axis=0), both.max(axis=0)))
    (low_a, high_a), (low_b, high_b) = boxes
    slack = margin + 1e-12 * float(np.nanmax(np.abs(np.concatenate([low_b, high_b])), initial=0.0))
    bottom, top = np.fmin.reduce(_columns(low_b), axis=1), np.fmax.reduce(_columns(high_b), axis=1)
    some_a = np.flatnonzero(_boxes_overlap(low_a, high_a, bottom, top, slack))
    if len(some_a) == 0:
        return empty, empty
    bottom, top = _columns(low_a[some_a]).min(axis=1), _columns(high_a[some_a]).max(axis=1)
    some_b = np.flatnonzero(_boxes_overlap(low_b, high_b, bottom, top, slack))
    if len(some_b) == 0:
        return empty, empty
    a, b = (_MovingSpheres(x0[:, some], x1[:, some]) for x0, x1, some in ((a0, a1, some_a), (b0, b1, some_b)))
    library = load_library()
    if library is not None:
        tree = BoxTree(library, np.concatenate([low_b[some_b], high_b[some_b]], axis=1))
        asked = np.concatenate([low_a[some_a] - slack, high_a[some_a] + slack], axis=1)
        first, second = tree.overlaps(asked, (b.as_rows(slack), a.as_rows(0.0)))
        return some_a[first], some_b[second]
    # Split paths into parts about as long as the primitives, but into a limited number.
    length = 2.0 * max(float(np.median(b.radii)), float(np.median(a.radii)), (a.travel + b.travel) / _MAX_PIECES, 1e-12)
    (centres_a, radii_a, owner_a, span_a), (centres_b, radii_b, owner_b, span_b) = a.split(length), b.split(length)
    # Keep only parts of paths that reach the bounding box of the other set.
    bottom, top = low_b[some_b].min(axis=0), high_b[some_b].max(axis=0)
    enlarged_radii = (radii_a + slack)[:, None]
    in_box = np.flatnonzero(((centres_a >= bottom - enlarged_radii) & (centres_a <= top + enlarged_radii)).all(axis=1))
    first, second = overlapping_spheres(centres_a[in_box], radii_a[in_box] + slack, centres_b, radii_b)
    first = in_box[first]
    is_simultaneous = (span_a[first, 0] <= span_b[second, 1]) & (span_b[second, 0] <= span_a[first, 1])
    first, second = sorted_pairs(some_a[owner_a[first[is_simultaneous]]], some_b[owner_b[second[is_simultaneous]]])
    do_overlap = _boxes_overlap(low_a[first], high_a[first], low_b[second], high_b[second], slack)
    return first[do_overlap], second[do_overlap]


class _MovingSpheres:
    """Bounding spheres of linearly moving primitives with corners (c, n, 3) at both times."""

    def __init__(self, start: Array, end: Array) -> None:
        self._centre0, self._centre1 = start.mean(axis=0), end.mean(axis=0)
        # The offset of a corner from the centre is linear in time, so it is longest at an end.
        squares = [
            _squared_lengths(corner - centre)
            for corners, centre in ((start, self._centre0), (end, self._centre1))
            for corner in corners
        ]
        self.radii = np.sqrt(np.max(squares, axis=0))
        self.travel = float(np.sqrt(_squared_lengths(self._centre1 - self._centre0)).sum())

    def as_rows(self, slack: float) -> Array:
        """Return rows (n, 7): the centres at both times, and the radius enlarged by slack and for rounding, m."""
        largest = np.abs(np.concatenate([_columns(self._centre0), _columns(self._centre1)])).max(axis=0)
        radii = self.radii * (1.0 + 1e-9) + 1e-9 * largest + slack
        return np.column_stack([self._centre0, self._centre1, radii])

    def split(self, length: float) -> tuple[Array, Array, Index, Array]:
        """Return bounding spheres of the paths split at length (m), see split_segments."""
        centres, radii, owner, span = split_segments(self._centre0, self._centre1, length)
        return centres, radii + self.radii[owner] * (1.0 + 1e-9), owner, span


def _boxes_overlap(low_a: Array, high_a: Array, low_b: Array, high_b: Array, slack: float) -> Mask:
    x, y, z = ((low_a <= high_b + slack) & (high_a >= low_b - slack)).T
    return np.asarray(x & y & z)


def _columns(vectors: Array) -> Array:
    """Return vectors (k, 3) as long rows (3, k): numpy is slow along short axes."""
    return np.ascontiguousarray(vectors.T)


def _squared_lengths(vectors: Array) -> Array:
    """Return the squared lengths (k,) of vectors (k, 3)."""
    x, y, z = vectors.T
    return np.asarray(x * x + y * y + z * z)


_BISECTIONS = 52
# Up to this number of roots, plain numbers are faster than arrays.
_FEW_ROOTS = 30


class CoplanarityPolynomial:
    """Cubic volume polynomial (e1 × e2) · d of three linearly changing vectors, each given as (3, k) at times 0 and 1.

    A volume of zero counts as positive. The volumes at both ends are computed from the positions there, so that the end
    of one step and the start of the next agree to the last bit and no crossing is missed between steps.
    """

    def __init__(self, first: tuple[Array, Array], second: tuple[Array, Array], third: tuple[Array, Array]) -> None:
        (a, a1), (c, c1), (e, e1) = first, second, third
        self.start_volume, self.end_volume = dot_rows(cross_rows(a, c), e), dot_rows(cross_rows(a1, c1), e1)
        b, d, f = a1 - a, c1 - c, e1 - e
        n0, n1, n2 = cross_rows(a, c), cross_rows(a, d) + cross_rows(b, c), cross_rows(b, d)
        self._coefficients = np.stack(
            [self.start_volume, dot_rows(n1, e) + dot_rows(n0, f), dot_rows(n2, e) + dot_rows(n1, f), dot_rows(n2, f)]
        )

    def may_have_root(self) -> Mask:
        """Return a mask (k,), False where the Bézier control points prove that the volume keeps its sign."""
        c0, c1, c2, _ = self._coefficients
        rounding = 1e-14 * np.abs(self._coefficients).sum(axis=0)
        inner_control_points = np.stack([c0 + c1 / 3.0, c0 + (2.0 * c1 + c2) / 3.0])
        ends = np.stack([self.start_volume, self.end_volume])
        is_positive = (ends >= 0.0).all(axis=0) & (inner_control_points > rounding).all(axis=0)
        is_negative = (ends < 0.0).all(axis=0) & (inner_control_points < -rounding).all(axis=0)
        return np.asarray(~(is_positive | is_negative))

    def sign_changes(self) -> tuple[Array, Array]:
        """Return the ascending times (3, k) of sign changes, padded with nan, and the signs (3, k) before them."""
        _, c1, c2, c3 = self._coefficients
        extrema = np.sort(np.clip(_quadratic(c1, 2.0 * c2, 3.0 * c3), 0.0, 1.0), axis=0)
        zero, one = np.zeros_like(c1), np.ones_like(c1)
        times = np.stack([zero, *extrema, one])
        # An extremum at an end must have exactly the value computed for that end.
        inner = [_horner(self._coefficients, turn) for turn in extrema]
        values = np.stack([self.start_volume, *inner, self.end_volume])
        values = np.where(times <= 0.0, self.start_volume, np.where(times >= 1.0, self.end_volume, values))
        above = values >= 0.0
        roots = np.full((3, len(c1)), np.nan)
        for k in range(3):
            change = np.flatnonzero(above[k] != above[k + 1])
            if len(change) == 0:
                continue
            given = self._coefficients[:, change], times[k, change], times[k + 1, change], above[k, change]
            roots[k, change] = _bisected(*given) if len(change) > _FEW_ROOTS else _bisected_each(*given)
        return roots, np.where(above[:3], 1.0, -1.0)


def _bisected(coefficients: Array, low: Array, high: Array, sign: Mask) -> Array:
    """Return the roots (k,) of cubics (4, k) between low and high (k,).

    sign: (k,) whether the cubics are at least 0 at low.
    """
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        before = (_horner(coefficients, middle) >= 0.0) == sign
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return high


def _bisected_each(coefficients: Array, low: Array, high: Array, sign: Mask) -> Array:
    """Return _bisected() without numpy, which takes longer for few roots. The results are equal to the last bit."""
    found = []
    for cubic, *ends, is_above in zip(coefficients.T.tolist(), low.tolist(), high.tolist(), sign.tolist(), strict=True):
        (c0, c1, c2, c3), (before, after) = cubic, ends
        for _ in range(_BISECTIONS):
            middle = 0.5 * (before + after)
            if (c0 + middle * (c1 + middle * (c2 + middle * c3)) >= 0.0) == is_above:
                before = middle
            else:
                after = middle
        found.append(after)
    return np.array(found)


def _horner(coefficients: Array, time: Array) -> Array:
    return np.asarray(coefficients[0] + time * (coefficients[1] + time * (coefficients[2] + time * coefficients[3])))


def _quadratic(a: Array, b: Array, c: Array) -> Array:
    """Return the real roots (2, k) of a + b t + c t²; 0 where there is none."""
    root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
    q = -0.5 * (b + np.where(b >= 0.0, root, -root))
    some = b * b >= 4.0 * a * c
    with np.errstate(over="ignore", invalid="ignore"):
        first = np.where(some & (c != 0.0), q / np.where(c != 0.0, c, 1.0), 0.0)
        second = np.where(some & (q != 0.0), a / np.where(q != 0.0, q, 1.0), 0.0)
    return np.asarray(np.nan_to_num(np.stack([first, second]), nan=0.0))

"""Geometric primitives: boxes with their tetrahedra and outcodes, and closest points on many triangles and lines."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from ...base.arrays import Array, Index
from .triangles import cross_rows, dot_rows

_TINY = 1e-300


def box_tets(size: tuple[float, float, float], cells: tuple[int, int, int]) -> tuple[Array, Index]:
    """Return nodes (n, 3) m and tets (m, 4) of a box at the origin; each cell is split into Kuhn's six tets."""
    counts = np.array(cells) + 1
    grid = np.stack(np.meshgrid(*(np.arange(c) for c in counts), indexing="ij"), axis=-1).reshape(-1, 3)
    nodes = grid * (np.array(size) / np.array(cells))
    strides = np.array([counts[1] * counts[2], counts[2], 1])
    first = grid[(grid < np.array(cells)).all(axis=1)] @ strides
    tets = []
    for order in permutations(range(3)):
        path = np.cumsum([0, *(strides[axis] for axis in order)])
        odd = order in ((0, 2, 1), (1, 0, 2), (2, 1, 0))
        tets.append(path[[0, 2, 1, 3]] if odd else path)
    return nodes, (first[:, None, None] + np.array(tets)[None]).reshape(-1, 4).astype(np.int64)


def bounding_box(points: Array) -> tuple[Array, Array]:
    """Return the bounding box of points (p, 3), p > 0: its lowest and highest coordinates, each (3,)."""
    # Contiguous rows make the reduction many times faster.
    rows = np.ascontiguousarray(points.T)
    return rows.min(axis=1), rows.max(axis=1)


def outcodes(points: Array, low: Array, high: Array) -> NDArray[np.uint8]:
    """Return Cohen-Sutherland outcodes (p,) of points (p, 3): one bit per side of the box (3,), (3,) they lie beyond.

    A line, triangle or tetrahedron whose corners share a bit does not intersect the box.
    """
    bits, bit = np.zeros(len(points), dtype=np.uint8), 1
    # One coordinate at a time: comparing long rows is faster than comparing rows of three.
    for axis, row in enumerate(np.ascontiguousarray(points.T)):
        for outside in (row < low[axis], row > high[axis]):
            bits |= outside.view(np.uint8) * np.uint8(bit)
            bit *= 2
    return bits


def closest_points_on_triangles(points: Array, corners: Array) -> tuple[Array, Array, Array]:
    """Return barycentric weights (3, k) of the closest points, offsets (3, k) from them, and squared distances (k,).

    points: (3, k).  corners: (3 corners, 3, k).  Offsets point from the closest point to the query point. A weight is
    exactly zero where the closest point is on a side or a corner. Only elementwise sums and products are used, so the
    result of a pair does not depend on the other pairs of the call.
    """
    a, b, c = corners
    u, v, w = b - a, c - a, points - a
    uu, uv, vv = dot_rows(u, u), dot_rows(u, v), dot_rows(v, v)
    normal = cross_rows(u, v)
    square = dot_rows(normal, normal)
    weights = np.empty((3, points.shape[1]))
    # The division is meaningless for degenerate triangles; their sides decide below.
    safe = np.where(square > 1e-24 * uu * vv, square, 1.0)
    weights[1] = dot_rows(normal, cross_rows(w, v)) / safe
    weights[2] = dot_rows(normal, cross_rows(u, w)) / safe
    weights[0] = 1.0 - weights[1] - weights[2]
    inside = (weights > 0.0).all(axis=0) & (square > 1e-24 * uu * vv)
    height = dot_rows(w, normal) / safe
    offset = height * normal
    distance = dot_rows(offset, offset)
    outside = np.flatnonzero(~inside)
    if len(outside):
        u, v, w, uu, uv, vv = (x[..., outside] for x in (u, v, w, uu, uv, vv))
        wu, wv = dot_rows(w, u), dot_rows(w, v)
        # Parameters t along the sides ab, ac and bc.
        parameters = np.empty((3, len(outside)))
        parameters[0] = _clamped_parameter(wu, uu)
        parameters[1] = _clamped_parameter(wv, vv)
        parameters[2] = _clamped_parameter(wv - wu + uu - uv, uu - 2.0 * uv + vv)
        side = v - u
        side_offsets = np.stack([w - parameters[0] * u, w - parameters[1] * v, (w - u) - parameters[2] * side])
        squares = (side_offsets * side_offsets).sum(axis=1)
        best = squares.argmin(axis=0)
        row = np.arange(len(outside))
        parameter, one = parameters[best, row], 1.0 - parameters[best, row]
        start, end = np.array([[0, 1], [0, 2], [1, 2]])[best].T
        weights[:, outside] = 0.0
        weights[start, outside], weights[end, outside] = one, parameter
        offset[:, outside] = side_offsets[best, :, row].T
        distance[outside] = squares[best, row]
    return weights, offset, distance


def closest_points_of_lines(
    start_a: Array, direction_a: Array, start_b: Array, direction_b: Array
) -> tuple[Array, Array, Array]:
    """Return parameters s, t (k,) of the closest points of lines, and sin² (k,) of the angle between them.

    Parameters are in units of the direction vectors (3, k). Parallel lines give s = t = -1.
    """
    between = start_b - start_a
    cross = cross_rows(direction_a, direction_b)
    square = dot_rows(cross, cross)
    lengths = dot_rows(direction_a, direction_a) * dot_rows(direction_b, direction_b)
    sines = square / np.maximum(lengths, _TINY)
    is_skew = (sines > 1e-24) & (square > _TINY)
    safe = np.where(is_skew, square, 1.0)
    s = np.where(is_skew, dot_rows(cross_rows(between, direction_b), cross) / safe, -1.0)
    t = np.where(is_skew, dot_rows(cross_rows(between, direction_a), cross) / safe, -1.0)
    return s, t, np.asarray(np.where(is_skew, sines, 0.0))


def _clamped_parameter(along: Array, square: Array) -> Array:
    return np.asarray(np.clip(along / np.maximum(square, _TINY), 0.0, 1.0))

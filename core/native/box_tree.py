"""Compiled trees of bounding boxes for collision detection."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Array, Index, Mask, take_rows
from ..base.errors import CrowdedError
from .library import (
    SORT_ROOM,
    KernelLibrary,
    doubles,
    integers,
    pointers,
    require_indices,
    require_row_count,
    require_shape,
)

# Largest number of boxes in a leaf, of results per query for which memory is reserved first, and of results with which
# a search for all near triangles ends.
_LEAF_SIZE, _EXPECTED_RESULTS, _MAX_RESULTS = 8, 4, 8_000_000
# Largest number of pairs of a search: testing them takes about 400 bytes each, here 6 GB.
_MAX_PAIRS = 16_000_000


@dataclass(frozen=True)
class RuleArrays:
    """Rules for p points and t triangles that exclude pairs; see geometry.collision.pair_rules. None: no such rule.

    vertices: (p,) own vertex of each point.  can_move: (p,), (t,) points and triangles that can move.
    rest: (p, 3) m, middles (t, 3) m, radii (t,) m.  seam: (p, 3) m, (p,) m.
    start: (p, 3) m, corners (t, 3) m, normals (t, 3).
    opposing: (p, 3), and normals (t, 3).  facing: (p, 3), faces (p, d), their normals (f, 3), and normals (t, 3).
    limits: smallest distance at rest (m) and height at the start (m), largest cosines for opposing and for facing.
    """

    vertices: Index | None = None
    can_move: tuple[Mask, Mask] | None = None
    rest: tuple[Array, Array, Array] | None = None
    seam: tuple[Array, Array] | None = None
    start: tuple[Array, Array, Array] | None = None
    opposing: tuple[Array, Array] | None = None
    facing: tuple[Array, Index, Array, Array] | None = None
    limits: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class _PairRules(ctypes.Structure):
    """The struct pair_rules of boxes.c."""

    _fields_: ClassVar[list[tuple[str, type]]] = [
        ("pointers", ctypes.c_void_p * 16),
        ("degree", ctypes.c_int64),
        ("limits", ctypes.c_double * 4),
    ]


class BoxTree:
    """Tree of the bounding boxes of n things."""

    def __init__(self, library: KernelLibrary, boxes: Array) -> None:
        """Build the tree. boxes: (n, 6) m, low and high corners.

        Raises ValueError if the boxes have another shape.
        """
        require_row_count(len(boxes), "boxes")
        require_shape(boxes, (len(boxes), 6), "boxes")
        count, leaves = len(boxes), 1
        while leaves * _LEAF_SIZE < count:
            leaves *= 2
        self._library, self.count = library, count
        self._nodes, given = np.empty((2 * leaves - 1, 6)), doubles(boxes)
        self._buffers = np.empty(count, dtype=np.int32), self._nodes, np.empty((count, 6))
        order, nodes, low_and_high = pointers(*self._buffers)
        keys = np.empty(2 * count + SORT_ROOM, dtype=np.uint64)
        library.tree_build(count, leaves, given.ctypes.data, keys.ctypes.data, order, nodes, low_and_high)
        self._tree = count, leaves, order, nodes, low_and_high

    def overlaps(
        self,
        asked: Array,
        spheres: tuple[Array, Array] | None = None,
        labels: tuple[Index, Index] | None = None,
    ) -> tuple[Index, Index]:
        """Return pairs (k,), (k,) of asked boxes (m, 6) and boxes that overlap or touch, in ascending order.

        spheres: (n, 7), (m, 7) of boxes and of asked boxes that must meet too while they move steadily: centre at the
        start, centre at the end, radius, all in m.
        labels: (m, 2) of asked edges and (n, 3) of triangles, small numbers; pairs with a common one are left out.
        """
        require_shape(asked, (len(asked), 6), "asked boxes")
        given = [doubles(asked)]
        if spheres is not None:
            require_shape(spheres[0], (self.count, 7), "spheres")
            require_shape(spheres[1], (len(asked), 7), "asked spheres")
            given += map(doubles, spheres)
        places = [*pointers(*given), *(() if spheres is not None else (None, None))]
        known: list[NDArray[np.int32]] = []
        if labels is not None:
            require_shape(labels[0], (len(asked), 2), "labels of edges")
            require_shape(labels[1], (self.count, 3), "labels of triangles")
            known = list(map(integers, (labels[1], labels[0])))
        places += [*pointers(*known), *(() if known else (None, None))]
        return _pairs(lambda *room: self._library.tree_overlaps(*self._tree, len(asked), *places, *room), len(asked))


class TriangleTree(BoxTree):
    """Tree of triangles."""

    def __init__(self, library: KernelLibrary, vertices: Array, triangles: Index) -> None:
        """Build the tree. vertices: (v, 3) m.  triangles: (t, 3).

        Raises ValueError if the arrays do not match.
        """
        self._corners, (self._vertices,), boxes, _ = _swept_boxes(library, triangles, vertices)
        super().__init__(library, boxes)

    def near(self, points: Array, reach: Array, slack: Array, rules: RuleArrays) -> tuple[Index, Index] | None:
        """Return the points (k,) and triangles (k,) whose distance is within the reach of points (p, 3) m.

        reach: (p,) m; NaN for points to leave out.  slack: (p,) m by which boxes are enlarged for rounding.

        Returns None if they are too many.  Raises ValueError if the arrays do not match.
        """
        count, given = len(points), self._queries(points, reach, slack)
        structure, kept = self._rules_structure(rules, count)
        capacity = 8 * _EXPECTED_RESULTS * count + 64
        while True:
            found = np.empty((2, capacity), dtype=np.int32)
            number = self._library.near_triangles(
                *self._tree, *pointers(self._corners, self._vertices), count, *pointers(*given),
                ctypes.addressof(structure), capacity, *pointers(found[0], found[1]),
            )  # fmt: skip
            if number >= 0:
                del kept
                return found[0, :number].astype(np.int64), found[1, :number].astype(np.int64)
            if capacity > _MAX_RESULTS:
                return None
            capacity *= 4

    def nearest(
        self, points: Array, reach: Array, ties: tuple[Array, float], is_degenerate: Mask, rules: RuleArrays
    ) -> tuple[Index, Index, Array, Array, Array]:
        """Return the nearest triangle of each point (p, 3) m that has one in reach: points (k,) and triangles (k,).

        Also returns the barycentric weights (k, 3) of the closest points, offsets (k, 3) m from there to the points,
        and distances (k,) m.

        reach: (p,) m; NaN for points to leave out.  ties: (p,) m and a fraction, within which distances count as equal;
            the first triangle wins, degenerate ones (t,) last.

        Raises ValueError if the arrays do not match.
        """
        count, given = len(points), self._queries(points, reach, ties[0])
        if is_degenerate.shape != (self.count,):
            raise ValueError(f"degenerate triangles have shape {is_degenerate.shape}; expected ({self.count},)")
        structure, kept = self._rules_structure(rules, count)
        triangle, vectors = np.empty(count, dtype=np.int32), np.empty((2, count, 3))
        distance, degenerate = np.empty(count), np.ascontiguousarray(is_degenerate, dtype=np.uint8)
        self._library.nearest_triangles(
            *self._tree, *pointers(self._corners, self._vertices, degenerate), count, *pointers(*given), ties[1],
            ctypes.addressof(structure), *pointers(triangle, vectors[0], vectors[1], distance),
        )  # fmt: skip
        del kept
        point = np.flatnonzero(triangle >= 0)
        return point, triangle[point].astype(np.int64), vectors[0, point], vectors[1, point], distance[point]

    def _queries(self, points: Array, reach: Array, slack: Array) -> list[Array]:
        """Return the checked arrays of the query points for the kernel."""
        count = len(points)
        require_row_count(count, "points")
        require_shape(points, (count, 3), "points")
        require_shape(reach, (count,), "reaches")
        require_shape(slack, (count,), "tolerances")
        return list(map(doubles, (points, reach, slack)))

    def _rules_structure(self, rules: RuleArrays, count: int) -> tuple[_PairRules, list[NDArray[np.generic] | None]]:
        """Return the rules for the kernel, and the arrays to keep alive, after checking them."""
        t, real = self.count, np.float64
        can_move, rest = rules.can_move or (None, None), rules.rest or (None, None, None)
        seam, start = rules.seam or (None, None), rules.start or (None, None, None)
        opposing, facing = rules.opposing or (None, None), rules.facing or (None, None, None, None)
        given = can_move, rest, seam, start, opposing, facing
        if any(one is None for group in given for one in group if group[0] is not None):
            raise ValueError("a rule lacks an array")
        if seam[0] is not None and rest[0] is None:
            raise ValueError("a seam needs distances at rest")
        require_shape(np.array(rules.limits), (4,), "limits of rules")
        degree = 0
        if facing[1] is not None and facing[2] is not None:
            if facing[1].ndim != 2:
                raise ValueError("the faces at points are not an array (p, d)")
            degree = facing[1].shape[1]
            require_indices(facing[1], (count, degree), len(facing[2]), "faces at points")
            require_shape(facing[2], (len(facing[2]), 3), "normals of faces")
        normals = facing[3] if opposing[1] is None else opposing[1]
        if opposing[1] is not None and facing[3] is not None and opposing[1] is not facing[3]:
            raise ValueError("both rules for normals need the same normals")
        arrays = [
            (rules.vertices, np.int32, (count,)),
            (can_move[0], np.uint8, (count,)),
            (can_move[1], np.uint8, (t,)),
            (rest[0], real, (count, 3)),
            (rest[1], real, (t, 3)),
            (rest[2], real, (t,)),
            (seam[0], real, (count, 3)),
            (seam[1], real, (count,)),
            (start[0], real, (count, 3)),
            (start[1], real, (t, 3)),
            (start[2], real, (t, 3)),
            (opposing[0], real, (count, 3)),
            (normals, real, (t, 3)),
            (facing[0], real, (count, 3)),
            (facing[1], np.int32, None),
            (facing[2], real, None),
        ]
        kept = [None if array is None else np.ascontiguousarray(array, dtype=dtype) for array, dtype, _ in arrays]
        for one, (_, _, shape) in zip(kept, arrays, strict=True):
            if one is not None and shape is not None:
                require_shape(one, shape, "arrays of rules")
        addresses = tuple(None if one is None else one.ctypes.data for one in kept)
        return _PairRules(addresses, degree, rules.limits), kept


class SweptTree(BoxTree):
    """Tree of triangles that move along straight lines."""

    def __init__(self, library: KernelLibrary, start: Array, end: Array, triangles: Index) -> None:
        """Build the tree. start, end: (v, 3) m, vertices.  triangles: (t, 3).

        Raises ValueError if the arrays do not match.
        """
        self._corners, self._vertices, boxes, self._shift = _swept_boxes(library, triangles, start, end)
        super().__init__(library, boxes)

    def crossings(self, start: Array, end: Array, tolerance: float) -> tuple[Index, Index, Array, Array, Array]:
        """Return the first triangles that moving points cross: points (k,), triangles (k,), and times (k,) from 0 to 1.

        Also returns the barycentric weights (k, 3) at the crossings, and the sides (k,) from which the points came.

        start, end: (p, 3) m, points.  tolerance: distance outside of a triangle, relative to the size of all, within
            which a point may still cross it.

        Raises ValueError if the arrays do not match.
        """
        count = len(start)
        require_row_count(count, "points")
        for points in (start, end):
            require_shape(points, (count, 3), "points")
        given = list(map(doubles, (start, end)))
        low, high = self._nodes[0].reshape(2, 3)
        # Also allow for rounding far from the origin.
        slack = tolerance * float(np.linalg.norm(high - low)) + 1e-12 * float(np.abs([low, high]).max())
        triangle, scalars, weights = np.empty(count, dtype=np.int32), np.empty((2, count)), np.empty((count, 3))
        self._library.crossings(
            *self._tree, *pointers(self._corners, *self._vertices, self._shift), slack, count, *pointers(*given),
            *pointers(triangle, scalars[0], weights, scalars[1]),
        )  # fmt: skip
        point = np.flatnonzero(triangle >= 0)
        return point, triangle[point].astype(np.int64), scalars[0, point], weights[point], scalars[1, point]


def _swept_boxes(
    library: KernelLibrary, triangles: Index, *vertices: Array
) -> tuple[NDArray[np.int32], list[Array], Array, Array]:
    """Return corners (t, 3) and vertices for the kernel, the boxes (t, 6) m around triangles (t, 3), and their shift.

    vertices: (v, 3) m at the start, and at the end if they move. The shift (3,) m is the triangles' mean displacement,
    which is subtracted from the end positions.
    """
    count = len(triangles)
    require_row_count(count, "triangles")
    for one in vertices:
        require_shape(one, (len(vertices[0]), 3), "vertices")
    require_indices(triangles, (count, 3), len(vertices[0]), "triangles")
    corners = integers(triangles)
    kept = list(map(doubles, vertices))
    shift, boxes = np.empty(3), np.empty((count, 6))
    library.swept_boxes(count, *pointers(corners, kept[0], kept[-1], shift, boxes))
    return corners, kept, boxes, shift


class EdgeTree(BoxTree):
    """Tree of edges."""

    def __init__(self, library: KernelLibrary, points: Array, edges: Index, margins: Array | None = None) -> None:
        """Build the tree. points: (v, 3) m.  edges: (e, 2).  margins: (e,) m, by which their boxes are enlarged, or 0.

        Raises ValueError if the arrays do not match.
        """
        self._edges_and_points = _checked_edges(points, edges)
        # numpy is slow along short axes.
        first, second = points[edges[:, 0]], points[edges[:, 1]]
        low, high = np.minimum(first, second), np.maximum(first, second)
        if margins is not None:
            require_shape(margins, (len(edges),), "margins")
            low, high = low - margins[:, None], high + margins[:, None]
        super().__init__(library, np.concatenate([low, high], axis=1))

    def near(
        self, points: Array, edges: Index, reach: float, sine: float, margins: Array | None = None
    ) -> tuple[Index, Index]:
        """Return the pairs (k,), (k,) of edges (m, 2) and edges of the tree that are closer than reach, m, ascending.

        points: (w, 3) m.  sine: squared sine of the angle up to which edges are parallel.
        margins: (m,) m; pairs that are farther apart than the sum of both edges' margins may be left out.

        Only pairs whose closest points lie inside of both edges count.  Raises ValueError if the arrays do not match.
        """
        given, count = _checked_edges(points, edges), len(edges)
        margins = np.full(count, float(reach)) if margins is None else margins
        require_shape(margins, (count,), "margins")
        enlarged = doubles(margins)
        tree_edges, queries = pointers(*self._edges_and_points), pointers(*given, enlarged)
        return _pairs(
            lambda *room: self._library.near_edges(*self._tree, *tree_edges, count, *queries, reach, sine, *room), count
        )


class MovingEdgeTree(BoxTree):
    """Tree of edges of moving surfaces."""

    def __init__(self, library: KernelLibrary, start: Array, end: Array, edges: Index) -> None:
        """Build the tree. start, end: (v, 3) m.  edges: (e, 2).

        Raises ValueError if the arrays do not match.
        """
        require_shape(start, end.shape, "points at the start")
        self._edges, self._points = _checked_edges(end, edges)
        # Motion that is common to all edges does not make them meet.
        motion = self._points - doubles(start)
        starts, ends = np.ascontiguousarray(edges.T)
        self._motion = motion - np.take(motion, edges, axis=0).mean(axis=(0, 1))
        lengths = np.sqrt((self._motion * self._motion).sum(axis=1))
        longest = np.maximum(lengths.take(starts), lengths.take(ends))[:, None]
        first, second = take_rows(self._points, starts), take_rows(self._points, ends)
        boxes = np.concatenate([np.minimum(first, second) - longest, np.maximum(first, second) + longest], axis=1)
        super().__init__(library, boxes)

    def meeting(self, reach: float, sine: float) -> tuple[Index, Index]:
        """Return the pairs (k,), (k,) of edges without common vertices that end closer than reach, m, ascending.

        reach: enlarged by the relative motion of each pair.  sine: see EdgeTree.near().
        """
        places = pointers(self._edges, self._points, self._motion)
        first, second = _pairs(
            lambda *room: self._library.meeting_edges(*self._tree, *places, reach, sine, *room), self.count
        )
        order = np.lexsort((second, first))
        return first[order], second[order]


def _checked_edges(points: Array, edges: Index) -> tuple[NDArray[np.int32], Array]:
    """Return edges (e, 2) of points (v, 3) m for the kernel, after checking them."""
    require_shape(points, (len(points), 3), "points")
    require_row_count(len(edges), "edges")
    require_indices(edges, (len(edges), 2), len(points), "edges")
    return integers(edges), doubles(points)


def _pairs(search: Callable[..., int], count: int) -> tuple[Index, Index]:
    """Return the pairs (k,), (k,) that a search of the kernel writes, with enough memory.

    Raises CrowdedError if they are too many, such as where all edges of two meshes lie at one place.
    """
    capacity = _EXPECTED_RESULTS * count + 64
    while True:
        found = np.empty((2, capacity), dtype=np.int32)
        number = search(capacity, *pointers(found[0], found[1]))
        if number >= 0:
            return found[0, :number].astype(np.int64), found[1, :number].astype(np.int64)
        if capacity >= _MAX_PAIRS:
            raise CrowdedError("too many pairs of edges and triangles overlap")
        capacity = min(4 * capacity, _MAX_PAIRS)

"""Compiled trees of bounding boxes for collision detection."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Array, Index, Mask
from .arguments import pointers, require_indices, require_row_count, require_shape
from .library import SORT_ROOM, KernelLibrary

# Largest number of boxes in a leaf, of results per query for which memory is reserved first, and of results with which
# a search for all near triangles ends.
_LEAF_SIZE, _EXPECTED_RESULTS, _MAX_RESULTS = 4, 4, 8_000_000


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
        *((f"pointer_{k}", ctypes.c_void_p) for k in range(16)),
        ("degree", ctypes.c_int64),
        *((f"limit_{k}", ctypes.c_double) for k in range(4)),
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
        keys = np.empty(2 * count + SORT_ROOM, dtype=np.uint64)
        self._buffers = (
            np.empty(count, dtype=np.int32),
            np.empty((2 * leaves - 1, 6)),
            np.ascontiguousarray(boxes, dtype=float),
        )
        order, nodes, own = pointers(*self._buffers)
        library.tree_build(count, leaves, own, keys.ctypes.data, order, nodes)
        self._tree = count, leaves, order, nodes, own

    def overlaps(self, asked: Array, spheres: tuple[Array, Array] | None = None) -> tuple[Index, Index]:
        """Return pairs (k,), (k,) of asked boxes (m, 6) and boxes that overlap or touch, in ascending order.

        spheres: (n, 7), (m, 7) of boxes and of asked boxes that must meet too while they move steadily: centre at the
        start, centre at the end, radius, all in m.
        """
        require_shape(asked, (len(asked), 6), "asked boxes")
        given = [np.ascontiguousarray(asked, dtype=float)]
        if spheres is not None:
            require_shape(spheres[0], (self.count, 7), "spheres")
            require_shape(spheres[1], (len(asked), 7), "asked spheres")
            given += [np.ascontiguousarray(one, dtype=float) for one in spheres]
        places = [*pointers(*given), *(() if spheres is not None else (None, None))]
        return _pairs(lambda *room: self._library.tree_overlaps(*self._tree, len(asked), *places, *room), len(asked))


class TriangleTree(BoxTree):
    """Tree of triangles."""

    def __init__(self, library: KernelLibrary, vertices: Array, triangles: Index, boxes: Array) -> None:
        """Build the tree. vertices: (v, 3) m.  triangles: (t, 3).  boxes: (t, 6) m.

        Raises ValueError if the arrays do not match.
        """
        require_shape(vertices, (len(vertices), 3), "vertices")
        require_indices(triangles, (len(boxes), 3), len(vertices), "triangles")
        super().__init__(library, boxes)
        self._corners = np.ascontiguousarray(triangles, dtype=np.int32)
        self._vertices = np.ascontiguousarray(vertices, dtype=float)

    def near(
        self, points: Array, reach: Array, ties: tuple[Array, float], rules: RuleArrays, wants_all: bool
    ) -> tuple[Index, Index, Array] | None:
        """Return points (k,), triangles (k,) and their distances (k,) m, for triangles within reach of points (p, 3) m.

        reach: (p,) m; NaN for points to leave out.  ties: (p,) m and a fraction, within which distances count as equal.
        wants_all: whether all triangles in reach are returned, not only those tied with the nearest; None if they are
        too many.  Raises ValueError if the arrays do not match.
        """
        count = len(points)
        require_row_count(count, "points")
        require_shape(points, (count, 3), "points")
        require_shape(reach, (count,), "reaches")
        require_shape(ties[0], (count,), "tolerances")
        given = [np.ascontiguousarray(one, dtype=float) for one in (points, reach, ties[0])]
        structure, kept = self._structure(rules, count)
        capacity = _EXPECTED_RESULTS * (8 if wants_all else 1) * count + 64
        while True:
            found = np.empty((2, capacity), dtype=np.int32)
            distances = np.empty(capacity)
            number = self._library.near_triangles(
                *self._tree, *pointers(self._corners, self._vertices), count, *pointers(*given), ties[1],
                int(wants_all), ctypes.addressof(structure), capacity, *pointers(found[0], found[1], distances),
            )  # fmt: skip
            if number >= 0:
                del kept
                return found[0, :number].astype(np.int64), found[1, :number].astype(np.int64), distances[:number]
            if wants_all and capacity > _MAX_RESULTS:
                return None
            capacity *= 4

    def _structure(self, rules: RuleArrays, count: int) -> tuple[_PairRules, list[NDArray[np.generic]]]:
        """Return the rules for the kernel, and the arrays to keep alive, after checking them."""
        t, real = self.count, np.float64
        can_move, rest = rules.can_move or (None, None), rules.rest or (None, None, None)
        seam, start = rules.seam or (None, None), rules.start or (None, None, None)
        opposing, facing = rules.opposing or (None, None), rules.facing or (None, None, None, None)
        if seam[0] is not None and rest[0] is None:
            raise ValueError("a seam needs distances at rest")
        if rules.vertices is not None:
            require_shape(rules.vertices, (count,), "own vertices")
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
            (rules.vertices, np.int32, None),
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
        kept, structure = [], _PairRules()
        for k, (array, dtype, shape) in enumerate(arrays):
            if array is None:
                continue
            one: NDArray[np.generic] = np.ascontiguousarray(array, dtype=dtype)
            if shape is not None:
                require_shape(one, shape, "arrays of rules")
            kept.append(one)
            setattr(structure, f"pointer_{k}", one.ctypes.data)
        structure.degree = degree
        for k, limit in enumerate(rules.limits):
            setattr(structure, f"limit_{k}", limit)
        return structure, kept


def near_edges(
    library: KernelLibrary, asked: tuple[Array, Index], others: tuple[Array, Index], reach: float, sine: float
) -> tuple[Index, Index]:
    """Return the pairs (k,), (k,) of edges of two sets that are closer than reach, m, in ascending order.

    asked, others: points (v, 3) m and edges (e, 2).  sine: squared sine of the angle up to which edges are parallel.

    Only pairs whose closest points lie inside of both edges count.  Raises ValueError if the arrays do not match.
    """
    for points, edges in (asked, others):
        require_shape(points, (len(points), 3), "points")
        require_row_count(len(edges), "edges")
        require_indices(edges, (len(edges), 2), len(points), "edges")
    points, edges = others
    # numpy is slow along short axes.
    first, second = points[edges[:, 0]], points[edges[:, 1]]
    tree = BoxTree(library, np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1))
    given = [
        np.ascontiguousarray(edges, dtype=np.int32),
        np.ascontiguousarray(points, dtype=float),
        np.ascontiguousarray(asked[1], dtype=np.int32),
        np.ascontiguousarray(asked[0], dtype=float),
    ]
    own, other = pointers(*given[:2]), pointers(*given[2:])
    count = len(asked[1])
    return _pairs(lambda *room: library.near_edges(*tree._tree, *own, count, *other, reach, sine, *room), count)


def _pairs(search: Callable[..., int], count: int) -> tuple[Index, Index]:
    """Return the pairs (k,), (k,) that a search of the kernel writes, with enough memory."""
    capacity = _EXPECTED_RESULTS * count + 64
    while True:
        found = np.empty((2, capacity), dtype=np.int32)
        number = search(capacity, *pointers(found[0], found[1]))
        if number >= 0:
            return found[0, :number].astype(np.int64), found[1, :number].astype(np.int64)
        capacity *= 4

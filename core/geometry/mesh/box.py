"""Tetrahedral box meshes (the clamped bar of the validation and the tests), bounding boxes and outcodes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from ...base.arrays import Array, Index


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

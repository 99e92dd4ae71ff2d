"""Compiled normals of triangles, and heights of points above open surfaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Array, Index, Mask
from .library import KernelLibrary, doubles, pointers, require_indices, require_row_count, require_rows, require_shape


def triangle_normals(
    library: KernelLibrary, vertices: Array, triangles: Index, min_height: float
) -> tuple[Array, Array, Array, Array, Mask]:
    """Return the doubled area normals (3, t) m^2 of triangles (t, 3), their lengths (t,) m^2, and unit normals.

    The unit normals follow as (t, 3) and as (3, t), and then the mask (t,) of degenerate triangles.

    vertices: (v, 3) m.  min_height: triangles lower than this, relative to their longest side, are degenerate: their
        unit normals are zero.

    Raises ValueError if the arrays do not match.
    """
    count, corners = len(triangles), _triangles(triangles, vertices)
    doubled, normal_rows = np.empty((2, 3, count))
    lengths, normals, is_degenerate = np.empty(count), np.empty((count, 3)), np.empty(count, dtype=bool)
    places = doubles(vertices)
    library.triangle_normals(
        count, *pointers(corners, places), min_height, *pointers(doubled, lengths, normals, normal_rows, is_degenerate)
    )
    return doubled, lengths, normals, normal_rows, is_degenerate


def sheet_heights(
    library: KernelLibrary,
    mesh: tuple[Array, Index, Array, Mask],
    fans: Sequence[Index],
    tie: float,
    points: Array,
    near: Index,
) -> Array:
    """Return the signed distances (k,) m of points (k, 3) m from the part of an open surface around triangles (k,).

    mesh: vertices (v, 3) m, triangles (t, 3), their normals (t, 3), and the mask (t,) of degenerate ones.
    fans: fan (3 t,), first (f,), count (f,) and members (3 t,) of CornerFans.  tie: m, difference of equal distances.
    near: the triangles (k,).

    Raises ValueError if the arrays do not match.
    """
    vertices, triangles, normals, is_degenerate = mesh
    fan, first, counts, members = fans
    t, k = len(triangles), len(points)
    corners = _triangles(triangles, vertices)
    require_shape(normals, (t, 3), "normals")
    require_shape(points, (k, 3), "points")
    require_indices(near, (k,), t, "triangles of points")
    require_indices(fan, (3 * t,), len(first), "fans of corners")
    require_indices(members, (3 * t,), t, "triangles of fans")
    require_rows(np.append(first, len(members)), len(first), len(members), "triangles of fans")
    if is_degenerate.shape != (t,) or not np.array_equal(np.diff(first, append=len(members)), counts):
        raise ValueError("degenerate triangles or fans do not match the triangles")
    heights = np.empty(k)
    given = [corners, *map(doubles, (vertices, normals)), np.ascontiguousarray(is_degenerate, dtype=bool)]
    given += [_indices(one) for one in (fan, first, counts, members)]
    asked = doubles(points), _indices(near)
    library.sheet_heights(*pointers(*given), tie, k, *pointers(*asked, heights))
    return heights


def _triangles(triangles: Index, vertices: Array) -> NDArray[np.int64]:
    """Return triangles (t, 3) of vertices (v, 3) for the kernel, after checking them."""
    require_row_count(len(triangles), "triangles")
    require_shape(vertices, (len(vertices), 3), "vertices")
    require_indices(triangles, (len(triangles), 3), len(vertices), "triangles")
    return _indices(triangles)


def _indices(numbers: Index) -> NDArray[np.int64]:
    return np.ascontiguousarray(numbers, dtype=np.int64)

"""The body-centred cubic lattice of tetrahedra: cube corners and cube centres, twelve equal tets per cube.

Each tet joins the centres of two neighbouring cubes with one edge of their common face, so the tet that contains a
point is found by arithmetic.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index

# Nodes and tets are named by integer coordinates in half edges: corners have even, centres odd coordinates. A tet is
# the code of its lower centre, and an index 0..11: 4 * (axis to the other centre) + which edge of the face.


def tets_of_points(points: Array) -> tuple[Index, Index]:
    """Lower centre (p, 3) in half edges and index (p,) of the tet that holds each point (p, 3), in cube edges."""
    cell = np.floor(points)
    offset = points - cell - 0.5
    size = np.abs(offset)
    row = np.arange(len(points))
    axis = size.argmax(axis=1)
    u, v = (axis + 1) % 3, (axis + 2) % 3
    along_u = size[row, u] >= size[row, v]
    side = np.where(along_u, offset[row, u], offset[row, v]) > 0.0
    index = 4 * axis + 2 * along_u + side
    centre = (2 * cell + 1).astype(np.int64)
    centre[row, axis] -= 2 * (offset[row, axis] < 0.0)
    return centre, index.astype(np.int64)


def _corner_table() -> Index:
    """Offsets in half edges from the lower centre to the four corners of each of the 12 tets, (12, 4, 3)."""
    table = np.zeros((12, 4, 3), dtype=np.int64)
    for axis in range(3):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        for along_u in (0, 1):
            for side in (0, 1):
                near, run = (u, v) if along_u else (v, u)
                corners = np.zeros((4, 3), dtype=np.int64)
                corners[1, axis] = 2
                corners[2:, axis] = 1
                corners[2:, near] = 1 if side else -1
                corners[2, run], corners[3, run] = -1, 1
                if np.linalg.det((corners[1:] - corners[0]).astype(float)) < 0.0:
                    corners[[2, 3]] = corners[[3, 2]]
                table[4 * axis + 2 * along_u + side] = corners
    return table


CORNERS = _corner_table()


def tet_corners(centre: Index, index: Index) -> Index:
    """Corners (m, 4, 3) in half edges."""
    corners: Index = centre[:, None] + CORNERS[index]
    return corners


def tets_in_box(low: Index, high: Index) -> tuple[Index, Index]:
    """All tets whose lower centre lies in the cubes low..high (3,), both included."""
    ranges = [np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]
    cells = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, 3)
    return (2 * cells + 1).repeat(12, axis=0), np.tile(np.arange(12), len(cells))


def tet_keys(centre: Index, index: Index) -> Index:
    """One number per tet."""
    return node_keys(centre) * 12 + index


def node_keys(half: Index) -> Index:
    """One number per integer point (…, 3) within ±2^18 half edges."""
    shifted = half + (1 << 18)
    keys: Index = (shifted[..., 0] << 38) + (shifted[..., 1] << 19) + shifted[..., 2]
    return keys

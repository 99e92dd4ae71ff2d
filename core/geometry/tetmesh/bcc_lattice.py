"""Body-centred cubic (BCC) lattice of tetrahedra: cube corners and cube centres, twelve equal tets per cube.

Each tet joins the centres of two neighbouring cubes with one edge of their common face, so the tet that contains a
point is computed directly, without a search.
"""

from __future__ import annotations

import numpy as np

from ...base.arrays import Array, Index

# Nodes have integer coordinates in half edges: even for cube corners, odd for cube centres. A tet is identified by its
# lower centre and an index 0..11: 4 * (axis towards the other centre) + (edge of the common face).


def tets_containing_points(points: Array) -> tuple[Index, Index]:
    """Return lower centre (p, 3), in half edges, and index (p,) of the tet around each point (p, 3), in cube edges."""
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
    """Return the offsets (12, 4, 3), in half edges, from the lower centre to the corners of the 12 tets."""
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


TET_CORNER_OFFSETS = _corner_table()


def tet_corners(centre: Index, index: Index) -> Index:
    """Return the corners (m, 4, 3) of tets in half edges."""
    corners: Index = centre[:, None] + TET_CORNER_OFFSETS[index]
    return corners


def tets_in_box(low: Index, high: Index) -> tuple[Index, Index]:
    """Return all tets whose lower centre is in the cubes low..high (3,), both inclusive."""
    ranges = [np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]
    cells = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, 3)
    return (2 * cells + 1).repeat(12, axis=0), np.tile(np.arange(12), len(cells))


def tet_keys(centre: Index, index: Index) -> Index:
    """Return a unique integer key per tet."""
    return node_keys(centre) * 12 + index


def node_keys(half: Index) -> Index:
    """Return a unique integer key per lattice point (…, 3) within ±2^18 half edges."""
    shifted = half + (1 << 18)
    keys: Index = (shifted[..., 0] << 38) + (shifted[..., 1] << 19) + shifted[..., 2]
    return keys

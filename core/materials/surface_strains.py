"""Triangle elements in space with in-plane coordinates, hinges between triangles, and fast symmetric assembly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import bsr_matrix, csr_matrix

from ..base.arrays import Array, Index
from .assembly import assemble_vector
from .strains import GreenStrain

# Start, end and opposite corner of each side of a triangle.
_SIDES = ((0, 1, 2), (1, 2, 0), (2, 0, 1))


def plane_shape_gradients(rest: Array, triangles: Index) -> tuple[Array, Array]:
    """Return in-plane gradients (m, 3, 2) 1/m of the linear shape functions of triangles, and the areas (m,) m^2."""
    corners = rest[triangles]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    length = np.linalg.norm(a, axis=1)
    unit = a / length[:, None]
    along = (b * unit).sum(axis=1)
    height = np.linalg.norm(b - along[:, None] * unit, axis=1)
    # [[length, along], [0, height]] is the triangle in its plane; these are the rows of its inverse.
    first = np.stack([1.0 / length, -along / (length * height)], axis=1)
    second = np.stack([np.zeros(len(a)), 1.0 / height], axis=1)
    return np.stack([-first - second, first, second], axis=1), np.asarray(0.5 * length * height)


def area_weighted_normals(points: Array, triangles: Index) -> Array:
    """Return area-weighted normals (n, 3) at points (n, 3), twice the sum of area times normal of their triangles."""
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return assemble_vector(np.tile(np.cross(b - a, c - a), (3, 1)), triangles.T, len(points))


class SurfaceGreenStrain(GreenStrain):
    """Green strain of triangles of a curved surface. shape_gradients: (m, 3, 2), see plane_shape_gradients()."""

    def __init__(self, shape_gradients: Array, triangles: Index) -> None:
        self.elements, self.dimension, self._shape_gradients = triangles, 2, shape_gradients


@dataclass(frozen=True)
class Hinges:
    """Edges shared by two triangles.

    nodes: (h, 4), the ends of the edge and the opposite corner in each triangle.
    faces: (h, 2) the triangles.
    signs: (h, 2) +1 or -1: the sign of the hinge angle relative to the orientation of each triangle; the mesh need not
        be oriented consistently.
    """

    nodes: Index
    faces: Index
    signs: Array

    @staticmethod
    def from_triangles(triangles: Index, node_count: int) -> Hinges:
        """Return the hinges of triangles (m, 3). Where more than two share an edge, each is connected to the next."""
        sides = np.concatenate([triangles[:, list(side)] for side in _SIDES])
        faces = np.tile(np.arange(len(triangles)), 3)
        keys = np.sort(sides[:, :2], axis=1) @ np.array([node_count, 1])
        order = np.argsort(keys, kind="stable")
        shared = np.flatnonzero(np.diff(keys[order]) == 0)
        a, b = order[shared], order[shared + 1]
        nodes = np.column_stack([sides[a], sides[b, 2]])
        # In a consistently oriented mesh, the second triangle traverses the edge in the opposite direction.
        signs = np.column_stack([np.ones(len(a)), np.where(sides[b, 0] == sides[a, 1], 1.0, -1.0)])
        is_duplicate = nodes[:, 2] == nodes[:, 3]
        return Hinges(nodes[~is_duplicate], np.column_stack([faces[a], faces[b]])[~is_duplicate], signs[~is_duplicate])


# The pairs of corners of a triangle, and the order of the entries of a transposed block (3, 3).
CORNER_PAIRS = ((0, 1), (0, 2), (1, 2))
_TRANSPOSED = (0, 3, 6, 1, 4, 7, 2, 5, 8)


class SymmetricPattern:
    """Sparsity pattern of a symmetric matrix of 3 x 3 blocks of triangles, computed once and filled repeatedly.

    Only the blocks of pairs of corners are needed if the energy is invariant to translation: a diagonal block is then
    minus the sum of the other blocks in its row.

    corner_order: (m, 3) corners of each triangle by ascending node, so that all triangles agree on the order of a pair.
    """

    def __init__(self, triangles: Index, node_count: int) -> None:
        """Build the pattern. triangles: (m, 3).  node_count: n."""
        self.corner_order = np.argsort(triangles, axis=1, kind="stable")
        corners = np.take_along_axis(triangles, self.corner_order, axis=1).T.astype(np.int64)
        first, second = (np.concatenate([corners[pair[k]] for pair in CORNER_PAIRS]) for k in (0, 1))
        keys, where = np.unique(first * node_count + second, return_inverse=True)
        where = where.reshape(-1)
        size = len(keys)
        self._sum = csr_matrix((np.ones(len(where)), (where, np.arange(len(where)))), shape=(size, len(where)))
        low, high, nodes = keys // node_count, keys % node_count, np.unique(triangles)
        place = np.zeros(node_count, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        minus_one = np.full(size, -1.0)
        self._lower, self._higher = (
            csr_matrix((minus_one, (place[end], np.arange(size))), shape=(len(nodes), size)) for end in (low, high)
        )
        # Blocks above, below and on the diagonal, and their order by rows.
        rows, columns = np.concatenate([low, high, nodes]), np.concatenate([high, low, nodes])
        self._source = np.lexsort((columns, rows))
        self._columns = columns[self._source].astype(np.int32)
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=node_count))]).astype(np.int32)
        self._node_count = node_count

    def assemble(self, pair_blocks: Array) -> bsr_matrix:
        """Return the matrix (3n, 3n) from entries (9, 3m) of corner-pair blocks, by CORNER_PAIRS, then by triangle."""
        upper_blocks = np.stack([self._sum @ entries for entries in pair_blocks])
        diagonal_blocks = np.empty((9, self._lower.shape[0]))
        for entry, transposed in enumerate(_TRANSPOSED):
            if entry <= transposed:
                diagonal_blocks[entry] = self._lower @ upper_blocks[entry] + self._higher @ upper_blocks[transposed]
                diagonal_blocks[transposed] = diagonal_blocks[entry]
        all_blocks = np.empty((len(self._source), 9))
        size = upper_blocks.shape[1]
        all_blocks[:size], all_blocks[2 * size :] = upper_blocks.T, diagonal_blocks.T
        all_blocks[size : 2 * size] = all_blocks[:size, _TRANSPOSED]
        data = all_blocks.take(self._source, axis=0).reshape(-1, 3, 3)
        return bsr_matrix((data, self._columns, self._starts), shape=(3 * self._node_count,) * 2)

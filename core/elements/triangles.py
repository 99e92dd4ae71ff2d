"""Triangles in space, each with coordinates of its own plane; and which of them meet at an edge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import bsr_matrix, csr_matrix

from ..arrays import Array, Index
from .strains import Green

# Of a hinge's triangles, which corner of the one lies opposite the edge between the two others.
_SIDES = ((0, 1, 2), (1, 2, 0), (2, 0, 1))


def flattened(rest: Array, triangles: Index) -> tuple[Array, Array]:
    """Gradients (m, 3, 2) 1/m of the linear shape functions in each triangle's own plane, and the areas (m,) m^2."""
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


def normals_of(points: Array, triangles: Index) -> Array:
    """(n, 3), the sum of the normals of the triangles at each of the points (n, 3), by their areas."""
    a, b, c = (points[triangles[:, k]] for k in range(3))
    own = np.cross(b - a, c - a)
    nodes = triangles.T.ravel()
    return np.stack([np.bincount(nodes, np.tile(own[:, k], 3), minlength=len(points)) for k in range(3)], axis=1)


class PlaneGreen(Green):
    """Green's strain of triangles that need not lie in one plane. shape: (m, 3, 2) as of flattened()."""

    def __init__(self, shape: Array, triangles: Index) -> None:
        self.elements, self.size, self._shape = triangles, 2, shape


@dataclass(frozen=True)
class Hinges:
    """Edges that two triangles share.

    nodes: (h, 4), the edge's ends and the corners opposite of it in both triangles.
    faces: (h, 2) the triangles.
    signs: (h, 2) of +1 or -1: whether an angle that is positive by the order of the nodes is so on the side to which
        the triangle's own corners turn; a mesh need not be oriented alike.
    """

    nodes: Index
    faces: Index
    signs: Array

    @staticmethod
    def of(triangles: Index, count: int) -> Hinges:
        """triangles: (m, 3) of so many nodes. Where more than two meet at an edge, each is hinged to the next."""
        sides = np.concatenate([triangles[:, list(side)] for side in _SIDES])
        faces = np.tile(np.arange(len(triangles)), 3)
        keys = np.sort(sides[:, :2], axis=1) @ np.array([count, 1])
        order = np.argsort(keys, kind="stable")
        twin = np.flatnonzero(np.diff(keys[order]) == 0)
        a, b = order[twin], order[twin + 1]
        nodes = np.column_stack([sides[a], sides[b, 2]])
        # The second triangle of a mesh oriented alike goes along the edge the other way.
        signs = np.column_stack([np.ones(len(a)), np.where(sides[b, 0] == sides[a, 1], 1.0, -1.0)])
        folded = nodes[:, 2] == nodes[:, 3]
        return Hinges(nodes[~folded], np.column_stack([faces[a], faces[b]])[~folded], signs[~folded])


# Which corners of a triangle a pair has, and the entries of a block (3, 3) as its transpose has them.
PAIRS = ((0, 1), (0, 2), (1, 2))
_TURNED = (0, 3, 6, 1, 4, 7, 2, 5, 8)


class PairPattern:
    """Where blocks (3, 3) of triangles go in a symmetric sparse matrix of all nodes; found once, filled often.

    What couples pairs of corners says all of it where a shift of all corners meets nothing: a node's own block is
    minus the sum of its others.

    order: (m, 3) each triangle's corners by their nodes' numbers, so that a pair is met the same way round by all.
    """

    def __init__(self, triangles: Index, count: int) -> None:
        """triangles: (m, 3) of so many nodes."""
        self.order = np.argsort(triangles, axis=1, kind="stable")
        corners = np.take_along_axis(triangles, self.order, axis=1).T.astype(np.int64)
        first, second = (np.concatenate([corners[pair[k]] for pair in PAIRS]) for k in (0, 1))
        keys, where = np.unique(first * count + second, return_inverse=True)
        where = where.reshape(-1)
        size = len(keys)
        self._sum = csr_matrix((np.ones(len(where)), (where, np.arange(len(where)))), shape=(size, len(where)))
        low, high, nodes = keys // count, keys % count, np.unique(triangles)
        place = np.zeros(count, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        less = np.full(size, -1.0)
        self._lower, self._higher = (
            csr_matrix((less, (place[end], np.arange(size))), shape=(len(nodes), size)) for end in (low, high)
        )
        # Blocks above the diagonal, below and on it, and where they are as rows have them.
        rows, columns = np.concatenate([low, high, nodes]), np.concatenate([high, low, nodes])
        self._source = np.lexsort((columns, rows))
        self._columns = columns[self._source].astype(np.int32)
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int32)
        self._count = count

    def matrix(self, pairs: Array) -> bsr_matrix:
        """(3n, 3n) from the entries (9, 3m) of what couples corners, triangle by triangle for each of PAIRS."""
        above = np.stack([self._sum @ entries for entries in pairs])
        own = np.empty((9, self._lower.shape[0]))
        for entry, turned in enumerate(_TURNED):
            if entry <= turned:
                own[entry] = self._lower @ above[entry] + self._higher @ above[turned]
                own[turned] = own[entry]
        every = np.empty((len(self._source), 9))
        size = above.shape[1]
        every[:size], every[2 * size :] = above.T, own.T
        every[size : 2 * size] = every[:size, _TURNED]
        data = every.take(self._source, axis=0).reshape(-1, 3, 3)
        return bsr_matrix((data, self._columns, self._starts), shape=(3 * self._count,) * 2)

"""Assembly of element contributions into nodal vectors and sparse matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import bsr_matrix, coo_matrix, csr_matrix

from ..base.arrays import Array, Index


def assemble_matrix(blocks: Array, elements: Index, nodes: int) -> csr_matrix:
    """Assemble element blocks (m, 3k, 3k) into a sparse matrix (3n, 3n)."""
    # Compute the width explicitly: reshape cannot infer it if m is 0, as where all nodes are pinned.
    width = 3 * elements.shape[1]
    dof = (3 * elements[:, :, None] + np.arange(3)).reshape(len(elements), width)
    rows, columns = dof.repeat(width, axis=1).ravel(), np.tile(dof, (1, width)).ravel()
    return coo_matrix((blocks.ravel(), (rows, columns)), shape=(3 * nodes, 3 * nodes)).tocsr()


class SparsityPattern:
    """Sparsity pattern of elements (m, k) in a matrix of n nodes, for repeated assembly in chunks."""

    # Elements per chunk: their blocks take a few MB.
    CHUNK_SIZE = 16384

    def __init__(self, elements: Index, nodes: int) -> None:
        count, corners = elements.shape
        keys = (elements[:, :, None] * nodes + elements[:, None, :]).ravel()
        known, where = np.unique(keys, return_inverse=True)
        # (m, k^2) index of each pair of nodes.
        self._pair_ids = where.reshape(count, corners**2).astype(np.int32)
        self._columns = (known % nodes).astype(np.int32)
        self._starts = np.searchsorted(known, nodes * np.arange(nodes + 1)).astype(np.int32)

    def assemble(self, element_blocks: Callable[[slice], Array]) -> csr_matrix:
        """Return the assembled matrix (3n, 3n). element_blocks: returns blocks (l, k, 3, k, 3) of a slice."""
        pairs = len(self._columns)
        total = np.zeros((9, pairs))
        for start in range(0, len(self._pair_ids), self.CHUNK_SIZE):
            chunk = slice(start, min(start + self.CHUNK_SIZE, len(self._pair_ids)))
            pair_ids = self._pair_ids[chunk].ravel()
            blocks = element_blocks(chunk).transpose(2, 4, 0, 1, 3).reshape(9, -1)
            first, last = int(pair_ids.min(initial=pairs)), int(pair_ids.max(initial=-1)) + 1
            for row, values in zip(total, blocks, strict=True):
                row[first:last] += np.bincount(pair_ids - first, values, minlength=last - first)
        size = 3 * (len(self._starts) - 1)
        data = np.ascontiguousarray(total.T).reshape(pairs, 3, 3)
        return bsr_matrix((data, self._columns, self._starts), shape=(size, size)).tocsr()


def assemble_vector(forces: Array, elements: Index, nodes: int) -> Array:
    """Sum forces (m, 3k) at element corners into nodal forces (n, 3)."""
    nodes_of_corners, flat = elements.ravel(), forces.reshape(-1, 3)
    return np.stack([np.bincount(nodes_of_corners, flat[:, axis], minlength=nodes) for axis in range(3)], axis=1)


def project_positive(blocks: Array) -> Array:
    """Project symmetric blocks (m, k, k) to positive semi-definite ones by setting negative eigenvalues to zero."""
    values, vectors = np.linalg.eigh(blocks)
    return np.asarray((vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1))


def element_edges(*groups: Index) -> Index:
    """Return the unique pairs (e, 2) of nodes that share an element of any group (m, k)."""
    found = [np.zeros((0, 2), dtype=np.int64)]
    for group in groups:
        k = group.shape[1]
        pairs = np.array([(i, j) for i in range(k) for j in range(i + 1, k)])
        found.append(group[:, pairs].reshape(-1, 2))
    return np.unique(np.sort(np.concatenate(found), axis=1), axis=0).astype(np.int64)


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

"""How what elements say is added up at the nodes."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from ..arrays import Array, Index


def assembled(blocks: Array, elements: Index, nodes: int) -> csr_matrix:
    """Sparse (3n, 3n) from element blocks (m, 3k, 3k)."""
    # Where pins hold everything there are no elements, whose corners cannot be counted.
    width = 3 * elements.shape[1]
    dof = (3 * elements[:, :, None] + np.arange(3)).reshape(len(elements), width)
    rows, columns = dof.repeat(width, axis=1).ravel(), np.tile(dof, (1, width)).ravel()
    return coo_matrix((blocks.ravel(), (rows, columns)), shape=(3 * nodes, 3 * nodes)).tocsr()


def gathered(forces: Array, elements: Index, nodes: int) -> Array:
    """Sums (n, 3) at the nodes of forces (m, 3k) at the corners."""
    where, flat = elements.ravel(), forces.reshape(-1, 3)
    return np.stack([np.bincount(where, flat[:, axis], minlength=nodes) for axis in range(3)], axis=1)


def positive(blocks: Array) -> Array:
    """Symmetric blocks (m, k, k) with their negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh(blocks)
    return np.asarray((vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1))


def edges_of(*groups: Index) -> Index:
    """The pairs (e, 2) of nodes that share an element of a group (m, k), each once."""
    found = [np.zeros((0, 2), dtype=np.int64)]
    for group in groups:
        k = group.shape[1]
        pairs = np.array([(i, j) for i in range(k) for j in range(i + 1, k)])
        found.append(group[:, pairs].reshape(-1, 2))
    return np.unique(np.sort(np.concatenate(found), axis=1), axis=0).astype(np.int64)

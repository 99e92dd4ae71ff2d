"""Direction of anisotropic friction that follows the deforming surface ([Ctl]).

The friction coefficients themselves are in core/contact/collisions.py.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from ..base.arrays import Array, Index

# Edges at a vertex count as coplanar if they leave a plane by less than this fraction of the others.
_FLAT = 0.2


def front_operator(ends: Index, rest: Array, front: Array) -> csr_matrix:
    """Return a matrix (v, v) that yields the front (v, 3) in each vertex's tangent plane as a sum of edges.

    ends: (e, 2) of the edges.  rest: (v, 3) m.  front: at rest.
    """
    first_vertex, second_vertex = np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]])
    order = np.argsort(first_vertex, kind="stable")
    first_vertex, second_vertex = first_vertex[order], second_vertex[order]
    first, count = np.searchsorted(first_vertex, np.arange(len(front))), np.bincount(first_vertex, minlength=len(front))
    rows, columns, values = [], [], []
    for degree in np.unique(count[count > 0]):
        vertices = np.flatnonzero(count == degree)
        neighbours = second_vertex[first[vertices][:, None] + np.arange(degree)]
        edges = rest[neighbours] - rest[vertices][:, None]
        # A nearly flat vertex has no edges along its normal.
        coefficients = np.einsum("kij,ki->kj", np.linalg.pinv(edges, rcond=_FLAT), front[vertices])
        rows += [vertices.repeat(degree), vertices]
        columns += [neighbours.ravel(), vertices]
        values += [coefficients.ravel(), -coefficients.sum(axis=1)]
    if not rows:
        return csr_matrix((len(front), len(front)))
    found = coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (len(front),) * 2)
    return found.tocsr()

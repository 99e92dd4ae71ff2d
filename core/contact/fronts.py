"""In which way surfaces slide more easily, as it moves with them ([Ctl])."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from ..arrays import Array, Index

# Edges at a vertex that rise from a plane by less than this part of the others lie in it.
_FLAT = 0.2


def along(ends: Index, rest: Array, front: Array) -> csr_matrix:
    """(v, v) sums of the edges at each vertex that make the front (v, 3) at rest, in its tangent plane.

    ends: (e, 2) of the edges.  rest: (v, 3) m.
    """
    own, other = np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]])
    order = np.argsort(own, kind="stable")
    own, other = own[order], other[order]
    first, count = np.searchsorted(own, np.arange(len(front))), np.bincount(own, minlength=len(front))
    rows, columns, values = [], [], []
    for degree in np.unique(count[count > 0]):
        mine = np.flatnonzero(count == degree)
        beside = other[first[mine][:, None] + np.arange(degree)]
        edges = rest[beside] - rest[mine][:, None]
        # What is nearly flat has no edges along its normal.
        amounts = np.einsum("kij,ki->kj", np.linalg.pinv(edges, rcond=_FLAT), front[mine])
        rows += [mine.repeat(degree), mine]
        columns += [beside.ravel(), mine]
        values += [amounts.ravel(), -amounts.sum(axis=1)]
    if not rows:
        return csr_matrix((len(front), len(front)))
    found = coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (len(front),) * 2)
    return found.tocsr()

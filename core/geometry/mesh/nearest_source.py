"""Nearest vertices along the edges of a mesh."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from ...base.arrays import Array, Index, Mask


def nearest_source(vertices: Array, edges: Index, is_source: Mask) -> Index:
    """Return the nearest source (v,) of each vertex along the edges, or in space where no edge leads to one.

    vertices: (v, 3) m.  edges: (e, 2).  is_source: (v,), at least one.
    """
    count, sources = len(vertices), np.flatnonzero(is_source)
    lengths = np.maximum(np.linalg.norm(vertices[edges[:, 0]] - vertices[edges[:, 1]], axis=1), 1e-12)
    graph = coo_matrix((lengths, (edges[:, 0], edges[:, 1])), shape=(count, count)).tocsr()
    _, _, found = dijkstra(graph, directed=False, indices=sources, min_only=True, return_predecessors=True)
    apart = np.flatnonzero(found < 0)
    if len(apart):
        found[apart] = sources[cKDTree(vertices[sources]).query(vertices[apart])[1]]
    return np.asarray(found, dtype=np.int64)

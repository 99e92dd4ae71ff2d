"""Which nodes the painted pins hold, and how strongly."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, diags
from scipy.sparse.linalg import cg, spsolve

from ..arrays import Array, Index
from ..geometry.embedding import Embedding
from ..geometry.surface import Surface, triangle_areas
from ..scene.body import HARD

# Where a node is only partly held by hard pins, those act as springs of this weight.
_STRONG = 0.99
# A node without surface vertices goes with its neighbours when they nearly all are pinned.
_FILLED = 0.9
# Of the values of inner nodes, what may be missing: rounding. Factors of so many nodes take a hundred times as long.
_EXACT = 1e-13


def pin_nodes(
    embedding: Embedding, tets: Index, nodes: int, surface: Surface, weights: Array, young: float
) -> tuple[Index, Array]:
    """The pinned nodes (p,) and their stiffness (p,) N/m, infinite for hard pins, from the vertices' weights (v,).

    A node is hard where all its vertices are, and inside of a surface that is. Softer ones hang on springs: a surface
    pinned all over with weight w has k = w/(1 - w) E L in all (L its size), shared by area, so that neither the mesh's
    nor the lattice's resolution changes the hold.
    """

    def gather(values: Array) -> Array:
        return _gathered(embedding, tets, nodes, values)

    total, held = gather(np.ones(len(weights))), gather((weights >= HARD).astype(float))
    known = total > 1e-9
    hard = known & (held >= HARD * total)
    if not hard.any() and held.any():
        # Pins finer than the lattice: what is around them is held, else nothing would be.
        hard = held > 0.0
    inner = np.flatnonzero(~known)
    if len(inner) and hard.any():
        hard[inner] = _harmonic(tets, hard.astype(float), inner) >= _FILLED

    area = _vertex_areas(surface)
    springs = gather(pin_strength(weights) * area / area.sum()) * young * float(np.ptp(surface.vertices, axis=0).max())
    stiffness = np.where(hard, np.inf, springs)
    pinned = np.flatnonzero(stiffness > 0.0)
    return pinned, stiffness[pinned]


def pin_strength(weights: Array) -> Array:
    """w/(1 - w), the strength of a pin's spring for its weight."""
    w = np.minimum(weights, _STRONG)
    return np.asarray(w / (1.0 - w))


def _gathered(embedding: Embedding, tets: Index, nodes: int, values: Array) -> Array:
    """Values (v,) of the surface, summed at the nodes (n,) by their share in each vertex."""
    share = np.maximum(embedding.weights, 0.0)
    corners = tets[embedding.tets].ravel()
    return np.bincount(corners, (share * values[:, None]).ravel(), minlength=nodes).astype(float)


def spread(embedding: Embedding, tets: Index, nodes: int, values: Array) -> Array:
    """Values (v,) painted on the surface at the nodes (n,): means on it, and between them inside."""
    total = _gathered(embedding, tets, nodes, np.ones(len(values)))
    painted: Array = _gathered(embedding, tets, nodes, values) / np.maximum(total, 1e-9)
    inner = np.flatnonzero(total <= 1e-9)
    if len(inner):
        painted[inner] = _harmonic(tets, painted, inner)
    return painted


def _vertex_areas(surface: Surface) -> Array:
    """A third of the triangles around each vertex, (v,) m^2."""
    areas = triangle_areas(surface.vertices, surface.triangles)
    shares = np.bincount(surface.triangles.ravel(), (areas / 3.0).repeat(3), minlength=len(surface.vertices))
    return shares.astype(float)


def _harmonic(tets: Index, values: Array, unknown: Index) -> Array:
    """Values at the unknown nodes that are the mean of their neighbours'."""
    n = len(values)
    a, b = np.array([(i, j) for i in range(4) for j in range(4) if i != j]).T
    graph = coo_matrix((np.ones(12 * len(tets)), (tets[:, a].ravel(), tets[:, b].ravel())), shape=(n, n)).tocsr()
    graph.data[:] = 1.0
    laplacian = (diags(np.asarray(graph.sum(axis=1)).ravel()) - graph).tocsr()
    known = np.setdiff1d(np.arange(n), unknown)
    right = -(laplacian[unknown][:, known] @ values[known])
    block = laplacian[unknown][:, unknown]
    filled, failed = cg(block, right, rtol=_EXACT, atol=0.0, M=diags(1.0 / block.diagonal()))
    return np.atleast_1d(spsolve(block.tocsc(), right)) if failed else np.asarray(filled)

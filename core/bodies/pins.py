"""Transfer of painted pin weights from surface vertices to lattice nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import coo_matrix, diags
from scipy.sparse.linalg import cg, spsolve

from ..base.arrays import Array, Index, Mask
from ..geometry.mesh.surface import Surface, triangle_areas
from ..geometry.tetmesh.embedding import Embedding
from ..scene.body import HARD_PIN_WEIGHT, Body
from ..scene.part import freely_moved_weights, part_shares
from ..system.discretization import BodyDiscretization
from ..system.term import ForceTerm

# Smallest factor on the settle time that can be painted.
MIN_SETTLE_SCALE = 0.1
# Largest weight converted to a spring. At partly hard-pinned nodes, hard pins act as springs of this weight.
_MAX_SPRING_WEIGHT = 0.99
# A node without surface vertices is pinned if the harmonic extension of its neighbours' pins reaches this value.
_HARMONIC_THRESHOLD = 0.9
# Relative tolerance of values at inner nodes: rounding. A factorisation would take a hundred times as long.
_HARMONIC_TOLERANCE = 1e-13


def pin_nodes(
    embedding: Embedding, tets: Index, nodes: int, surface: Surface, weights: Array, young: float
) -> tuple[Index, Array]:
    """Return the pinned nodes (p,) and their stiffness (p,) N/m, infinite for hard pins, from vertex weights (v,).

    A node is hard-pinned if all its vertices are, or if it lies inside a hard-pinned surface. Soft pins are springs: a
    surface with weight w everywhere has the total stiffness k = w/(1 - w) E L (L its size). It is distributed by area,
    so that it depends neither on the mesh nor on the lattice resolution.
    """

    def gather(values: Array) -> Array:
        return _sum_at_nodes(embedding, tets, nodes, values)

    total, hard_total = gather(np.ones(len(weights))), gather((weights >= HARD_PIN_WEIGHT).astype(float))
    known = total > 1e-9
    hard = known & (hard_total >= HARD_PIN_WEIGHT * total)
    if not hard.any() and hard_total.any():
        # Pins finer than the lattice: pin the surrounding nodes, otherwise none would be pinned.
        hard = hard_total > 0.0
    inner = np.flatnonzero(~known)
    if len(inner) and hard.any():
        hard[inner] = _harmonic_extension(tets, hard.astype(float), inner) >= _HARMONIC_THRESHOLD

    area = vertex_areas(surface)
    springs = gather(pin_strength(weights) * area / area.sum()) * young * float(np.ptp(surface.vertices, axis=0).max())
    stiffness = np.where(hard, np.inf, springs)
    pinned = np.flatnonzero(stiffness > 0.0)
    return pinned, stiffness[pinned]


def hard_pin_mask(pins: tuple[Index, Array], count: int) -> Mask:
    """Return a mask (n,) of the hard-pinned nodes. pins: see build_block.  count: n."""
    found = np.zeros(count, dtype=bool)
    found[pins[0][np.isinf(pins[1])]] = True
    return found


def pin_strength(weights: Array) -> Array:
    """Return w/(1 - w), the relative spring stiffness of a pin with weight w."""
    w = np.minimum(weights, _MAX_SPRING_WEIGHT)
    return np.asarray(w / (1.0 - w))


def _sum_at_nodes(embedding: Embedding, tets: Index, nodes: int, values: Array) -> Array:
    """Return vertex values (v,) summed at the nodes (n,) with the embedding weights."""
    share = np.maximum(embedding.weights, 0.0)
    corners = tets[embedding.tets].ravel()
    return np.bincount(corners, (share * values[:, None]).ravel(), minlength=nodes).astype(float)


def painted_node_values(embedding: Embedding, tets: Index, nodes: int, values: Array) -> Array:
    """Return painted vertex values (v,) at the nodes (n,): weighted means near the surface, harmonic inside."""
    total = _sum_at_nodes(embedding, tets, nodes, np.ones(len(values)))
    painted: Array = _sum_at_nodes(embedding, tets, nodes, values) / np.maximum(total, 1e-9)
    inner = np.flatnonzero(total <= 1e-9)
    if len(inner):
        painted[inner] = _harmonic_extension(tets, painted, inner)
    return painted


def nodal_part_shares(body: Body, at_nodes: Callable[[Array], Array | None]) -> Array | None:
    """Return the shares (n, p + 1) of the rest of a body and of its parts in the nodes; None without parts.

    at_nodes: function from painted weights (v,) to those of the nodes (n,).
    """
    if not body.parts:
        return None
    painted = [at_nodes(weights) for weights in freely_moved_weights(body.parts, body.pins).T]
    freedom = at_nodes(1.0 - body.pins)
    return None if freedom is None else part_shares(np.stack(painted, axis=1), freedom)  # type: ignore[arg-type]


def build_block(
    body: Body,
    at_nodes: Callable[[Array | None], Array | None],
    rest: Array,
    mass: Array,
    groups: tuple[Index, ...],
    terms: tuple[ForceTerm, ...],
    pins: tuple[Index, Array],
    keeps_pendulum_free: bool = True,
    is_net: bool | Mask = False,
    is_rigid: bool = False,
) -> BodyDiscretization:
    """Return the discretization of a body with its painted maps.

    at_nodes: as in nodal_part_shares, but None for a map that is not painted.
    pins: pinned nodes (p,) and their stiffness (p,) N/m.  The others: see BodyDiscretization.
    """
    settle = at_nodes(body.settle_map)
    return BodyDiscretization(
        body.name,
        rest,
        mass,
        groups,
        terms,
        *pins,
        settle_scale=None if settle is None else np.maximum(settle, MIN_SETTLE_SCALE),
        keeps_pendulum_free=keeps_pendulum_free,
        is_net=is_net,
        is_rigid=is_rigid,
        ray_origin_weights=at_nodes(body.centre_map),
        part_shares=nodal_part_shares(body, at_nodes),
        damping_scale=at_nodes(body.damping_map),
    )


def vertex_areas(surface: Surface) -> Array:
    """Return the area (v,) m^2 of each vertex: a third of its triangles."""
    areas = triangle_areas(surface.vertices, surface.triangles)
    shares = np.bincount(surface.triangles.ravel(), (areas / 3.0).repeat(3), minlength=len(surface.vertices))
    return shares.astype(float)


def _harmonic_extension(tets: Index, values: Array, unknown: Index) -> Array:
    """Return the harmonic extension to the unknown nodes: each value is the mean of its neighbours."""
    n = len(values)
    a, b = np.array([(i, j) for i in range(4) for j in range(4) if i != j]).T
    graph = coo_matrix((np.ones(12 * len(tets)), (tets[:, a].ravel(), tets[:, b].ravel())), shape=(n, n)).tocsr()
    graph.data[:] = 1.0
    laplacian = (diags(np.asarray(graph.sum(axis=1)).ravel()) - graph).tocsr()
    known = np.setdiff1d(np.arange(n), unknown)
    right = -(laplacian[unknown][:, known] @ values[known])
    block = laplacian[unknown][:, unknown]
    filled, failed = cg(block, right, rtol=_HARMONIC_TOLERANCE, atol=0.0, M=diags(1.0 / block.diagonal()))
    return np.atleast_1d(spsolve(block.tocsc(), right)) if failed else np.asarray(filled)

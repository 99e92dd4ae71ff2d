"""Muscle fibres of solids: their tetrahedra, strengths and directions."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, diags, vstack
from scipy.sparse.linalg import spsolve

from ..arrays import Array, Index
from ..elements.strains import gradients
from ..energies import ElasticDensity
from ..energies.fibres import FibreEnergy, striven
from ..errors import MeshError
from ..geometry.cover import Cover
from ..geometry.embedding import Embedding
from ..scene.body import Body
from ..scene.parameters import Along
from ..system.fibres import Fibres

# Smallest strength of a fibre; weaker ones have no visible effect.
_LEAST = 1e-3
# Smallest fill of a tetrahedron, relative to the fullest one, for its fibre to be drawn; its centre is inside then.
_WITHIN = 0.5
# Largest ratio of the second longest to the longest extent for which a group has a unique longest axis.
_ROUND = 0.95
# Smoothing of the painted directions: its fourth root is the smoothing length relative to the body size.
_SMOOTH = 1e-6
# Smallest change of the painted weight over the body size that defines a direction.
_ALIKE = 0.05
# Largest fraction of the fibres that may have no direction; these are left out.
_LOST = 0.5


def fibre_terms(
    body: Body,
    cover: Cover,
    moving: Index,
    painted: Array | None,
    stiff: Array,
    law: ElasticDensity,
    young: float,
) -> tuple[Fibres, ...]:
    """Return the force term of a body's fibres, or () without fibres. Raises MeshError if no fibre can be placed.

    moving: (m,) simulated tets.  painted: (n,) strength of the fibres at the nodes; None for no fibres.
    stiff: (t,) m^3, effective volume of each tet for its stiffness.  law, young: material of the flesh, young in Pa.
    """
    if painted is None:
        return ()
    strong = painted[cover.tets].mean(axis=1)
    own = moving[strong[moving] > _LEAST]
    if not len(own):
        raise MeshError(
            f"{body.name}: no vertex that is free to move has a weight in its fibre group; paint some, or clear it."
        )
    ways, known = _directions(body, cover, own, strong[own] * stiff[own])
    own = own[known]
    modulus = body.settings.fibre_stiffness * young
    weights, (_, most) = modulus * strong[own] * stiff[own], striven(law, 0.0, modulus, young)
    energy = FibreEnergy.of(cover.nodes, cover.tets[own], ways[known], weights, most)
    within = cover.fill[own] > _WITHIN * cover.fill[own].max()
    return (Fibres(energy, law=law, young=young, modulus=modulus, strengths=strong[own], within=within),)


def _directions(body: Body, cover: Cover, own: Index, parts: Array) -> tuple[Array, Array]:
    """Return the unit directions (m, 3) of tets at rest, and whether each has one (m,). parts: (m,) their weights."""
    along = body.settings.fibres_along
    every = np.ones(len(own), dtype=bool)
    if along == Along.PAINTED:
        return _painted(body, cover, own, parts)
    if along == Along.LENGTH:
        return np.tile(_length(body, cover.nodes[cover.tets[own]].mean(axis=1), parts), (len(own), 1)), every
    return np.tile(body.axes["XYZ".index(along)], (len(own), 1)), every


def _length(body: Body, places: Array, parts: Array) -> Array:
    """Return the longest principal axis (3,) of points (m, 3). Raises MeshError if it is ambiguous."""
    offset = places - parts @ places / parts.sum()
    values, vectors = np.linalg.eigh((parts[:, None] * offset).T @ offset)
    if values[1] > _ROUND**2 * values[2]:
        raise MeshError(
            f"{body.name}: its fibre group is about as wide as long, so its longest axis is ambiguous; choose an "
            "axis under Fibres Along, or paint a Direction Group."
        )
    return np.asarray(vectors[:, 2])


def _painted(body: Body, cover: Cover, own: Index, parts: Array) -> tuple[Array, Array]:
    """Return the directions of the gradient of the painted weights, and which tets have one."""
    if body.fibre_direction is None:
        raise MeshError(
            f"{body.name}: Fibres Along is Painted, but no Direction Group is chosen; choose one, or an axis under "
            "Fibres Along."
        )
    nodes, tets = cover.nodes, cover.tets
    levels = smoothed(cover.embedding, nodes, tets, body.fibre_direction)
    slopes = np.einsum("mk,mki->mi", levels[tets[own]], gradients(nodes, tets[own]))
    size = np.linalg.norm(slopes, axis=1)
    known = size * body.surface.size > _ALIKE
    if parts[~known].sum() > _LOST * parts.sum():
        raise MeshError(
            f"{body.name}: its Direction Group is nearly constant along its fibres; paint it from 0 at one end to 1 "
            "at the other, or choose an axis under Fibres Along."
        )
    return slopes / np.maximum(size, 1e-30)[:, None], known


def smoothed(embedding: Embedding, nodes: Array, tets: Index, values: Array) -> Array:
    """Return node values (n,) that fit vertex values (v,) and have a smooth gradient, also inside.

    They minimise mean (node value - vertex value)^2 + e L^4 mean |change of gradient|^2, with L the size. Values with a
    constant gradient are reproduced exactly, also at the ends.
    """
    shapes, corners = gradients(nodes, tets), nodes[tets]
    middles, m = corners.mean(axis=1), len(tets)
    rows = (np.arange(3)[:, None, None] * m + np.arange(m)[None, :, None]).repeat(4, axis=2)
    columns = np.broadcast_to(tets[None], rows.shape)
    slope = csr_matrix((shapes.transpose(2, 0, 1).ravel(), (rows.ravel(), columns.ravel())), shape=(3 * m, len(nodes)))
    one, other = _beside(tets)
    apart = np.linalg.norm(middles[one] - middles[other], axis=1)
    weights = _SMOOTH * float(np.ptp(nodes, axis=0).max()) ** 4 / (apart**2 * max(len(one), 1))
    step = vstack([slope[k * m + one] - slope[k * m + other] for k in range(3)])
    carried = embedding.operator
    # Regularise nodes that neither embed a vertex nor share a face with another tetrahedron.
    alone = diags(np.full(len(nodes), 1e-12 / len(values)))
    matrix = carried.T @ carried / len(values) + step.T @ diags(np.tile(weights, 3)) @ step + alone
    return np.asarray(spsolve(matrix.tocsc(), carried.T @ values / len(values), permc_spec="MMD_AT_PLUS_A"))


def _beside(tets: Index) -> tuple[Index, Index]:
    """Return the pairs of tetrahedra (f,), (f,) that share a face."""
    faces = np.sort(tets[:, [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]].reshape(-1, 3), axis=1)
    order = np.lexsort(faces.T)
    same = np.flatnonzero((faces[order[1:]] == faces[order[:-1]]).all(axis=1))
    return order[same] // 4, order[same + 1] // 4

"""Which tetrahedra of a solid have fibres, how strong, and along which way."""

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

# Weaker ones than this part pull nothing that can be seen.
_LEAST = 1e-3
# What of a tetrahedron has to be flesh, in parts of the fullest, for its fibre to be drawn: its middle is in it then.
_WITHIN = 0.5
# A group whose second longest way is more than this part of the longest has no length.
_ROUND = 0.95
# What is painted along the fibres is smoothed over about the fourth root of this, in parts of the body's size.
_SMOOTH = 1e-6
# Where it changes over the body's size by less, it says no direction.
_ALIKE = 0.05
# Parts of the fibres that may have no direction: these are left out.
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
    """The term of a body's fibres, if it has any. Raises MeshError where they lie nowhere, or along no way.

    moving: (m,) tets that are simulated.  painted: (n,) how strong the fibres are at the nodes; None for no fibres.
    stiff: (t,) m^3 of each tet that count for its stiffness.  law, young: of the flesh, in Pa.
    """
    if painted is None:
        return ()
    strong = painted[cover.tets].mean(axis=1)
    own = moving[strong[moving] > _LEAST]
    if not len(own):
        raise MeshError(
            f"{body.name}: no vertex that is free to move has a weight in its fibre group; paint some, or choose none."
        )
    ways, known = _directions(body, cover, own, strong[own] * stiff[own])
    own = own[known]
    modulus = body.settings.fibre_stiffness * young
    weights, (_, most) = modulus * strong[own] * stiff[own], striven(law, 0.0, modulus, young)
    energy = FibreEnergy.of(cover.nodes, cover.tets[own], ways[known], weights, most)
    within = cover.fill[own] > _WITHIN * cover.fill[own].max()
    return (Fibres(energy, law=law, young=young, modulus=modulus, strengths=strong[own], within=within),)


def _directions(body: Body, cover: Cover, own: Index, parts: Array) -> tuple[Array, Array]:
    """(m, 3) unit directions at rest of some of the tets, and (m,) which have one. parts: (m,) how much each counts."""
    along = body.settings.fibres_along
    every = np.ones(len(own), dtype=bool)
    if along == Along.PAINTED:
        return _painted(body, cover, own, parts)
    if along == Along.LENGTH:
        return np.tile(_length(body, cover.nodes[cover.tets[own]].mean(axis=1), parts), (len(own), 1)), every
    return np.tile(body.axes["XYZ".index(along)], (len(own), 1)), every


def _length(body: Body, places: Array, parts: Array) -> Array:
    """(3,) the longest way through places (m, 3)."""
    offset = places - parts @ places / parts.sum()
    values, vectors = np.linalg.eigh((parts[:, None] * offset).T @ offset)
    if values[1] > _ROUND**2 * values[2]:
        raise MeshError(
            f"{body.name}: its fibre group is about as wide as long, so that its fibres have no way to lie; choose an "
            "axis under Fibres Along, or paint a Direction Group."
        )
    return np.asarray(vectors[:, 2])


def _painted(body: Body, cover: Cover, own: Index, parts: Array) -> tuple[Array, Array]:
    """The slope of what is painted from one end of the fibres to the other."""
    if body.fibre_direction is None:
        raise MeshError(
            f"{body.name}: its fibres lie along what is painted, and no Direction Group is chosen; choose one, or an "
            "axis under Fibres Along."
        )
    nodes, tets = cover.nodes, cover.tets
    levels = smoothed(cover.embedding, nodes, tets, body.fibre_direction)
    slopes = np.einsum("mk,mki->mi", levels[tets[own]], gradients(nodes, tets[own]))
    size = np.linalg.norm(slopes, axis=1)
    known = size * body.surface.size > _ALIKE
    if parts[~known].sum() > _LOST * parts.sum():
        raise MeshError(
            f"{body.name}: its Direction Group is painted alike where its fibres are; paint it from 0 at one end of "
            "them to 1 at the other, or choose an axis under Fibres Along."
        )
    return slopes / np.maximum(size, 1e-30)[:, None], known


def smoothed(embedding: Embedding, nodes: Array, tets: Index, values: Array) -> Array:
    """Levels (n,) of the nodes that are near values (v,) of the surface, and change as evenly as can be, inside too.

    The least of mean (level - value)^2 + e L^4 mean |change of slope|^2, with L the size: what changes evenly from one
    end to the other is met exactly, at the ends as well.
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
    # What neither carries a vertex nor lies beside anything else has no level of its own.
    alone = diags(np.full(len(nodes), 1e-12 / len(values)))
    matrix = carried.T @ carried / len(values) + step.T @ diags(np.tile(weights, 3)) @ step + alone
    return np.asarray(spsolve(matrix.tocsc(), carried.T @ values / len(values), permc_spec="MMD_AT_PLUS_A"))


def _beside(tets: Index) -> tuple[Index, Index]:
    """The pairs of tetrahedra (f,), (f,) that share a face."""
    faces = np.sort(tets[:, [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]].reshape(-1, 3), axis=1)
    order = np.lexsort(faces.T)
    same = np.flatnonzero((faces[order[1:]] == faces[order[:-1]]).all(axis=1))
    return order[same] // 4, order[same + 1] // 4

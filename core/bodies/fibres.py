"""Muscle fibres of solids: their tetrahedra, strengths and directions."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, diags, vstack
from scipy.sparse.linalg import spsolve

from ..base.arrays import Array, Index
from ..base.errors import FibreDirectionError, MeshError
from ..geometry.tetmesh.embedding import Embedding
from ..geometry.tetmesh.tetrahedralise import LatticeMesh
from ..materials import ElasticDensity
from ..materials.fibres import FibreEnergy, contraction_coefficients
from ..materials.strains import shape_gradients
from ..scene.body import Body
from ..scene.parameters import FibreDirection, Settings
from ..system.material_terms import FibreTerm
from .kind import BASE_YOUNG

# Smallest strength of a fibre; weaker ones have no visible effect.
_MIN_STRENGTH = 1e-3
# Smallest fill of a tetrahedron, relative to the fullest one, for its fibre to be drawn; its centre is inside then.
_MIN_DRAWN_FILL = 0.5
# Largest ratio of the second longest to the longest extent for which a group has a unique longest axis.
_MAX_ASPECT = 0.95
# Smoothing of the painted directions: its fourth root is the smoothing length relative to the body size.
_SMOOTHING = 1e-6
# Smallest change of the painted weight over the body size that defines a direction.
_MIN_CHANGE = 0.05
# Largest fraction of the fibres that may have no direction; these are left out.
_MAX_LOST_FRACTION = 0.5


def fibre_terms(
    body: Body, cover: LatticeMesh, moving: Index, painted: Array | None, stiff: Array, law: ElasticDensity
) -> tuple[FibreTerm, ...]:
    """Return the force term of a body's fibres, or () without fibres. Raises MeshError if no fibre can be placed.

    moving: (m,) simulated tets.  painted: (n,) strength of the fibres at the nodes; None for no fibres.
    stiff: (t,) m^3, effective volume of each tet for its stiffness.  law: material of the flesh.
    """
    if painted is None:
        return ()
    strong = painted[cover.tets].mean(axis=1)
    fibre_tets = moving[strong[moving] > _MIN_STRENGTH]
    if not len(fibre_tets):
        raise MeshError(
            f"{body.name}: no vertex that is free to move has a weight in its fibre group; paint some, or clear it."
        )
    directions, known = _directions(body, cover, fibre_tets, strong[fibre_tets] * stiff[fibre_tets])
    fibre_tets = fibre_tets[known]
    modulus = body.settings.fibre_stiffness * BASE_YOUNG
    weights = modulus * strong[fibre_tets] * stiff[fibre_tets]
    _, most = contraction_coefficients(law, 0.0, modulus, BASE_YOUNG)
    energy = FibreEnergy.from_directions(cover.nodes, cover.tets[fibre_tets], directions[known], weights, most)
    within = cover.fill_fractions[fibre_tets] > _MIN_DRAWN_FILL * cover.fill_fractions[fibre_tets].max()
    strengths = strong[fibre_tets]
    return (FibreTerm(energy, law=law, young=BASE_YOUNG, modulus=modulus, strengths=strengths, is_inside=within),)


def _directions(body: Body, cover: LatticeMesh, fibre_tets: Index, parts: Array) -> tuple[Array, Array]:
    """Return the unit directions (m, 3) of tets at rest, and whether each has one (m,). parts: (m,) their weights."""
    along = body.settings.fibres_along
    if along == FibreDirection.PAINTED:
        return _painted_directions(body, cover, fibre_tets, parts)
    if along == FibreDirection.LENGTH:
        axis = _longest_axis(body, cover.nodes[cover.tets[fibre_tets]].mean(axis=1), parts)
    else:
        axis = body.axes["XYZ".index(along)]
    return np.tile(axis, (len(fibre_tets), 1)), np.ones(len(fibre_tets), dtype=bool)


def _longest_axis(body: Body, points: Array, parts: Array) -> Array:
    """Return the longest principal axis (3,) of points (m, 3). Raises FibreDirectionError if it is ambiguous."""
    offset = points - parts @ points / parts.sum()
    values, vectors = np.linalg.eigh((parts[:, None] * offset).T @ offset)
    if values[1] > _MAX_ASPECT**2 * values[2]:
        raise FibreDirectionError(
            f"{body.name}: its fibre group is about as wide as long, so its longest axis is ambiguous; choose an "
            "axis under Fibre Direction, or paint a Direction Group."
        )
    return np.asarray(vectors[:, 2])


def check_direction_group(name: str, settings: Settings, has_group: bool) -> None:
    """Raise MeshError if the direction of fibres is painted, but not chosen. name: of the object."""
    if settings.fibres_along == FibreDirection.PAINTED and not has_group:
        raise MeshError(
            f"{name}: Fibre Direction is Painted, but no Direction Group is chosen; choose one, or an axis under "
            "Fibre Direction."
        )


def _painted_directions(body: Body, cover: LatticeMesh, fibre_tets: Index, parts: Array) -> tuple[Array, Array]:
    """Return the directions of the gradient of the painted weights, and which tets have one."""
    check_direction_group(body.name, body.settings, body.fibre_direction is not None)
    assert body.fibre_direction is not None
    nodes, tets = cover.nodes, cover.tets
    node_values = smooth_node_values(cover.embedding, nodes, tets, body.fibre_direction)
    directions = np.einsum("mk,mki->mi", node_values[tets[fibre_tets]], shape_gradients(nodes, tets[fibre_tets]))
    size = np.linalg.norm(directions, axis=1)
    known = size * body.surface.size > _MIN_CHANGE
    if parts[~known].sum() > _MAX_LOST_FRACTION * parts.sum():
        raise FibreDirectionError(
            f"{body.name}: its Direction Group is nearly constant along its fibres; paint it from 0 at one end to 1 "
            "at the other, or choose an axis under Fibre Direction."
        )
    return directions / np.maximum(size, 1e-30)[:, None], known


def smooth_node_values(embedding: Embedding, nodes: Array, tets: Index, values: Array) -> Array:
    """Return node values (n,) that fit vertex values (v,) and have a smooth gradient, also inside.

    They minimise mean (node value - vertex value)^2 + e L^4 mean |change of gradient|^2, with L the size. Values with a
    constant gradient are reproduced exactly, also at the ends.
    """
    shapes, corners = shape_gradients(nodes, tets), nodes[tets]
    middles, m = corners.mean(axis=1), len(tets)
    rows = (np.arange(3)[:, None, None] * m + np.arange(m)[None, :, None]).repeat(4, axis=2)
    columns = np.broadcast_to(tets[None], rows.shape)
    slope = csr_matrix((shapes.transpose(2, 0, 1).ravel(), (rows.ravel(), columns.ravel())), shape=(3 * m, len(nodes)))
    one, other = _adjacent_tets(tets)
    distances = np.linalg.norm(middles[one] - middles[other], axis=1)
    weights = _SMOOTHING * float(np.ptp(nodes, axis=0).max()) ** 4 / (distances**2 * max(len(one), 1))
    step = vstack([slope[k * m + one] - slope[k * m + other] for k in range(3)])
    E = embedding.operator
    # Regularise nodes that neither embed a vertex nor share a face with another tetrahedron.
    regularisation = diags(np.full(len(nodes), 1e-12 / len(values)))
    matrix = E.T @ E / len(values) + step.T @ diags(np.tile(weights, 3)) @ step + regularisation
    return np.asarray(spsolve(matrix.tocsc(), E.T @ values / len(values), permc_spec="MMD_AT_PLUS_A"))


def _adjacent_tets(tets: Index) -> tuple[Index, Index]:
    """Return the pairs of tetrahedra (f,), (f,) that share a face."""
    faces = np.sort(tets[:, [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]].reshape(-1, 3), axis=1)
    order = np.lexsort(faces.T)
    same = np.flatnonzero((faces[order[1:]] == faces[order[:-1]]).all(axis=1))
    return order[same] // 4, order[same + 1] // 4

"""Strain measures of elements and their derivatives with respect to nodal positions.

A strain maps the corners of elements (m, k, 3) m to components (m, c). Tensors are stored in Mandel notation (the
off-diagonal components times sqrt 2), so that the dot product of components equals that of the tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array, Index
from .assembly import assemble_vector

_ROOT = np.sqrt(2.0)
# Start, end and opposite corner of each side of a triangle.
_SIDES = ((0, 1, 2), (1, 2, 0), (2, 0, 1))


class Strain:
    """Base class of strain measures. elements: (m, k) nodes of each element."""

    elements: Index

    def values(self, corners: Array) -> Array:
        """Return the strain components (m, c) at corners (m, k, 3)."""
        raise NotImplementedError

    def gradient(self, corners: Array) -> Array:
        """Return the derivatives (m, c, 3k) of the strain with respect to the corners."""
        raise NotImplementedError

    def contracted_hessian(self, corners: Array, stress: Array) -> Array:
        """Return the second derivatives of the strain contracted with a stress (m, c): (m, 3k, 3k).

        By default, they are central differences of the gradient, which are accurate enough for a Hessian.
        """
        m, k, _ = corners.shape
        step = 1e-6 * float(np.abs(corners - corners.mean(axis=1, keepdims=True)).max())
        H = np.empty((m, 3 * k, 3 * k))
        for column in range(3 * k):
            perturbed = corners.reshape(m, -1).copy()
            perturbed[:, column] += step
            forward = self.gradient(perturbed.reshape(m, k, 3))
            perturbed[:, column] -= 2.0 * step
            backward = self.gradient(perturbed.reshape(m, k, 3))
            H[:, column] = np.einsum("mc,mcw->mw", stress, forward - backward) / (2.0 * step)
        return 0.5 * (H + H.transpose(0, 2, 1))


class RelativeStrain(Strain):
    """Base class of strains relative to the rest lengths (m,) m of the elements."""

    def __init__(self, lengths: Array, elements: Index) -> None:
        self.elements, self.lengths = elements, lengths


def symmetric_indices(dimension: int) -> tuple[Array, Array, Array]:
    """Return rows, columns and factors of the components of a symmetric tensor, the diagonal first."""
    upper = [(i, j) for i in range(dimension) for j in range(i + 1, dimension)]
    rows = np.array([*range(dimension), *(i for i, _ in upper)])
    columns = np.array([*range(dimension), *(j for _, j in upper)])
    return rows, columns, np.where(rows == columns, 1.0, _ROOT)


def tensors_from_components(components: Array, dimension: int) -> Array:
    """Return the symmetric tensors (m, d, d) with Mandel components (m, c), d = dimension."""
    rows, columns, factors = symmetric_indices(dimension)
    result = np.zeros((len(components), dimension, dimension))
    result[:, rows, columns] = result[:, columns, rows] = components / factors
    return result


def components_from_tensors(tensor: Array) -> Array:
    """Return the Mandel components (m, c) of symmetric tensors (m, d, d)."""
    rows, columns, factors = symmetric_indices(tensor.shape[1])
    return np.asarray(tensor[:, rows, columns] * factors)


def shape_gradients(rest: Array, elements: Index) -> Array:
    """Return the gradients (m, k, d) in 1/m of the linear shape functions in material coordinates. rest: (n, d) m."""
    corners = rest[elements]
    inverse = np.linalg.inv((corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1))
    return np.concatenate([-inverse.sum(axis=1, keepdims=True), inverse], axis=1)


def _symmetric_gradient(F: Array, G: Array) -> Array:
    """Return the derivatives (m, c, 3k) of sym(F^T dF) by the corners, with dF from shape gradients G (m, k, d).

    F: (m, 3, d), or (1, 3, d) for all elements.
    """
    rows, columns, factors = symmetric_indices(G.shape[2])
    # d eps_ab / d x_k = (F_a G_kb + F_b G_ka)/2
    half = np.einsum("mia,mka->maki", F[:, :, rows], G[:, :, columns])
    other = np.einsum("mia,mka->maki", F[:, :, columns], G[:, :, rows])
    whole = 0.5 * factors[:, None, None] * (half + other)
    return np.asarray(whole.reshape(len(G), len(rows), 3 * G.shape[1]))


class GreenStrain(Strain):
    """Green strain (F^T F - I)/2 of tetrahedra (rest (n, 3) m) or triangles in space (rest (n, 2) m, in the plane)."""

    def __init__(self, rest: Array, elements: Index) -> None:
        self.elements = elements
        self.dimension = rest.shape[1]
        self._shape_gradients = shape_gradients(rest, elements)

    def deformation_gradients(self, corners: Array) -> Array:
        """Return the deformation gradients F (m, 3, d)."""
        return np.asarray(corners.transpose(0, 2, 1) @ self._shape_gradients)

    def values(self, corners: Array) -> Array:
        F = self.deformation_gradients(corners)
        return components_from_tensors(0.5 * (F.transpose(0, 2, 1) @ F - np.eye(self.dimension)))

    def gradient(self, corners: Array) -> Array:
        return _symmetric_gradient(self.deformation_gradients(corners), self._shape_gradients)

    def contracted_hessian(self, corners: Array, stress: Array) -> Array:
        G = self._shape_gradients
        corner_products = G @ tensors_from_components(stress, self.dimension) @ G.transpose(0, 2, 1)
        m, k, _ = corner_products.shape
        return np.asarray(np.einsum("mkl,ij->mkilj", corner_products, np.eye(3)).reshape(m, 3 * k, 3 * k))


class BiotStrain(GreenStrain):
    """Biot strain S - I with F = R S, of corotational elements; its rate is Green's in eigenvectors of S, rescaled."""

    contracted_hessian = Strain.contracted_hessian

    def _principal_stretches(self, corners: Array) -> tuple[Array, Array]:
        """Return the principal stretches (m, d) and directions (m, d, d)."""
        F = self.deformation_gradients(corners)
        values, vectors = np.linalg.eigh(F.transpose(0, 2, 1) @ F)
        return np.sqrt(np.maximum(values, 0.0)), vectors

    def values(self, corners: Array) -> Array:
        sizes, V = self._principal_stretches(corners)
        return components_from_tensors((V * (sizes - 1.0)[:, None, :]) @ V.transpose(0, 2, 1))

    def gradient(self, corners: Array) -> Array:
        # C = S S gives S'_ij = C'_ij/(s_i + s_j) in the eigenvectors of S, and C' = 2 E'.
        sizes, V = self._principal_stretches(corners)
        total = np.maximum(sizes[:, :, None] + sizes[:, None, :], 1e-12)
        rows, columns, factors = symmetric_indices(self.dimension)
        rates = super().gradient(corners) / factors[:, None]
        m, _, width = rates.shape
        full = np.zeros((m, self.dimension, self.dimension, width))
        full[:, rows, columns] = full[:, columns, rows] = rates
        turned = np.einsum("mai,mabw,mbj->mijw", V, full, V) * (2.0 / total)[..., None]
        back = np.einsum("mai,mijw,mbj->mabw", V, turned, V)
        return np.asarray(back[:, rows, columns] * factors[:, None])


class SpatialStrain(GreenStrain):
    """Rate of deformation sym(F' F^-1) of tetrahedra, as in a Newtonian fluid: for damping of Neo-Hookean bodies.

    Only the gradient (the rate) is spatial; values are those of the Green strain.
    """

    def gradient(self, corners: Array) -> Array:
        # Spatial gradients of the shape functions: G F^-1. A degenerate element has none and adds no damping.
        spatial_gradients = self._shape_gradients @ np.linalg.pinv(self.deformation_gradients(corners))
        return _symmetric_gradient(np.eye(3)[None], spatial_gradients)


class SpringStrain(RelativeStrain):
    """Strain |x_i - x_j|/L - 1 of springs ([SRD] 3.6)."""

    def _directions_and_lengths(self, corners: Array) -> tuple[Array, Array]:
        """Return the unit directions (m, 3) and lengths (m,) of the springs."""
        offset = corners[:, 0] - corners[:, 1]
        length = np.linalg.norm(offset, axis=1)
        return offset / np.maximum(length, 1e-30)[:, None], length

    def values(self, corners: Array) -> Array:
        return np.asarray((self._directions_and_lengths(corners)[1] / self.lengths - 1.0)[:, None])

    def gradient(self, corners: Array) -> Array:
        unit, _ = self._directions_and_lengths(corners)
        return np.asarray((np.concatenate([unit, -unit], axis=1) / self.lengths[:, None])[:, None, :])

    def contracted_hessian(self, corners: Array, stress: Array) -> Array:
        unit, length = self._directions_and_lengths(corners)
        transverse = (np.eye(3) - unit[:, :, None] * unit[:, None, :]) / np.maximum(length, 1e-30)[:, None, None]
        block = transverse * (stress[:, 0] / self.lengths)[:, None, None]
        return np.asarray(np.block([[block, -block], [-block, block]]))


def plane_shape_gradients(rest: Array, triangles: Index) -> tuple[Array, Array]:
    """Return in-plane gradients (m, 3, 2) 1/m of the linear shape functions of triangles, and the areas (m,) m^2."""
    corners = rest[triangles]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    length = np.linalg.norm(a, axis=1)
    unit = a / length[:, None]
    along = (b * unit).sum(axis=1)
    height = np.linalg.norm(b - along[:, None] * unit, axis=1)
    # [[length, along], [0, height]] is the triangle in its plane; these are the rows of its inverse.
    first = np.stack([1.0 / length, -along / (length * height)], axis=1)
    second = np.stack([np.zeros(len(a)), 1.0 / height], axis=1)
    return np.stack([-first - second, first, second], axis=1), np.asarray(0.5 * length * height)


def area_weighted_normals(points: Array, triangles: Index) -> Array:
    """Return area-weighted normals (n, 3) at points (n, 3), twice the sum of area times normal of their triangles."""
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return assemble_vector(np.tile(np.cross(b - a, c - a), (3, 1)), triangles.T, len(points))


class SurfaceGreenStrain(GreenStrain):
    """Green strain of triangles of a curved surface. shape_gradients: (m, 3, 2), see plane_shape_gradients()."""

    def __init__(self, shape_gradients: Array, triangles: Index) -> None:
        self.elements, self.dimension, self._shape_gradients = triangles, 2, shape_gradients


@dataclass(frozen=True)
class Hinges:
    """Edges shared by two triangles.

    nodes: (h, 4), the ends of the edge and the opposite corner in each triangle.
    faces: (h, 2) the triangles.
    signs: (h, 2) +1 or -1: the sign of the hinge angle relative to the orientation of each triangle; the mesh need not
        be oriented consistently.
    """

    nodes: Index
    faces: Index
    signs: Array

    @staticmethod
    def from_triangles(triangles: Index, node_count: int) -> Hinges:
        """Return the hinges of triangles (m, 3). Where more than two share an edge, each is connected to the next."""
        sides = np.concatenate([triangles[:, list(side)] for side in _SIDES])
        faces = np.tile(np.arange(len(triangles)), 3)
        keys = np.sort(sides[:, :2], axis=1) @ np.array([node_count, 1])
        order = np.argsort(keys, kind="stable")
        shared = np.flatnonzero(np.diff(keys[order]) == 0)
        a, b = order[shared], order[shared + 1]
        nodes = np.column_stack([sides[a], sides[b, 2]])
        # In a consistently oriented mesh, the second triangle traverses the edge in the opposite direction.
        signs = np.column_stack([np.ones(len(a)), np.where(sides[b, 0] == sides[a, 1], 1.0, -1.0)])
        is_duplicate = nodes[:, 2] == nodes[:, 3]
        return Hinges(nodes[~is_duplicate], np.column_stack([faces[a], faces[b]])[~is_duplicate], signs[~is_duplicate])

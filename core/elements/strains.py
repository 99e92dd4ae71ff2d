"""Strain measures of elements and their derivatives with respect to nodal positions.

A strain maps the corners of elements (m, k, 3) m to components (m, c). Tensors are stored in Mandel notation (the
off-diagonal components times sqrt 2), so that the dot product of components equals that of the tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ..arrays import Array, Index

_ROOT = np.sqrt(2.0)


class Strain(Protocol):
    """Interface of a strain measure. elements: (m, k) nodes of each element."""

    elements: Index

    def values(self, corners: Array) -> Array:
        """Return the strain components (m, c) at corners (m, k, 3)."""
        ...

    def gradient(self, corners: Array) -> Array:
        """Return the derivatives (m, c, 3k) of the strain with respect to the corners."""
        ...

    def bent(self, corners: Array, stress: Array) -> Array:
        """Return the second derivatives of the strain contracted with a stress (m, c): (m, 3k, 3k)."""
        ...


def pairs(size: int) -> tuple[Array, Array, Array]:
    """Return rows, columns and factors of the components of a symmetric tensor, the diagonal first."""
    upper = [(i, j) for i in range(size) for j in range(i + 1, size)]
    rows = np.array([*range(size), *(i for i, _ in upper)])
    columns = np.array([*range(size), *(j for _, j in upper)])
    return rows, columns, np.where(rows == columns, 1.0, _ROOT)


def tensors(components: Array, size: int) -> Array:
    """Return the symmetric tensors (m, d, d) with Mandel components (m, c), d = dimension."""
    rows, columns, factors = pairs(size)
    made = np.zeros((len(components), size, size))
    made[:, rows, columns] = made[:, columns, rows] = components / factors
    return made


def components(tensor: Array) -> Array:
    """Return the Mandel components (m, c) of symmetric tensors (m, d, d)."""
    rows, columns, factors = pairs(tensor.shape[1])
    return np.asarray(tensor[:, rows, columns] * factors)


def gradients(rest: Array, elements: Index) -> Array:
    """Return the gradients (m, k, d) in 1/m of the linear shape functions in material coordinates. rest: (n, d) m."""
    corners = rest[elements]
    inverse = np.linalg.inv((corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1))
    return np.concatenate([-inverse.sum(axis=1, keepdims=True), inverse], axis=1)


def differences(gradient: Callable[[Array], Array], corners: Array, stress: Array) -> Array:
    """Return second derivatives contracted with a stress (m, c), by central differences of a gradient: (m, 3k, 3k)."""
    m, k, _ = corners.shape
    step = 1e-6 * float(np.abs(corners - corners.mean(axis=1, keepdims=True)).max())
    H = np.empty((m, 3 * k, 3 * k))
    for place in range(3 * k):
        moved = corners.reshape(m, -1).copy()
        moved[:, place] += step
        ahead = gradient(moved.reshape(m, k, 3))
        moved[:, place] -= 2.0 * step
        behind = gradient(moved.reshape(m, k, 3))
        H[:, place] = np.einsum("mc,mcw->mw", stress, ahead - behind) / (2.0 * step)
    return 0.5 * (H + H.transpose(0, 2, 1))


class Green:
    """Green strain (F^T F - I)/2 of tetrahedra (rest (n, 3) m) or triangles in space (rest (n, 2) m, in the plane)."""

    def __init__(self, rest: Array, elements: Index) -> None:
        self.elements = elements
        self.size = rest.shape[1]
        self._shape = gradients(rest, elements)

    def deformation(self, corners: Array) -> Array:
        """Return the deformation gradients F (m, 3, d)."""
        return np.asarray(corners.transpose(0, 2, 1) @ self._shape)

    def values(self, corners: Array) -> Array:
        F = self.deformation(corners)
        return components(0.5 * (F.transpose(0, 2, 1) @ F - np.eye(self.size)))

    def gradient(self, corners: Array) -> Array:
        rows, columns, factors = pairs(self.size)
        F, G = self.deformation(corners), self._shape
        # d eps_ab / d x_k = (F_a G_kb + F_b G_ka)/2
        half = np.einsum("mia,mka->maki", F[:, :, rows], G[:, :, columns])
        other = np.einsum("mia,mka->maki", F[:, :, columns], G[:, :, rows])
        whole = 0.5 * factors[:, None, None] * (half + other)
        return np.asarray(whole.reshape(len(corners), len(rows), 3 * corners.shape[1]))

    def bent(self, corners: Array, stress: Array) -> Array:
        between = self._shape @ tensors(stress, self.size) @ self._shape.transpose(0, 2, 1)
        m, k, _ = between.shape
        return np.asarray(np.einsum("mkl,ij->mkilj", between, np.eye(3)).reshape(m, 3 * k, 3 * k))


class Biot:
    """Biot strain S - I with F = R S, of corotational elements; its rate is Green's in eigenvectors of S, rescaled."""

    def __init__(self, rest: Array, elements: Index) -> None:
        self.elements = elements
        self._green = Green(rest, elements)
        self.size = self._green.size

    def _eigen(self, corners: Array) -> tuple[Array, Array]:
        """Return the principal stretches (m, d) and directions (m, d, d)."""
        F = self._green.deformation(corners)
        values, vectors = np.linalg.eigh(F.transpose(0, 2, 1) @ F)
        return np.sqrt(np.maximum(values, 0.0)), vectors

    def values(self, corners: Array) -> Array:
        sizes, V = self._eigen(corners)
        return components((V * (sizes - 1.0)[:, None, :]) @ V.transpose(0, 2, 1))

    def gradient(self, corners: Array) -> Array:
        # C = S S gives S'_ij = C'_ij/(s_i + s_j) in the eigenvectors of S, and C' = 2 E'.
        sizes, V = self._eigen(corners)
        total = np.maximum(sizes[:, :, None] + sizes[:, None, :], 1e-12)
        rows, columns, factors = pairs(self.size)
        rates = self._green.gradient(corners) / factors[:, None]
        m, _, width = rates.shape
        full = np.zeros((m, self.size, self.size, width))
        full[:, rows, columns] = full[:, columns, rows] = rates
        turned = np.einsum("mai,mabw,mbj->mijw", V, full, V) * (2.0 / total)[..., None]
        back = np.einsum("mai,mijw,mbj->mabw", V, turned, V)
        return np.asarray(back[:, rows, columns] * factors[:, None])

    def bent(self, corners: Array, stress: Array) -> Array:
        """Return the contracted second derivatives by finite differences, which are accurate enough for a Hessian."""
        return differences(self.gradient, corners, stress)


class Spatial:
    """Rate of deformation sym(F' F^-1) of tetrahedra, as in a Newtonian fluid: for damping of Neo-Hookean bodies.

    Only the gradient (the rate) is spatial; values are those of the Green strain.
    """

    def __init__(self, rest: Array, elements: Index) -> None:
        self.elements = elements
        self._green = Green(rest, elements)
        self.size = self._green.size

    def values(self, corners: Array) -> Array:
        return self._green.values(corners)

    def gradient(self, corners: Array) -> Array:
        # Spatial gradients of the shape functions: G F^-1. A degenerate element has none and adds no damping.
        F = self._green.deformation(corners)
        there = self._green._shape @ np.linalg.pinv(F)
        rows, columns, factors = pairs(3)
        unit = np.eye(3)
        half = np.einsum("ia,mka->maki", unit[:, rows], there[:, :, columns])
        other = np.einsum("ia,mka->maki", unit[:, columns], there[:, :, rows])
        return np.asarray(
            (0.5 * factors[:, None, None] * (half + other)).reshape(len(corners), len(rows), 3 * corners.shape[1])
        )

    def bent(self, corners: Array, stress: Array) -> Array:
        return self._green.bent(corners, stress)


class Stretch:
    """Strain |x_i - x_j|/L - 1 of springs ([SRD] 3.6)."""

    def __init__(self, lengths: Array, elements: Index) -> None:
        self.elements = elements
        self.lengths = lengths

    def _units(self, corners: Array) -> tuple[Array, Array]:
        """Return the unit directions (m, 3) and lengths (m,) of the springs."""
        way = corners[:, 0] - corners[:, 1]
        length = np.linalg.norm(way, axis=1)
        return way / np.maximum(length, 1e-30)[:, None], length

    def values(self, corners: Array) -> Array:
        return np.asarray((self._units(corners)[1] / self.lengths - 1.0)[:, None])

    def gradient(self, corners: Array) -> Array:
        unit, _ = self._units(corners)
        return np.asarray((np.concatenate([unit, -unit], axis=1) / self.lengths[:, None])[:, None, :])

    def bent(self, corners: Array, stress: Array) -> Array:
        unit, length = self._units(corners)
        across = (np.eye(3) - unit[:, :, None] * unit[:, None, :]) / np.maximum(length, 1e-30)[:, None, None]
        block = across * (stress[:, 0] / self.lengths)[:, None, None]
        return np.concatenate(
            [np.concatenate([block, -block], axis=2), np.concatenate([-block, block], axis=2)], axis=1
        )

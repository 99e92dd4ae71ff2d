"""Energies and dissipation potentials that are quadratic in a strain or its rate, summed over elements.

U = sum w/2 eps E eps            D = sum w/2 eps' V eps',   eps' = grad(eps) v      ([SRD] section 3)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from ..arrays import Array, Index
from .strains import Strain, components, tensors


def isotropic(bulk: float, shear: float, size: int) -> Array:
    """lambda 1 1^T + 2 mu I in components (c, c) of symmetric tensors of that size."""
    count = size * (size + 1) // 2
    unit = np.zeros(count)
    unit[:size] = 1.0
    return np.asarray(bulk * np.outer(unit, unit) + 2.0 * shear * np.eye(count))


def assembled(blocks: Array, elements: Index, nodes: int) -> csr_matrix:
    """Sparse (3n, 3n) from element blocks (m, 3k, 3k)."""
    dof = (3 * elements[:, :, None] + np.arange(3)).reshape(len(elements), -1)
    width = dof.shape[1]
    rows, columns = dof.repeat(width, axis=1).ravel(), np.tile(dof, (1, width)).ravel()
    return coo_matrix((blocks.ravel(), (rows, columns)), shape=(3 * nodes, 3 * nodes)).tocsr()


def gathered(forces: Array, elements: Index, nodes: int) -> Array:
    """Sums (n, 3) at the nodes of forces (m, 3k) at the corners."""
    where, flat = elements.ravel(), forces.reshape(-1, 3)
    return np.stack([np.bincount(where, flat[:, axis], minlength=nodes) for axis in range(3)], axis=1)


@dataclass(frozen=True)
class StrainEnergy:
    """strain, and moduli (c, c) or (m, c, c) with weights (m,), so that weight * modulus is an energy in J.

    clamped: the geometric part of a projected Hessian is made from the stress without its compression ([SRD] after
    (9)); else the whole block is projected. rounding: J.
    """

    strain: Strain
    moduli: Array
    weights: Array
    clamped: bool = False

    @property
    def rounding(self) -> float:
        return 8.0 * float(np.finfo(float).eps * np.abs(self.moduli).max() * self.weights.sum())

    def _stress(self, corners: Array) -> tuple[Array, Array]:
        values = self.strain.values(corners)
        return values, (self.moduli @ values[:, :, None])[:, :, 0]

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        corners = positions[self.strain.elements]
        values, stress = self._stress(corners)
        forces = np.einsum("m,mc,mcw->mw", self.weights, stress, self.strain.gradient(corners))
        energy = 0.5 * float(np.einsum("m,mc,mc->", self.weights, values, stress))
        return energy, gathered(forces, self.strain.elements, len(positions))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        corners = positions[self.strain.elements]
        _, stress = self._stress(corners)
        if project and self.clamped:
            stress = without_compression(stress)
        B = self.strain.gradient(corners)
        blocks = B.transpose(0, 2, 1) @ self.moduli @ B + self.strain.bent(corners, stress)
        if project and not self.clamped:
            values, vectors = np.linalg.eigh(blocks)
            blocks = (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)
        return assembled(blocks * self.weights[:, None, None], self.strain.elements, len(positions))


def without_compression(stress: Array) -> Array:
    """Stress components (m, c) with the negative principal stresses set to zero; for one component, no negative one."""
    size = {1: 1, 3: 2, 6: 3}[stress.shape[1]]
    if size == 1:
        return np.maximum(stress, 0.0)
    values, vectors = np.linalg.eigh(tensors(stress, size))
    return components((vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1))


@dataclass(frozen=True)
class Dissipation:
    """A potential of the strain's rate. viscosity: (c, c) or (m, c, c) with weights (m,): N s m together.  nodes: n."""

    strain: Strain
    viscosity: Array
    weights: Array
    nodes: int

    def matrix(self, positions: Array) -> csr_matrix:
        """C(x), (3n, 3n) N s/m; the force is -C v."""
        B = self.strain.gradient(positions[self.strain.elements])
        blocks = B.transpose(0, 2, 1) @ self.viscosity @ B
        return assembled(blocks * self.weights[:, None, None], self.strain.elements, self.nodes)

    def stress(self, positions: Array, velocities: Array) -> Array:
        """S_d (m, c)."""
        B = self.strain.gradient(positions[self.strain.elements])
        rate = B @ velocities[self.strain.elements].reshape(len(B), -1, 1)
        return np.asarray((self.viscosity @ rate)[:, :, 0])

    def force(self, positions: Array, velocities: Array) -> Array:
        """-grad(eps) S_d, (n, 3) N."""
        B = self.strain.gradient(positions[self.strain.elements])
        pull = np.einsum("m,mc,mcw->mw", self.weights, self.stress(positions, velocities), B)
        return -gathered(pull, self.strain.elements, self.nodes)

    def by_positions(self, positions: Array, velocities: Array, whole: bool, clamped: bool = False) -> csr_matrix:
        """d force / d x, (3n, 3n) N/m, [SRD] (9): the geometric part, and the unsymmetric rest if whole is wanted."""
        corners = positions[self.strain.elements]
        stress = self.stress(positions, velocities)
        blocks = self.strain.bent(corners, without_compression(stress) if clamped else stress)
        if whole:
            B, rate = self.strain.gradient(corners), self._rate_gradient(corners, velocities)
            blocks = blocks + B.transpose(0, 2, 1) @ self.viscosity @ rate
        return assembled(-blocks * self.weights[:, None, None], self.strain.elements, self.nodes)

    def _rate_gradient(self, corners: Array, velocities: Array) -> Array:
        """d (grad(eps) v)/dx, (m, c, 3k): second derivatives of each component along v."""
        m = len(corners)
        v = velocities[self.strain.elements].reshape(m, -1)
        count = self.strain.values(corners).shape[1]
        rows = []
        for component in range(count):
            one = np.zeros((m, count))
            one[:, component] = 1.0
            rows.append((self.strain.bent(corners, one) @ v[:, :, None])[:, :, 0])
        return np.stack(rows, axis=1)

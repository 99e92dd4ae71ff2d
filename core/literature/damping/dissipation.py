"""Dissipation potentials that are quadratic in a strain rate: D = sum w/2 eps' V eps' ([SRD] section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ...base.arrays import Array
from ...materials.assembly import assemble_matrix, assemble_vector
from ...materials.strain_energy import tensile_stress
from ...materials.strains import Strain


@dataclass(frozen=True)
class Dissipation:
    """Dissipation potential of a strain rate.

    viscosity: (c, c) or (m, c, c), with weights (m,): N s m together.  node_count: number of nodes n.
    """

    strain: Strain
    viscosity: Array
    weights: Array
    node_count: int

    def matrix(self, positions: Array) -> csr_matrix:
        """Return C(x), (3n, 3n) N s/m; the force is -C v."""
        B = self.strain.gradient(positions[self.strain.elements])
        blocks = B.transpose(0, 2, 1) @ self.viscosity @ B
        return assemble_matrix(blocks * self.weights[:, None, None], self.strain.elements, self.node_count)

    def stress(self, positions: Array, velocities: Array) -> Array:
        """Return the viscous stress S_d (m, c)."""
        B = self.strain.gradient(positions[self.strain.elements])
        rate = B @ velocities[self.strain.elements].reshape(len(B), -1, 1)
        return np.asarray((self.viscosity @ rate)[:, :, 0])

    def force(self, positions: Array, velocities: Array) -> Array:
        """Return the force -grad(eps) S_d, (n, 3) N."""
        B = self.strain.gradient(positions[self.strain.elements])
        pull = np.einsum("m,mc,mcw->mw", self.weights, self.stress(positions, velocities), B)
        return -assemble_vector(pull, self.strain.elements, self.node_count)

    def position_jacobian(
        self, positions: Array, velocities: Array, include_unsymmetric: bool, without_compression_stress: bool = False
    ) -> csr_matrix:
        """Return d force / d x, (3n, 3n) N/m, [SRD] (9): the geometric part, and on request the unsymmetric rest."""
        corners = positions[self.strain.elements]
        stress = self.stress(positions, velocities)
        blocks = self.strain.contracted_hessian(
            corners, tensile_stress(stress) if without_compression_stress else stress
        )
        if include_unsymmetric:
            B, rate = self.strain.gradient(corners), self._rate_gradient(corners, velocities)
            blocks = blocks + B.transpose(0, 2, 1) @ self.viscosity @ rate
        return assemble_matrix(-blocks * self.weights[:, None, None], self.strain.elements, self.node_count)

    def _rate_gradient(self, corners: Array, velocities: Array) -> Array:
        """Return d (grad(eps) v)/dx, (m, c, 3k): second derivatives of each component along v."""
        m = len(corners)
        v = velocities[self.strain.elements].reshape(m, -1)
        count = self.strain.values(corners).shape[1]
        units = (np.tile(unit, (m, 1)) for unit in np.eye(count))
        return np.stack([(self.strain.contracted_hessian(corners, one) @ v[:, :, None])[:, :, 0] for one in units], 1)

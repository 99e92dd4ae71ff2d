"""Energies of loads and of springs (docs/explanation/physics/06-body-models.md).

Dead load, a constant force: E = -f . x. Pressure in a closed surface, a follower load along its normals: E = -p V.
Springs along edges: E = sum k L/2 (l/L - 1)^2, with k in N. Seams, springs without length between pairs of nodes at any
distance: E = sum k/2 |x_a - x_b|^2. Soft pins, springs to animated targets: E = sum k_i/2 |x_i - target_i|^2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix, diags, identity, kron

from ..base.arrays import Array, Index, take_rows
from ..native.library import KernelLibrary
from ..native.ropes import CompiledSprings
from .assembly import assemble_matrix, assemble_vector, project_positive
from .strain_energy import KernelEnergy, StrainEnergy
from .strains import SpringStrain


@dataclass(frozen=True)
class DeadLoad:
    """Constant nodal forces. force: (n, 3) N."""

    force: Array
    rounding: ClassVar[float] = 0.0

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        return -float(np.vdot(self.force, positions)), -self.force

    def with_nodal_scale(self, factors: Array) -> DeadLoad:
        return replace(self, force=self.force * factors[:, None])

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        return csr_matrix((positions.size, positions.size))


@dataclass(frozen=True)
class Pressure:
    """Pressure energy. triangles: (m, 3), closed and oriented outward.  pressure: Pa, or (m,) per triangle."""

    triangles: Index
    pressure: float | Array
    rounding: ClassVar[float] = 0.0

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        # Relative to the mean, to keep precision far from the origin; the volume of a closed surface does not change.
        a, b, c = (positions - positions.mean(axis=0))[self.triangles].transpose(1, 0, 2)
        part = np.broadcast_to(np.asarray(self.pressure, dtype=float) / 6.0, len(a))
        slopes = np.concatenate([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1)
        value = -float(part @ (a * np.cross(b, c)).sum(axis=1))
        return value, assemble_vector(-part[:, None] * slopes, self.triangles, len(positions))

    def with_nodal_scale(self, factors: Array) -> Pressure:
        return replace(self, pressure=self.pressure * factors[self.triangles].mean(axis=1))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        corners = (positions - positions.mean(axis=0))[self.triangles]
        blocks = np.zeros((len(corners), 3, 3, 3, 3))
        part = np.broadcast_to(np.asarray(self.pressure, dtype=float) / 6.0, len(corners))
        for k in range(3):
            # The derivative with respect to x_i is x_j x x_k, and its change with x_j by v is v x x_k.
            i, j = (k + 1) % 3, (k + 2) % 3
            turned = np.cross(np.eye(3)[None], corners[:, k, None, :]).transpose(0, 2, 1)
            blocks[:, i, :, j, :] -= part[:, None, None] * turned
            blocks[:, j, :, i, :] -= part[:, None, None] * turned.transpose(0, 2, 1)
        flat = blocks.reshape(-1, 9, 9)
        return assemble_matrix(project_positive(flat) if project else flat, self.triangles, len(positions))


class SpringEnergy(KernelEnergy[CompiledSprings], StrainEnergy):
    """Energy of springs."""

    strain: SpringStrain

    def _compile(self, library: KernelLibrary) -> CompiledSprings:
        return CompiledSprings(library, self.strain.elements, self.strain.lengths, self.weights)

    def _value_gradient(self, positions: Array) -> tuple[float, Array]:
        return StrainEnergy.value_gradient(self, positions)


def spring_energy(edges: Index, lengths: Array, stiffness: Array) -> SpringEnergy:
    """Return the energy of springs.

    edges: (e, 2).  lengths: (e,) m at rest.  stiffness: (e,) N, the force of a spring at twice its rest length.
    The projected Hessian is k/L (n n^T + max(0, 1 - L/l) (I - n n^T)): the negative transverse stiffness of compressed
    springs is left out ([SRD] after (9)).
    """
    # The strain has one component, so the modulus is a scalar; the weights contain the stiffness.
    return SpringEnergy(SpringStrain(lengths, edges), np.ones((1, 1)), stiffness * lengths, clamp_compression=True)


@dataclass(frozen=True)
class Sewing:
    """Sewing springs. pairs: (s, 2) nodes.  stiffness: (s,) N/m.  node_count: n."""

    pairs: Index
    stiffness: Array
    node_count: int
    rounding: ClassVar[float] = 0.0
    has_constant_hessian: ClassVar[bool] = True

    @cached_property
    def _difference_operator(self) -> csr_matrix:
        """Difference operator (s, n): the first minus the second node of each pair."""
        rows = np.arange(len(self.pairs)).repeat(2)
        signs = np.tile([1.0, -1.0], len(self.pairs))
        return csr_matrix((signs, (rows, self.pairs.ravel())), shape=(len(self.pairs), self.node_count))

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        offset = self._difference_operator @ positions
        pull = self.stiffness[:, None] * offset
        return 0.5 * float(np.vdot(pull, offset)), np.asarray(self._difference_operator.T @ pull)

    def with_nodal_scale(self, factors: Array) -> Sewing:
        return replace(self, stiffness=self.stiffness * factors[self.pairs].mean(axis=1))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        one = self._difference_operator.T @ diags(self.stiffness) @ self._difference_operator
        return kron(one, identity(3), format="csr")


@dataclass(frozen=True)
class SoftPins:
    """Springs from nodes to targets. nodes: (p,).  stiffness: (p,) N/m.  targets: (p, 3) m."""

    nodes: Index
    stiffness: Array
    targets: Array
    rounding: ClassVar[float] = 0.0
    has_constant_hessian: ClassVar[bool] = True

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        offset = take_rows(positions, self.nodes) - self.targets
        pull = self.stiffness[:, None] * offset
        gradient = np.zeros_like(positions)
        gradient[self.nodes] = pull
        return 0.5 * float(np.vdot(pull, offset)), gradient

    def with_nodal_scale(self, factors: Array) -> SoftPins:
        return replace(self, stiffness=self.stiffness * factors[self.nodes])

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        diagonal = np.zeros(positions.shape)
        diagonal[self.nodes] = self.stiffness[:, None]
        return diags(diagonal.ravel()).tocsr()


@dataclass(frozen=True)
class Attachments:
    """Springs between points, which are weighted means of nodes, and the places to which targets of nodes move them.

    operator: (c, n), W.  stiffness: (c,) N/m.  targets: (n, 3) m, t; those of nodes without weight are not used.
    """

    operator: csr_matrix
    stiffness: Array
    targets: Array
    rounding: ClassVar[float] = 0.0
    has_constant_hessian: ClassVar[bool] = True

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        offset = self.operator @ (positions - self.targets)
        pull = self.stiffness[:, None] * offset
        return 0.5 * float(np.vdot(pull, offset)), np.asarray(self.operator.T @ pull)

    def with_nodal_scale(self, factors: Array) -> Attachments:
        return replace(self, stiffness=self.stiffness * (self.operator @ factors))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        return kron(self.operator.T @ diags(self.stiffness) @ self.operator, np.eye(3), format="csr")

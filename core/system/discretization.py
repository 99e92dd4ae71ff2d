"""Discretization of one body: its part of a system."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, Mask
from ..materials import Energy, Membrane, RodBending
from ..materials.loads_and_springs import SpringEnergy
from .inputs import BlockInputs
from .term import ForceTerm, Potential, StiffnessScaling


@dataclass(frozen=True)
class BodyDiscretization:
    """Discretization of one body: nodes numbered from 0, with masses, elements and force terms.

    name: of the object, for messages.
    rest: (n, 3) m.
    mass: (n,) kg, lumped.
    groups: (m, k) each, node numbers of elements: tetrahedra, triangles, edges.
    terms: force terms, soft pins included.
    pinned: (p,) nodes that follow targets, hard and soft.
    pin_stiffness: (p,) N/m, infinite for hard pins.
    settle_scale: (n,) painted factors on the settle time; None if not painted.
    part_shares: (n, p + 1) shares of the rest of the body and of its parts, see part_shares(); None without parts.
    keeps_pendulum_free: whether swinging about the pins is left undamped, as part of the rigid motion.
    is_net: whether its weight alone may hold its shape, as in a net without diagonals; (n,) if some parts only.
    is_rigid: whether its elements are rigid pieces, each of four nodes.
    ray_origin_weights: (n,) 0 to 1, painted weights of the nodes whose centre the rays of a damping start from; None if
        not painted.
    damping_scale: (n,) painted factors on the strain-rate damping; None if not painted.
    """

    name: str
    rest: Array
    mass: Array
    groups: tuple[Index, ...]
    terms: tuple[ForceTerm, ...]
    pinned: Index
    pin_stiffness: Array
    settle_scale: Array | None = None
    keeps_pendulum_free: bool = True
    is_net: bool | Mask = False
    is_rigid: bool = False
    ray_origin_weights: Array | None = None
    part_shares: Array | None = None
    damping_scale: Array | None = None

    @property
    def is_fixed(self) -> Mask:
        """Mask of the hard-pinned nodes, (n,); these are not unknowns."""
        mask = np.zeros(len(self.rest), dtype=bool)
        mask[self.hard_pins] = True
        return mask

    @property
    def hard_pins(self) -> Index:
        """Hard-pinned nodes."""
        return np.asarray(self.pinned[np.isinf(self.pin_stiffness)])

    @property
    def size(self) -> float:
        """Longest side of the bounding box at rest, m."""
        return float(np.ptp(self.rest, axis=0).max())

    def stationary_inputs(self, positions: Array | None = None) -> BlockInputs:
        """Return inputs that hold the pins at positions (n, 3), or at the rest shape."""
        places = (self.rest if positions is None else positions)[self.pinned]
        return BlockInputs(places, places)

    def stiffness_at_rest(self, project: bool, node_weights: Array | None = None) -> csr_matrix:
        """Return the elastic Hessian at rest, (3n, 3n) N/m, for a stiffness factor of 1.

        project: for the preconditioner, see ForceTerm.preconditioner_energy.  node_weights: (n,) factors at the nodes;
            1 if None.
        """
        total = csr_matrix((self.rest.size, self.rest.size))
        for term in self.terms:
            if term.scaling is StiffnessScaling.SCALED:
                energy = term.preconditioner_energy(self.rest) if project else term.rest_energy(self.rest)
                if energy is not None:
                    weighted = energy if node_weights is None else energy.with_nodal_scale(node_weights)
                    total = total + weighted.hessian(self.rest, project)
        return total.tocsr()

    def elastic_energy(self, positions: Array) -> float:
        """Return the elastic energy independent of inputs, J, for a stiffness factor of 1 and without soft pins."""
        return float(sum(energy.value_gradient(positions)[0] for energy in self.energies))

    @property
    def is_solid(self) -> bool:
        """Return whether the block consists of tetrahedra."""
        return bool(self.groups) and self.groups[0].shape[1] == 4

    @property
    def is_sheet(self) -> bool:
        """Return whether any part resists stretching as a sheet does, and bending hardly."""
        return any(isinstance(energy, Membrane) for energy in self.energies)

    @property
    def is_rope(self) -> bool:
        """Return whether the block resists bending as a rope does."""
        return any(isinstance(energy, RodBending) for energy in self.energies)

    @property
    def has_springs_only(self) -> bool:
        """Return whether all its elastic energies are those of springs."""
        return bool(self.energies) and all(isinstance(energy, SpringEnergy) for energy in self.energies)

    @property
    def energies(self) -> tuple[Energy, ...]:
        """Elastic energies independent of inputs."""
        return tuple(
            term.energy
            for term in self.terms
            if isinstance(term, Potential) and term.scaling is StiffnessScaling.SCALED
        )

"""A block: what one body adds to a system."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask
from ..energies import Energy, Membrane, RodBending
from .inputs import BlockInputs
from .term import Factor, Potential, Term


@dataclass(frozen=True)
class Block:
    """A run of nodes, numbered from 0.

    name: of the object, for messages.
    rest: (n, 3) m.
    mass: (n,) kg, lumped.
    groups: (m, k) each, nodes that belong together: tetrahedra, triangles, edges.
    terms: what pushes the nodes, soft pins included.
    pinned: (p,) nodes that follow targets, hard and soft.
    pin_stiffness: (p,) N/m, infinite for hard pins.
    pace: (n,) painted parts of the settle time; None where not painted.
    swings: whether swinging about its pins is left undamped, as part of its rigid motion.
    net: whether nothing but its weight may hold its shape, as in a net without diagonals.
    centre: (n,) 0 to 1, painted: whose middle the rays of a damping come from; None where not painted.
    """

    name: str
    rest: Array
    mass: Array
    groups: tuple[Index, ...]
    terms: tuple[Term, ...]
    pinned: Index
    pin_stiffness: Array
    pace: Array | None = None
    swings: bool = True
    net: bool = False
    centre: Array | None = None

    @property
    def fixed(self) -> Mask:
        """(n,) whether a node is hard-pinned, so no unknown."""
        fixed = np.zeros(len(self.rest), dtype=bool)
        fixed[self.hard] = True
        return fixed

    @property
    def hard(self) -> Index:
        """The hard-pinned nodes."""
        return np.asarray(self.pinned[np.isinf(self.pin_stiffness)])

    @property
    def size(self) -> float:
        """Longest side of the bounding box at rest, m."""
        return float(np.ptp(self.rest, axis=0).max())

    def still(self, positions: Array | None = None) -> BlockInputs:
        """Inputs that hold the pins where positions (n, 3), or the rest shape, have them."""
        places = (self.rest if positions is None else positions)[self.pinned]
        return BlockInputs(places, places)

    def stiffness_at_rest(self, project: bool, parts: Array | None = None) -> csr_matrix:
        """The Hessian of all that is elastic at rest, (3n, 3n) N/m, for a stiffness factor of 1.

        project: for the metric, see Term.stiffest.  parts: (n,) of it that count at the nodes; all of it if None.
        """
        material = [term for term in self.terms if term.factor is Factor.MATERIAL]
        elastic = [term.stiffest(self.rest) if project else term.at_rest(self.rest) for term in material]
        if parts is not None:
            elastic = [energy.scaled(parts) for energy in elastic if energy is not None]
        return sum_of(elastic, self.rest, project)

    def elastic_energy(self, positions: Array) -> float:
        """Of what no input changes, J, for a stiffness factor of 1; soft pins do not count."""
        return float(sum(energy.value_gradient(positions)[0] for energy in self.energies))

    @property
    def is_solid(self) -> bool:
        """Whether it is made of tetrahedra."""
        return bool(self.groups) and self.groups[0].shape[1] == 4

    @property
    def is_sheet(self) -> bool:
        """Whether any of it resists stretching as a sheet does, and bending hardly."""
        return any(isinstance(energy, Membrane) for energy in self.energies)

    @property
    def is_rope(self) -> bool:
        """Whether it resists bending as a rope does."""
        return any(isinstance(energy, RodBending) for energy in self.energies)

    @property
    def energies(self) -> tuple[Energy, ...]:
        """The elastic ones that no input changes."""
        return tuple(
            term.energy for term in self.terms if isinstance(term, Potential) and term.factor is Factor.MATERIAL
        )


def sum_of(energies: list[Energy | None], positions: Array, project: bool) -> csr_matrix:
    """The Hessian of energies together, (3n, 3n) N/m."""
    total = csr_matrix((positions.size, positions.size))
    for energy in energies:
        if energy is not None:
            total = total + energy.hessian(positions, project)
    return total.tocsr()

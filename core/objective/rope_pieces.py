"""Newton's method for ropes whose pieces are independent: each has its own steps, line searches and friction.

See docs/decisions/0077-search-pieces-of-ropes-separately.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from ..contact.penalty_and_friction import CompiledContactPotential, ContactPotential
from ..materials import RodBending
from ..materials.loads_and_springs import SpringEnergy
from ..native.library import KernelLibrary
from ..native.pieces import CompiledPieces, PieceContacts, PieceElements, PieceRows
from .contact_problem import MAX_FRICTION_UPDATES
from .rope_matrix import MAX_ENVELOPE_WORK, RopeMatrix, RopePattern
from .step_potential import StepPotential


@dataclass(frozen=True)
class RopeStep:
    """Terms of a step of h s, see StepProblem.

    inertia: (f,) kg/s.  predicted: (f, 3) m/s.  load: (f, 3) N.  start: (f, 3) m.  positions: (n, 3) m, of the pins.
    noise: of psi, W.
    """

    h: float
    inertia: Array
    predicted: Array
    load: Array
    start: Array
    positions: Array
    noise: float


class RopePieces:
    """Independent pieces of a step of ropes, with the current contacts.

    piece_count: p.
    """

    def __init__(
        self,
        library: KernelLibrary,
        potential: StepPotential,
        matrix: RopeMatrix,
        step: RopeStep,
        positions: Callable[[Array], Array],
        v: Array,
    ) -> None:
        """Start at velocities v (f, 3) m/s. Call can_separate() first.

        positions: function that returns positions (n, 3) m for velocities (f, 3) m/s.
        """
        contacts, pattern = potential.contacts, matrix.pattern
        self._potential, self._order, self._positions = potential, pattern.order, positions
        self._shares = np.diff(pattern.factors.buffers[0]) / len(pattern.order)
        piece_of_contact = np.zeros(0, dtype=np.int64)
        if contacts is not None:
            piece_of_contact = _pieces_of(pattern, contacts.contacts.weights)
        self._contact_order, contact_starts = pattern.sort_by_piece(piece_of_contact)
        nodes = np.empty(len(self._order), dtype=np.int64)
        nodes[pattern.slot[pattern.slot >= 0]] = np.flatnonzero(pattern.slot >= 0)
        rows = PieceRows(
            nodes,
            pattern.slot,
            step.inertia[self._order],
            step.predicted[self._order],
            step.load[self._order],
            step.start[self._order],
        )
        springs, rods = (_elements(potential, pattern, kind) for kind in (SpringEnergy, RodBending))
        self._compiled = CompiledPieces(
            library,
            pattern.factors,
            matrix.base_blocks(step.positions),
            rows,
            springs,
            rods,
            _contacts(contacts, self._contact_order, contact_starts, len(step.positions)),
            step.positions,
            step.h,
            step.noise,
            MAX_FRICTION_UPDATES,
        )
        self._compiled.velocities[:] = v[self._order]
        self.piece_count = pattern.factors.piece_count

    def step(self, tasks: NDArray[np.int32], slopes: Array) -> None:
        """Do the tasks (p,) of the pieces, see CompiledPieces.step()."""
        self._compiled.step(tasks, slopes)

    @property
    def velocities(self) -> Array:
        """Current velocities (f, 3) m/s."""
        found = np.empty_like(self._compiled.velocities)
        found[self._order] = self._compiled.velocities
        return found

    @property
    def gradient_norm(self) -> float:
        """Norm of the gradient, N."""
        return float(np.linalg.norm(self._compiled.gradient))

    @property
    def evaluations(self) -> int:
        """Number of evaluations of psi that take as long as those of the pieces together."""
        return int(np.ceil(self._shares @ self._compiled.evaluations))

    def finish(self) -> Array:
        """Set the friction of the contacts to that at the end of the search, and return the velocities (f, 3) m/s."""
        contacts, v = self._potential.contacts, self.velocities
        if contacts is not None and self._compiled.updates.any():
            assert isinstance(contacts, CompiledContactPotential)
            # Contacts between animated points belong to no piece.
            forces = contacts.forces_at(self._positions(v)).force.copy()
            forces[self._contact_order] = self._compiled.lagged_forces
            self._potential.set_contacts(contacts.with_normal_forces(forces))
        return v


def can_separate(potential: StepPotential, matrix: RopeMatrix) -> bool:
    """Return whether the pieces of a step can be searched separately.

    The pattern of the matrix then has all blocks that the contacts may need. Other energies, links and damping have no
    compiled code, and a large piece needs an elimination order with less fill.
    """
    if potential.links is not None or matrix.damping is not None:
        return False
    if not all(isinstance(energy, SpringEnergy | RodBending) for _, _, energy in potential.scaled_energies):
        return False
    contacts = potential.contacts
    if contacts is not None:
        if not isinstance(contacts, CompiledContactPotential):
            return False
        matrix.add_contacts(contacts.contacts.weights)
    return matrix.pattern.factors.work <= MAX_ENVELOPE_WORK


def _elements(
    potential: StepPotential, pattern: RopePattern, kind: type[SpringEnergy] | type[RodBending]
) -> PieceElements:
    """Return the elements of all energies of a kind."""
    size = 2 if kind is SpringEnergy else 3
    known = pattern.piece_elements[size]
    numbers = [_numbers(energy, factor) for _, factor, energy in potential.scaled_energies if isinstance(energy, kind)]
    columns = [np.concatenate([np.zeros(0), *(one[k] for one in numbers)])[known.order] for k in range(size)]
    return PieceElements(known.starts, known.nodes, known.places, tuple(columns))


def _pieces_of(pattern: RopePattern, weights: csr_matrix) -> Index:
    """Return the piece (k,) of each contact; -1 for those between animated points. weights: (k, n)."""
    found = np.full(weights.shape[0], -1, dtype=np.int64)
    rows = np.arange(weights.shape[0]).repeat(np.diff(weights.indptr))
    np.maximum.at(found, rows, pattern.pieces_of(weights.indices))
    return found


def _numbers(energy: SpringEnergy | RodBending, factor: float) -> Sequence[Array]:
    """Return the numbers of the elements of an energy times a factor, see PieceElements."""
    if isinstance(energy, SpringEnergy):
        return energy.strain.lengths, factor * energy.weights
    return factor * energy.weights, energy.rest_angles, energy.smoothing


def _contacts(potential: ContactPotential | None, order: Index, starts: Index, node_count: int) -> PieceContacts:
    if potential is None:
        none, vectors = np.zeros(0), np.zeros((0, 3))
        return PieceContacts(starts, csr_matrix((0, node_count)), 3 * (vectors,), 3 * (none,), none, none)
    contacts = potential.contacts.select(order)
    return PieceContacts(
        starts,
        contacts.weights,
        (contacts.base_offset, contacts.normal, contacts.stick_anchor),
        (contacts.distance, contacts.target_gap, contacts.stiffness),
        contacts.friction,
        potential.lagged_normal_force[order],
    )

"""Contacts in a step's problem: their energy, and their stiffness in the preconditioner."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, take_rows
from ..contact.contact_preconditioner import ComplianceBlock, ContactPreconditioner
from ..contact.penalty_and_friction import ContactPotential
from ..solvers.factorisation import LowRank, LowRankUpdate, Solve
from ..solvers.objective import AcceptedPoint
from .factorised_system import FactorisedSystem
from .step_potential import StepPotential

# The preconditioner is rebuilt if more than this fraction of the active contacts changed their state.
_MAX_CHANGED_FRACTION = 0.1
# The same for contacts that became much stiffer or softer: of a heap's thousands, some do in every iteration, and
# secants correct a few.
_MAX_STIFFENED_FRACTION = 0.002
# It is also rebuilt after so many evaluations (more if steps are shortened) if a contact slides or changed its state.
_MAX_STALE_EVALUATIONS = 8
# Iterations of a step in which the friction limit follows the normal force.
MAX_FRICTION_UPDATES = 40


class RotatedSolve:
    """Solve with the stiffness at rest, rotated with each region: Q (M/s + h K)^-1 Q^T."""

    def __init__(self, solve: Solve, rotation: Array, scale: float) -> None:
        """rotation: (f, 3, 3) of each free node.  scale: factor by which the solved matrix was divided."""
        self._solve, self._rotation, self._scale = solve, rotation, scale

    def __call__(self, right: Array) -> Array:
        if right.ndim == 1:
            rotated = np.einsum("fji,fj->fi", self._rotation, right.reshape(-1, 3))
            answer = self._solve(rotated.ravel()).reshape(-1, 3) / self._scale
            return np.asarray(np.einsum("fij,fj->fi", self._rotation, answer).ravel())
        vectors = right.reshape(len(self._rotation), 3, -1)
        rotated = (self._rotation.transpose(0, 2, 1) @ vectors).reshape(right.shape)
        answer = self._solve(rotated).reshape(vectors.shape) / self._scale
        return np.asarray((self._rotation @ answer).reshape(right.shape))


class StepPreconditioner:
    """Preconditioner of a step: a constant matrix rotated with the regions, and the stiffness of active contacts.

    base: inverse of the first part.
    """

    def __init__(
        self, stepper: FactorisedSystem, update: LowRank, solve: Solve, rotation: Array, scale: float, h: float
    ) -> None:
        """update: constant low rank part.  solve: with the factorised matrix.  rotation: (f, 3, 3) of each free node.
        scale: factor by which the factorised matrix was divided.
        """
        self._stepper, self._update, self._solve, self._scale, self._h = stepper, update, solve, scale, h
        self.rotate(rotation)

    def rotate(self, rotation: Array) -> None:
        """Replace the rotations (f, 3, 3), and drop the contacts."""
        self._rotation = rotation
        self.base = LowRankUpdate(RotatedSolve(self._solve, rotation, self._scale), self._update)
        self._contact_preconditioner: ContactPreconditioner | None = None

    def refactorise(self, solve: Solve) -> None:
        """Replace the factorisation by one of a matrix in world axes, and drop the contacts."""
        self._solve, self._scale = solve, 1.0
        self.rotate(np.broadcast_to(np.eye(3), self._rotation.shape))

    def __call__(self, right: Array) -> Array:
        return self.base(right) if self._contact_preconditioner is None else self._contact_preconditioner(right)

    def add_contacts(self, energy: ContactPotential, x: Array, states: Index) -> None:
        """Replace the contact stiffness by that of contacts at x (n, 3) m in the given states (k,)."""
        self._contact_preconditioner = self._build_contact_preconditioner(
            energy.contacts.weights, *energy.stiffness_vectors(x, states)
        )

    def drop_contacts(self) -> None:
        """Drop the contact stiffness."""
        self._contact_preconditioner = None

    def prefetch_columns(self, weights: csr_matrix) -> None:
        """Compute the inverse's columns for contacts that may soon become active. weights: (k, n)."""
        slots = np.unique(self._stepper.free_index[weights.indices])
        self._stepper.inverse_columns(self._solve).prefetch_columns(slots[slots >= 0])

    def apply_contact_stiffness(self, step: Array) -> Array | None:
        """Return the contact stiffness times a step (f, 3), N; None without contacts."""
        return None if self._contact_preconditioner is None else self._contact_preconditioner.stiffness_times(step)

    def _build_contact_preconditioner(
        self, weights: csr_matrix, contact_index: Index, stiffness_vectors: Array
    ) -> ContactPreconditioner | None:
        """Return the preconditioner with contacts, or None if no free node touches anything.

        weights: (k, n).  contact_index, stiffness_vectors: see ContactPotential.stiffness_factors().
        """
        counts = np.diff(weights.indptr)[contact_index]
        first = weights.indptr[contact_index] - np.concatenate([[0], np.cumsum(counts)[:-1]])
        entries = np.arange(int(counts.sum())) + first.repeat(counts)
        slots, row = self._stepper.free_index[weights.indices[entries]], np.arange(len(contact_index)).repeat(counts)
        free = np.flatnonzero(slots >= 0)
        slots, row, entries = slots[free], row[free], entries[free]
        if not len(slots):
            return None
        part_of_node = self._update.block[::3]
        is_touched = np.zeros(len(self._rotation), dtype=bool)
        is_touched[slots] = True
        touched_nodes = np.flatnonzero(is_touched)
        # Sort the nodes by the part of the low rank update that couples them.
        touched_nodes = touched_nodes[np.argsort(part_of_node[touched_nodes], kind="stable")]
        touched_index = np.empty(len(self._rotation), dtype=np.int64)
        touched_index[touched_nodes] = np.arange(len(touched_nodes))
        values = np.sqrt(self._h) * weights.data[entries][:, None] * stiffness_vectors[row]
        columns = 3 * touched_index[slots][:, None] + np.arange(3)
        starts = 3 * np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(contact_index)))])
        contact_factors = csr_matrix(
            (values.ravel(), columns.ravel(), starts), shape=(len(contact_index), 3 * len(touched_nodes))
        )
        cuts = np.flatnonzero(np.diff(part_of_node[touched_nodes])) + 1
        parts = [self._compliance_block(touched_nodes, one) for one in np.split(np.arange(len(touched_nodes)), cuts)]
        return ContactPreconditioner(self.base, parts, contact_factors, touched_nodes)

    def _compliance_block(self, touched_nodes: Index, places: Index) -> ComplianceBlock:
        """Return Q A^-1 Q^T / scale less the low rank part, node by node.

        touched_nodes: (a,) indices of free nodes.  places: (b,) positions of some among them.
        """
        slots, count = touched_nodes[places], 3 * len(places)
        turn = (self._rotation[slots] / np.sqrt(self._scale)).astype(np.float32)
        block = self._stepper.inverse_columns(self._solve).block(slots)
        # Rotate the columns, then the rows.
        block = np.matmul(turn, block.reshape(len(slots), 3, count)).reshape(count, len(slots), 3)
        block = np.matmul(turn, block.transpose(1, 2, 0)).reshape(count, count)
        return ComplianceBlock(places, block - self.base.correction_at(slots).astype(np.float32))


class SearchedContacts:
    """Contacts of one minimisation whose friction follows the normal forces.

    evaluations: number of evaluations of psi with the present preconditioner, counted by the caller.
    """

    def __init__(self, potential: StepPotential, free: Index, energy: ContactPotential, h: float) -> None:
        """energy: of at least one contact."""
        self._potential, self._free, self._h, self.evaluations = potential, free, h, 0
        potential.set_contacts(energy)
        self._has_friction, self._friction_updates = bool(energy.contacts.friction.any()), 0

    def accept(self, x: Array, value: float, gradient: Array) -> AcceptedPoint:
        """Update friction after an iteration that ends at x (n, 3) m, see PreconditionedObjective.accept()."""
        energy = self._potential.contacts
        assert energy is not None
        if not self._has_friction or self._friction_updates >= MAX_FRICTION_UPDATES:
            return AcceptedPoint(value, gradient)
        self._friction_updates += 1
        old_value, old = energy.value_gradient(x)
        energy = energy.with_normal_forces_at(x)
        self._potential.set_contacts(energy)
        new_value, new = energy.value_gradient(x)
        gradient = gradient + take_rows(new, self._free) - take_rows(old, self._free)
        return AcceptedPoint(value + (new_value - old_value) / self._h, gradient)


class ActiveContacts(SearchedContacts):
    """Contacts of one minimisation whose stiffness is in the preconditioner."""

    def __init__(
        self,
        potential: StepPotential,
        preconditioner: StepPreconditioner,
        free: Index,
        energy: ContactPotential,
        x: Array,
        h: float,
    ) -> None:
        """energy: of at least one contact.  x: (n, 3) m, start of the search."""
        super().__init__(potential, free, energy, h)
        self._preconditioner = preconditioner
        self._update_preconditioner(energy, x, energy.contact_states(x))
        if not self._contact_states.any():
            preconditioner.prefetch_columns(energy.contacts.weights)
        self._contact_gradient = energy.value_gradient(x)[1][free]

    def _update_preconditioner(self, energy: ContactPotential, x: Array, states: Index) -> None:
        self._contact_states, self.evaluations = states, 0
        self._preconditioner.add_contacts(energy, x, states)

    def accept(self, x: Array, value: float, gradient: Array) -> AcceptedPoint:
        """Update friction and the preconditioner after an iteration that ends at x (n, 3) m."""
        energy = self._potential.contacts
        assert energy is not None
        gradient_change = energy.value_gradient(x)[1][self._free] - self._contact_gradient
        accepted = super().accept(x, value, gradient)
        energy = self._potential.contacts
        assert energy is not None
        self._contact_gradient = energy.value_gradient(x)[1][self._free]
        states = energy.contact_states(x)
        changed = int((self._contact_states != states).sum())
        # A contact twenty times stiffer than the preconditioner assumes would shorten all steps.
        stiffened = int(((self._contact_states % 4 == 2) != (states % 4 == 2)).sum())
        active = max(int((self._contact_states > 0).sum()), 1)
        needs_update = stiffened > _MAX_STIFFENED_FRACTION * active or changed > _MAX_CHANGED_FRACTION * active
        # A secant does not correct the preconditioner's errors in contacts, see AcceptedPoint.
        needs_update |= self.evaluations >= _MAX_STALE_EVALUATIONS and bool(changed or (states >= 4).any())
        if needs_update:
            self._update_preconditioner(energy, x, states)
        return AcceptedPoint(accepted.value, accepted.gradient, gradient_change, needs_update)

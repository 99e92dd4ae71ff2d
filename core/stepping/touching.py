"""Contacts in a step's problem: their energy, and their stiffness in the preconditioner."""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..contact.metric import Compliance, Compliant, ContactMetric
from ..contact.rows import ContactEnergy, Rows
from ..solvers.factor import LowRank, LowRankUpdate, Solve
from ..solvers.problem import Accepted
from ..system.state import State
from .potentials import Potentials
from .rigid_part import Slotted

# The preconditioner is rebuilt if more than this fraction of the active contacts changed their state.
_CHANGED = 0.1
# It is also rebuilt after so many evaluations (more if steps are shortened) if a contact slides or changed its state.
_STALE = 8
# Iterations of a step in which the friction limit follows the normal force.
FOLLOWS = 40


class Meeting(Slotted, Protocol):
    """Objective of a step in which contacts may occur.

    start: velocities to search from.  noise: error estimate below which a change is negligible, sqrt(W s).
    """

    start: Array
    noise: float

    @property
    def as_before(self) -> Array:
        """Velocities of the last step."""
        ...

    @property
    def contacts(self) -> ContactEnergy | None:
        """Energy of the current contacts."""
        ...

    def begun(self, guess: Array | None) -> Array:
        """Return the velocities to start from."""
        ...

    def lower(self, rows: Rows, pressing: Array, *found: Array) -> Array:
        """Return the velocities with the lowest psi, with contacts as in set_contacts()."""
        ...

    def touch(self, rows: Rows, pressing: Array, v: Array) -> None:
        """Replace the contacts while the search is at v. normal_forces: (k,) N, lagged normal forces."""
        ...

    def positions(self, v: Array) -> Array:
        """Return the positions (n, 3) m of all nodes at the end of the step."""
        ...

    def motion(self, v: Array) -> float:
        """Return the norm of the motion, see solvers.problem.Problem."""
        ...


class Stopped(Meeting, Protocol):
    """Contact problem whose motion can be truncated by regions."""

    def state_after(self, v: Array, stopped: Set[int] = frozenset()) -> State:
        """Return the state at the step's end, with velocities (f, 3) m/s. truncated_regions: see StepEnd."""
        ...


class Prefactored(Protocol):
    """Part of a stepper that the contact preconditioner depends on."""

    free: Index
    slot: Index

    def compliance(self, solve: Solve) -> Compliance: ...


class Turned:
    """Solve with the stiffness at rest, rotated with each region: Q (M/s + h K)^-1 Q^T."""

    def __init__(self, solve: Solve, rotation: Array, scale: float) -> None:
        """rotation: (f, 3, 3) of each free node.  scale: factor by which the solved matrix was divided."""
        self._solve, self._rotation, self._scale = solve, rotation, scale

    def __call__(self, right: Array) -> Array:
        if right.ndim == 1:
            turned = np.einsum("fji,fj->fi", self._rotation, right.reshape(-1, 3))
            answer = self._solve(turned.ravel()).reshape(-1, 3) / self._scale
            return np.asarray(np.einsum("fij,fj->fi", self._rotation, answer).ravel())
        vectors = right.reshape(len(self._rotation), 3, -1)
        turned = (self._rotation.transpose(0, 2, 1) @ vectors).reshape(right.shape)
        answer = self._solve(turned).reshape(vectors.shape) / self._scale
        return np.asarray((self._rotation @ answer).reshape(right.shape))


class Metric:
    """Preconditioner of a step: a constant matrix rotated with the regions, and the stiffness of active contacts.

    base: inverse of the first part.
    """

    def __init__(
        self, stepper: Prefactored, update: LowRank, solve: Solve, rotation: Array, scale: float, h: float
    ) -> None:
        """update: constant low rank part.  solve: with the factorised matrix.  rotation: (f, 3, 3) of each free node.
        scale: factor by which the factorised matrix was divided.
        """
        self._stepper, self._update, self._solve, self._scale, self._h = stepper, update, solve, scale, h
        self.turn(rotation)

    def turn(self, rotation: Array) -> None:
        """Replace the rotations (f, 3, 3), and drop the contacts."""
        self._rotation = rotation
        self.base = LowRankUpdate(Turned(self._solve, rotation, self._scale), self._update)
        self._stiff: ContactMetric | None = None

    def renew(self, solve: Solve) -> None:
        """Replace the factorisation by one of a matrix in world axes, and drop the contacts."""
        self._solve, self._scale = solve, 1.0
        self.turn(np.broadcast_to(np.eye(3), self._rotation.shape))

    def __call__(self, right: Array) -> Array:
        return self.base(right) if self._stiff is None else self._stiff(right)

    def stiffen(self, energy: ContactEnergy, x: Array, branches: Index) -> None:
        """Replace the contact stiffness by that of contacts at x (n, 3) m in the given states (k,)."""
        self._stiff = self._stiffened(energy.rows.weights, *energy.resisted(x, branches))

    def loosen(self) -> None:
        """Drop the contact stiffness."""
        self._stiff = None

    def foresee(self, weights: csr_matrix) -> None:
        """Compute the inverse's columns for contacts that may soon become active. weights: (k, n)."""
        slots = np.unique(self._stepper.slot[weights.indices])
        self._stepper.compliance(self._solve).foresee(slots[slots >= 0])

    def pushed(self, step: Array) -> Array | None:
        """Return the contact stiffness times a step (f, 3), N; None without contacts."""
        return None if self._stiff is None else self._stiff.pushed(step)

    def _stiffened(self, weights: csr_matrix, which: Index, ways: Array) -> ContactMetric | None:
        """Return the preconditioner with contacts, or None if no free node touches anything.

        weights: (k, n).  contact_index, stiffness_vectors: see ContactPotential.stiffness_factors().
        """
        counts = np.diff(weights.indptr)[which]
        first = weights.indptr[which] - np.concatenate([[0], np.cumsum(counts)[:-1]])
        entries = np.arange(int(counts.sum())) + first.repeat(counts)
        slots, row = self._stepper.slot[weights.indices[entries]], np.arange(len(which)).repeat(counts)
        free = np.flatnonzero(slots >= 0)
        slots, row, entries = slots[free], row[free], entries[free]
        if not len(slots):
            return None
        hangs = self._update.part[::3]
        there = np.zeros(len(self._rotation), dtype=bool)
        there[slots] = True
        known = np.flatnonzero(there)
        # Sort the nodes by the part of the low rank update that couples them.
        known = known[np.argsort(hangs[known], kind="stable")]
        place = np.empty(len(self._rotation), dtype=np.int64)
        place[known] = np.arange(len(known))
        values = np.sqrt(self._h) * weights.data[entries][:, None] * ways[row]
        columns = 3 * place[slots][:, None] + np.arange(3)
        starts = 3 * np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(which)))])
        resisted = csr_matrix((values.ravel(), columns.ravel(), starts), shape=(len(which), 3 * len(known)))
        cuts = np.flatnonzero(np.diff(hangs[known])) + 1
        parts = [self._compliant(known, one) for one in np.split(np.arange(len(known)), cuts)]
        return ContactMetric(self.base, parts, resisted, known)

    def _compliant(self, known: Index, places: Index) -> Compliant:
        """Return Q A^-1 Q^T / scale less the low rank part, node by node.

        touched_nodes: (a,) indices of free nodes.  places: (b,) positions of some among them.
        """
        slots, count = known[places], 3 * len(places)
        turn = (self._rotation[slots] / np.sqrt(self._scale)).astype(np.float32)
        own = self._stepper.compliance(self._solve).among(slots)
        # Rotate the columns, then the rows.
        own = np.matmul(turn, own.reshape(len(slots), 3, count)).reshape(count, len(slots), 3)
        own = np.matmul(turn, own.transpose(1, 2, 0)).reshape(count, count)
        return Compliant(places, own - self.base.given(slots).astype(np.float32))


class Touched:
    """Contacts of one minimisation."""

    def __init__(
        self, potentials: Potentials, metric: Metric, free: Index, rows: Rows, pressing: Array, x: Array, h: float
    ) -> None:
        """contacts: at least one.  normal_forces: (k,) N, lagged.  x: (n, 3) m, start of the search.

        evaluations: number of evaluations of psi with the present preconditioner, counted by the caller.
        """
        self._potentials, self._metric, self._free, self._h = potentials, metric, free, h
        energy = ContactEnergy(rows, pressing)
        potentials.touch(energy)
        self._stiffen(energy, x, energy.branches(x))
        if not self._branches.any():
            metric.foresee(rows.weights)
        self._slope = energy.value_gradient(x)[1][free]
        self._followed = 0

    def _stiffen(self, energy: ContactEnergy, x: Array, branches: Index) -> None:
        self._branches, self.tried = branches, 0
        self._metric.stiffen(energy, x, branches)

    def accept(self, x: Array, value: float, gradient: Array) -> Accepted:
        """Update friction and the preconditioner after an iteration that ends at x (n, 3) m, see Problem.accept."""
        energy = self._potentials.contacts
        assert energy is not None
        before, slope = energy.value_gradient(x)
        slope = slope[self._free]
        apart = slope - self._slope
        if self._followed < FOLLOWS and energy.rows.friction.any():
            self._followed += 1
            energy = energy.pressed(x)
            self._potentials.touch(energy)
            after, new = energy.value_gradient(x)
            value, gradient = value + (after - before) / self._h, gradient + new[self._free] - slope
            slope = new[self._free]
        self._slope = slope
        branches = energy.branches(x)
        changed = int((self._branches != branches).sum())
        # A contact twenty times stiffer than the preconditioner assumes would shorten all steps.
        hard = ((self._branches % 4 == 2) != (branches % 4 == 2)).any()
        fresh = bool(hard) or changed > _CHANGED * max(int((self._branches > 0).sum()), 1)
        # A secant does not correct the preconditioner's errors in contacts, see Accepted.known_gradient_change.
        fresh |= self.tried >= _STALE and bool(changed or (branches >= 4).any())
        if fresh:
            self._stiffen(energy, x, branches)
        return Accepted(value, gradient, apart, fresh)

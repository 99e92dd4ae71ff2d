"""What contacts add to a step's problem: their energy, and their stiffness in the metric."""

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

# The metric is made anew where more than this part of the contacts that press are others.
_CHANGED = 0.1
# The same after so many evaluations, more where steps are cut short, if anything slides or presses otherwise than then.
_STALE = 8
# Iterations of a step in which friction follows what presses.
FOLLOWS = 40


class Meeting(Slotted, Protocol):
    """A step's problem in which things may touch.

    start: velocities to search from.  noise: the error that means nothing, sqrt(W s).
    """

    start: Array
    noise: float

    @property
    def as_before(self) -> Array:
        """The velocities of the last step."""
        ...

    @property
    def contacts(self) -> ContactEnergy | None:
        """What touches now."""
        ...

    def begun(self, guess: Array | None) -> Array:
        """Velocities to start from."""
        ...

    def lower(self, rows: Rows, pressing: Array, *found: Array) -> Array:
        """The velocities with the least psi, with contacts as in touch()."""
        ...

    def touch(self, rows: Rows, pressing: Array, v: Array) -> None:
        """From now on with these contacts, where the search is at v. pressing: (k,) N, as friction has it."""
        ...

    def positions(self, v: Array) -> Array:
        """Of all nodes, (n, 3) m, where the step ends."""
        ...

    def motion(self, v: Array) -> float:
        """See solvers.problem.Problem."""
        ...


class Stopped(Meeting, Protocol):
    """One of which regions can be kept from going on."""

    def state_after(self, v: Array, stopped: Set[int] = frozenset()) -> State:
        """The state at the step's end, with velocities (f, 3) m/s. stopped: see Ending."""
        ...


class Prefactored(Protocol):
    """What of a stepper is asked for."""

    free: Index
    slot: Index

    def compliance(self, solve: Solve) -> Compliance: ...


class Turned:
    """A solve with the stiffness at rest, turned with each region: Q (M/s + h K)^-1 Q^T."""

    def __init__(self, solve: Solve, rotation: Array, scale: float) -> None:
        """rotation: (f, 3, 3) of each free node.  scale: what the solved matrix was divided by."""
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
    """A step's metric: what is constant, turned with the regions, and the stiffness of what presses.

    base: the inverse of the first.
    """

    def __init__(
        self, stepper: Prefactored, update: LowRank, solve: Solve, rotation: Array, scale: float, h: float
    ) -> None:
        """update: what is constant beside it.  solve: with what was factorised.  rotation: (f, 3, 3) of each free node.
        scale: what that was divided by.
        """
        self._stepper, self._update, self._solve, self._scale, self._h = stepper, update, solve, scale, h
        self.turn(rotation)

    def turn(self, rotation: Array) -> None:
        """From now on with other rotations, and without what presses."""
        self._rotation = rotation
        self.base = LowRankUpdate(Turned(self._solve, rotation, self._scale), self._update)
        self._stiff: ContactMetric | None = None

    def renew(self, solve: Solve) -> None:
        """From now on with another solve, of a matrix as it is in space. Nothing presses."""
        self._solve, self._scale = solve, 1.0
        self.turn(np.broadcast_to(np.eye(3), self._rotation.shape))

    def __call__(self, right: Array) -> Array:
        return self.base(right) if self._stiff is None else self._stiff(right)

    def stiffen(self, energy: ContactEnergy, x: Array, branches: Index) -> None:
        """With the stiffness of contacts at x (n, 3) m on branches (k,) in the place of what it had of it."""
        self._stiff = self._stiffened(energy.rows.weights, *energy.resisted(x, branches))

    def loosen(self) -> None:
        """From now on nothing presses."""
        self._stiff = None

    def foresee(self, weights: csr_matrix) -> None:
        """Be ready for contacts that may press soon. weights: (k, n)."""
        slots = np.unique(self._stepper.slot[weights.indices])
        self._stepper.compliance(self._solve).foresee(slots[slots >= 0])

    def pushed(self, step: Array) -> Array | None:
        """What that stiffness makes of a step (f, 3), N; None where there is none."""
        return None if self._stiff is None else self._stiff.pushed(step)

    def _stiffened(self, weights: csr_matrix, which: Index, ways: Array) -> ContactMetric | None:
        """weights: (k, n).  which, ways: see ContactEnergy.resisted()."""
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
        # What hangs together lies together.
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
        """Q A^-1 Q^T / scale less the low rank, node by node. known: (a,) slots.  places: (b,) of some among them."""
        slots, count = known[places], 3 * len(places)
        turn = (self._rotation[slots] / np.sqrt(self._scale)).astype(np.float32)
        own = self._stepper.compliance(self._solve).among(slots)
        # First the columns, then the rows.
        own = np.matmul(turn, own.reshape(len(slots), 3, count)).reshape(count, len(slots), 3)
        own = np.matmul(turn, own.transpose(1, 2, 0)).reshape(count, count)
        return Compliant(places, own - self.base.given(slots).astype(np.float32))


class Touched:
    """The contacts of one minimisation."""

    def __init__(
        self, potentials: Potentials, metric: Metric, free: Index, rows: Rows, pressing: Array, x: Array, h: float
    ) -> None:
        """rows: not none.  pressing: (k,) N, as friction has it.  x: (n, 3) m, where the search starts.

        tried: how often psi was evaluated with the metric as it is; whoever does counts.
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
        """See Problem.accept. x: (n, 3) m."""
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
        # One that is twenty times as stiff as the metric takes it for cuts all steps short.
        hard = ((self._branches % 4 == 2) != (branches % 4 == 2)).any()
        fresh = bool(hard) or changed > _CHANGED * max(int((self._branches > 0).sum()), 1)
        # What of a contact the metric has wrong no secant tells, see Accepted.apart.
        fresh |= self.tried >= _STALE and bool(changed or (branches >= 4).any())
        if fresh:
            self._stiffen(energy, x, branches)
        return Accepted(value, gradient, apart, fresh)

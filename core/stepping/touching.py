"""What contacts add to a step's problem: their energy, and their stiffness in the metric."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..contact.metric import Compliance, ContactMetric
from ..contact.rows import ContactEnergy, Rows, spread
from ..solvers.factor import LowRank, LowRankUpdate, Solve
from ..solvers.problem import Accepted
from .potentials import Potentials
from .rigid_part import Slotted

# The metric is made anew where more than this part of the contacts that press are others.
_CHANGED = 0.1
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

    def stiffen(self, weights: csr_matrix, blocks: Array) -> None:
        """With the stiffness (k, 3, 3) N/m of rows with weights (k, n), in the place of what it had of it."""
        self._stiff = self._stiffened(weights, blocks)

    def pushed(self, step: Array) -> Array | None:
        """What that stiffness makes of a step (f, 3), N; None where there is none."""
        return None if self._stiff is None else self._stiff.pushed(step)

    def _stiffened(self, weights: csr_matrix, blocks: Array) -> ContactMetric | None:
        there = np.flatnonzero(np.abs(blocks).max(axis=(1, 2), initial=0.0) > 0.0)
        weights = weights[there]
        nodes = np.unique(weights.indices)
        slots = self._stepper.slot[nodes]
        nodes, slots = nodes[slots >= 0], slots[slots >= 0]
        if not len(nodes):
            return None
        turn = (self._rotation[slots] / np.sqrt(self._scale)).astype(np.float32)
        own = self._stepper.compliance(self._solve).among(slots)
        # Q A^-1 Q^T / scale, node by node: first the columns, then the rows.
        count = 3 * len(slots)
        own = np.matmul(turn, own.reshape(len(slots), 3, count)).reshape(count, len(slots), 3)
        own = np.matmul(turn, own.transpose(1, 2, 0)).reshape(count, count)
        stiffness = self._h * spread(weights[:, nodes].tocsr(), blocks[there])
        return ContactMetric(self.base, own, stiffness.tocsr(), slots)


class Touched:
    """The contacts of one minimisation."""

    def __init__(
        self, potentials: Potentials, metric: Metric, free: Index, rows: Rows, pressing: Array, x: Array, h: float
    ) -> None:
        """rows: not none.  pressing: (k,) N, as friction has it.  x: (n, 3) m, where the search starts."""
        self._potentials, self._metric, self._free, self._h = potentials, metric, free, h
        energy = ContactEnergy(rows, pressing)
        potentials.touch(energy)
        # A prediction may lead deep into things, the step does not.
        branches = energy.branches(x)
        self._stiffen(energy, x, np.where(branches % 4 == 2, branches - 1, branches))
        self._slope = energy.value_gradient(x)[1][free]
        self._followed = 0

    def _stiffen(self, energy: ContactEnergy, x: Array, branches: Index) -> None:
        self._branches = branches
        self._metric.stiffen(energy.rows.weights, energy.stiffness(x, branches))

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
        fresh = int((self._branches != branches).sum()) > _CHANGED * max(int((self._branches > 0).sum()), 1)
        if fresh:
            self._stiffen(energy, x, branches)
        return Accepted(value, gradient, apart, fresh)

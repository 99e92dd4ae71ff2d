"""The potential psi of one substep (docs/physics.md section 1) with the inertia of section 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.sparse import block_diag, csr_matrix, diags

from ..arrays import Array, Index
from ..solvers.factor import LowRank, LowRankUpdate, Solve
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from ..system.term import Factor, Term
from .controls import Controls
from .inertia import Moment, Piece, region_terms

Viscous = Callable[[Array], csr_matrix]
"""C(x) in N s/m of a damping force -C(x) v."""


class Prefactored(Protocol):
    """What stays from step to step, see step.Stepper."""

    system: System
    viscous: Viscous | None
    free: Index
    dof: Index
    slot: Index
    pieces: tuple[tuple[Piece, ...], ...]

    def factor(self, h: float, inertia: Array, factors: Array) -> Solve: ...

    def rounding(self, solve: Solve, far: Array) -> float: ...


class _Turned:
    """A solve with the stiffness at rest, turned with each region: Q (M/s + h K)^-1 Q^T."""

    def __init__(self, solve: Solve, rotation: Array, scale: float) -> None:
        """rotation: (f, 3, 3) of each free node.  scale: what the solved matrix was divided by."""
        self._solve, self._rotation, self._scale = solve, rotation, scale

    def __call__(self, right: Array) -> Array:
        vectors = right.reshape(len(self._rotation), 3, -1)
        turned = (self._rotation.transpose(0, 2, 1) @ vectors).reshape(right.shape)
        answer = self._solve(turned).reshape(vectors.shape) / self._scale
        return np.asarray((self._rotation @ answer).reshape(right.shape))


class StepProblem:
    """psi(v) over the free nodes' velocities (f, 3)."""

    def __init__(self, stepper: Prefactored, state: State, inputs: Inputs, h: float, controls: Controls) -> None:
        system = stepper.system
        self._stepper, self._state, self._h = stepper, state, h
        self._factors = controls.factors(len(system.blocks))
        self._next = system.placed(state.positions, inputs)
        self._reference = (self._next - state.positions) / h
        self._energies = [
            (system.slices[place], self._factors[place] if factor is Factor.MATERIAL else 1.0, energy)
            for place, factor, energy in system.prepared(state, inputs)
        ]
        self._assemble_inertia(stepper, Moment.of(system, state, inputs, h), controls)
        # M/s + h e K = e (M/(s e) + h K) with the stiffness factor e.
        self._scale = float(self._factors[0])
        self._solve = stepper.factor(h, self._inertia / self._scale, self._factors)
        self._drag = stepper.viscous(state.positions).tocsr() if stepper.viscous else None
        # Of the pins, which the drag feels.
        self._given = (self._next - state.positions) / h
        # Without a way back to the problem: a circle would keep factors until the collector happens to come by.
        self._metric = LowRankUpdate(_Turned(self._solve, self._rotation, self._scale), self.low_rank)
        # A body in flight starts with what its weight does to it, so that no step along a search changes its momentum.
        self.start = self.allowed(self._predicted + h * self._flying[:, None] * system.gravity)
        self.value_noise = sum(scale * energy.rounding for _, scale, energy in self._energies) / h
        self.noise = stepper.rounding(self._solve, self._far(state)) / np.sqrt(self._scale)

    def _assemble_inertia(self, stepper: Prefactored, moment: Moment, controls: Controls) -> None:
        count, system = len(stepper.free), stepper.system
        throws = controls.throws(len(system.blocks))
        self._inertia = np.empty(count)
        self._predicted = np.empty((count, 3))
        self._load = np.empty((count, 3))
        self._rotation = np.empty((count, 3, 3))
        self._flying = np.zeros(count)
        part = np.zeros(count, dtype=np.int64)
        found = []
        for place, (region, law) in enumerate(zip(system.regions, controls.laws, strict=True)):
            terms = region_terms(moment, region, stepper.pieces[place], law.coefficients(moment.h), throws)
            slots = stepper.slot[region.free]
            self._reference[region.free] = terms.reference
            self._inertia[slots], self._predicted[slots] = terms.inertia, terms.predicted
            self._load[slots], self._rotation[slots] = terms.load, terms.rotation
            part[slots] = place
            self._flying[slots] = not len(region.held)
            found.append((slots, terms))
        most = max((len(terms.signs) for _, terms in found), default=0)
        columns, signs = np.zeros((count, 3, most)), np.ones((len(found), most))
        for place, (slots, terms) in enumerate(found):
            k = len(terms.signs)
            if k:
                columns[slots, :, :k] = terms.columns
                signs[place, :k] = terms.signs
        self.low_rank = LowRank(columns.reshape(3 * count, most), signs, part.repeat(3))

    def _far(self, state: State) -> Array:
        """Each free node's stiffness factor times the largest coordinate of its block, m."""
        system, free = self._stepper.system, self._stepper.free
        far = [float(np.abs(state.positions[part]).max(initial=0.0)) for part in system.slices]
        each = np.array(far) * self._factors
        return np.asarray(each[0] if len(each) == 1 else each[system.owner()[free]])

    def _positions(self, v: Array) -> Array:
        free = self._stepper.free
        x = self._next.copy()
        x[free] = self._state.positions[free] + self._h * v
        return x

    def value_gradient(self, v: Array) -> tuple[float, Array]:
        # A trial may go too far; its value then is infinite or none, and the search turns back.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._value_gradient(v)

    def _value_gradient(self, v: Array) -> tuple[float, Array]:
        x = self._positions(v)
        free = self._stepper.free
        change = v - self._predicted
        momentum = self._inertia[:, None] * change
        value = 0.5 * float(np.vdot(momentum, change))
        gradient = momentum - self._load
        if not self.low_rank.empty:
            along = self.low_rank.along(change.ravel())
            value += 0.5 * float(np.vdot(self.low_rank.signs, along**2))
            gradient += self.low_rank.combined(self.low_rank.columns, self.low_rank.signs * along).reshape(-1, 3)
        value -= float(np.vdot(self._load, v))
        if self._drag is not None:
            given = self._given.copy()
            given[free] = v
            pull = (self._drag @ given.ravel()).reshape(-1, 3)
            value += 0.5 * float(np.vdot(pull, given))
            gradient += pull[free]
        if len(self._stepper.system.blocks) == 1:
            for _, scale, energy in self._energies:
                potential, slope = energy.value_gradient(x)
                value += scale * potential / self._h
                gradient += scale * slope[free]
        else:
            potential, slope = self._stacked(x)
            value += potential / self._h
            gradient += slope[free]
        return value, gradient

    def _stacked(self, x: Array) -> tuple[float, Array]:
        """All energies of several blocks and their joints: J, and the gradient (n, 3) N."""
        value, total = 0.0, np.zeros_like(x)
        for part, scale, energy in self._energies:
            potential, slope = energy.value_gradient(x[part])
            value += scale * potential
            total[part] += scale * slope
        joints = self._stepper.system.joints
        if joints is not None:
            potential, slope = joints.value_gradient(x, self._factors)
            value, total = value + potential, total + slope
        return value, total

    def allowed(self, v: Array) -> Array:
        """Velocities (f, 3) to start from, as many parts of them as terms allow from where the nodes are."""
        part = self.largest_step(np.zeros_like(v), v)
        return v if part == 1.0 else part * v

    def largest_step(self, v: Array, direction: Array) -> float:
        limiting = [
            (part, term)
            for block, part in zip(self._stepper.system.blocks, self._stepper.system.slices, strict=True)
            for term in block.terms
            if type(term).largest_step is not Term.largest_step
        ]
        if not limiting:
            return 1.0
        x, way = self._positions(v), np.zeros_like(self._next)
        way[self._stepper.free] = self._h * direction
        return min(term.largest_step(x[part], way[part]) for part, term in limiting)

    def hessian(self, v: Array, project: bool) -> csr_matrix:
        x, system = self._positions(v), self._stepper.system
        dof = self._stepper.dof
        total = diags(self._inertia.repeat(3)).tocsr()
        if self._drag is not None:
            total = total + self._drag[dof][:, dof]
        if len(system.blocks) == 1:
            for _, scale, energy in self._energies:
                total = total + self._h * scale * energy.hessian(x, project)[dof][:, dof]
            return total
        parts = [csr_matrix((3 * len(block.rest),) * 2) for block in system.blocks]
        starts = [part.start for part in system.slices]
        for part, scale, energy in self._energies:
            place = starts.index(part.start)
            parts[place] = parts[place] + scale * energy.hessian(x[part], project)
        stacked = block_diag(parts, format="csr")
        if system.joints is not None:
            stacked = stacked + system.joints.hessian(x, self._factors, project)
        return total + self._h * stacked.tocsr()[dof][:, dof]

    def precondition(self, gradient: Array) -> Array:
        return self._metric(gradient.ravel()).reshape(-1, 3)

    def state_after(self, v: Array) -> State:
        x = self._positions(v)
        velocities = (x - self._state.positions) / self._h
        velocities[self._stepper.free] = v
        memory = self._stepper.system.remembered(self._state.memory, x)
        return State(self._state.time + self._h, x, velocities, self._reference, memory)

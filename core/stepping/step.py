"""One substep: the minimisation of physics.md section 1 with the inertia of section 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import eigsh

from ..arrays import Array
from ..energies import Energy
from ..solvers.factor import LowRank, LowRankUpdate, Solve, factorise
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.newton import minimise_newton
from ..solvers.problem import Minimum, Outcome, Problem, Tolerance
from ..system.state import PinMotion, State
from ..system.system import System
from .inertia import region_terms
from .law import InertiaLaw

Minimiser = Callable[[Problem, Array, Tolerance], Minimum]
Viscous = Callable[[Array], csr_matrix]
# How often a failed step is cut in halves before it is reported.
_HALVINGS = 4
# Binary digits of the inertia that make a factorisation another one.
_DIGITS = 40
# Positions are known to this part of their largest coordinate: a few units in the last place.
_ROUNDING = 4.0 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Controls:
    """What the dials set. laws: one per region.  follow_through: phi, 1 is physical.  tolerance: of the solver.

    stiffness: factor on all energies, for a material that stiffens during the shot; the laws' eigenvalues go with it.
    """

    laws: tuple[InertiaLaw, ...]
    follow_through: float
    tolerance: float
    stiffness: float = 1.0


@dataclass(frozen=True)
class StepReport:
    """outcome: of the worst part.  substeps: parts that the step was cut into.  residual: see solvers.Tolerance."""

    outcome: Outcome
    iterations: int
    evaluations: int
    substeps: int
    residual: float
    newton: bool


class Stepper:
    """Steps of one system. Holds nothing but factorisations, so equal arguments give equal bytes."""

    def __init__(self, system: System, minimiser: Minimiser = minimise_lbfgs, viscous: Viscous | None = None) -> None:
        """viscous: C(x) in N s/m of a damping force -C(x) v, taken at each step's start."""
        self.system = system
        self.viscous = viscous
        self._minimiser = minimiser
        self.free = np.flatnonzero(~system.fixed)
        self.dof = (3 * self.free[:, None] + np.arange(3)).ravel()
        self.slot = np.full(len(system.rest), -1)
        self.slot[self.free] = np.arange(len(self.free))
        stiffness = system.soft_pins(system.rest[system.pinned]).hessian(system.rest, True)
        for energy in system.energies:
            stiffness = stiffness + energy.hessian(system.rest, True)
        self.stiffness = stiffness.tocsr()[self.dof][:, self.dof]
        self._drag = viscous(system.rest).tocsr()[self.dof][:, self.dof] if viscous else None
        noise = np.random.default_rng(0).standard_normal(len(self.dof))
        diagonal = self.stiffness.diagonal()
        # Where nothing holds at rest, as across a spring, something does later.
        self._noise_force = _ROUNDING * noise * np.maximum(diagonal, diagonal.mean() if len(diagonal) else 0.0)
        self._factors: dict[tuple[float, bytes, float], Solve] = {}

    def step(
        self, state: State, pins: PinMotion, h: float, controls: Controls, guess: Array | None = None
    ) -> tuple[State, StepReport]:
        """Advance by h seconds while the pins move. guess: velocities (n, 3) to start the search from.

        A substep that fails is tried again by Newton's method, then with halved h, and then reported in the outcome;
        the state returned with a failed outcome is the one given.
        """
        for halving in range(_HALVINGS + 1):
            answer, report = self._parts(state, pins, h, 2**halving, controls, guess)
            if report.outcome is Outcome.CONVERGED and answer.is_finite:
                return answer, report
        return state, report

    def _parts(
        self, state: State, pins: PinMotion, h: float, parts: int, controls: Controls, guess: Array | None
    ) -> tuple[State, StepReport]:
        iterations = evaluations = 0
        residual, newton = 0.0, False
        for part in range(parts):
            problem = StepProblem(self, state, pins.part(part, parts), h / parts, controls)
            tolerance = Tolerance(controls.tolerance, problem.noise)
            start = problem.start if guess is None else guess[self.free]
            if len(self.free):
                minimum = self._minimiser(problem, start, tolerance)
            else:
                minimum = Minimum(problem.start, Outcome.CONVERGED, 0, 0, 0.0, 0.0)
            if minimum.outcome is not Outcome.CONVERGED and self._minimiser is not minimise_newton:
                minimum, newton = minimise_newton(problem, start, tolerance), True
            iterations += minimum.iterations
            evaluations += minimum.evaluations
            residual = max(residual, minimum.residual)
            state = problem.state_after(minimum.velocities)
            if minimum.outcome is not Outcome.CONVERGED or not state.is_finite:
                outcome = minimum.outcome if state.is_finite else Outcome.NOT_FINITE
                return state, StepReport(outcome, iterations, evaluations, parts, residual, newton)
        return state, StepReport(Outcome.CONVERGED, iterations, evaluations, parts, residual, newton)

    def factor(self, h: float, inertia: Array, stiffness: float) -> Solve:
        """Solve with D + h K + C/e at rest, for the free nodes' inertia D = M/(s e) (f,) and the stiffness factor e.

        A dial that moves the stiffness moves 1/s alike, so that D over the stiffness, rounded, and the factors stay.
        """
        parts, exponents = np.frexp(inertia)
        inertia = np.ldexp(np.round(np.ldexp(parts, _DIGITS)), exponents - _DIGITS)
        key = (h, inertia.tobytes(), 1.0 if self._drag is None else stiffness)
        if key not in self._factors:
            if len(self._factors) >= 8:
                self._factors.pop(next(iter(self._factors)))
            matrix = diags(inertia.repeat(3)) + h * self.stiffness
            if self._drag is not None:
                matrix = matrix + self._drag / stiffness
            self._factors[key] = factorise(matrix.tocsr())
        return self._factors[key]

    def rounding(self, solve: Solve, far: float, stiffness: float) -> float:
        """The error estimate that rounding alone leaves, sqrt(W s): forces of a last digit of the positions (m)."""
        force = far * stiffness * self._noise_force
        return float(np.sqrt(force @ solve(force)))


def highest_frequency(stepper: Stepper, stiffness: float) -> float:
    """Of the free nodes at rest, rad/s; explicit steps are bounded up to 2 over it. stiffness: factor on energies."""
    root = diags(1.0 / np.sqrt(stepper.system.mass[stepper.free].repeat(3)))
    matrix = (root @ stepper.stiffness @ root).tocsr()
    start = np.random.default_rng(0).standard_normal(len(stepper.dof))
    value = eigsh(matrix, k=1, which="LA", v0=start, return_eigenvectors=False, tol=1e-4)[0]
    return float(np.sqrt(stiffness * value))


class StepProblem:
    """psi(v) of one substep over the free nodes' velocities (f, 3)."""

    def __init__(self, stepper: Stepper, state: State, pins: PinMotion, h: float, controls: Controls) -> None:
        system = stepper.system
        self._stepper, self._state, self._h = stepper, state, h
        self._scale = controls.stiffness
        hard = np.isinf(system.pin_stiffness)
        self._next = state.positions.copy()
        self._next[system.pinned[hard]] = pins.end[hard]
        self._carrier = (self._next - state.positions) / h
        self._energies: tuple[Energy, ...] = (*system.energies, system.soft_pins(pins.end))

        count = len(stepper.free)
        self._inertia = np.empty(count)
        self._carried = np.empty((count, 3))
        self._load = np.empty((count, 3))
        self._rotation = np.empty((count, 3, 3))
        columns, signs = [np.zeros((3 * count, 0))], []
        for region, law in zip(system.regions, controls.laws, strict=True):
            part = region_terms(system, region, state, pins, h, law.coefficients(h), controls.follow_through)
            slots = stepper.slot[region.free]
            self._carrier[region.free] = part.carrier
            self._inertia[slots], self._carried[slots] = part.inertia, part.carried
            self._load[slots], self._rotation[slots] = part.load, part.rotation
            spread = np.zeros((count, 3, part.columns.shape[2]))
            spread[slots] = part.columns
            columns.append(spread.reshape(3 * count, -1))
            signs.append(part.signs)
        self.low_rank = LowRank(np.concatenate(columns, axis=1), np.concatenate([*signs, []]))
        # M/s + h e K = e (M/(s e) + h K) with the stiffness factor e.
        self._solve = stepper.factor(h, self._inertia / self._scale, self._scale)
        self._drag = stepper.viscous(state.positions).tocsr() if stepper.viscous else None
        # Of the pins, which the drag feels.
        self._given = (self._next - state.positions) / h
        self._metric = LowRankUpdate(self._rotated_solve, self.low_rank)
        self.start = self._carried
        self.value_noise = self._scale * sum(energy.rounding for energy in self._energies) / h
        far = float(np.abs(state.positions).max())
        self.noise = stepper.rounding(self._solve, far, self._scale) / np.sqrt(self._scale)

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
        change = v - self._carried
        momentum = self._inertia[:, None] * change
        along = self.low_rank.columns.T @ change.ravel()
        value = 0.5 * (float(np.vdot(momentum, change)) + float(self.low_rank.signs @ along**2))
        value -= float(np.vdot(self._load, v))
        gradient = momentum - self._load
        if len(along):
            gradient += (self.low_rank.columns @ (self.low_rank.signs * along)).reshape(-1, 3)
        if self._drag is not None:
            given = self._given.copy()
            given[self._stepper.free] = v
            pull = (self._drag @ given.ravel()).reshape(-1, 3)
            value += 0.5 * float(np.vdot(pull, given))
            gradient += pull[self._stepper.free]
        for energy in self._energies:
            potential, slope = energy.value_gradient(x)
            value += self._scale * potential / self._h
            gradient += self._scale * slope[self._stepper.free]
        return value, gradient

    def hessian(self, v: Array, project: bool) -> csr_matrix:
        x = self._positions(v)
        dof = self._stepper.dof
        total = diags(self._inertia.repeat(3)).tocsr()
        if self._drag is not None:
            total = total + self._drag[dof][:, dof]
        for energy in self._energies:
            total = total + self._h * self._scale * energy.hessian(x, project)[dof][:, dof]
        return total

    def precondition(self, gradient: Array) -> Array:
        return self._metric(gradient.ravel()).reshape(-1, 3)

    def _rotated_solve(self, right: Array) -> Array:
        """The stiffness at rest, turned with each region: Q (M/s + h K)^-1 Q^T."""
        vectors = right.reshape(len(self._rotation), 3, -1)
        turned = (self._rotation.transpose(0, 2, 1) @ vectors).reshape(right.shape)
        answer = self._solve(turned).reshape(vectors.shape) / self._scale
        return (self._rotation @ answer).reshape(right.shape)

    def state_after(self, v: Array) -> State:
        x = self._positions(v)
        velocities = (x - self._state.positions) / self._h
        velocities[self._stepper.free] = v
        return State(self._state.time + self._h, x, velocities, self._carrier)

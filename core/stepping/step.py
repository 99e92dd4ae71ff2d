"""Time stepper: one substep of a system, and the fallbacks if its minimisation fails."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.spatial import cKDTree

from ..arrays import Array, Index
from ..contact.metric import LOT, Compliance
from ..solvers.factor import Solve
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.metric import metric_of
from ..solvers.modes import largest_eigenvalue
from ..solvers.newton import minimise_newton
from ..solvers.problem import Minimum, Outcome, Problem, Tolerance
from ..system.inputs import Inputs, parted
from ..system.region import Region
from ..system.state import State
from ..system.system import System
from .bolting import bolts
from .carrier import Piece, pieces
from .contact_step import ContactStep
from .controls import Controls, StepReport
from .held import Around
from .prefactored import Viscous
from .sleep import asleep, resting
from .step_problem import StepProblem
from .turns import Turns

Minimiser = Callable[[Problem, Array, Tolerance], Minimum]
# How often a failed step is bisected before its result is accepted as it is, or the failure is reported.
_HALVINGS = 4
# Residual, relative to the first estimate, that is accepted in the shortest parts: crushed bodies may creep towards
# their minimum for hundreds of iterations. The potential is below that of the start, so the motion stays bounded.
_ROUGH = 0.1
# Number of bits of the inertia that identify a factorisation.
_DIGITS = 40
# Number of cached factorisations.
_FACTORS = 8
# Relative rounding error of positions: a few units in the last place of the largest coordinate.
_ROUNDING = 4.0 * float(np.finfo(float).eps)


class Stepper:
    """Time stepper of one system. It caches nothing but factorisations, so equal arguments give equal bytes.

    free: (f,) nodes that are unknowns.
    dof: (3f,) their coordinates in the stack.
    free_index: (n,) index of each node among the free nodes, -1 for hard pins.
    region_slices: slices of each region by block.
    is_pinned_solid: whether the system consists of pinned solids only, so that its stiffness resists every motion.
    problem_type: class of the objective that a substep minimises.
    """

    problem: ClassVar[type[StepProblem]] = StepProblem

    def __init__(self, system: System, minimiser: Minimiser = minimise_lbfgs, viscous: Viscous | None = None) -> None:
        """viscous: C(x) in N s/m of a damping force -C(x) v, taken at each step's start."""
        self.system = system
        self.viscous = viscous
        self._minimiser = minimiser
        self.free = np.flatnonzero(~system.fixed)
        self.dof = (3 * self.free[:, None] + np.arange(3)).ravel()
        self.slot = np.full(len(system.rest), -1)
        self.slot[self.free] = np.arange(len(self.free))
        self.beside = self._beside()
        self.turns = Turns.of(system)
        self.pieces: tuple[tuple[Piece, ...], ...] = tuple(pieces(system, region) for region in system.regions)
        held = all(len(region.held) and not region.rigid_modes for region in system.regions)
        self.firm = held and viscous is None and system.joints is None and all(one.is_solid for one in system.blocks)
        self.stiffness = self._reduced(system.stiffness_at_rest(np.ones(len(system.blocks)), True))
        self._drag = self._reduced(viscous(system.rest)) if viscous else None
        noise = np.random.default_rng(0).standard_normal(len(self.dof))
        diagonal = (self.stiffness if system.joints is None else self._reduced(system.blocks_at_rest())).diagonal()
        # Directions without stiffness at rest, as across a spring, gain some later.
        self._noise_force = _ROUNDING * noise * np.maximum(diagonal, diagonal.mean() if len(diagonal) else 0.0)
        self._factors: dict[tuple[float, bytes, bytes, bytes], Solve] = {}
        self._compliances: list[tuple[Solve, Compliance]] = []
        self._roundings: list[tuple[Solve, float]] = []

    def among(self, regions: tuple[Region, ...]) -> Stepper:
        """Return a stepper that shares the factorisations, for regions that differ in nothing but their eigenvalues."""
        other = copy(self)
        other.system = replace(self.system, regions=regions)
        other.pieces = tuple(pieces(other.system, region) for region in regions)
        return other

    def _beside(self) -> Index:
        """Return the index (n,) among the free nodes of the nearest one to each node, in its own block if possible."""
        found, rest = self.slot.copy(), self.system.rest
        for part in self.system.slices:
            own = self.free[(self.free >= part.start) & (self.free < part.stop)]
            lost = part.start + np.flatnonzero(found[part] < 0)
            leaders = own if len(own) else self.free
            if len(lost) and len(leaders):
                found[lost] = self.slot[leaders[cKDTree(rest[leaders]).query(rest[lost])[1]]]
        return found

    def _reduced(self, matrix: csr_matrix) -> csr_matrix:
        return matrix.tocsr()[self.dof][:, self.dof]

    def step(
        self,
        state: State,
        inputs: Inputs,
        h: float,
        controls: Controls,
        guess: Array | None = None,
        damped_at: Array | None = None,
    ) -> tuple[State, StepReport]:
        """Advance by h seconds while the pins move; return the new state and a report.

        A failed substep is retried with fallback coefficients, then by Newton's method, then with halved h. The
        shortest parts may be rough. If all of it fails, the report's outcome says so, and the state is the one given.

        guess: velocities (n, 3) to start the search from.  damping_positions: (n, 3) m, where C is evaluated; by
        default at the start.
        """
        if asleep(self.system, state, inputs, controls):
            return resting(state, h), StepReport(Outcome.CONVERGED, 0, 0, 1, 0.0, 0)
        for halving in range(self.halved_first(state, inputs, h, controls), _HALVINGS + 1):
            answer, report = self._parts(state, inputs, h, 2**halving, controls, guess, damped_at)
            if report.outcome is Outcome.CONVERGED and answer.is_finite:
                return answer, report
        return state, report

    def halved_first(self, state: State, inputs: Inputs, h: float, controls: Controls) -> int:
        """Return how often a step is bisected before the first attempt."""
        return 0

    def _parts(
        self,
        state: State,
        inputs: Inputs,
        h: float,
        parts: int,
        controls: Controls,
        guess: Array | None,
        damped_at: Array | None,
    ) -> tuple[State, StepReport]:
        iterations = evaluations = 0
        residual, helped = 0.0, 0
        for part in range(parts):
            for attempt, (calm, minimiser) in enumerate(self._attempts(controls)):
                given = parted(inputs, part, parts)
                begin = None if guess is None else guess[self.free]
                contact: ContactStep | None = None

                def made(
                    around: Around | None, given: Inputs = given, calm: bool = calm, state: State = state
                ) -> StepProblem:
                    return self.problem(self, state, given, h / parts, controls, calm, damped_at, around)

                if not len(self.free):
                    problem = made(None)
                    minimum = Minimum(problem.start, Outcome.CONVERGED, 0, 0, 0.0, 0.0)
                elif self.system.contact is None or all(one.touching is None for one in given):
                    problem = made(None)
                    tolerance = Tolerance(controls.tolerance, problem.noise, ways=True)
                    minimum = minimiser(problem, problem.begun(begin), tolerance)
                else:
                    # A bisected step searches contacts thoroughly: the whole step may have missed some.
                    contact = ContactStep.of(self.system, state, given, h / parts, controls, parts > 1)
                    problem, minimum = contact.minimised(made, minimiser, begin, controls.tolerance)
                iterations += minimum.iterations
                evaluations += minimum.evaluations
                helped += attempt > 0
                bolted = contact is not None and self._bolts(state, given, h / parts, controls, minimum.velocities)
                if minimum.outcome in (Outcome.CONVERGED, Outcome.TOUCHING) and not bolted:
                    # A contact failure is not retried: only a shorter step finds other contacts.
                    break
            residual = max(residual, minimum.residual)
            if contact is None:
                state = problem.state_after(minimum.velocities)
            else:
                state = contact.after(problem, minimum.velocities, parts == 2**_HALVINGS)
            if parts == 2**_HALVINGS and _creeping(minimum):
                continue
            if minimum.outcome is not Outcome.CONVERGED or not state.is_finite:
                outcome = minimum.outcome if state.is_finite else Outcome.NOT_FINITE
                return state, StepReport(outcome, iterations, evaluations, parts, residual, helped)
        return state, StepReport(Outcome.CONVERGED, iterations, evaluations, parts, residual, helped)

    def _bolts(self, state: State, inputs: Inputs, h: float, controls: Controls, velocities: Array) -> bool:
        """Return whether the velocities (f, 3) m/s of a step are those of a runaway."""
        if not any(law.waveform for law in controls.laws):
            return False
        every = np.zeros_like(state.positions)
        every[self.free] = velocities
        return bolts(self.system, state, inputs, h, controls, every)

    def _attempts(self, controls: Controls) -> list[tuple[bool, Minimiser]]:
        """Return the attempts in their order: whether to use fallback coefficients, and the minimiser."""
        found: list[tuple[bool, Minimiser]] = [(False, self._minimiser)]
        remembers = any(law.waveform for law in controls.laws)
        if remembers:
            found.append((True, self._minimiser))
        if self._minimiser is not minimise_newton:
            found.append((remembers, minimise_newton))
        return found

    def factor(self, h: float, inertia: Array, factors: Array, share: Array | None = None) -> Solve:
        """Return a solve with D + h K/e + C/e at rest, for the free nodes' inertia D = M/(s e) (f,).

        e is the first of the stiffness factors (b,) of the blocks. A dial that scales the stiffness scales 1/s alike,
        so D, rounded, and the factorisation stay.  stiffness_weights: (n,) weight of the stiffness; 1 if None.
        """
        key = self._key(h, inertia, factors, share)
        if key not in self._factors:
            matrix = diags(rounded(inertia).repeat(3)) + h * self.stiffness_over_first(factors, share)
            if self._drag is not None:
                matrix = matrix + self._drag / float(factors[0])
            self._keep(key, metric_of(matrix.tocsr(), self.system.rest[self.free]))
        return self._factors[key]

    def _key(self, h: float, inertia: Array, factors: Array, share: Array | None) -> tuple[float, bytes, bytes, bytes]:
        # Without drag, the matrix of a single block is independent of its factor.
        known = factors if self._drag is not None or len(factors) > 1 else np.ones(1)
        return h, rounded(inertia).tobytes(), known.tobytes(), b"" if share is None else share.tobytes()

    def _keep(self, key: tuple[float, bytes, bytes, bytes], solve: Solve) -> None:
        if len(self._factors) >= _FACTORS:
            self._factors.pop(next(iter(self._factors)))
        self._factors[key] = solve

    def compliance(self, solve: Solve) -> Compliance:
        """Return lazily computed columns of the inverse, at the nodes that carry contact surfaces."""
        for known, found in self._compliances:
            if known is solve:
                return found
        assert self.system.contact is not None
        nodes = self.system.contact.nodes
        if len(nodes):
            # Nodes in contact are near each other: sort them by position.
            nodes = nodes[cKDTree(self.system.rest[nodes], leafsize=LOT).indices]
        slots = self.slot[nodes]
        made = Compliance(solve, len(self.free), slots[slots >= 0])
        kept = list(self._factors.values())
        self._compliances = [one for one in self._compliances if any(one[0] is other for other in kept)]
        self._compliances.append((solve, made))
        return made

    def stiffness_over_first(self, factors: Array, share: Array | None = None) -> csr_matrix:
        """Return K (3f, 3f) N/m at rest of the free nodes over the first of the factors (b,).

        stiffness_weights: as in factorise().
        """
        if len(factors) == 1 and share is None:
            return self.stiffness
        return self._reduced(self.system.stiffness_at_rest(factors, True, share)) / float(factors[0])

    def rounding(self, solve: Solve, far: Array) -> float:
        """Return the error estimate that rounding alone causes, sqrt(W s).

        scale: (f,) or a number, the stiffness factor times the largest coordinate in m: forces of its last digit.
        """
        if not np.ndim(far) and self.system.joints is None:
            return float(far) * self._rounding_of(solve)
        force = (far.repeat(3) if np.ndim(far) else far) * self._noise_force
        if self.system.joints is not None:
            # A link's rounding error pulls at both of its ends alike.
            pull = float(np.max(far, initial=0.0)) * _ROUNDING * self.system.joints.noise()
            force = force + pull[self.free].ravel()
        # With links of extreme stiffness, rounding may make the product negative.
        return float(np.sqrt(max(float(force @ solve(force)), 0.0)))

    def _rounding_of(self, solve: Solve) -> float:
        """Return the rounding estimate for a scale of 1, computed once for each factorisation."""
        found = [value for known, value in self._roundings if known is solve]
        if not found:
            force = self._noise_force
            found = [float(np.sqrt(max(float(force @ solve(force)), 0.0)))]
            # Drop entries of factorisations that left the cache, which would otherwise stay in memory.
            there = list(self._factors.values())
            self._roundings = [one for one in self._roundings if any(one[0] is other for other in there)]
            self._roundings.append((solve, found[0]))
        return found[0]


def _creeping(minimum: Minimum) -> bool:
    """Return whether the search had not converged but is close enough to accept."""
    if minimum.outcome is Outcome.TOUCHING:
        return True
    return minimum.outcome is Outcome.ITERATIONS and minimum.residual <= _ROUGH


def rounded(inertia: Array) -> Array:
    """Round the inertia to fewer bits, so that values from different computations are equal."""
    parts, exponents = np.frexp(inertia)
    return np.asarray(np.ldexp(np.round(np.ldexp(parts, _DIGITS)), exponents - _DIGITS))


def highest_frequency(stepper: Stepper, factors: Array) -> float:
    """Return the highest frequency of the free nodes at rest, rad/s; explicit steps are bounded up to 2 over it.

    factors: (b,) stiffness factor of each block.
    """
    value = largest_eigenvalue(stepper.stiffness_over_first(factors), stepper.system.mass[stepper.free])
    return float(np.sqrt(float(factors[0]) * value))

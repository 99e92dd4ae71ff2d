"""Time stepper: one substep of a system."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index
from ..base.memo import Memo
from ..contact.collision_detection import CollisionDetection
from ..contact.contact_preconditioner import COLUMN_BATCH, InverseColumns
from ..contact_response.contact_guards import ContactGuards
from ..contact_response.contact_solve import ContactSolve
from ..contact_response.push_out import PushOut
from ..objective.contact_problem import ContactProblem
from ..objective.nodal_rotations import NodalRotations
from ..objective.reference_motion import RegionSlice, region_slices
from ..objective.sleep import count_still_step, is_asleep, sleep_step
from ..objective.steering import relax, steer
from ..objective.step_problem import StepProblem
from ..objective.stepper_view import ViscousMatrix
from ..settle.controls import Controls
from ..settle.step_report import StepReport
from ..settle.support_modes import ContactEnvironment
from ..settle.work_meter import WorkMeter
from ..solvers.factorisation import Solve
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.modes import largest_eigenvalue
from ..solvers.objective import Minimum, Outcome, Tolerance
from ..solvers.preconditioner import accurate_solve, build_preconditioner
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import State
from ..system.system import System
from .step_policy import DeepOverlaps, Minimiser, SpentWork, StepPolicy
from .step_task import StepResult, StepTask

# Number of bits of the inertia that identify a factorisation.
_INERTIA_BITS = 40
# Number of cached factorisations.
_MAX_CACHED_FACTORISATIONS = 8
# Relative rounding error of positions: a few units in the last place of the largest coordinate.
_ROUNDING = 4.0 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class _Solution:
    """Minimum of the problem of a part of a step, and the contact solve that found it, if there was one."""

    problem: ContactProblem
    minimum: Minimum
    contact: ContactSolve | None = None

    def state_after(self, is_final: bool) -> State:
        """Return the state after the part. is_final: see ContactSolve.finish_step()."""
        if self.contact is None:
            return self.problem.state_after(self.minimum.velocities)
        return self.contact.finish_step(self.problem, self.minimum.velocities, is_final)


class Stepper:
    """Time stepper of one system.

    Only factorisations and results derived from them are cached. A step is therefore deterministic: equal arguments
    give bitwise equal results.

    free: (f,) nodes that are unknowns.
    dof: (3f,) indices of their coordinates in the stacked coordinates of all nodes.
    free_index: (n,) index of each node among the free nodes, -1 for hard pins.
    region_slices: slices of each region, one per block.
    is_pinned_solid: whether the system consists of pinned solids only, so that its stiffness resists every motion.
    stiffness: (3f, 3f) N/m of the free nodes at rest, positive semi-definite, for stiffness factors of 1.
    size: of the smallest body, m.
    policy: decides about steps whose minimisation fails.
    problem_type: class of the objective that a substep minimises.
    """

    problem_type: ClassVar[type[StepProblem]] = StepProblem

    def __init__(
        self, system: System, minimiser: Minimiser = minimise_lbfgs, viscous: ViscousMatrix | None = None
    ) -> None:
        """viscous: C(x) in N s/m of a damping force -C(x) v, evaluated at each step's start."""
        self.system = system
        self.viscous = viscous
        self._minimiser = minimiser
        self.size = min((block.size for block in system.blocks if block.size > 0.0), default=1.0)
        # Nets use Newton's method.
        spent_work = SpentWork.of_solids() if minimiser is minimise_lbfgs else SpentWork()
        is_solid = all(block.is_solid for block in system.blocks)
        deep_overlaps = DeepOverlaps.of_solids() if is_solid else DeepOverlaps()
        self.policy = StepPolicy(spent_work=spent_work, deep_overlaps=deep_overlaps)
        self.free = np.flatnonzero(~system.is_fixed)
        self.dof = (3 * self.free[:, None] + np.arange(3)).ravel()
        self.free_index = np.full(len(system.rest), -1)
        self.free_index[self.free] = np.arange(len(self.free))
        self.nearest_free_index = self._find_nearest_free_index()
        self.nodal_rotations = NodalRotations.from_system(system)
        self.region_slices: tuple[tuple[RegionSlice, ...], ...] = tuple(
            region_slices(system, region) for region in system.regions
        )
        held = all(len(region.constrained_nodes) and not region.rigid_modes for region in system.regions)
        self.is_pinned_solid = (
            held and viscous is None and system.links is None and all(one.is_solid for one in system.blocks)
        )
        self.stiffness = self._restrict_to_free(system.stiffness_at_rest(np.ones(len(system.blocks)), True))
        self._rest_damping = self._restrict_to_free(viscous(system.rest)) if viscous else None
        noise = np.random.default_rng(0).standard_normal(len(self.dof))
        diagonal = (
            self.stiffness if system.links is None else self._restrict_to_free(system.blocks_stiffness_at_rest())
        ).diagonal()
        # Directions without stiffness at rest, such as those perpendicular to a spring, become stiff when deformed.
        self._rounding_force = _ROUNDING * noise * np.maximum(diagonal, diagonal.mean() if len(diagonal) else 0.0)
        self._factorisations: dict[tuple[float, bytes, bytes, bytes], Solve] = {}
        self._hanging_compliances: Memo[Solve] = Memo(_MAX_CACHED_FACTORISATIONS)
        self._compliances: list[tuple[Solve, InverseColumns]] = []
        self._push_out = PushOut(system, self.free)
        self._roundings: list[tuple[Solve, float]] = []

    def with_regions(self, regions: tuple[Region, ...]) -> Stepper:
        """Return a stepper with the same factorisations, for regions that differ only in their eigenvalues."""
        other = copy(self)
        other.system = replace(self.system, regions=regions)
        other.region_slices = tuple(region_slices(other.system, region) for region in regions)
        # The shape in which this is computed belongs to the regions.
        other._hanging_compliances = Memo(_MAX_CACHED_FACTORISATIONS)
        return other

    def _find_nearest_free_index(self) -> Index:
        """Return the index (n,) among the free nodes of each node's nearest free node, in its own block if possible."""
        index, rest = self.free_index.copy(), self.system.rest
        for part in self.system.slices:
            own = self.free[(self.free >= part.start) & (self.free < part.stop)]
            pinned = part.start + np.flatnonzero(index[part] < 0)
            candidates = own if len(own) else self.free
            if len(pinned) and len(candidates):
                index[pinned] = self.free_index[candidates[cKDTree(rest[candidates]).query(rest[pinned])[1]]]
        return index

    def _restrict_to_free(self, matrix: csr_matrix) -> csr_matrix:
        return matrix.tocsr()[self.dof][:, self.dof]

    def step(
        self,
        state: State,
        inputs: Inputs,
        h: float,
        controls: Controls,
        guess: Array | None = None,
        damping_positions: Array | None = None,
        *,
        meter: WorkMeter | None = None,
    ) -> tuple[State, StepReport]:
        """Advance by h seconds while the pins move; return the new state and a report.

        The policy decides about failed steps. If all attempts fail, the given state is returned, and the report's
        outcome states the failure.

        guess: (n, 3) m/s, velocities from which the search starts.
        damping_positions: (n, 3) m, at which C is evaluated; None for those at the start of the step.
        meter: work of the frame. If it is spent, or if all attempts fail, the step is brought to an end calmly; without
            a meter, the search is not bounded.
        """
        if is_asleep(self.system, state, inputs, controls):
            return sleep_step(state, h)
        start, controls = steer(self, state, inputs, h, controls)
        policy = self.policy
        task = StepTask.of(
            self.system,
            start,
            inputs,
            h,
            controls,
            size=self.size,
            guess=guess,
            damping_positions=damping_positions,
            meter=meter,
        )
        policy.spent_work.begin_step(task)
        result = self._search(task)
        if not result.report.has_converged:
            return state, result.report
        after = policy.excessive_motion.limit_end(task, result)
        if not result.is_calmed:
            after = relax(self.system, start, after, h)
        after = policy.deep_overlaps.push_out(task, after, self._push_out)
        after = count_still_step(self.system, start, after, inputs, h, controls, result.is_regular)
        return policy.spent_work.remember(task, after, has_converged=result.has_converged), result.report

    def _search(self, task: StepTask) -> StepResult:
        """Make a step as a whole, or in more and more parts, until the policy accepts, calms or gives up."""
        policy, counts, meter = self.policy, task.counts, task.meter
        guard, after, done, halvings = policy.spent_work, task.state, 0, 0
        # If it ends at once, the search of the whole step would be discarded.
        if not guard.fires(guard.ends_at_once(task.violence), counts):
            halvings, detection = self.initial_bisections(task)
            task = replace(task, detection=detection)
            while True:
                after, report, done = self._step_in_parts(task, 2**halvings)
                if report.has_converged:
                    return StepResult(after, report, is_regular=not report.hard_guards)
                is_last = halvings == policy.max_bisections or not (
                    meter.is_spent or policy.may_bisect(report.outcome, counts)
                )
                # A static search continues from its last shape if a step fails, so it needs no calm end.
                may_fail = not meter.is_limited or task.controls.is_static
                if guard.fires(meter.is_spent or (is_last and not may_fail), counts):
                    break
                if is_last:
                    return StepResult(after, report)
                halvings += 1
        return self._end_calmly(task, after, done, 2**halvings)

    def _step_in_parts(self, task: StepTask, parts: int) -> tuple[State, StepReport, int]:
        """Make a step in equal parts until one fails; return the last state, a report and the number of parts made."""
        state, report = task.state, task.new_report(parts)
        is_shortest = parts == 2**self.policy.max_bisections
        for place in range(parts):
            solution = self._solve_part(task.part(state, place, parts))
            report = report.with_search(solution.minimum)
            if self.policy.accepts_part(solution.minimum, is_shortest, task.counts):
                after = solution.state_after(is_shortest)
                report = report.with_end(after.is_finite)
            if not report.has_converged:
                return state, report, place
            state = after
        return state, report, parts

    def _end_calmly(self, task: StepTask, state: State, done: int, parts: int) -> StepResult:
        """Bring a step to an end of which some of its parts are done, see SpentWork. state: after these parts."""
        guard, meter = self.policy.spent_work, task.meter
        attempt, guards = self.policy.calm_attempt(self.attempts(task.controls)), self.policy.contacts.rough()
        controls = replace(task.controls, tolerance=guard.tolerance_factor * task.controls.tolerance)
        task, count = replace(task, controls=controls), max(parts, guard.part_count(task.violence))
        report = task.new_report(count)
        end_of_work = meter.spent + guard.work_of_end(task.violence) / meter.steps_per_frame
        for place in range(done * count // parts, count):
            part = task.part(state, place, count)
            meter.limit = meter.spent + max((end_of_work - meter.spent) / (count - place), 0.0)
            solution = self._attempt(part, attempt, guards)
            report = report.with_search(solution.minimum)
            state = guard.end_part(part, solution.state_after(True))
        has_converged, report = report.has_converged, replace(report.with_end(True), residual=1.0)
        return StepResult(state, report, is_calmed=True, has_converged=has_converged)

    def _solve_part(self, part: StepTask) -> _Solution:
        """Minimise the objective of a part by one attempt after another, until the policy accepts one."""
        attempts, iterations, evaluations = self.attempts(part.controls), 0, 0
        for number, attempt in enumerate(attempts, 1):
            may_retry = number < len(attempts) and not part.meter.is_spent
            solution = self._attempt(part, attempt, self.policy.contacts, may_retry=may_retry)
            iterations += solution.minimum.iterations
            evaluations += solution.minimum.evaluations
            if number == len(attempts) or part.meter.is_spent:
                break
            is_runaway = solution.contact is not None and self._is_runaway_step(part, solution.minimum.velocities)
            if self.policy.accepts_attempt(solution.minimum, is_runaway, part.counts):
                break
        return replace(solution, minimum=replace(solution.minimum, iterations=iterations, evaluations=evaluations))

    def _attempt(
        self, part: StepTask, attempt: tuple[bool, Minimiser], guards: ContactGuards, *, may_retry: bool = False
    ) -> _Solution:
        """Minimise the objective of a part.

        attempt: see attempts().  may_retry: whether another attempt follows a runaway step, so that its search may end
        early.
        """
        use_fallback_coefficients, minimiser = attempt
        free_guess = None if part.guess is None else part.guess[self.free]
        minimise = part.meter.metered(minimiser, self.policy.evaluation_cost(minimiser, part.meter.costs))
        tolerance = part.controls.tolerance

        def make_problem(environment: ContactEnvironment | None) -> ContactProblem:
            return self.make_problem(
                part.state,
                part.inputs,
                part.h,
                part.controls,
                use_fallback_coefficients,
                part.damping_positions,
                environment,
            )

        if not self.has_unknowns():
            problem = make_problem(None)
            return _Solution(problem, Minimum(problem.start, Outcome.CONVERGED, 0, 0, 0.0, 0.0))
        if not part.has_contact:
            problem = make_problem(None)
            minimum = minimise(
                problem, problem.initial_guess(free_guess), Tolerance(tolerance, problem.noise, by_displacement=True)
            )
            return _Solution(problem, minimum)
        contact = ContactSolve.create(
            self.system,
            part.state,
            part.inputs,
            part.h,
            part.controls,
            is_thorough=part.is_part,
            guards=guards,
            counts=part.counts,
            meter=part.meter,
            detection=part.detection,
        )
        is_rejected = None
        if may_retry and self.policy.runaway_step.is_enabled:
            is_rejected = partial(self._is_runaway_step, part)
        return _Solution(*contact.solve(make_problem, minimise, free_guess, tolerance, is_rejected), contact)

    def _is_runaway_step(self, part: StepTask, velocities: Array) -> bool:
        """Return whether a step with velocities (f, 3) m/s is a runaway step, see RunawayStep."""
        if not any(law.is_waveform for law in part.controls.laws):
            return False
        all_velocities = np.zeros_like(part.state.positions)
        all_velocities[self.free] = velocities
        return self.policy.runaway_step.is_runaway(part, all_velocities)

    def initial_bisections(self, task: StepTask) -> tuple[int, CollisionDetection | None]:
        """Return the number of bisections before the first attempt, and the detection that it needed, if any."""
        return 0, None

    def attempts(self, controls: Controls) -> list[tuple[bool, Minimiser]]:
        """Return the attempts at a part of a step, see StepPolicy.attempts()."""
        return self.policy.attempts(self._minimiser, controls)

    def has_unknowns(self) -> bool:
        """Return whether a step has anything to solve."""
        return len(self.free) > 0

    def frame_meter(self, step_count: int) -> WorkMeter:
        """Return the meter of the work of a frame of so many steps."""
        return self.policy.spent_work.meter(len(self.system.rest), step_count)

    def make_problem(
        self,
        state: State,
        inputs: Inputs,
        h: float,
        controls: Controls,
        use_fallback_coefficients: bool,
        damping_positions: Array | None,
        environment: ContactEnvironment | None,
    ) -> ContactProblem:
        """Return the objective of a substep of h seconds. damping_positions: see step()."""
        return self.problem_type(
            self, state, inputs, h, controls, use_fallback_coefficients, damping_positions, environment
        )

    def factorise(self, h: float, inertia: Array, factors: Array, stiffness_weights: Array | None = None) -> Solve:
        """Return a factorised solve with D + h K/e + C/e at rest.

        A dial that scales the stiffness scales 1/s by the same factor. The rounded D, and thus the factorisation, then
        stays the same.

        inertia: D = M/(s e) of the free nodes, (f,).  factors: (b,) stiffness factors of the blocks; e is the first.
        stiffness_weights: (n,) weight of each node's stiffness; 1 if None.
        """
        key = self._factorisation_key(h, inertia, factors, stiffness_weights)
        if key not in self._factorisations:
            matrix = diags(round_inertia(inertia).repeat(3)) + h * self.relative_stiffness(factors, stiffness_weights)
            if self._rest_damping is not None:
                matrix = matrix + self._rest_damping / float(factors[0])
            self._cache_factorisation(key, build_preconditioner(matrix.tocsr(), self.system.rest[self.free]))
        return self._factorisations[key]

    def hanging_compliance(self, factors: Array) -> Solve:
        """Return a solve with the stiffness (3f, 3f) N/m of the free nodes in the hanging shape, to 1%.

        factors: (b,) stiffness factor of each block.
        """
        return self._hanging_compliances.get(factors.tobytes(), lambda: self._hanging_compliance(factors))

    def _hanging_compliance(self, factors: Array) -> Solve:
        positions = self.system.rest.copy()
        for region in self.system.regions:
            if region.hanging_shape is not None:
                positions[region.free] += region.hanging_shape.displacements
        matrix = self._restrict_to_free(self.system.tangent(State.at_rest(positions), factors))
        return accurate_solve(matrix, self.system.rest[self.free])

    def _factorisation_key(
        self, h: float, inertia: Array, factors: Array, stiffness_weights: Array | None
    ) -> tuple[float, bytes, bytes, bytes]:
        # Without drag, the matrix of a single block is independent of its factor.
        relevant_factors = factors if self._rest_damping is not None or len(factors) > 1 else np.ones(1)
        return (
            h,
            round_inertia(inertia).tobytes(),
            relevant_factors.tobytes(),
            b"" if stiffness_weights is None else stiffness_weights.tobytes(),
        )

    def _cache_factorisation(self, key: tuple[float, bytes, bytes, bytes], solve: Solve) -> None:
        if len(self._factorisations) >= _MAX_CACHED_FACTORISATIONS:
            self._factorisations.pop(next(iter(self._factorisations)))
        self._factorisations[key] = solve

    def inverse_columns(self, solve: Solve) -> InverseColumns:
        """Return lazily computed columns of a solve's inverse, for the nodes that carry contact surfaces."""
        for known, found in self._compliances:
            if known is solve:
                return found
        assert self.system.contact is not None
        nodes = self.system.contact.surface_nodes
        if len(nodes):
            # Nodes in contact are near each other: sort them by position.
            nodes = nodes[cKDTree(self.system.rest[nodes], leafsize=COLUMN_BATCH).indices]
        slots = self.free_index[nodes]
        columns = InverseColumns(solve, len(self.free), slots[slots >= 0])
        cached = list(self._factorisations.values())
        self._compliances = [one for one in self._compliances if any(one[0] is other for other in cached)]
        self._compliances.append((solve, columns))
        return columns

    def relative_stiffness(self, factors: Array, stiffness_weights: Array | None = None) -> csr_matrix:
        """Return the stiffness (3f, 3f) N/m of the free nodes at rest, divided by the first stiffness factor.

        factors, stiffness_weights: as in factorise().
        """
        if len(factors) == 1 and stiffness_weights is None:
            return self.stiffness
        return self._restrict_to_free(self.system.stiffness_at_rest(factors, True, stiffness_weights)) / float(
            factors[0]
        )

    def rounding_error(self, solve: Solve, scale: Array) -> float:
        """Return the error estimate that rounding alone causes, sqrt(W).

        scale: (f,) or a number, m: stiffness factor times the largest coordinate. Rounding forces are proportional to
        it.
        """
        if not np.ndim(scale) and self.system.links is None:
            return float(scale) * self._unit_rounding_error(solve)
        force = (scale.repeat(3) if np.ndim(scale) else scale) * self._rounding_force
        if self.system.links is not None:
            # The rounding error of a link acts on both of its ends, with opposite signs.
            pull = float(np.max(scale, initial=0.0)) * _ROUNDING * self.system.links.random_gradient()
            force = force + pull[self.free].ravel()
        # With links of extreme stiffness, rounding may make the product negative.
        return float(np.sqrt(max(float(force @ solve(force)), 0.0)))

    def _unit_rounding_error(self, solve: Solve) -> float:
        """Return the rounding error for a scale of 1, computed once per factorisation."""
        found = [value for known, value in self._roundings if known is solve]
        if not found:
            force = self._rounding_force
            found = [float(np.sqrt(max(float(force @ solve(force)), 0.0)))]
            # Drop entries of factorisations that left the cache, which would otherwise stay in memory.
            cached = list(self._factorisations.values())
            self._roundings = [one for one in self._roundings if any(one[0] is other for other in cached)]
            self._roundings.append((solve, found[0]))
        return found[0]


def round_inertia(inertia: Array) -> Array:
    """Round the inertia to fewer bits, so that values from different computations are equal."""
    parts, exponents = np.frexp(inertia)
    return np.asarray(np.ldexp(np.round(np.ldexp(parts, _INERTIA_BITS)), exponents - _INERTIA_BITS))


def highest_frequency(stepper: Stepper, factors: Array) -> float:
    """Return the highest angular frequency w of the free nodes at rest, rad/s; explicit steps are stable up to 2/w.

    factors: (b,) stiffness factor of each block.
    """
    value = largest_eigenvalue(stepper.relative_stiffness(factors), stepper.system.mass[stepper.free])
    return float(np.sqrt(float(factors[0]) * value))

"""Time stepper: one substep of a system."""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index
from ..base.memo import Memo
from ..contact.collision_detection import CollisionDetection
from ..contact.collision_state import CollisionState
from ..contact.contact_preconditioner import COLUMN_BATCH, InverseColumns
from ..contact_response.contact_guards import ContactGuards
from ..contact_response.contact_solve import ContactSolve
from ..contact_response.push_out import PushOut
from ..objective.contact_problem import ContactProblem
from ..objective.nodal_rotations import NodalRotations
from ..objective.reference_motion import RegionSlice, region_slices
from ..objective.slack_steering import relax
from ..objective.sleep import count_still_step, is_asleep, sleep_step
from ..objective.steering import steer
from ..objective.step_problem import StepProblem
from ..objective.stepper_view import ViscousMatrix
from ..settle.controls import Controls
from ..settle.step_report import GuardCounts, StepReport, Verdict
from ..settle.support_modes import ContactEnvironment
from ..settle.work_meter import WorkMeter
from ..solvers.factorisation import Solve
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.modes import largest_eigenvalue
from ..solvers.objective import Minimum, Outcome, Tolerance
from ..solvers.preconditioner import accurate_solve, build_preconditioner
from ..system.inputs import Inputs, subinterval_inputs
from ..system.region import Region
from ..system.state import State
from ..system.system import System
from .shape_limit import carried_state, overstretched_regions, restarted_history
from .step_policy import DeepOverlaps, Minimiser, SpentWork, StepPolicy
from .violence import Violence

# Number of bits of the inertia that identify a factorisation.
_INERTIA_BITS = 40
# Number of cached factorisations.
_MAX_CACHED_FACTORISATIONS = 8
# Relative rounding error of positions: a few units in the last place of the largest coordinate.
_ROUNDING = 4.0 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class _Step:
    """Arguments of a step, see Stepper.step(), with its counts of guards and its meter.

    detection: of the whole step; None if nothing has been detected yet.
    violence: of the whole step.
    """

    inputs: Inputs
    h: float
    controls: Controls
    guess: Array | None
    damping_positions: Array | None
    counts: GuardCounts
    meter: WorkMeter
    detection: CollisionDetection | None
    violence: Violence


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
            return sleep_step(state, h), StepReport(Outcome.CONVERGED, 0, 0, 1, 0.0)
        given_state = state
        state, controls = steer(self, state, inputs, h, controls)
        counts: GuardCounts = Counter()
        work, policy = meter or WorkMeter(), self.policy
        violence = Violence.of(self.system, state, inputs, h, self.size)
        work.begin_step(policy.spent_work.max_work(violence), policy.spent_work.costs(violence))
        if policy.spent_work.fires(policy.spent_work.ends_at_once(violence), counts):
            # The search of the whole step would be discarded.
            step = _Step(inputs, h, controls, guess, damping_positions, counts, work, None, violence)
            return self._end_roughly(state, state, step, 0, 1)
        halvings, detection = self.initial_bisections(state, inputs, h, controls, counts)
        step = _Step(inputs, h, controls, guess, damping_positions, counts, work, detection, violence)
        while True:
            after, report, done = self._step_in_parts(state, step, 2**halvings)
            if report.outcome is Outcome.CONVERGED:
                break
            is_last = halvings == policy.max_bisections or not (
                work.is_spent or policy.may_bisect(report.outcome, counts)
            )
            # A static search continues from its last shape if a step fails, so it needs no rough end.
            may_fail = not work.is_limited or controls.is_static
            if policy.spent_work.fires(work.is_spent or (is_last and not may_fail), counts):
                return self._end_roughly(state, after, step, done, 2**halvings)
            if is_last:
                return given_state, report
            halvings += 1
        guard, is_regular = policy.excessive_motion, not report.hard_guards
        is_excessive = work.is_limited and guard.applies(
            self.system, state, after, inputs, h, violence=violence, is_rough=report.is_rough
        )
        if guard.fires(is_excessive, counts):
            after = guard.limit(self.system, state, after, inputs, h, is_rough=report.is_rough)
        after = self._without_deep_overlaps(state, relax(self.system, state, after, h), step)
        return self._finished(state, after, step, is_regular=is_regular), report

    def _without_deep_overlaps(self, before: State, after: State, step: _Step) -> State:
        """Return the state at the end of a frame, pushed out of deep overlaps where animated points crush bodies."""
        guard, inputs = self.policy.deep_overlaps, [one.contact for one in step.inputs]
        contact, is_shown = self.system.contact, step.meter.is_limited and step.meter.is_last_step
        if contact is None or all(one is None for one in inputs):
            return after
        if not (guard.is_enabled and step.violence.is_crushing and is_shown):
            return after
        system, factors = self.system, step.controls.stiffness_per_block(len(self.system.blocks))
        collisions = CollisionState.of(contact, before.positions, inputs, factors, step.h)

        def is_allowed(positions: Array) -> bool:
            shape = replace(after, positions=positions)
            if overstretched_regions(system, after, shape, step.inputs, guard.max_ratio):
                return False
            energies = [system.elastic_energy(x, factors) for x in (after.positions, positions)]
            impact = guard.impact_energy(system, step.inputs, step.h)
            return energies[1] <= max(guard.max_energy_ratio * energies[0], impact)

        positions = self._push_out(collisions, after.positions, guard.max_depth, is_allowed)
        if not guard.fires(positions is not after.positions, step.counts):
            return after
        return replace(after, positions=positions, history=restarted_history(self.system, after.history))

    def _end_roughly(self, before: State, state: State, step: _Step, done: int, parts: int) -> tuple[State, StepReport]:
        """Bring a step to an end, see _finish_roughly(); return the state after it, and a report.

        before, state: at the start of the step, and after the parts that are done.
        """
        after, report, has_converged = self._finish_roughly(state, step, done, parts)
        # Calm frames that spend their work keep the speed of their swing.
        is_rough, limit = step.violence.is_crushing, self.policy.excessive_motion.limit
        after = limit(self.system, before, after, step.inputs, step.h, is_rough=is_rough)
        after = self._without_deep_overlaps(before, after, step)
        return self._finished(before, after, step, is_regular=False, has_converged=has_converged), report

    def _finished(
        self, before: State, after: State, step: _Step, *, is_regular: bool, has_converged: bool = False
    ) -> State:
        """Return the state after a step with its counters updated.

        is_regular: see count_still_step().  has_converged: whether all parts of a step that ended roughly converged.
        """
        after = count_still_step(self.system, before, after, step.inputs, step.h, step.controls, is_regular)
        guard, violence = self.policy.spent_work, step.violence
        spent_steps = guard.updated_count(violence, is_spent=step.counts[SpentWork] > 0, has_converged=has_converged)
        history = violence.updated_history(self.system, after.history, spent_steps)
        return after if history is after.history else replace(after, history=history)

    def frame_meter(self, step_count: int) -> WorkMeter:
        """Return the meter of the work of a frame of so many steps."""
        return self.policy.spent_work.meter(len(self.system.rest), step_count)

    def has_unknowns(self) -> bool:
        """Return whether a step has anything to solve."""
        return len(self.free) > 0

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

    def initial_bisections(
        self, state: State, inputs: Inputs, h: float, controls: Controls, counts: GuardCounts
    ) -> tuple[int, CollisionDetection | None]:
        """Return the number of bisections before the first attempt, and the detection that it needed, if any."""
        return 0, None

    def attempts(self, controls: Controls) -> list[tuple[bool, Minimiser]]:
        """Return the attempts at a part of a step, see StepPolicy.attempts()."""
        return self.policy.attempts(self._minimiser, controls)

    def _step_in_parts(self, state: State, step: _Step, parts: int) -> tuple[State, StepReport, int]:
        """Make a step in equal parts until one fails; return the last state, a report and the number of parts made."""
        iterations = evaluations = 0
        residual, is_shortest = 0.0, parts == 2**self.policy.max_bisections
        h, counts, meter = step.h / parts, step.counts, step.meter
        for part in range(parts):
            if part == 1:
                step = replace(step, controls=step.controls.with_unchanged_dials())
            inputs = subinterval_inputs(step.inputs, part, parts)
            attempts = self.attempts(step.controls)
            for number, attempt in enumerate(attempts, 1):
                # A bisected step searches contacts thoroughly: the whole step may have missed some.
                guards, may_retry = self.policy.contacts, number < len(attempts) and not meter.is_spent
                problem, minimum, contact = self._solve_part(
                    state, step, inputs, h, attempt, guards, parts > 1, may_retry=may_retry
                )
                iterations += minimum.iterations
                evaluations += minimum.evaluations
                if number == len(attempts) or meter.is_spent:
                    break
                is_runaway = contact is not None and self._is_runaway_step(
                    state, inputs, h, step.controls, minimum.velocities
                )
                if self.policy.judge_attempt(minimum, is_runaway, counts) is Verdict.ACCEPT:
                    break
            residual, outcome = max(residual, minimum.residual), minimum.outcome
            if self.policy.judge_part(minimum, is_shortest, counts) is Verdict.ACCEPT:
                if contact is None:
                    after = problem.state_after(minimum.velocities)
                else:
                    after = contact.finish_step(problem, minimum.velocities, is_shortest)
                if after.is_finite:
                    state = after
                    continue
                outcome = Outcome.NOT_FINITE
            return state, StepReport(outcome, iterations, evaluations, parts, residual, counts), part
        return state, StepReport(Outcome.CONVERGED, iterations, evaluations, parts, residual, counts), parts

    def _solve_part(
        self,
        state: State,
        step: _Step,
        inputs: Inputs,
        h: float,
        attempt: tuple[bool, Minimiser],
        guards: ContactGuards,
        is_thorough: bool,
        *,
        may_retry: bool = False,
    ) -> tuple[ContactProblem, Minimum, ContactSolve | None]:
        """Minimise the objective of a part of h s; return it, its minimum, and the contact solve, if there is one.

        attempt: see attempts().  is_thorough: see CollisionDetection.
        may_retry: whether another attempt follows a runaway step, so that its search may end early.
        """
        use_fallback_coefficients, minimiser = attempt
        free_guess = None if step.guess is None else step.guess[self.free]
        minimise = step.meter.metered(minimiser, self.policy.evaluation_cost(minimiser, step.meter.costs))

        def make_problem(environment: ContactEnvironment | None) -> ContactProblem:
            return self.make_problem(
                state, inputs, h, step.controls, use_fallback_coefficients, step.damping_positions, environment
            )

        if not self.has_unknowns():
            problem = make_problem(None)
            return problem, Minimum(problem.start, Outcome.CONVERGED, 0, 0, 0.0, 0.0), None
        if self.system.contact is None or all(one.contact is None for one in inputs):
            problem = make_problem(None)
            tolerance = Tolerance(step.controls.tolerance, problem.noise, by_displacement=True)
            return problem, minimise(problem, problem.initial_guess(free_guess), tolerance), None
        contact = ContactSolve.create(
            self.system,
            state,
            inputs,
            h,
            step.controls,
            is_thorough=is_thorough,
            guards=guards,
            counts=step.counts,
            meter=step.meter,
            detection=None if is_thorough else step.detection,
        )

        def is_runaway(v: Array) -> bool:
            return self._is_runaway_step(state, inputs, h, step.controls, v)

        is_rejected = is_runaway if may_retry and self.policy.runaway_step.is_enabled else None
        problem, minimum = contact.solve(make_problem, minimise, free_guess, step.controls.tolerance, is_rejected)
        return problem, minimum, contact

    def _finish_roughly(self, state: State, step: _Step, done: int, parts: int) -> tuple[State, StepReport, bool]:
        """Bring a step to an end of which some of its parts are done, see SpentWork.

        Also return whether the searches of all these parts converged.
        """
        guard, iterations, evaluations, has_converged = self.policy.spent_work, 0, 0, True
        attempt, guards = self.policy.calm_attempt(self.attempts(step.controls)), self.policy.contacts.rough()
        controls = replace(step.controls, tolerance=guard.tolerance_factor * step.controls.tolerance)
        step = replace(step, controls=controls)
        count = max(parts, guard.part_count(step.violence))
        first = done * count // parts
        end_of_work = step.meter.spent + guard.work_of_end(step.violence) / step.meter.steps_per_frame
        for part in range(first, count):
            if part == max(first, 1):
                step = replace(step, controls=step.controls.with_unchanged_dials())
            inputs, h, meter = subinterval_inputs(step.inputs, part, count), step.h / count, step.meter
            meter.limit = meter.spent + max((end_of_work - meter.spent) / (count - part), 0.0)
            problem, minimum, contact = self._solve_part(state, step, inputs, h, attempt, guards, True)
            iterations += minimum.iterations
            evaluations += minimum.evaluations
            has_converged &= minimum.outcome is Outcome.CONVERGED
            if contact is None:
                after = problem.state_after(minimum.velocities)
            else:
                after = contact.finish_step(problem, minimum.velocities, True)
            state = after if after.is_finite else carried_state(self.system, state, inputs, h)
        report = StepReport(Outcome.CONVERGED, iterations, evaluations, count, 1.0, step.counts)
        return state, report, has_converged

    def _is_runaway_step(self, state: State, inputs: Inputs, h: float, controls: Controls, velocities: Array) -> bool:
        """Return whether a step with velocities (f, 3) m/s is a runaway step, see RunawayStep."""
        if not any(law.is_waveform for law in controls.laws):
            return False
        all_velocities = np.zeros_like(state.positions)
        all_velocities[self.free] = velocities
        return self.policy.runaway_step.is_runaway(self.system, state, inputs, h, controls, all_velocities)

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

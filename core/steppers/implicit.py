"""Time stepper: one substep of a system."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from ..base.arrays import Array
from ..contact.collision_detection import CollisionDetection
from ..contact_response.contact_guards import ContactGuards
from ..contact_response.contact_solve import ContactSolve
from ..contact_response.push_out import PushOut
from ..objective.factorised_system import FactorisedSystem, ViscousMatrix
from ..objective.sleep import count_still_step, is_asleep, sleep_step
from ..objective.steering import relax, steer
from ..objective.step_objective import StepObjective
from ..objective.step_problem import StepProblem
from ..objective.weave_problem import WeaveProblem
from ..settle.controls import Controls
from ..settle.step_report import StepReport
from ..settle.work_meter import WorkMeter
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.modes import largest_eigenvalue
from ..solvers.objective import Minimum, Outcome, Tolerance
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from .deep_overlaps import DeepOverlaps
from .step_policy import Minimiser, SpentWork, StepPolicy
from .step_task import SearchResult, StepTask
from .stretch_limit import StretchLimit
from .violence import Violence

# Nodes of a system without contacts whose share in the work is counted. More of them only make each evaluation slower,
# and a large sheet that falls freely would end all frames roughly.
_MAX_COUNTED_NODES = 1000


@dataclass(frozen=True)
class _Solution:
    """Minimum of the problem of a part of a step, and the contact solve that found it, if there was one."""

    problem: StepObjective
    minimum: Minimum
    contact: ContactSolve | None = None

    def state_after(self, is_final: bool) -> State:
        """Return the state after the part. is_final: see ContactSolve.finish_step()."""
        if self.contact is None:
            return self.problem.state_after(self.minimum.velocities)
        return self.contact.finish_step(self.problem, self.minimum.velocities, is_final)


class Stepper(FactorisedSystem):
    """Time stepper of one system.

    Only factorisations and results derived from them are cached. A step is therefore deterministic: equal arguments
    give bitwise equal results.

    size: of the smallest body, m.
    policy: decides about steps whose minimisation fails.
    problem_type: class of the objective that a substep minimises.
    """

    problem_type: ClassVar[type[StepProblem] | type[WeaveProblem]] = StepProblem

    def __init__(
        self, system: System, minimiser: Minimiser = minimise_lbfgs, viscous: ViscousMatrix | None = None
    ) -> None:
        """viscous: C(x) in N s/m of a damping force -C(x) v, evaluated at each step's start."""
        super().__init__(system, viscous)
        self._minimiser = minimiser
        self.size = min((block.size for block in system.blocks if block.size > 0.0), default=1.0)
        is_rigid = all(block.is_rigid for block in system.blocks)
        is_solid = all(block.is_solid for block in system.blocks)
        self.policy = StepPolicy(
            spent_work=SpentWork.of_solids() if is_rigid or minimiser is minimise_lbfgs else SpentWork(),
            deep_overlaps=DeepOverlaps.of_solids() if is_solid else DeepOverlaps(),
        )
        self._push_out, self._stretch_limit = PushOut(system, self.free), StretchLimit(system)

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
        policy, meter = self.policy, meter or WorkMeter()
        violence = Violence.of(self.system, start, inputs, h, self.size)
        task = StepTask(self.system, start, inputs, h, controls, guess, damping_positions, meter, violence)
        policy.spent_work.begin_step(task)
        result = self._search(task)
        if not result.report.has_converged:
            return state, result.report
        after = policy.excessive_motion.limit_end(task, result)
        after = relax(self.system, start, after, h)
        task = policy.deep_overlaps.judge(task, result, after, self._push_out, self.size)
        after = policy.deep_overlaps.push_out(task, after, self._push_out)
        after = policy.excessive_motion.limit_speed(task, after)
        after = count_still_step(self.system, start, after, inputs, h, controls, result.is_regular)
        return policy.spent_work.remember(task, after, has_converged=result.has_converged), result.report

    def _search(self, task: StepTask) -> SearchResult:
        """Make a step as a whole, or in more and more parts, until the policy accepts, calms or gives up."""
        policy, counts, meter = self.policy, task.counts, task.meter
        guard, after, done, halvings = policy.spent_work, task.state, 0, 0
        # If it ends at once, the search of the whole step would be discarded.
        if not guard.fires(guard.ends_at_once(task.violence), counts):
            halvings, detection = self.initial_bisections(task)
            if detection is not None:
                task = replace(task, detection=detection)
            while True:
                after, report, done = self._step_in_parts(task, 2**halvings)
                if report.has_converged:
                    return SearchResult(after, report, is_regular=not report.hard_guards)
                is_last = halvings == policy.max_bisections or not (
                    meter.is_spent or policy.may_bisect(report.outcome, counts)
                )
                # A static search continues from its last shape if a step fails, so it needs no calm end.
                may_fail = not meter.is_limited or task.controls.is_static
                if guard.fires(meter.is_spent or (is_last and not may_fail), counts):
                    break
                if is_last:
                    return SearchResult(after, report)
                halvings += 1
        return self._end_calmly(task, after, done, 2**halvings)

    def _step_in_parts(self, task: StepTask, parts: int) -> tuple[State, StepReport, int]:
        """Make a step in equal parts until one fails; return the last state, a report and the number of parts made."""
        state, report = task.state, task.new_report(parts)
        is_shortest = parts == 2**self.policy.max_bisections
        for place in range(parts):
            solution = self._solve_part(task.part(state, place, parts))
            report = report.with_search(solution.minimum)
            is_spent = task.meter.is_spent
            if self.policy.accepts_part(solution.minimum, task.counts, is_shortest=is_shortest, is_spent=is_spent):
                # The guards have not tested a search that did not converge.
                is_final = is_shortest or solution.minimum.outcome is not Outcome.CONVERGED
                after = solution.state_after(is_final)
                report = report.with_end(after.is_finite)
            if not report.has_converged:
                return state, report, place
            state = after
        return state, report, parts

    def _end_calmly(self, task: StepTask, state: State, done: int, parts: int) -> SearchResult:
        """Bring a step to an end of which some of its parts are done, see SpentWork. state: after these parts."""
        guard, meter = self.policy.spent_work, task.meter
        controls = replace(task.controls, tolerance=guard.tolerance_factor * task.controls.tolerance)
        task, count = replace(task, controls=controls), max(parts, guard.part_count(task.violence))
        attempt, guards = self.policy.calm_attempt(self.attempts(task)), self.policy.contacts.rough()
        report = task.new_report(count)
        end_of_work = meter.spent + guard.work_of_end(task.violence) / meter.steps_per_frame
        for place in range(done * count // parts, count):
            part = task.part(state, place, count)
            meter.limit = meter.spent + max((end_of_work - meter.spent) / (count - place), 0.0)
            solution = self._attempt(part, attempt, guards)
            report = report.with_search(solution.minimum)
            state = self._limit_stretch(part, guard.end_part(part, solution.state_after(True)), solution)
        has_converged, report = report.has_converged, replace(report.with_end(True), residual=1.0)
        return SearchResult(state, report, is_calmed=True, has_converged=has_converged)

    def _limit_stretch(self, part: StepTask, after: State, solution: _Solution) -> State:
        """Return the state after a calm part of a step with limited strains of sheets, see ExcessiveStretch."""
        potential, distance = solution.problem.contacts, np.inf
        if solution.contact is not None:
            state = solution.contact.detection.state
            distance = float(state.contact_distance[[not one.is_collider for one in state.model.surfaces]].min())
        contacts = None if potential is None else potential.contacts
        return self.policy.excessive_stretch.limit_part(part, after, self._stretch_limit, contacts, distance)

    def _solve_part(self, part: StepTask) -> _Solution:
        """Minimise the objective of a part by one attempt after another, until the policy accepts one."""
        attempts, iterations, evaluations = self.attempts(part), 0, 0
        for number, attempt in enumerate(attempts, 1):
            may_retry = number < len(attempts) and not part.meter.is_spent
            solution = self._attempt(part, attempt, self.policy.contacts, may_retry=may_retry)
            iterations += solution.minimum.iterations
            evaluations += solution.minimum.evaluations
            if number == len(attempts) or part.meter.is_spent:
                break
            is_runaway = solution.contact is not None and (
                self._is_runaway_step(part, solution.minimum.velocities)
                or self.policy.runaway_step.is_turned_by_history(solution.problem, solution.minimum)
            )
            if self.policy.accepts_attempt(solution.minimum, is_runaway, part.counts):
                break
        if number == 1:
            return solution
        return replace(solution, minimum=replace(solution.minimum, iterations=iterations, evaluations=evaluations))

    def _attempt(
        self, part: StepTask, attempt: tuple[bool, Minimiser], guards: ContactGuards, *, may_retry: bool = False
    ) -> _Solution:
        """Minimise the objective of a part.

        attempt: see attempts().  may_retry: whether another attempt follows a runaway step, so that its search may end
        early.
        """
        use_fallback, minimiser = attempt
        free_guess = None if part.guess is None else part.guess[self.free]
        minimise = part.meter.metered(minimiser, self.policy.evaluation_cost(minimiser, part.meter.costs))
        controls, tolerance = part.controls, part.controls.tolerance
        make_problem = partial(
            self.problem_type, self, part.state, part.inputs, part.h, controls, use_fallback, part.damping_positions
        )
        if self.unknowns.is_empty:
            problem = make_problem(None)
            return _Solution(problem, Minimum(problem.start, Outcome.CONVERGED, 0, 0, 0.0, 0.0))
        if not part.has_contact:
            problem = make_problem(None)
            minimum = minimise(
                problem, problem.initial_guess(free_guess), Tolerance(tolerance, problem.noise, by_displacement=True)
            )
            return _Solution(problem, minimum)
        contact = ContactSolve(
            self.system,
            part.state,
            part.inputs,
            part.h,
            controls,
            guards,
            part.counts,
            part.meter,
            is_thorough=part.is_part,
            shared_detection=part.detection,
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

    def attempts(self, task: StepTask) -> list[tuple[bool, Minimiser]]:
        """Return the attempts at a step or a part of it, see StepPolicy.attempts()."""
        return self.policy.attempts(self._minimiser, task.controls)

    def frame_meter(self, step_count: int) -> WorkMeter:
        """Return the meter of the work of a frame of so many steps."""
        node_count = len(self.system.rest)
        if self.system.contact is None:
            node_count = min(node_count, _MAX_COUNTED_NODES)
        return self.policy.spent_work.meter(node_count, step_count)


def highest_frequency(stepper: Stepper, factors: Array) -> float:
    """Return the highest angular frequency w of the free nodes at rest, rad/s; explicit steps are stable up to 2/w.

    factors: (b,) stiffness factor of each block.
    """
    value = largest_eigenvalue(stepper.relative_stiffness(factors), stepper.system.mass[stepper.free])
    return float(np.sqrt(float(factors[0]) * value))

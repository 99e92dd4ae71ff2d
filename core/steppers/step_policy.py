"""Policy of hard steps: which guard decides what if the minimisation of a step fails, runs away or hardly converges.

A step is tried as a whole first. Its guards may retry it with fallback coefficients and by Newton's method, bisect it
again and again, and accept or truncate its shortest parts (docs/decisions/0042-decide-hard-steps-by-named-guards.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from ..base.arrays import Array, take_rows
from ..contact_response.contact_guards import (
    ChangedContacts,
    ContactGuards,
    DeepContacts,
    NewIntersections,
    RemainingIntersections,
    TunnelledContacts,
)
from ..objective.step_problem import StepProblem
from ..settle.controls import Controls
from ..settle.step_report import Guard, GuardCounts, Verdict
from ..settle.work_meter import WorkCosts, WorkMeter
from ..solvers.displacement_criterion import max_norm
from ..solvers.inexact_newton import minimise_inexact_newton
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.newton import minimise_compiled_newton, minimise_newton
from ..solvers.objective import Minimum, Outcome, Tolerance
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from .deep_overlaps import DeepOverlaps
from .shape_limit import (
    carried_state,
    limit_shape,
    limit_speeds,
    overstretched_regions,
    rigid_speed,
)
from .step_task import SearchResult, StepTask
from .stretch_limit import ExcessiveStretch
from .violence import Violence, external_accelerations, max_kinematic_displacement

Minimiser = Callable[[Any, Array, Tolerance], Minimum]
"""Function that minimises the objectives of its stepper, which are of the kind that it needs."""

# Number of bisections of a failed step before a rough result is accepted or the failure is reported.
_MAX_BISECTIONS = 4
# Largest residual, relative to the first error estimate, that is accepted in the shortest parts.
_ACCEPTABLE_RESIDUAL = 0.1
# The same in any part that has spent the work of its frame: the tolerance of the parts that would replace it.
_ACCEPTABLE_SPENT_RESIDUAL = 0.03
# Largest speed relative to the surrounding speeds: landings reach 0.9, snap-through reaches hundreds.
_MAX_SPEED_RATIO = 1.0
# Largest energy that the history gives a body by turning it, over the kinetic energy of its rigid motion.
_MAX_TURNING_ENERGY = 1.0
# Largest predicted penetration of a sheet in a step, as a fraction of the block's size, and largest number of the
# bisections that keep it below.
_MAX_PENETRATION, _MAX_SHEET_BISECTIONS = 0.025, 3
# Work of a frame in evaluations of a small body, the same of a violent frame, and work for its end.
_WORK_BUDGET, _VIOLENT_WORK_BUDGET, _WORK_RESERVE = 10000.0, 250.0, 250.0
# Work of a frame in which animated points crush solids, and work for its end.
_SOLID_CRUSHING_BUDGET, _SOLID_CRUSHING_RESERVE = 700.0, 300.0
# Work of a frame of sheets, cost of their contact detections in it, and evaluations of each of their searches, however
# little is left. With 10 as for other kinds, edges of a tight garment stretch by half more.
_SHEET_BUDGET, _SHEET_DETECTION, _SHEET_MIN_EVALUATIONS = 8000.0, 20.0, 16
# Work of a frame in which animated points crush woven cloth, work for its end, and largest number of halvings.
_WOVEN_CRUSHING_BUDGET, _WOVEN_CRUSHING_RESERVE, _MAX_HALVINGS = 600.0, 300.0, 2
# Work of a frame of ropes and nets, the same where animated points crush them, and work for its end.
_NET_BUDGET, _NET_CRUSHING_BUDGET, _NET_RESERVE = 3000.0, 1500.0, 300.0
# Smallest number of bisections of the rest of a step that is brought to an end, and motion of colliders and pins in a
# part of it, in sizes of the system.
_MIN_FINAL_BISECTIONS, _MAX_PART_MOTION = 2, 0.5
# Factor on the tolerance of the solver in these parts: the last digits are not visible there.
_ROUGH_TOLERANCE_FACTOR = 30.0
# Largest extent after a violent motion over that at rest, and largest speed over that of animated points.
_MAX_EXTENT_RATIO, _MAX_IMPACT_SPEED_RATIO = 1.15, 1.25
# Largest extent over that at rest of a body that is not crushed by animated points, in a step that spent its work.
_MAX_CALM_EXTENT_RATIO = 1.5
# Largest speed at the end of any step after a hit, over that of the impact.
_MAX_REBOUND_RATIO = 1.5
# Fraction of the fastest speed of deformation that a step with an inaccurate result may keep.
_REMAINING_SPEED = 0.7


@dataclass(frozen=True)
class DeepSheetContact(Guard):
    """Bisect a step in advance if something would penetrate a sheet deeply (physics, section 7).

    In a single step, the sheet would stretch over the whole displacement before any of it slides off.

    max_penetration: as a fraction of the size of the smallest sheet.
    """

    name: ClassVar[str] = "DEEP_SHEET_CONTACT"
    verdict: ClassVar[Verdict] = Verdict.BISECT
    max_penetration: float = _MAX_PENETRATION

    def bisections(self, penetration: float, size: float, counts: GuardCounts) -> int:
        """Return the number of bisections for a predicted penetration in m into sheets of a size in m."""
        parts = penetration / (self.max_penetration * size)
        return min(math.ceil(math.log2(parts)), _MAX_SHEET_BISECTIONS) if self.fires(parts > 1.0, counts) else 0


@dataclass(frozen=True)
class FailedSearch(Guard):
    """Retry a step whose search failed: with fallback coefficients, then by Newton's method (physics, section 2).

    Contacts that have not converged are no failed search: only a shorter step finds others.
    """

    name: ClassVar[str] = "FAILED_SEARCH"
    verdict: ClassVar[Verdict] = Verdict.RETRY


@dataclass(frozen=True)
class RunawayStep(Guard):
    """Retry a step in contact that its history accelerates (physics, section 7).

    The elastic force of the history is a dead load. Where contacts crush a body until it snaps through, the minimum is
    a body length away, however short the step is. A crushed body that tumbles gains energy from it in every step.
    Fallback coefficients have no history.

    max_speed_ratio: largest speed of a node relative to the surrounding speeds.
    max_turning_energy: largest energy of a turn by the history, over the kinetic energy of the rigid motion.
    """

    name: ClassVar[str] = "RUNAWAY_STEP"
    verdict: ClassVar[Verdict] = Verdict.RETRY
    max_speed_ratio: float = _MAX_SPEED_RATIO
    max_turning_energy: float = _MAX_TURNING_ENERGY

    def is_runaway(self, task: StepTask, velocities: Array) -> bool:
        """Return whether a step that ends with velocities (n, 3) m/s is a runaway step."""
        system, h = task.system, task.h
        max_speeds = [max_norm(take_rows(velocities, region.free)) for region in system.regions]
        swing_speeds = []
        for region, law in zip(system.regions, task.controls.laws, strict=True):
            size = float(np.ptp(take_rows(system.rest, region.free), axis=0).max(initial=0.0))
            coefficients = law.coefficients(h)
            # Speed of a swing with the region's size as amplitude, w = sqrt(lambda_1 / reference_inertia_ratio).
            squared_frequency = coefficients.first_mode_stiffness_ratio / (
                h * coefficients.inertia_time * coefficients.reference_inertia_ratio
            )
            swing_speeds.append(size * float(np.sqrt(np.max(squared_frequency))))

        def exceeds_limit(reference_speed: float) -> bool:
            return any(
                fast > self.max_speed_ratio * (reference_speed + swing)
                for fast, swing in zip(max_speeds, swing_speeds, strict=True)
            )

        surrounding_speed = max_norm(task.state.velocities)
        # Most steps pass this cheap test. The full surrounding speed is only larger, and may need many points.
        return exceeds_limit(surrounding_speed) and exceeds_limit(
            max(surrounding_speed, max_kinematic_displacement(task.inputs) / h)
            + h * max_norm(external_accelerations(system, task.inputs))
        )

    def is_turned_by_history(self, problem: object, minimum: Minimum) -> bool:
        """Return whether the history turns a body in a converged step. Woven cloth has no such history."""
        if not self.is_enabled or minimum.outcome is not Outcome.CONVERGED or not isinstance(problem, StepProblem):
            return False
        return problem.turning_energy(minimum.velocities) > self.max_turning_energy


@dataclass(frozen=True)
class FailedAttempts(Guard):
    """Bisect a step if all attempts of a part failed or gave numbers that are not finite (physics, section 1).

    A shorter step is easier: its inertia dominates.
    """

    name: ClassVar[str] = "FAILED_ATTEMPTS"
    verdict: ClassVar[Verdict] = Verdict.BISECT


@dataclass(frozen=True)
class UnresolvedContacts(Guard):
    """Accept the shortest parts of a step although their contacts have not converged (decision 0017).

    Remaining intersections are truncated.
    """

    name: ClassVar[str] = "UNRESOLVED_CONTACTS"
    verdict: ClassVar[Verdict] = Verdict.ACCEPT


@dataclass(frozen=True)
class SlowProgress(Guard):
    """Accept the shortest parts of a step although their search ran out of iterations (physics, section 1).

    Crushed bodies may creep towards their minimum for hundreds of iterations. The potential is below its initial value,
    so the motion stays bounded.

    max_residual: relative to the first error estimate.
    max_spent_residual: the same of any part whose search has spent the work: the parts that would follow it are solved
        no more accurately, see SpentWork. 0 where they have other coefficients than the first attempt.
    """

    name: ClassVar[str] = "SLOW_PROGRESS"
    verdict: ClassVar[Verdict] = Verdict.ACCEPT
    max_residual: float = _ACCEPTABLE_RESIDUAL
    max_spent_residual: float = 0.0

    @staticmethod
    def of_woven_cloth() -> SlowProgress:
        """Return the guard of woven cloth."""
        return SlowProgress(max_spent_residual=_ACCEPTABLE_SPENT_RESIDUAL)


@dataclass(frozen=True)
class SpentWork(Guard):
    """Bring a step to an end if its frame has spent its work, or if every other way failed (decision 0051).

    The rest of the step is made in few calm parts. Each takes wherever its search ends: its potential is not above that
    of its start. Intersections are truncated, and shape and speed are limited.

    budget: units of work per frame, see WorkMeter.  reserve: units for the end of a frame.
    crushing_budget, violent_budget: units in frames with crushing and with hopeless motions, see Violence.
    calm_costs: costs in steps without crushing motions.
    max_halvings: how often crushing_budget is halved after successive steps that spent it: the next ones will, too.
    halves_calm_budget: whether the same holds for the budget of other steps.
    max_part_motion: motion of animated points in one part, in sizes of the smallest body.
    tolerance_factor: on the tolerance of the solver in these parts.
    crushing_reserve, crushing_costs: reserve and costs in frames with crushing motions.
    """

    name: ClassVar[str] = "SPENT_WORK"
    verdict: ClassVar[Verdict] = Verdict.LIMIT
    budget: float = _WORK_BUDGET
    crushing_budget: float = _WORK_BUDGET
    violent_budget: float = _VIOLENT_WORK_BUDGET
    max_halvings: int = _MAX_HALVINGS
    halves_calm_budget: bool = False
    reserve: float = _WORK_RESERVE
    max_part_motion: float = _MAX_PART_MOTION
    tolerance_factor: float = _ROUGH_TOLERANCE_FACTOR
    crushing_reserve: float = _WORK_RESERVE
    crushing_costs: WorkCosts = field(default_factory=WorkCosts)
    calm_costs: WorkCosts = field(default_factory=WorkCosts)

    @staticmethod
    def of_solids() -> SpentWork:
        """Return the guard of systems of solids, or of rigid bodies."""
        return SpentWork(
            crushing_budget=_SOLID_CRUSHING_BUDGET,
            crushing_reserve=_SOLID_CRUSHING_RESERVE,
            crushing_costs=WorkCosts.of_crushed_solids(),
        )

    @staticmethod
    def of_nets() -> SpentWork:
        """Return the guard of ropes and nets."""
        costs = WorkCosts.of_nets()
        return SpentWork(
            budget=_NET_BUDGET,
            reserve=_NET_RESERVE,
            crushing_budget=_NET_CRUSHING_BUDGET,
            halves_calm_budget=True,
            crushing_reserve=_NET_RESERVE,
            crushing_costs=costs,
            calm_costs=costs,
        )

    @staticmethod
    def of_sheets() -> SpentWork:
        """Return the guard of systems with sheets."""
        costs = WorkCosts(detection=_SHEET_DETECTION, min_evaluations=_SHEET_MIN_EVALUATIONS)
        return SpentWork(
            budget=_SHEET_BUDGET,
            crushing_budget=_SHEET_BUDGET,
            halves_calm_budget=True,
            crushing_costs=costs,
            calm_costs=costs,
        )

    @staticmethod
    def of_woven_cloth() -> SpentWork:
        """Return the guard of woven cloth."""
        return SpentWork(
            crushing_budget=_WOVEN_CRUSHING_BUDGET,
            crushing_reserve=_WOVEN_CRUSHING_RESERVE,
            crushing_costs=WorkCosts.of_crushed_woven_cloth(),
            calm_costs=WorkCosts.of_calm_woven_cloth(),
        )

    def meter(self, node_count: int, step_count: int) -> WorkMeter:
        """Return the meter of a frame of so many steps of a system."""
        return WorkMeter(node_count, self.budget if self.is_enabled else math.inf, step_count)

    def begin_step(self, task: StepTask) -> None:
        """Set the limit of the work of a step."""
        task.meter.begin_step(self.max_work(task.violence), self.costs(task.violence))

    def costs(self, violence: Violence) -> WorkCosts:
        """Return the costs in steps of such violence. Calm steps keep the costs for which their budget was chosen."""
        return self.crushing_costs if violence.is_crushing else self.calm_costs

    def work_of_end(self, violence: Violence) -> float:
        """Return the work for the end of a frame of steps of such violence, in units."""
        return self.crushing_reserve if violence.is_crushing else self.reserve

    def max_work(self, violence: Violence) -> float:
        """Return the work of a frame of steps of such violence, in units; without limit if they are calm."""
        if violence.is_hopeless:
            return self.violent_budget
        if not violence.is_crushing and not (self.halves_calm_budget and violence.spent_steps):
            return math.inf
        budget = self.crushing_budget if violence.is_crushing else self.budget
        return budget * 0.5 ** min(violence.spent_steps, self.max_halvings)

    def ends_at_once(self, violence: Violence) -> bool:
        """Return whether a step is made in calm parts from its start, because those before it spent their work."""
        return self.halves_calm_budget and violence.spent_steps > self.max_halvings

    def updated_count(self, violence: Violence, *, is_spent: bool, has_converged: bool) -> int:
        """Return the number of successive steps that spent their work, after a step of such violence.

        is_spent: whether it did.  has_converged: whether its calm parts converged nevertheless, so that the next step
            is tried as a whole again, with the smallest budget.
        """
        if not is_spent or not (violence.is_crushing or self.halves_calm_budget):
            return 0
        return min(violence.spent_steps + 1, self.max_halvings) if has_converged else violence.spent_steps + 1

    @staticmethod
    def end_part(part: StepTask, after: State) -> State:
        """Return the state after a calm part. Its bodies move rigidly if it is not finite."""
        return after if after.is_finite else carried_state(part.system, part.state, part.inputs, part.h)

    def remember(self, task: StepTask, after: State, *, has_converged: bool) -> State:
        """Return the state after a step, which remembers its violence and whether it spent its work.

        has_converged: see updated_count().
        """
        count = self.updated_count(task.violence, is_spent=task.counts[SpentWork] > 0, has_converged=has_converged)
        violence = task.violence.after_fall(task.system, after, task.inputs, task.h)
        history = violence.updated_history(task.system, after.history, count)
        return after if history is after.history else replace(after, history=history)

    def part_count(self, violence: Violence) -> int:
        """Return the number of parts in which the rest of a step is made."""
        parts = max(violence.motion / self.max_part_motion, 1.0)
        return int(2 ** min(max(math.ceil(math.log2(parts)), _MIN_FINAL_BISECTIONS), _MAX_BISECTIONS))


@dataclass(frozen=True)
class ExcessiveMotion(Guard):
    """Limit shape and speed of a body that a violent motion left too large or too fast (decisions 0051, 0075).

    Pins that jump by several sizes stretch a body without any failure, mostly in the steps after the jump.

    max_ratio, max_calm_ratio: largest extent over that at rest if animated points crush bodies, and if they do not.
    max_speed_ratio: largest speed over that of animated points, after rough steps.
    max_rebound_ratio: largest speed over that of the impact, after all steps. External forces add to it.
    remaining_speed: fraction of the fastest speed of deformation that a rough step may keep.
    limits_spent_steps: whether the largest speed also holds after steps that spent their work, however calm they were.
    """

    name: ClassVar[str] = "EXCESSIVE_MOTION"
    verdict: ClassVar[Verdict] = Verdict.LIMIT
    max_ratio: float = _MAX_EXTENT_RATIO
    max_calm_ratio: float = _MAX_CALM_EXTENT_RATIO
    max_speed_ratio: float = _MAX_IMPACT_SPEED_RATIO
    max_rebound_ratio: float = _MAX_REBOUND_RATIO
    remaining_speed: float = _REMAINING_SPEED
    limits_spent_steps: bool = False

    def applies(
        self, system: System, start: State, end: State, inputs: Inputs, h: float, *, violence: Violence, is_rough: bool
    ) -> bool:
        """Return whether a step of h s must be limited. is_rough: whether an inaccurate result was accepted."""
        if violence.is_hopeless or (violence.is_crushing and is_rough):
            max_speed = self._max_speed(system, start, inputs, h, violence=violence, is_rough=is_rough)
            if max_norm(end.velocities) > max_speed:
                return True
        return violence.is_crushing and bool(overstretched_regions(system, start, end, inputs, self.max_ratio))

    def limit_end(self, task: StepTask, result: SearchResult) -> State:
        """Return the end of a step, with limited shape and speed if it was calmed or if the guard fires."""
        step, violence = (task.system, task.state, result.state, task.inputs, task.h), task.violence
        if result.is_calmed:
            # Calm frames that spend their work keep the speed of their swing, and bodies that press each other flat
            # their shape: made narrower, they would end inside each other.
            is_crushing = violence.is_crushing
            ratio = self.max_ratio if is_crushing else self.max_calm_ratio
            return self.limit(*step, violence=violence, is_rough=is_crushing, ratio=ratio)
        is_rough = result.report.is_rough
        is_excessive = task.meter.is_limited and self.applies(*step, violence=violence, is_rough=is_rough)
        if not self.fires(is_excessive, task.counts):
            return result.state
        return self.limit(*step, violence=violence, is_rough=is_rough, ratio=self.max_ratio)

    def limit_speed(self, task: StepTask, after: State) -> State:
        """Return the end of a step with no node of a struck body faster than the impact allows, besides its fall.

        Vibrations and whips would exceed it after steps that converged, too.
        """
        violence = task.violence.after_fall(task.system, after, task.inputs, task.h)
        is_limited = violence.is_crushing or violence.is_pressing or self.limits_spent_steps
        if violence.falls is None or violence.is_struck is None or not (is_limited and task.meter.is_limited):
            return after
        # A pose that turns carries what is far from its axis faster than its pins.
        carried = [max_norm(take_rows(after.reference, region.free)) for region in task.system.regions]
        max_speeds = self.max_rebound_ratio * np.maximum(violence.impact_speed, carried)
        limited = limit_speeds(task.system, after, violence.falls, np.where(violence.is_struck, max_speeds, np.inf))
        return limited if self.fires(limited is not after, task.counts) else after

    def limit(
        self,
        system: System,
        start: State,
        end: State,
        inputs: Inputs,
        h: float,
        *,
        violence: Violence,
        is_rough: bool,
        ratio: float,
    ) -> State:
        """Return the end of a step of h s with limited shape and speed.

        is_rough: see applies().  ratio: largest extent over that at rest.
        """
        max_speed = self._max_speed(system, start, inputs, h, violence=violence, is_rough=is_rough)
        return limit_shape(system, start, end, inputs, h, max_ratio=ratio, max_speed=max_speed)

    def _max_speed(
        self, system: System, start: State, inputs: Inputs, h: float, *, violence: Violence, is_rough: bool
    ) -> float:
        """Return the largest allowed speed, m/s. Without animated motion, speeds grow by external forces only.

        Speeds of deformation at the start of a rough step are errors in part, so only a fraction of them may remain.
        """
        impact_speed = self.max_speed_ratio * violence.animated_speed
        last_speed = max_norm(start.velocities)
        if is_rough:
            last_speed = max(self.remaining_speed * last_speed, rigid_speed(system, start))
        surrounding_speed = max(last_speed, impact_speed)
        return surrounding_speed + h * max_norm(external_accelerations(system, inputs))


# All guards, in the order in which they judge a step.
GUARDS: tuple[type[Guard], ...] = (
    DeepSheetContact,
    ChangedContacts,
    DeepContacts,
    TunnelledContacts,
    NewIntersections,
    FailedSearch,
    RunawayStep,
    UnresolvedContacts,
    SlowProgress,
    FailedAttempts,
    RemainingIntersections,
    SpentWork,
    ExcessiveStretch,
    ExcessiveMotion,
    DeepOverlaps,
)


@dataclass(frozen=True)
class StepPolicy:
    """Guards of a stepper, and the decisions that they make together.

    max_bisections: number of bisections of a step; the shortest parts are those of the last one.
    """

    deep_sheet_contact: DeepSheetContact = DeepSheetContact()
    contacts: ContactGuards = field(default_factory=ContactGuards)
    failed_search: FailedSearch = FailedSearch()
    runaway_step: RunawayStep = RunawayStep()
    unresolved_contacts: UnresolvedContacts = UnresolvedContacts()
    slow_progress: SlowProgress = SlowProgress()
    failed_attempts: FailedAttempts = FailedAttempts()
    spent_work: SpentWork = SpentWork()
    excessive_stretch: ExcessiveStretch = field(default_factory=ExcessiveStretch)
    excessive_motion: ExcessiveMotion = ExcessiveMotion()
    deep_overlaps: DeepOverlaps = field(default_factory=DeepOverlaps)
    max_bisections: int = _MAX_BISECTIONS

    def without(self, guard: type[Guard]) -> StepPolicy:
        """Return the policy with one kind of guard switched off."""
        contacts = replace(self.contacts, **_switched_off(self.contacts, guard))
        return replace(self, contacts=contacts, **_switched_off(self, guard))

    def attempts(self, minimiser: Minimiser, controls: Controls) -> list[tuple[bool, Minimiser]]:
        """Return the attempts in order: whether to use fallback coefficients, and the minimiser of each."""
        attempts = [(False, minimiser)]
        has_history = any(law.is_waveform for law in controls.laws)
        if has_history:
            attempts.append((True, minimiser))
        # The inexact method is Newton's already.
        if minimiser not in (minimise_newton, minimise_compiled_newton, minimise_inexact_newton):
            attempts.append((has_history, minimise_newton))
        return attempts

    @staticmethod
    def evaluation_cost(minimiser: Minimiser, costs: WorkCosts) -> float:
        """Return the work of an evaluation with its share of a search, relative to L-BFGS."""
        if minimiser is minimise_lbfgs:
            return 1.0
        return costs.inexact_newton if minimiser is minimise_inexact_newton else costs.newton

    def calm_attempt(self, attempts: list[tuple[bool, Minimiser]]) -> tuple[bool, Minimiser]:
        """Return the attempt that brings a step to an end: the first one with fallback coefficients, if any."""
        return next((one for one in attempts if one[0]), attempts[0])

    def accepts_attempt(self, minimum: Minimum, is_runaway: bool, counts: GuardCounts) -> bool:
        """Return whether to accept an attempt that is not the last one."""
        has_failed = minimum.outcome not in (Outcome.CONVERGED, Outcome.CONTACT_SET)
        return not (self.failed_search.fires(has_failed, counts) or self.runaway_step.fires(is_runaway, counts))

    def accepts_part(self, minimum: Minimum, counts: GuardCounts, *, is_shortest: bool, is_spent: bool = False) -> bool:
        """Return whether to accept the last attempt of a part of a step. Otherwise, the step may be bisected.

        is_spent: whether the work of the step is spent.
        """
        outcome, guard = minimum.outcome, self.slow_progress
        if outcome is Outcome.CONVERGED or not (is_shortest or is_spent):
            return outcome is Outcome.CONVERGED
        max_residual = guard.max_residual if is_shortest else guard.max_spent_residual
        is_close = outcome is Outcome.ITERATIONS and minimum.residual <= max_residual
        is_unresolved = is_shortest and outcome is Outcome.CONTACT_SET
        return self.unresolved_contacts.fires(is_unresolved, counts) or guard.fires(is_close, counts)

    def may_bisect(self, outcome: Outcome, counts: GuardCounts) -> bool:
        """Return whether a step that ended with this outcome is bisected. The guards of contacts count themselves."""
        return outcome is Outcome.CONTACT_SET or self.failed_attempts.fires(True, counts)


def _switched_off(guards: StepPolicy | ContactGuards, kind: type[Guard]) -> dict[str, Any]:
    """Return the fields with guards of a kind, switched off."""
    values = {one.name: getattr(guards, one.name) for one in fields(guards)}
    return {name: replace(value, is_enabled=False) for name, value in values.items() if isinstance(value, kind)}

"""Static equilibrium: the shape in which a system comes to rest."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..base.arrays import Array
from ..base.computation import DecayProgress, StageProgress
from ..objective.sleep import has_contact_force
from ..settle.controls import Controls, YarnDials
from ..settle.first_mode import FirstModeLaw
from ..settle.geometric_stiffness import slack_eigenvalue_limit
from ..settle.law import BackwardEulerLaw
from ..settle.step_report import Guard, Verdict
from ..settle.work_meter import SearchMeter
from ..solvers.modes import lowest_mode
from ..solvers.objective import Outcome
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import State
from ..system.system import System
from ..system.weave_term import has_weave
from .implicit import Stepper

# Growth with a smaller eigenvalue than this fraction of the slowest swing's counts as stable: it takes seconds to show.
_STABLE_FRACTION = 0.1
# Displacement along the buckling mode as a fraction of the size: far above rounding, and small against a fold.
_PERTURBATION = 1e-3


# Work of a search for an equilibrium, in evaluations of the system's potential.
_SEARCH_BUDGET = 15000.0


@dataclass(frozen=True)
class SpentSearch(Guard):
    """End a search for an equilibrium that has spent its work, and accept its last shape (decision 0083).

    Contacts may alternate, and folds creep, so that a search never converges.

    budget: in evaluations of the system's potential, so that it grows with the system.
    """

    name: ClassVar[str] = "SPENT_SEARCH"
    verdict: ClassVar[Verdict] = Verdict.ACCEPT
    budget: float = _SEARCH_BUDGET

    def meter(self, node_count: int, progress: StageProgress) -> SearchMeter:
        """Return the meter of one search, which reports its progress."""
        meter = SearchMeter(node_count, math.inf, report=progress.advance)
        if self.is_enabled:
            meter.budget = self.budget * meter.unit
        return meter


def buckling_direction(system: System, state: State, factors: Array) -> Array | None:
    """Return the fastest buckling mode of an unstable equilibrium, (n, 3) m; None if it is stable.

    Only sheets and ropes are tested: compressed by its weight, a flat shape loses energy on both sides. Contacts, which
    may stabilise the shape, are ignored. factors: (b,) stiffness factor of each block.
    """
    stiffness, direction = None, np.zeros_like(state.positions)
    for region in system.regions:
        if region.has_elastic_stiffness or not len(region.constrained_nodes):
            continue
        if stiffness is None:
            stiffness = system.tangent(state, factors)
        eigenvalue_bound = -_STABLE_FRACTION * slack_eigenvalue_limit(system, region, state.positions)
        mode = lowest_mode(stiffness, system.mass, region.free, eigenvalue_bound)
        if mode is not None:
            size = max(system.blocks[k].size for k in np.unique(system.node_blocks()[region.free]))
            direction[region.free] = _PERTURBATION * size * mode
    return direction if direction.any() else None


# Time step, as a fraction of the time in which a pendulum of the body's size swings through one radian.
_STEP_FRACTION = 0.2
# The state is at rest if its peak speed stays below this fraction of the speed after a fall through its size.
_REST_SPEED_FRACTION = 2e-3
_MAX_RELAXATION_STEPS = 120


def relax_dynamically(
    stepper: Stepper, state: State, inputs: Inputs, controls: Controls, meter: SearchMeter | None = None
) -> State:
    """Return a state near rest under the pins' current positions.

    controls: the laws are replaced by backward Euler.  meter: may end or cancel the search.
    Without external acceleration the state is returned unchanged. If a step fails, the last state is returned at rest.
    """
    system = stepper.system
    max_acceleration = float(
        np.linalg.norm(system.acceleration(inputs, np.arange(len(system.rest))), axis=-1).max(initial=0.0)
    )
    size = max(block.size for block in system.blocks)
    if max_acceleration == 0.0:
        return state
    h, mass = _STEP_FRACTION * math.sqrt(size / max_acceleration), _hanging_mass(system)[:, None]
    controls = replace(controls, laws=tuple(BackwardEulerLaw() for _ in system.regions))
    energy_limit, last_energy = _REST_SPEED_FRACTION**2 * max_acceleration * size * float(mass.sum()), 0.0
    for _ in range(_MAX_RELAXATION_STEPS):
        next_state, report = stepper.step(state, inputs, h, controls, meter=meter)
        if report.outcome is not Outcome.CONVERGED:
            break
        if meter is not None and meter.is_over:
            return state_at_rest(next_state)
        energy = 0.5 * float((mass * next_state.velocities**2).sum())
        if energy < last_energy:
            state = state_at_rest(state)
            if last_energy < energy_limit:
                break
            last_energy = 0.0
        else:
            state, last_energy = next_state, energy
    return state_at_rest(state)


def _hanging_mass(system: System) -> Array:
    """Return the mass (n,) kg of the nodes, without those of parts that fall freely, unless all do."""
    falling = [region.free for region in system.regions if not len(region.constrained_nodes)]
    mass = system.mass.copy()
    if len(falling) < len(system.regions):
        for nodes in falling:
            mass[nodes] = 0.0
    return mass


def state_at_rest(state: State) -> State:
    """Return the state at rest, without the history of its motion."""
    return State.at_rest(state.positions, state.time, state.history.at_rest())


# Fraction of the first mode that remains after a step. Equilibrium is reached when no node moves by more than one of
# the next tolerances, as a fraction of the size.
_REMAINDER = 0.1
_SOLID_TOLERANCE = 1e-9
# Folding sheets and ropes creep for a long time, so their tolerances for motion and for the solver are looser.
_THIN_TOLERANCE_OF_MOTION, _THIN_SOLVER_TOLERANCE = 1e-6, 0.1
# With contacts, the contact set differs slightly from step to step.
_CONTACT_TOLERANCE = 1e-4
_MAX_STEPS = 60
# Number of attempts to leave a saddle point.
_MAX_SADDLE_EXITS = 3
# Anderson mixing: displacement per step below which it begins (fraction of the size), number of steps that it combines,
# growth of the displacement at which it restarts, and relative singular value below which directions are ignored.
_MIXING_DISTANCE, _MIXING_DEPTH, _RESTART_GROWTH, _CUT_OFF = 0.01, 6, 2.0, 1e-3


def solve_static_equilibrium(
    stepper: Stepper,
    state: State,
    inputs: Inputs,
    tolerance: float,
    factors: Array | None = None,
    yarns: tuple[YarnDials, ...] = (),
    progress: StageProgress | None = None,
    guard: SpentSearch | None = None,
) -> State:
    """Return the static equilibrium under external forces, with the pins at the end of the inputs.

    It is reached by strongly damped steps. If a step fails, for example because the body collapses under its weight,
    the last converged shape is returned. If the work of the guard is spent, the last shape is returned, and the
    progress counts this.

    factors: (b,) stiffness factor of each block; 1 if None.
    yarns: yarn dials of woven cloth; without them, no yarn slides.
    progress: receives the progress after each step.
    guard: bounds the work; the default if None.
    """
    system = stepper.system
    guard, progress = guard or SpentSearch(), progress or StageProgress()
    meter = guard.meter(len(system.rest), progress)
    # Any step length h works. With this one, h^2 lambda_1 is 1 in the stiffest region.
    stiffness_factors = np.ones(len(system.blocks)) if factors is None else factors
    eigenvalues = [_relaxation_eigenvalue(system, region, stiffness_factors) for region in system.regions]
    h = 1.0 / math.sqrt(max(eigenvalues)) if eigenvalues else 1.0
    laws = tuple(FirstModeLaw(-math.log(_REMAINDER) / h, 0.0, eigenvalue) for eigenvalue in eigenvalues)
    is_woven = has_weave(system)
    is_thin = is_woven or any(block.is_sheet or block.is_rope for block in system.blocks)
    tolerance = max(tolerance, _THIN_SOLVER_TOLERANCE) if is_thin else tolerance
    controls = Controls(laws, 0.0, tolerance, tuple(float(one) for one in stiffness_factors), yarns, is_static=True)
    has_contact = any(one.contact is not None for one in inputs)
    motion_tolerance = (
        (_CONTACT_TOLERANCE if has_contact else _THIN_TOLERANCE_OF_MOTION) if is_thin else _SOLID_TOLERANCE
    )
    limit = motion_tolerance * np.array([block.size for block in system.blocks])[system.node_blocks()]
    end_inputs = tuple(one.at_end() for one in inputs)
    decay = DecayProgress(progress)
    if is_woven:
        state = relax_dynamically(stepper, state, end_inputs, controls, meter)
    mixing_limit = _MIXING_DISTANCE / motion_tolerance if is_thin and not has_contact else None
    state, is_settled = _relax(stepper, state, end_inputs, h, controls, limit, mixing_limit, decay, meter)
    # A contact may stabilise the shape, so saddle points are tested only without contacts.
    for _ in range(_MAX_SADDLE_EXITS if is_thin and is_settled else 0):
        buckling = None if has_contact_force(system, state) else buckling_direction(system, state, stiffness_factors)
        if buckling is None:
            break
        state = replace(state, positions=state.positions + buckling)
        if is_woven:
            state = relax_dynamically(stepper, state, end_inputs, controls, meter)
        state, _ = _relax(stepper, state, end_inputs, h, controls, limit, mixing_limit, decay, meter)
    if guard.fires(meter.is_over, Counter()):
        progress.record_cut()
    return state


def _relax(
    stepper: Stepper,
    state: State,
    inputs: Inputs,
    h: float,
    controls: Controls,
    limit: Array,
    mixing_limit: float | None,
    decay: DecayProgress,
    meter: SearchMeter,
) -> tuple[State, bool]:
    """Take strongly damped steps; return the state, and whether the last one moved no node by more than its limit.

    limit: (n,) m.  mixing_limit: multiple of the limit below which Anderson mixing begins; None to disable it, as with
    contacts, which an extrapolated step could pass through.  decay: receives the displacement of each step.
    meter: of the whole search, which ends once it is spent.
    """
    mixing = None if mixing_limit is None else _AndersonMixing()
    for _ in range(_MAX_STEPS):
        if meter.is_over:
            break
        after, report = stepper.step(state, inputs, h, controls, meter=meter)
        if report.outcome is not Outcome.CONVERGED:
            break
        displacement = np.abs(after.positions - state.positions).max(axis=1)
        start_positions = state.positions
        state = state_at_rest(after)
        decay.report(float((displacement / np.maximum(limit, 1e-300)).max(initial=0.0)))
        if (displacement <= limit).all():
            return state, True
        if mixing is not None and mixing_limit is not None and (displacement <= mixing_limit * limit).all():
            state = replace(state, positions=mixing.mix(start_positions, state.positions))
    return state, False


class _AndersonMixing:
    """Anderson mixing of the last steps towards rest.

    Anderson, *Iterative Procedures for Nonlinear Integral Equations* (1965): continue from the affine combination of
    the last steps with the smallest combined displacement.
    """

    def __init__(self) -> None:
        self._starts: list[Array] = []
        self._displacements: list[Array] = []

    def mix(self, start: Array, end: Array) -> Array:
        """Return the positions (n, 3) m to continue from after a step from start to end."""
        if self._displacements and np.linalg.norm(end - start) > _RESTART_GROWTH * np.linalg.norm(
            self._displacements[-1]
        ):
            # The descent has changed its direction, so the stored steps are useless.
            self._starts.clear()
            self._displacements.clear()
        self._starts.append(start)
        self._displacements.append(end - start)
        del self._starts[:-_MIXING_DEPTH], self._displacements[:-_MIXING_DEPTH]
        if len(self._displacements) == 1:
            return end
        changes = np.stack([(one - self._displacements[-1]).ravel() for one in self._displacements[:-1]], axis=1)
        amounts = np.linalg.lstsq(changes, -self._displacements[-1].ravel(), rcond=_CUT_OFF)[0]
        found = end.copy()
        for amount, first, displacement in zip(amounts, self._starts[:-1], self._displacements[:-1], strict=True):
            found += amount * ((first + displacement) - end)
        return found


def _relaxation_eigenvalue(system: System, region: Region, factors: Array) -> float:
    """Return lambda_1 at rest, 1/s^2; if only weight restores the shape, that of a pendulum as long as the region."""
    found = system.eigenvalue(region, factors)
    # Beads of a chain rotate about their attachment points: only weight restores them.
    if found > 0.0 and (region.rigid_modes or region.has_elastic_stiffness):
        return found
    length = float(np.ptp(system.rest[region.free], axis=0).max(initial=0.0))
    return max(found, float(np.linalg.norm(system.gravity)) / max(length, 1e-12), 1.0)

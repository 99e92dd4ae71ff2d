"""Release test: deflect a body along its first mode, release it, and measure energies, momenta and the time to rest."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array
from ..base.computation import run_steps
from ..base.errors import StepError
from ..materials import DeadLoad
from ..settle.controls import Controls, Substeps, choose_substeps
from ..settle.geometric_stiffness import slack_eigenvalue_limit
from ..settle.waveform import REST_FRACTION, settle_law
from ..simulation.method_selection import has_net
from ..solvers import modes
from ..solvers.objective import Outcome
from ..steppers.implicit import Stepper
from ..steppers.sheet import SheetStepper, WeaveStepper, has_sheet
from ..steppers.static import solve_static_equilibrium
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import State
from ..system.system import System
from ..system.term import Potential, StiffnessScaling
from ..system.weave_term import has_weave

# Regions with an initial deflection below this fraction of the largest one are not measured.
_MIN_DEFLECTION = 1e-3


@dataclass(frozen=True)
class EquilibriumState:
    """System in static equilibrium.

    state: the equilibrium.
    inputs: stationary inputs that hold its pins.
    factors: (b,) on each block's stiffness.
    """

    system: System
    state: State
    inputs: Inputs
    factors: Array

    def eigenvalue(self, region: Region) -> float:
        """Return lambda_1 of a region in this state, in 1/s^2."""
        return self.system.effective_eigenvalue(region, self.factors)


def without_gravity(system: System) -> EquilibriumState:
    """Return a system without gravity in equilibrium in its rest shape."""
    return EquilibriumState(system, State.at_rest(system.rest), system.stationary_inputs(), np.ones(len(system.blocks)))


@dataclass(frozen=True)
class ReleaseResult:
    """Measured motion of one region after a release.

    times: (k,) s, from 0.
    distance: (k,) largest distance of a node from rest, relative to the first one.
    projection: (k,) displacement of the farthest node along its initial one, signed and relative to it.
    lead: time in s from the stop of the animation to the release, see SettleLaw.lead.
    """

    times: Array
    distance: Array
    projection: Array
    substeps: Substeps
    lead: float = 0.0

    @property
    def time_to_rest(self) -> float:
        """Measured time from the release to rest in s."""
        return rest_time(self.distance, float(self.times[1]))

    @property
    def settle_time(self) -> float:
        """Measured settle time in s, from the time at which the animation would have stopped."""
        return self.time_to_rest + self.lead

    @property
    def swing_count(self) -> int:
        """Number of visible swings."""
        return count_swings(np.copysign(self.distance, self.projection))

    @property
    def overshoot(self) -> float:
        """Largest swing to the opposite side, relative to the deflection."""
        return max(-float(self.projection.min()), 0.0)


def region_first_mode(equilibrium: EquilibriumState, region: Region, tangent_stiffness: csr_matrix) -> Array:
    """Return the first mode (n, 3) of a constrained region, scaled to a largest node displacement of 1.

    tangent_stiffness: Hessian at the equilibrium, (3n, 3n) N/m.
    """
    system, bound = equilibrium.system, 0.0
    if not region.has_elastic_stiffness:
        bound = slack_eigenvalue_limit(system, region, equilibrium.state.positions)
    shape = np.zeros(system.rest.shape)
    shape[region.free] = modes.first_mode_shape(tangent_stiffness, system.mass, region.free, bound)
    return shape


def deflect(equilibrium: EquilibriumState, deflection: float, region_indices: Sequence[int] | None = None) -> State:
    """Return the equilibrium under loads M a along the first modes a of regions, scaled to the deflection in m.

    region_indices: of the deflected regions; all of them if None.
    """
    system, rest = equilibrium.system, equilibrium.state.positions
    tangent_stiffness = system.tangent(equilibrium.state, equilibrium.factors, project=has_net(system))
    regions = [r for k, r in enumerate(system.regions) if region_indices is None or k in region_indices]
    loads = []
    for region in regions:
        strength = deflection * equilibrium.eigenvalue(region)
        loads.append(system.mass[:, None] * region_first_mode(equilibrium, region, tangent_stiffness) * strength)
    strengths, state = np.ones(len(regions)), equilibrium.state
    for _ in range(8):
        load = np.asarray(sum(strength * load for strength, load in zip(strengths, loads, strict=True)))
        stepper = _release_stepper(_with_dead_load(system, load))
        state = solve_static_equilibrium(stepper, state, equilibrium.inputs, 1e-8, equilibrium.factors)
        deflections = np.array([largest_distance(state.positions[r.free], rest[r.free]) for r in regions])
        if (np.abs(deflections / deflection - 1.0) < 1e-4).all():
            break
        strengths *= deflection / deflections
    return state


def _release_stepper(system: System) -> Stepper:
    if has_weave(system):
        return WeaveStepper(system)
    return SheetStepper(system) if has_sheet(system) else Stepper(system)


def _with_dead_load(system: System, load: Array) -> System:
    """Return the system with a constant force (n, 3) in N."""
    for place, part in enumerate(system.slices):
        system = system.with_term(Potential(DeadLoad(load[part]), StiffnessScaling.FIXED), place)
    return system


def run_release(
    equilibrium: EquilibriumState, start: State, controls: Controls, h: float, step_count: int, substeps: Substeps
) -> Generator[int, None, list[ReleaseResult]]:
    """Release the start state and take count steps of h seconds, yielding after each one.

    Return a result for each region that is deflected at the start. Raises StepError.
    """
    stepper, state = _release_stepper(equilibrium.system), start
    rest, free_nodes = equilibrium.state.positions, [region.free for region in equilibrium.system.regions]
    deflections = np.array([largest_distance(start.positions[free], rest[free]) for free in free_nodes])
    region_nodes = [free_nodes[k] for k in np.flatnonzero(deflections > _MIN_DEFLECTION * deflections.max(initial=0.0))]
    initial_displacements = [start.positions[free] - rest[free] for free in region_nodes]
    farthest_nodes = [int(np.linalg.norm(way, axis=1).argmax()) for way in initial_displacements]
    sizes = [float(np.linalg.norm(way[k])) for way, k in zip(initial_displacements, farthest_nodes, strict=True)]
    distance, along = np.ones((len(region_nodes), step_count + 1)), np.ones((len(region_nodes), step_count + 1))
    for step in range(1, step_count + 1):
        state, report = stepper.step(state, equilibrium.inputs, h, controls)
        if report.outcome is not Outcome.CONVERGED:
            raise StepError(report.outcome.value)
        for k, free in enumerate(region_nodes):
            now = state.positions[free] - rest[free]
            distance[k, step] = largest_distance(now, np.zeros(3)) / sizes[k]
            along[k, step] = float(now[farthest_nodes[k]] @ initial_displacements[k][farthest_nodes[k]]) / sizes[k] ** 2
        yield step
    times = h * np.arange(step_count + 1)
    return [ReleaseResult(times, d, a, substeps) for d, a in zip(distance, along, strict=True)]


def measure_release(
    equilibrium: EquilibriumState,
    start: State,
    settle: float,
    overshoot: float,
    frame_time: float,
    min_substeps: int,
    tolerance: float,
) -> ReleaseResult:
    """Release the start state and measure its deflected region for 1.3 times the settle time in s.

    Raises StepError.
    """
    substeps = choose_substeps(settle, overshoot, frame_time, min_substeps)
    h = frame_time / substeps.count
    eigenvalues = map(equilibrium.eigenvalue, equilibrium.system.regions)
    laws = tuple(settle_law(settle, substeps.overshoot, one) for one in eigenvalues)
    step_count = int(np.ceil((1.3 * settle + 4.0 * frame_time) / h))
    controls = Controls(laws, 1.0, tolerance, tuple(equilibrium.factors.tolist()))
    steps = run_release(equilibrium, start, controls, h, step_count, substeps)
    result, *_ = run_steps(steps, lambda done: None)
    return replace(result, lead=settle_law(settle, substeps.overshoot, 1.0).time_to_peak)


@dataclass(frozen=True)
class Energies:
    """Energies in J. gravity: potential energy, zero at the origin."""

    kinetic: float
    elastic: float
    gravity: float


def energies(system: System, state: State) -> Energies:
    """Return the energies of a system in a state."""
    elastic = system.elastic_energy(state.positions)
    kinetic = 0.5 * float(system.mass @ (state.velocities**2).sum(axis=1))
    return Energies(kinetic, float(elastic), -float(system.mass @ state.positions @ system.gravity))


def linear_momentum(system: System, state: State) -> Array:
    """Return the linear momentum (3,) in kg m/s."""
    return np.asarray(system.mass @ state.velocities)


def angular_momentum(system: System, state: State) -> Array:
    """Return the angular momentum (3,) about the centre of mass in kg m^2/s."""
    centre = system.mass @ state.positions / system.mass.sum()
    return np.asarray(system.mass @ np.cross(state.positions - centre, state.velocities))


def rest_time(deformation: Array, spacing: float) -> float:
    """Return the time after which the deformation stays within REST_FRACTION of its start.

    deformation: (k,), nonnegative, at times 0, spacing, 2 spacing, …; interpolated linearly.
    Infinite if it is not at rest in the end.
    """
    limit = REST_FRACTION * float(deformation[0])
    above = np.flatnonzero(deformation > limit)
    if len(above) == 0:
        return 0.0
    k = int(above[-1])
    if k + 1 == len(deformation):
        return float("inf")
    return spacing * (k + float((deformation[k] - limit) / (deformation[k] - deformation[k + 1])))


def count_swings(signed: Array) -> int:
    """Return how often a signed deformation (k,) passes rest by more than REST_FRACTION of its start."""
    relative = signed / signed[0]
    clear = relative[np.abs(relative) > REST_FRACTION]
    return int((np.sign(clear[1:]) != np.sign(clear[:-1])).sum())


def largest_distance(positions: Array, reference: Array) -> float:
    """Return [You]'s d2: the largest distance in m of a node from its reference; both (n, 3)."""
    return float(np.linalg.norm(positions - reference, axis=1).max())

"""Release test: deflect a body along its first mode, release it, and measure how it comes to rest."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array
from ..energies import DeadLoad
from ..errors import StepError
from ..solvers import modes
from ..solvers.problem import Outcome
from ..stepping.controls import Controls
from ..stepping.hanging import slowest_swing
from ..stepping.sheet_step import SheetStepper, has_sheet
from ..stepping.static import settled
from ..stepping.step import Stepper
from ..stepping.substeps import Substeps, choose_substeps
from ..stepping.waveform import settle_law
from ..stepping.weave_step import WeaveStepper
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import State
from ..system.system import System
from ..system.term import Factor, Potential
from ..system.weave import has_weave
from .diagnostics import count_swings, largest_distance, rest_time

# Regions with an initial deflection below this fraction of the largest one are not measured.
_MOVED = 1e-3


@dataclass(frozen=True)
class Still:
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
        return self.system.eigenvalue_at(region, self.factors)


def unloaded(system: System) -> Still:
    """Return a system without gravity in equilibrium in its rest shape."""
    return Still(system, State.at_rest(system.rest), system.still(), np.ones(len(system.blocks)))


@dataclass(frozen=True)
class Release:
    """Measured motion of one region after a release.

    times: (k,) s, from 0.
    distance: (k,) largest distance of a node from rest, relative to the first one.
    along: (k,) displacement of the farthest node along its initial one, signed and relative to it.
    iterations: mean solver iterations per step.
    lead: time in s from the stop of the animation to the release, see SettleLaw.lead.
    """

    times: Array
    distance: Array
    along: Array
    substeps: Substeps
    iterations: float
    lead: float = 0.0

    @property
    def rest(self) -> float:
        """Measured time from the release to rest in s."""
        return rest_time(self.distance, float(self.times[1]))

    @property
    def settled(self) -> float:
        """Measured settle time in s, from the time at which the animation would have stopped."""
        return self.rest + self.lead

    @property
    def swings(self) -> int:
        """Number of visible swings."""
        return count_swings(np.copysign(self.distance, self.along))

    @property
    def overshoot(self) -> float:
        """Largest swing to the opposite side, relative to the deflection."""
        return max(-float(self.along.min()), 0.0)


def first_mode(still: Still, region: Region, tangent_stiffness: csr_matrix) -> Array:
    """Return the first mode (n, 3) of a constrained region, scaled to a largest node displacement of 1.

    tangent_stiffness: Hessian at the equilibrium, (3n, 3n) N/m.
    """
    shape = np.zeros(still.system.rest.shape)
    bound = 0.0 if region.stiff else slowest_swing(still.system, region, still.state.positions)
    shape[region.free] = modes.first_mode(tangent_stiffness, still.system.mass, region.free, bound)
    return shape


def pulled(still: Still, deflection: float, which: Sequence[int] | None = None) -> State:
    """Return the equilibrium under loads M a along the first modes a of regions, scaled to the deflection in m.

    which: indices of the deflected regions; all of them if None.
    """
    system, rest = still.system, still.state.positions
    nets = any(not region.stiff for region in system.regions)
    stiff = system.tangent(still.state, still.factors, project=nets)
    chosen = [r for k, r in enumerate(system.regions) if which is None or k in which]
    loads = []
    for region in chosen:
        strength = deflection * still.eigenvalue(region)
        loads.append(system.mass[:, None] * first_mode(still, region, stiff) * strength)
    strengths = np.ones(len(chosen))
    state = still.state
    for _ in range(8):
        load = np.asarray(sum(strength * load for strength, load in zip(strengths, loads, strict=True)))
        state = settled(_stepper(_loaded(system, load)), state, still.inputs, 1e-8, still.factors)
        reached = np.array([largest_distance(state.positions[r.free], rest[r.free]) for r in chosen])
        if (np.abs(reached / deflection - 1.0) < 1e-4).all():
            break
        strengths *= deflection / reached
    return state


def _stepper(system: System) -> Stepper:
    if has_weave(system):
        return WeaveStepper(system)
    return SheetStepper(system) if has_sheet(system) else Stepper(system)


def _loaded(system: System, load: Array) -> System:
    """Return the system with a constant force (n, 3) in N."""
    for place, part in enumerate(system.slices):
        system = system.with_term(Potential(DeadLoad(load[part]), Factor.FIXED), place)
    return system


def watch(
    still: Still, start: State, controls: Controls, h: float, count: int, substeps: Substeps
) -> Generator[int, None, list[Release]]:
    """Release the start state and take count steps of h seconds, yielding after each one.

    Return a result for each region that is deflected at the start. Raises StepError.
    """
    stepper, state, iterations = _stepper(still.system), start, 0
    rest = still.state.positions
    moved = [largest_distance(start.positions[r.free], rest[r.free]) for r in still.system.regions]
    watched = [r.free for r, way in zip(still.system.regions, moved, strict=True) if way > _MOVED * max(moved)]
    ways = [start.positions[free] - rest[free] for free in watched]
    far = [int(np.linalg.norm(way, axis=1).argmax()) for way in ways]
    sizes = [float(np.linalg.norm(way[k])) for way, k in zip(ways, far, strict=True)]
    distance, along = np.ones((len(watched), count + 1)), np.ones((len(watched), count + 1))
    for step in range(1, count + 1):
        state, report = stepper.step(state, still.inputs, h, controls)
        if report.outcome is not Outcome.CONVERGED:
            raise StepError(report.outcome.value)
        iterations += report.iterations
        for k, free in enumerate(watched):
            now = state.positions[free] - rest[free]
            distance[k, step] = largest_distance(now, np.zeros(3)) / sizes[k]
            along[k, step] = float(now[far[k]] @ ways[k][far[k]]) / sizes[k] ** 2
        yield step
    times = h * np.arange(count + 1)
    return [Release(times, d, a, substeps, iterations / count) for d, a in zip(distance, along, strict=True)]


def release(
    still: Still,
    start: State,
    settle: float,
    overshoot: float,
    frame_time: float,
    least: int,
    tolerance: float,
) -> Release:
    """Release the start state and measure its deflected region for 1.3 times the settle time in s.

    Raises StepError.
    """
    substeps = choose_substeps(settle, overshoot, frame_time, least)
    h = frame_time / substeps.count
    laws = tuple(settle_law(settle, substeps.overshoot, still.eigenvalue(region)) for region in still.system.regions)
    count = int(np.ceil((1.3 * settle + 4.0 * frame_time) / h))
    steps = watch(
        still, start, Controls(laws, 1.0, tolerance, tuple(float(one) for one in still.factors)), h, count, substeps
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            only: Release = end.value[0]
            return replace(only, lead=settle_law(settle, substeps.overshoot, 1.0).lead)

"""The release test: pull a body into its first mode, let go, and watch how it comes to rest."""

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

# A region that starts nearer to rest than this part of the farthest one's way is not looked at.
_MOVED = 1e-3


@dataclass(frozen=True)
class Still:
    """A system at rest.

    state: where.
    inputs: that hold its pins.
    factors: (b,) on each block's stiffness.
    """

    system: System
    state: State
    inputs: Inputs
    factors: Array

    def eigenvalue(self, region: Region) -> float:
        """lambda_1 where it is, 1/s^2."""
        return self.system.eigenvalue_at(region, self.factors)


def unloaded(system: System) -> Still:
    """A system without gravity, which rests in the shape that it was made in."""
    return Still(system, State.at_rest(system.rest), system.still(), np.ones(len(system.blocks)))


@dataclass(frozen=True)
class Release:
    """times: (k,) s, from 0.  distance: (k,) largest distance of a node from rest, over the first one.  along: (k,) the
    signed way of the farthest node along its first way.  iterations: of the solver per step, mean.  lead: s, by which
    the settle time counts from earlier, see WaveformLaw.lead.
    """

    times: Array
    distance: Array
    along: Array
    substeps: Substeps
    iterations: float
    lead: float = 0.0

    @property
    def rest(self) -> float:
        """Measured time from the release to rest, s."""
        return rest_time(self.distance, float(self.times[1]))

    @property
    def settled(self) -> float:
        """The same as a settle time: from when the animation would have stopped, s."""
        return self.rest + self.lead

    @property
    def swings(self) -> int:
        return count_swings(np.copysign(self.distance, self.along))

    @property
    def overshoot(self) -> float:
        """Largest swing to the other side."""
        return max(-float(self.along.min()), 0.0)


def first_mode(still: Still, region: Region, tangent_stiffness: csr_matrix) -> Array:
    """The first mode's shape (n, 3) of a region that cannot float; its largest node displacement is 1.

    tangent_stiffness: the Hessian in the still state, (3n, 3n) N/m.
    """
    shape = np.zeros(still.system.rest.shape)
    bound = 0.0 if region.stiff else slowest_swing(still.system, region, still.state.positions)
    shape[region.free] = modes.first_mode(tangent_stiffness, still.system.mass, region.free, bound)
    return shape


def pulled(still: Still, deflection: float, which: Sequence[int] | None = None) -> State:
    """At rest under a load M a along the first mode a of regions, as strong as it takes for the deflection (m).

    which: the places of the regions; all of them at once where none are given.
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
    """With a force (n, 3) N that nothing changes."""
    for place, part in enumerate(system.slices):
        system = system.with_term(Potential(DeadLoad(load[part]), Factor.FIXED), place)
    return system


def watch(
    still: Still, start: State, controls: Controls, h: float, count: int, substeps: Substeps
) -> Generator[int, None, list[Release]]:
    """Let go of the start and take count steps of h seconds, yielding after each; returns a Release for each region.

    A region that starts at rest gets none. Raises StepError.
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
    """Let go of the start and watch the region that moves for one and a third of the settle time (s).

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

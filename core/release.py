"""The release test: pull a body into its first mode, let go, and watch how it comes to rest."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import diags
from scipy.sparse.linalg import eigsh

from .arrays import Array
from .diagnostics import count_swings, largest_distance, rest_time
from .energies import DeadLoad
from .errors import StepError
from .regions import Region
from .settle import Substeps, choose_substeps, settle_law
from .solvers.problem import Outcome
from .state import PinMotion, State
from .static import settled
from .step import Controls, Stepper
from .system import System


@dataclass(frozen=True)
class Release:
    """times: (k,) s, from 0.  distance: (k,) largest distance of a node from rest, over the first one.  along: (k,) the
    signed way of the farthest node along its first way.  iterations: of the solver per step, mean.
    """

    times: Array
    distance: Array
    along: Array
    substeps: Substeps
    iterations: float

    @property
    def rest(self) -> float:
        """Measured rest time, s."""
        return rest_time(self.distance, float(self.times[1]))

    @property
    def swings(self) -> int:
        return count_swings(np.copysign(self.distance, self.along))

    @property
    def overshoot(self) -> float:
        """Largest swing to the other side."""
        return max(-float(self.along.min()), 0.0)


def first_mode(system: System, region: Region) -> Array:
    """The first mode's shape (n, 3) of a region that cannot float; its largest node displacement is 1."""
    stepper = Stepper(system)
    dof = (3 * stepper.slot[region.free][:, None] + np.arange(3)).ravel()
    root = 1.0 / np.sqrt(system.mass[region.free].repeat(3))
    scaled = diags(root) @ stepper.stiffness[dof][:, dof] @ diags(root)
    _, vectors = eigsh(scaled.tocsc(), k=1, sigma=0.0, v0=np.ones(len(root)))
    shape = np.zeros(system.rest.shape)
    shape[region.free] = (root * vectors[:, 0]).reshape(-1, 3)
    shape /= np.linalg.norm(shape, axis=1).max()
    # The sign of an eigenvector is arbitrary; the largest component shall be positive.
    return np.asarray(shape * np.sign(shape.ravel()[np.abs(shape).argmax()]))


def pulled(system: System, deflection: float, which: int = 0) -> State:
    """At rest under a load M a along the first mode a of a region, as strong as it takes for the deflection (m).

    The system has no gravity, so that its shape at rest is system.rest.
    """
    region = system.regions[which]
    mode = first_mode(system, region)
    load = system.mass[:, None] * mode * (region.eigenvalue * deflection)
    pins = PinMotion(system.rest[system.pinned], system.rest[system.pinned])
    state, strength = State.at_rest(system.rest), 1.0
    for _ in range(8):
        loaded = replace(system, energies=(*system.energies, DeadLoad(strength * load)))
        state = settled(Stepper(loaded), state, pins, 1e-8)
        reached = largest_distance(state.positions, system.rest)
        if abs(reached / deflection - 1.0) < 1e-4:
            break
        strength *= deflection / reached
    return state


def release(
    system: System,
    start: State,
    settle: float,
    overshoot: float,
    frame_time: float,
    least: int,
    tolerance: float,
    which: int = 0,
) -> Release:
    """Let go of the start and watch a region for one and a third of the settle time (s). Raises StepError."""
    substeps = choose_substeps(settle, overshoot, frame_time, least)
    h = frame_time / substeps.count
    laws = tuple(settle_law(settle, substeps.overshoot, region.eigenvalue) for region in system.regions)
    controls = Controls(laws, 1.0, tolerance)
    pins = PinMotion(system.rest[system.pinned], system.rest[system.pinned])
    stepper, state, iterations = Stepper(system), start, 0
    watched = system.regions[which].free
    rest = system.rest[watched]
    way = start.positions[watched] - rest
    far = int(np.linalg.norm(way, axis=1).argmax())
    size = float(np.linalg.norm(way[far]))
    distance, along = [1.0], [1.0]
    count = int(np.ceil((1.3 * settle + 4.0 * frame_time) / h))
    for _ in range(count):
        state, report = stepper.step(state, pins, h, controls)
        if report.outcome is not Outcome.CONVERGED:
            raise StepError(report.outcome.value)
        iterations += report.iterations
        now = state.positions[watched] - rest
        distance.append(largest_distance(now, np.zeros(3)) / size)
        along.append(float(now[far] @ way[far]) / size**2)
    times = h * np.arange(count + 1)
    return Release(times, np.array(distance), np.array(along), substeps, iterations / count)

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


def first_mode(system: System) -> Array:
    """The first mode's shape (n, 3), its largest node displacement 1; for a system of one region that cannot float."""
    stepper = Stepper(system)
    root = 1.0 / np.sqrt(system.mass[stepper.free].repeat(3))
    scaled = diags(root) @ stepper.stiffness @ diags(root)
    _, vectors = eigsh(scaled.tocsc(), k=1, sigma=0.0, v0=np.ones(len(root)))
    shape = np.zeros(system.rest.shape)
    shape[stepper.free] = (root * vectors[:, 0]).reshape(-1, 3)
    shape /= np.linalg.norm(shape, axis=1).max()
    # The sign of an eigenvector is arbitrary; the largest component shall be positive.
    return np.asarray(shape * np.sign(shape.ravel()[np.abs(shape).argmax()]))


def pulled(system: System, deflection: float) -> State:
    """At rest under a load M a along the first mode a, as strong as it takes for the deflection (m)."""
    mode = first_mode(system)
    load = system.mass[:, None] * mode * (system.regions[0].eigenvalue * deflection)
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
    system: System, start: State, settle: float, overshoot: float, frame_time: float, least: int, tolerance: float
) -> Release:
    """Let go of the start and simulate for one and a third of the settle time (s). Raises StepError."""
    substeps = choose_substeps(settle, overshoot, frame_time, least)
    h = frame_time / substeps.count
    laws = tuple(settle_law(settle, substeps.overshoot, region.eigenvalue) for region in system.regions)
    controls = Controls(laws, 1.0, tolerance)
    pins = PinMotion(system.rest[system.pinned], system.rest[system.pinned])
    stepper, state, iterations = Stepper(system), start, 0
    way = start.positions - system.rest
    far = int(np.linalg.norm(way, axis=1).argmax())
    size = float(np.linalg.norm(way[far]))
    distance, along = [1.0], [1.0]
    count = int(np.ceil((1.3 * settle + 4.0 * frame_time) / h))
    for _ in range(count):
        state, report = stepper.step(state, pins, h, controls)
        if report.outcome is not Outcome.CONVERGED:
            raise StepError(report.outcome.value)
        iterations += report.iterations
        now = state.positions - system.rest
        distance.append(largest_distance(state.positions, system.rest) / size)
        along.append(float(now[far] @ way[far]) / size**2)
    times = h * np.arange(count + 1)
    return Release(times, np.array(distance), np.array(along), substeps, iterations / count)

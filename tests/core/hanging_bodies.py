"""Flags, ropes and tails that swing, and a release test that measures when they come to rest."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from builders import STOUT_COTTON, scene, static_body
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.measure.release import largest_distance
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.system.state import State
from shapes import sheet


def flag(count: int, name: str = "Flag", **more: object) -> Body:
    """Return a square metre of cotton that hangs from its upper edge."""
    flat = sheet(count).vertices
    surface = Surface(name, np.column_stack([flat[:, 0], flat[:, 2], -flat[:, 1]]), sheet(count).triangles)
    pins = more.pop("pins", (surface.vertices[:, 2] > -1e-9).astype(float))
    return static_body(surface, pins, kind="CLOTH", **{**STOUT_COTTON, **more})  # type: ignore[arg-type]


def rope_through(name: str, points: np.ndarray, pinned: int, **more: object) -> Body:
    """Return a rope through points (v, 3) m. pinned: number of pinned points, from the first on."""
    k = np.arange(len(points))
    surface = Surface(name, points, np.zeros((0, 3), dtype=np.int64))
    return static_body(surface, (k < pinned).astype(float), kind="ROPE", edges=np.stack([k[:-1], k[1:]], 1), **more)


def rope(nodes: int = 21, **more: object) -> Body:
    """Return a rope of 1 m that hangs from its upper end."""
    z = -np.linspace(0.0, 1.0, nodes)
    dials = {"thickness": 10.0, "stiffness": 1e4, "density": 1000.0, "bending": 0.1, **more}
    return rope_through("Rope", np.column_stack([0.0 * z, 0.0 * z, z]), 1, **dials)


def tail(nodes: int = 21, **more: object) -> Body:
    """Return a tail of 0.5 m along x, clamped at its first edge."""
    x = 0.5 * np.arange(-1, nodes) / (nodes - 1)
    return rope_through(
        "Tail", np.column_stack([x, 0.0 * x, 0.0 * x]), 2, **{"thickness": 20.0, "density": 500.0, **more}
    )


@dataclass(frozen=True)
class ReleaseResult:
    """Result of a release test.

    settled: Settle time in frames, counted from the stop that the law assumes.  substeps: per frame.
    iterations: mean per frame.  eigenvalue: lambda_1 in 1/s^2.
    """

    settle_frames: float
    substeps: int
    iterations: float
    eigenvalue: float


def run_release(body: Body, degrees: float, fps: float, frames: int, resting: Body | None = None) -> ReleaseResult:
    """Rotate a hanging body by degrees about the x axis, release it and measure when it rests.

    The pins of the body lie on the x axis.  resting: the same body with Start at Rest, if it starts as modelled.
    """
    simulation = Simulation(scene(body, fps=fps, last=frames))
    first = simulation.first_frame() if resting is None else Simulation(scene(resting, fps=fps)).first_frame()
    rest, (island,) = first.state.positions, simulation.islands
    turn = np.radians(degrees)
    matrix = np.array([[1.0, 0.0, 0.0], [0.0, np.cos(turn), -np.sin(turn)], [0.0, np.sin(turn), np.cos(turn)]])
    start = State.at_rest(rest @ matrix.T, first.state.time)
    distance, iterations = [1.0], []
    size = largest_distance(start.positions, rest)
    for frame in simulation.frames(replace(first, state=start)):
        distance.append(largest_distance(frame.state.positions, rest) / size)
        iterations.append(frame.iterations)
    last = int(np.flatnonzero(np.array(distance) > 0.01)[-1])
    part = (distance[last] - 0.01) / (distance[last] - distance[last + 1])
    (controls,) = simulation.controls()
    (law,) = controls.laws
    value = island.system.effective_eigenvalue(island.system.regions[0], simulation.stiffness_factors(0))
    count = simulation.dials.substeps(0, body.settings).count
    return ReleaseResult(last + part + law.time_to_peak * fps, count, float(np.mean(iterations)), value)  # type: ignore[attr-defined]

"""What the dials promise, measured as an artist sees it: at the surface, from the stop or the release.

Used by test_promise.py and by the page of docs/validation that shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from builders import still
from dampsim.core.energies import DeadLoad
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.stepping.static import settled
from dampsim.core.stepping.step import Stepper
from dampsim.core.stepping.waveform import REST_FRACTION
from dampsim.core.system.state import State
from dampsim.core.system.term import Factor, Potential

NOTHING = np.zeros(3)
# Frames in which the animation moves before it stops.
_MOVING = 4
# For how much longer than the dial a body is watched.
_WATCHED = 1.5


@dataclass(frozen=True)
class Outcome:
    """rest: frames from the stop or the release.  largest: m.  overshoot: past rest, in parts of the largest swing.

    iterations: of the solver in a frame.  substeps: in a frame.
    """

    rest: float
    largest: float
    overshoot: float
    iterations: float
    substeps: int

    @staticmethod
    def of(ways: np.ndarray, iterations: list[int], substeps: int) -> Outcome:
        """ways: (k, v, 3) m of the surface from rest, frame by frame from the stop or the release on."""
        size = np.linalg.norm(ways, axis=2)
        distance = size.max(axis=1)
        peak = int(distance.argmax())
        far = int(size[peak].argmax())
        along = ways[peak:, far] @ ways[peak, far] / float(ways[peak, far] @ ways[peak, far])
        above = np.flatnonzero(distance > REST_FRACTION * distance[peak])
        k, limit = int(above[-1]), REST_FRACTION * distance[peak]
        rest = np.inf if k + 1 == len(distance) else k + (distance[k] - limit) / (distance[k] - distance[k + 1])
        return Outcome(
            float(rest), float(distance[peak]), max(-float(along.min()), 0.0), float(np.mean(iterations)), substeps
        )


def held_at(surface: Surface, part: float, axis: int = 0) -> np.ndarray:
    """(v,) pins of what lies within a part of the size from the lower end of an axis."""
    x = surface.vertices[:, axis]
    return np.asarray(x <= x.min() + part * np.ptp(surface.vertices, axis=0).max() + 1e-9, dtype=float)


def simulated(body: Body, fps: float, last: int, gravity: np.ndarray = NOTHING) -> Simulation:
    return Simulation(Scene((body,), fps, gravity, 1, last))


def stop(body: Body, way: Callable[[float], np.ndarray], fps: float, gravity: np.ndarray = NOTHING) -> Outcome:
    """The body goes a way and stops. way: of the surface (v, 3) m by the time in s, steady, from its rest shape."""
    settle = body.settings.settle
    moving = replace(body, motion=lambda frame: way(min(frame - 1.0, _MOVING) / fps))
    simulation = simulated(moving, fps, 1 + _MOVING + int(_WATCHED * settle) + 6, gravity)
    first = simulation.first_frame()
    # As if it had come along for long: what it deforms by is then what the stop does.
    nodes = _going(simulation, first, way, fps)
    frames = list(simulation.frames(replace(first, state=nodes)))
    shapes = np.array([frame.shapes[body.name] for frame in frames if frame.number >= 1 + _MOVING])
    end = simulation.shapes(_hanging(simulation, way(_MOVING / fps)), simulation.sampled(1 + _MOVING).animated[-1])
    counts = [frame.iterations for frame in frames]
    return Outcome.of(shapes - end[body.name], counts, simulation.substeps(body.name, body.settings).count)


def _going(simulation: Simulation, first: Frame, way: Callable[[float], np.ndarray], fps: float) -> State:
    """The first frame's state with the velocities of the way, which has to be a rigid one."""
    sub = simulation.dials.most_substeps(tuple(one.settings for one in simulation.scene.bodies))
    h = 1.0 / (fps * sub)
    (turn, _), old = Rotation.align_vectors(way(0.0) - way(0.0).mean(0), way(-h) - way(-h).mean(0)), way(-h).mean(0)
    x = first.state.positions
    before = turn.inv().apply(x - way(0.0).mean(0)) + old
    velocity = (x - before) / h
    return replace(first.state, velocities=velocity, reference=velocity.copy())


def _hanging(simulation: Simulation, surface: np.ndarray) -> State:
    animated = replace(simulation.sampled(1).animated[-1], bodies=(surface,))
    return simulation.statics.settled_pose(0, animated, simulation.factors(0))


def released(body: Body, load: Callable[[np.ndarray, np.ndarray], np.ndarray], part: float, fps: float) -> Outcome:
    """The body is pulled until its surface has moved by a part of its size, and let go.

    load: (n, 3) N for the nodes' places (n, 3) m and masses (n,) kg; as strong as it takes.
    """
    simulation = simulated(body, fps, 1 + int(_WATCHED * body.settings.settle) + 6)
    first = simulation.first_frame()
    island, rest = simulation.islands[0], first.shapes[body.name]
    force = load(island.system.rest, island.system.mass)
    inputs, factors = simulation.posing.held(island, simulation.sampled(1).animated[-1]), simulation.factors(0)
    wanted, state = part * body.surface.size, first.state
    strength = wanted * float(factors[0]) * island.system.regions[0].eigenvalue
    for _ in range(12):
        pulled = island.system.with_term(Potential(DeadLoad(strength * force), Factor.FIXED))
        state = settled(Stepper(pulled), state, inputs, 1e-8, factors)
        shape = simulation.shapes(state, simulation.sampled(1).animated[-1])[body.name]
        reached = float(np.linalg.norm(shape - rest, axis=1).max())
        if abs(reached / wanted - 1.0) < 1e-2:
            break
        strength *= float(np.clip(wanted / reached, 0.3, 3.0))
    start = Frame(1, State.at_rest(state.positions), {body.name: shape}, first.inputs, 0)
    frames = [start, *simulation.frames(start)]
    ways = np.array([frame.shapes[body.name] for frame in frames]) - rest
    counts = [frame.iterations for frame in frames[1:]]
    return Outcome.of(ways, counts, simulation.substeps(body.name, body.settings).count)


def direction(rng: np.random.Generator) -> np.ndarray:
    """A random unit vector (3,)."""
    vector = rng.standard_normal(3)
    return np.asarray(vector / np.linalg.norm(vector))


def along(way: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A load for released(): as the weight, along a direction (3,)."""
    return lambda places, mass: mass[:, None] * way


def poke(rng: np.random.Generator, surface: Surface) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A load for released(): on a tenth of the size around a vertex that is not held, inward or outward."""
    far = np.flatnonzero(held_at(surface, 0.3) == 0.0)
    vertex = surface.vertices[rng.choice(far)]
    way = direction(rng)
    return lambda places, mass: (
        (mass * np.exp(-((np.linalg.norm(places - vertex, axis=1) / (0.1 * surface.size)) ** 2)))[:, None] * way
    )


def straight(surface: Surface, velocity: np.ndarray) -> Callable[[float], np.ndarray]:
    """A way for stop(). velocity: (3,) m/s."""
    return lambda time: surface.vertices + time * velocity


def turning(surface: Surface, spin: np.ndarray) -> Callable[[float], np.ndarray]:
    """A way for stop(). spin: (3,) rad/s, about the pinned end."""
    centre = surface.vertices[held_at(surface, 0.05) > 0.0].mean(axis=0)
    return lambda time: (surface.vertices - centre) @ Rotation.from_rotvec(time * spin).as_matrix().T + centre


def made(surface: Surface, part: float, **dials: Any) -> Body:
    """A body that is held at its lower end along x."""
    return still(surface, held_at(surface, part), **{"resolution": 400, "poisson": 0.4, "stiffness": 100.0, **dials})

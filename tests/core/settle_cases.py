"""Measurements of Settle and Bounce at the surface, after a stop or a release.

Used by test_stop_and_release.py and by the page about them in docs/validation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from animated import AnimatedScene
from builders import static_body
from dampsim.core.base.computation import Memo
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.mesh.rigid_motion import fit_rigid_motion, rigid_mode_basis
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.materials import DeadLoad
from dampsim.core.measure.release import region_first_mode, without_gravity
from dampsim.core.scene.body import Body
from dampsim.core.scene.fingerprint import model_fingerprint
from dampsim.core.settle.waveform import REST_FRACTION
from dampsim.core.simulation.assembly import Assembly, build_assembly
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.steppers.static import solve_static_equilibrium
from dampsim.core.system.state import State
from dampsim.core.system.system import System
from dampsim.core.system.term import Potential, StiffnessScaling

ZERO_GRAVITY = np.zeros(3)
Load = Callable[[System], np.ndarray]
"""Load before a release: forces (n, 3) N on the nodes of a system, up to a factor."""
# Number of frames in which the animation moves before it stops.
_MOTION_FRAMES = 4
# Duration of a measurement, relative to Settle.
_SETTLE_TIMES = 1.5
# Caches: tetrahedra take half of a run's time and deflections almost as much; neither depends on the dials.
_ASSEMBLIES: Memo[Assembly] = Memo(24)
_DEFLECTIONS: Memo[State] = Memo(200)


@dataclass(frozen=True)
class Outcome:
    """Course of a body after a stop or a release.

    rest: frames until rest.  largest: largest displacement, m.  overshoot: past rest, relative to largest.
    iterations: mean number of solver iterations per frame.  substeps: number per frame.
    """

    rest: float
    largest: float
    overshoot: float
    iterations: float
    substeps: int

    @staticmethod
    def of(ways: np.ndarray, iterations: list[int], substeps: int) -> Outcome:
        """Measure an outcome. ways: displacements (k, v, 3) m of the surface from rest, from the stop or release on."""
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


def pins_at_end(surface: Surface, part: float, axis: int = 0) -> np.ndarray:
    """Return pin weights (v,) of the vertices within a fraction of the size from the lower end of an axis."""
    x = surface.vertices[:, axis]
    return np.asarray(x <= x.min() + part * np.ptp(surface.vertices, axis=0).max() + 1e-9, dtype=float)


def make_simulation(body: Body, fps: float, last: int, gravity: np.ndarray = ZERO_GRAVITY) -> Simulation:
    scene = AnimatedScene((body,), fps, gravity, 1, last)
    return Simulation(scene, _ASSEMBLIES.get(model_fingerprint(scene), lambda: build_assembly(scene)))


def outcome_after_stop(
    body: Body, way: Callable[[float], np.ndarray], fps: float, gravity: np.ndarray = ZERO_GRAVITY
) -> Outcome:
    """Move a body along a steady rigid motion, stop it, and return the outcome.

    way: positions (v, 3) m of the surface by time in s, beginning at the rest shape.
    """
    ways, iterations, count = displacements_after_stop(body, way, fps, gravity)
    return Outcome.of(ways, iterations, count)


def displacements_after_stop(
    body: Body,
    way: Callable[[float], np.ndarray],
    fps: float,
    gravity: np.ndarray = ZERO_GRAVITY,
    duration: float = _SETTLE_TIMES,
    begin: int = _MOTION_FRAMES,
) -> tuple[np.ndarray, list[int], int]:
    """Return displacements (k, v, 3) m from rest after a stop, the iterations, and the substeps per frame.

    duration: of the measurement, relative to Settle.  begin: its first frame, counted from the start of the motion.
    """
    settle = body.settings.settle
    moving = replace(body, motion=lambda frame: way(min(frame - 1.0, _MOTION_FRAMES) / fps))
    simulation = make_simulation(moving, fps, 1 + _MOTION_FRAMES + int(duration * settle) + 6, gravity)
    first = simulation.first_frame()
    # Start in steady motion, so that only the stop deforms the body.
    nodes = _moving_state(simulation, first, way, fps)
    start = replace(first, state=nodes)
    frames = list(simulation.frames(start))
    shapes = np.array([frame.shapes[body.name] for frame in (start, *frames) if frame.number >= 1 + begin])
    end = simulation.shapes(
        _hanging_state(simulation, way(_MOTION_FRAMES / fps)), simulation.sample_frame(1 + _MOTION_FRAMES).samples[-1]
    )
    counts = [frame.iterations for frame in frames]
    return shapes - end[body.name], counts, simulation.substeps(body.name, body.settings).count


def _moving_state(simulation: Simulation, first: Frame, way: Callable[[float], np.ndarray], fps: float) -> State:
    """Return the first frame's state with the velocities of a rigid motion."""
    sub = simulation.dials.max_substeps(tuple(one.settings for one in simulation.scene.bodies))
    h = 1.0 / (fps * sub)
    (turn, _), old = Rotation.align_vectors(way(0.0) - way(0.0).mean(0), way(-h) - way(-h).mean(0)), way(-h).mean(0)
    x = first.state.positions
    before = turn.inv().apply(x - way(0.0).mean(0)) + old
    velocity = (x - before) / h
    return replace(first.state, velocities=velocity, reference=velocity.copy())


def _hanging_state(simulation: Simulation, surface: np.ndarray) -> State:
    animated = simulation.sample_frame(1).samples[-1].with_body(0, vertices=surface)
    return simulation.statics.solve_equilibrium(0, animated, simulation.stiffness_factors(0))


def outcome_after_release(body: Body, load: Load, part: float, fps: float) -> Outcome:
    """Deflect a body until its surface has moved by a fraction of its size, release it, and return the outcome."""
    simulation = make_simulation(body, fps, 1 + int(_SETTLE_TIMES * body.settings.settle) + 6)
    force = load(simulation.islands[0].system)
    mark = f"{model_fingerprint(simulation.scene)} {part} {simulation.stiffness_factors(0)}".encode() + force.tobytes()
    return _release(simulation, _DEFLECTIONS.get(mark, lambda: deflected_state(simulation, force, part)))


def deflected_state(simulation: Simulation, force: np.ndarray, part: float) -> State:
    """Return the only body at rest under a force (n, 3), scaled so that it deflects it by a fraction of its size."""
    (body,), first, island = simulation.scene.bodies, simulation.first_frame(), simulation.islands[0]
    animated, factors = simulation.sample_frame(1).samples[-1], simulation.stiffness_factors(0)
    inputs, rest = simulation.pose_evaluator.stationary_inputs(island, animated), first.shapes[body.name]
    wanted, state = part * body.surface.size, first.state
    strength = wanted * float(factors[0]) * island.system.regions[0].eigenvalue
    for _ in range(12):
        loaded = island.system.with_term(Potential(DeadLoad(strength * force), StiffnessScaling.FIXED))
        state = solve_static_equilibrium(Stepper(loaded), state, inputs, 1e-8, factors)
        shape = simulation.shapes(state, animated)[body.name]
        reached = float(np.linalg.norm(shape - rest, axis=1).max())
        if abs(reached / wanted - 1.0) < 1e-2:
            break
        strength *= float(np.clip(wanted / reached, 0.3, 3.0))
    return State.at_rest(state.positions)


def _release(simulation: Simulation, state: State) -> Outcome:
    """Return the outcome of a release from a state; of a free body without its rigid motion."""
    (body,), first = simulation.scene.bodies, simulation.first_frame()
    shape = simulation.shapes(state, simulation.sample_frame(1).samples[-1])
    frames = list(simulation.frames(Frame(1, state, shape, first.inputs, 0)))
    shapes = np.array([one[body.name] for one in (shape, *(frame.shapes for frame in frames))])
    rest = first.shapes[body.name]
    if not simulation.is_constrained(body.name):
        shapes = np.array([without_rigid_motion(rest, one) for one in shapes])
    counts = [frame.iterations for frame in frames]
    return Outcome.of(shapes - rest, counts, simulation.substeps(body.name, body.settings).count)


def without_rigid_motion(rest: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Return a shape (v, 3) m without its best-fit rigid motion from the rest shape."""
    turn, shift = fit_rigid_motion(rest, shape)
    return np.asarray((shape - shift) @ turn)


def outcome_after_bending(body: Body, rng: np.random.Generator, part: float, fps: float) -> Outcome:
    """Bend a free body at random until its surface has moved by a fraction of its size, and release it.

    The load is quadratic in the rest positions and balanced in the rest shape.
    """
    simulation = make_simulation(body, fps, 1 + int(_SETTLE_TIMES * body.settings.settle) + 6)
    system, size = simulation.islands[0].system, body.surface.size
    offset = system.rest - system.mass @ system.rest / system.mass.sum()
    offset = offset / np.abs(offset).max()
    linear, square = rng.standard_normal((3, 3)), rng.standard_normal((3, 3, 3))
    load = system.mass[:, None] * (offset @ linear.T + np.einsum("ijk,vj,vk->vi", square, offset, offset))
    fields = rigid_mode_basis(system.rest, np.zeros((0, 3)), system.mass).reshape(load.size, -1)
    momenta = system.mass.repeat(3)[:, None] * fields
    load = load.ravel() - momenta @ (fields.T @ load.ravel())
    mark = f"{model_fingerprint(simulation.scene)} {part} bent".encode() + load.tobytes()
    animated, rest = simulation.sample_frame(1).samples[-1], body.surface.vertices

    def found() -> State:
        strength, state = system.regions[0].eigenvalue * part * size, State.at_rest(system.rest)
        for _ in range(12):
            state = State.at_rest(_equilibrium_positions(system, state.positions, strength * load, momenta))
            shape = simulation.shapes(state, animated)[body.name]
            reached = float(np.linalg.norm(without_rigid_motion(rest, shape) - rest, axis=1).max())
            if abs(reached / (part * size) - 1.0) < 1e-2:
                break
            strength *= float(np.clip(part * size / reached, 0.3, 2.0))
        return state

    return _release(simulation, _DEFLECTIONS.get(mark, found))


def _equilibrium_positions(system: System, x: np.ndarray, load: np.ndarray, momenta: np.ndarray) -> np.ndarray:
    """Return equilibrium positions (n, 3) m under a load (3n,) N, with springs on the rigid modes M R (3n, 6)."""
    eigenvalue, factors = system.regions[0].eigenvalue, np.ones(1)
    for _ in range(30):
        force = sum(energy.value_gradient(x)[1] for energy in system.blocks[0].energies).ravel() - load
        force += eigenvalue * momenta @ (momenta.T @ (x - system.rest).ravel())
        stiffness = system.tangent(State.at_rest(x), factors, True) + eigenvalue * momenta @ momenta.T
        way = np.linalg.solve(stiffness, -force)
        # Limit the step so that elements do not invert.
        way *= min(1.0, 0.1 * float(np.ptp(system.rest, axis=0).max()) / float(np.abs(way).max()))
        x = x + way.reshape(x.shape)
        if np.abs(way).max() < 1e-7 * np.ptp(system.rest):
            break
    return x


def random_direction(rng: np.random.Generator) -> np.ndarray:
    """Return a random unit vector (3,)."""
    vector = rng.standard_normal(3)
    return np.asarray(vector / np.linalg.norm(vector))


def load_along(way: np.ndarray) -> Load:
    """Return a load proportional to mass along a direction (3,)."""
    return lambda system: system.mass[:, None] * way


def first_mode_load(system: System) -> np.ndarray:
    """Return a load that deflects a body into its first mode only."""
    still = without_gravity(system)
    stiffness = system.tangent(still.state, still.factors)
    return system.mass[:, None] * region_first_mode(still, system.regions[0], stiffness)


def local_load(rng: np.random.Generator, surface: Surface) -> Load:
    """Return a random local load around a vertex away from the pins, with a radius of a tenth of the size."""
    far = np.flatnonzero(pins_at_end(surface, 0.3) == 0.0)
    vertex = surface.vertices[rng.choice(far)]
    way = random_direction(rng)

    def load(system: System) -> np.ndarray:
        distance = np.linalg.norm(system.rest - vertex, axis=1) / (0.1 * surface.size)
        return np.asarray((system.mass * np.exp(-(distance**2)))[:, None] * way)

    return load


def translation_motion(surface: Surface, velocity: np.ndarray) -> Callable[[float], np.ndarray]:
    """Return the motion of a translation before a stop. velocity: (3,) m/s."""
    return lambda time: surface.vertices + time * velocity


def rotation_motion(
    surface: Surface, spin: np.ndarray, pins: np.ndarray | None = None
) -> Callable[[float], np.ndarray]:
    """Return the motion of a rotation about the pins before a stop.

    spin: (3,) rad/s.  pins: weights (v,); those of the end if None.
    """
    centre = surface.vertices[(pins_at_end(surface, 0.05) if pins is None else pins) > 0.0].mean(axis=0)
    return lambda time: (surface.vertices - centre) @ Rotation.from_rotvec(time * spin).as_matrix().T + centre


def pinned_body(surface: Surface, part: float, **dials: Any) -> Body:
    """Return a body that is pinned at its lower end along x."""
    return static_body(
        surface, pins_at_end(surface, part), **{"resolution": 400, "poisson": 0.4, "stiffness": 100.0, **dials}
    )

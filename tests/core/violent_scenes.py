"""Scenes in which fast colliders, closing plates and jumping pins hit bodies of all kinds, and their measures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hanging_bodies import flag, rope
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist
from scipy.spatial.transform import Rotation
from woven_scenes import woven_body

from animated import AnimatedBody, AnimatedCollider
from builders import gridded_box, net, scene, static_body
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.collision.intersections import depth_inside, penetration_depth
from dampsim.core.geometry.collision.proximity import Triangles
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Scene
from dampsim.core.settle.work_meter import Minimise, WorkMeter
from dampsim.core.simulation.simulation import Simulation, SimulationRun
from dampsim.core.solvers.objective import Minimum, Tolerance
from dampsim.core.system.state import State
from random_pairs import icosphere
from shapes import box

FPS = 24.0
# Frames with a collider that moves, and frames afterwards.
HIT_FRAMES, CALM_FRAMES = 9, 8
KINDS = ("SOLID", "CLOTH", "ROPE", "SPRINGS", "WEAVE")
# Bodies of random hits: all kinds, closed thin cloth and many ropes.
BODIES = (*KINDS, "RIGID", "SHELL", "HAIR")
HITS = ("hammer", "plates", "teleport", "jump", "swing", "ride")


def violent_body(kind: str, pinned: bool, size: int = 200, **more: object) -> AnimatedBody:
    """Return a body of about a metre, centred at the origin. size: number of tetrahedra, or of 0.3 nodes."""
    side = math.isqrt(size // 3)
    if kind == "SOLID":
        ball = icosphere(2)
        points = 0.5 * ball.vertices
        pins = (points[:, 2] > 0.35).astype(float) if pinned else None
        surface = Surface("Body", points, ball.triangles)
        return static_body(surface, pins, resolution=size, touch_together=True, **more)
    if kind == "RIGID":
        shape = box((0.8, 0.5, 0.3))
        surface = Surface("Body", shape.vertices - shape.vertices.mean(axis=0), shape.triangles)
        pins = (surface.vertices[:, 2] > 0.14).astype(float) * pinned
        return static_body(surface, pins if pinned else None, kind="RIGID", **more)
    if kind == "SHELL":
        made = gridded_box("Body", (-0.5, -0.5, -0.01), (0.5, 0.5, 0.01), 1.0 / max(math.isqrt(size // 6), 7))
        vertices, welded = np.unique(made.vertices.round(9), axis=0, return_inverse=True)
        surface = Surface("Body", vertices, welded.reshape(-1)[made.triangles])
        pins = (surface.vertices[:, 0] > 0.48).astype(float) * pinned
        return static_body(surface, pins, kind="CLOTH", thickness=20.0, stiffness=2000.0, density=500.0, **more)
    if kind == "HAIR":
        return hair(max(size // 24, 6), pinned)
    if kind == "CLOTH":
        made = flag(max(side, 11))
    elif kind == "ROPE":
        made = rope(max(size // 3, 21) if size > 600 else 21)
    elif kind == "SPRINGS":
        made = net(max(side, 9))
    else:
        made = woven_body(max(side, 10), max(side, 10), 0.9 / max(side, 10))
    points = made.surface.vertices - 0.5 * (made.surface.vertices.max(axis=0) + made.surface.vertices.min(axis=0))
    axis = 2 if kind in ("CLOTH", "ROPE") else 0
    pins = (points[:, axis] > points[:, axis].max() - 0.02).astype(float) * pinned
    return replace(made, surface=replace(made.surface, name="Body", vertices=points), pins=pins)


def hair(count: int, pinned: bool, nodes: int = 8) -> AnimatedBody:
    """Return strands of 0.6 m that hang in a row of 1 m. pinned: whether their roots are."""
    places = np.stack([np.linspace(-0.5, 0.5, count), 0.03 * (np.arange(count) % 3), np.full(count, 0.3)], axis=1)
    along = np.linspace(0.0, 0.6, nodes)
    points = (places[:, None] - along[None, :, None] * np.eye(3)[2]).reshape(-1, 3)
    first = np.arange(count * nodes).reshape(count, nodes)
    edges = np.stack([first[:, :-1].ravel(), first[:, 1:].ravel()], axis=1)
    pins = np.isin(np.arange(len(points)), first[:, :2]).astype(float) * pinned
    dials = {"thickness": 5.0, "stiffness": 1e4, "density": 1000.0, "bending": 0.05}
    surface = Surface("Body", points, np.zeros((0, 3), dtype=np.int64))
    return static_body(surface, pins, kind="ROPE", edges=edges, **dials)


def moving(surface: Surface, path: Callable[[float], np.ndarray], name: str = "Hammer") -> AnimatedCollider:
    """Return a collider that moves with the points (v, 3) m of a path."""
    return AnimatedCollider(name, path(1.0), surface.triangles, motion=path)


def straight(surface: Surface, start: np.ndarray, step: np.ndarray, name: str = "Hammer") -> AnimatedCollider:
    """Return a collider that moves by a step (3,) m in each frame, and stops after HIT_FRAMES."""
    return moving(surface, lambda frame: surface.vertices + start + step * min(frame - 1.0, HIT_FRAMES), name)


def turning(surface: Surface, turns_per_second: float) -> AnimatedCollider:
    """Return a collider that turns about the vertical axis, and stops after HIT_FRAMES."""

    def path(frame: float) -> np.ndarray:
        angle = 2.0 * np.pi * turns_per_second * min(frame - 1.0, HIT_FRAMES) / FPS
        return np.asarray(surface.vertices @ Rotation.from_rotvec([0.0, 0.0, angle]).as_matrix().T)

    return moving(surface, path)


def plate(size: float = 3.0, thickness: float = 0.2) -> Surface:
    made = box((size, size, thickness))
    return replace(made, vertices=made.vertices - 0.5 * (made.vertices.max(axis=0) + made.vertices.min(axis=0)))


def ball(radius: float) -> Surface:
    made = icosphere(1)
    return replace(made, vertices=radius * made.vertices)


def violent_scene(name: str, kind: str = "SOLID", size: int = 200) -> Scene:
    """Return a scene by the name of its violence: through, plates, bar, teleport, appear, hammer, jump or spin."""
    last = 1 + HIT_FRAMES + CALM_FRAMES
    body = violent_body(kind, pinned=name != "hammer", size=size)
    up, zero = np.array([0.0, 0.0, 1.0]), np.zeros(3)
    if name == "through":
        colliders = [straight(ball(0.2), np.array([-20.0, 0.0, 0.0]), np.array([5.0, 0.0, 0.0]))]
    elif name == "plates":
        colliders = [
            straight(plate(), sign * (0.65 + 0.11) * up, -sign * 0.13 * up, f"Plate {sign}") for sign in (1.0, -1.0)
        ]
    elif name == "bar":
        bar = box((2.0, 0.1, 0.1))
        centred = replace(bar, vertices=bar.vertices - bar.vertices.mean(axis=0) - [0.0, 0.0, 0.2])
        colliders = [turning(centred, 10.0)]
    elif name == "teleport":
        shape = plate()
        colliders = [moving(shape, lambda frame: shape.vertices + (8.0 if frame < 6 else 0.1) * up)]
    elif name == "appear":
        grown = ball(0.25)
        colliders = [moving(grown, lambda frame: grown.vertices * float(np.clip(frame - 4.0, 1e-3, 1.0)))]
    elif name == "hammer":
        colliders = [straight(plate(0.6, 0.6), np.array([-3.0, 0.05, 0.1]), np.array([0.8, 0.0, 0.0]))]
    else:
        colliders = []
        rest = body.surface.vertices

        def jump(frame: float) -> np.ndarray:
            return rest + (10.0 * (int(frame) % 2) * np.eye(3)[0] if frame < HIT_FRAMES else zero)

        def spin(frame: float) -> np.ndarray:
            angle = 2.0 * np.pi * 10.0 * min(frame - 1.0, HIT_FRAMES) / FPS
            return np.asarray(rest @ Rotation.from_rotvec([0.0, 0.0, angle]).as_matrix().T)

        body = replace(body, motion=jump if name == "jump" else spin)
    return scene(body, fps=FPS, last=last, gravity=zero if name == "hammer" else -9.81 * up, colliders=tuple(colliders))


NAMES = ("through", "plates", "bar", "teleport", "appear", "hammer", "jump", "spin")


def random_violent_scene(seed: int) -> Scene:
    """Return a scene with a random body and a random collider that flies through it, turns, or crushes it."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    body = violent_body(kind, pinned=bool(rng.random() < 0.7), size=int(rng.integers(150, 600)))
    step = rng.normal(size=3)
    step *= 10.0 ** rng.uniform(-1.0, 0.7) / np.linalg.norm(step)
    start = -step * rng.integers(2, 6) + 0.2 * rng.normal(size=3)
    if rng.random() < 0.5:
        shape = ball(float(rng.uniform(0.1, 0.4)))
    else:
        made = box(tuple(rng.uniform(0.1, 1.0, 3)))
        shape = replace(made, vertices=made.vertices - made.vertices.mean(axis=0))
    spin = rng.normal(size=3) * (rng.random() < 0.5)

    def path(frame: float) -> np.ndarray:
        time = min(frame - 1.0, HIT_FRAMES)
        return np.asarray(shape.vertices @ Rotation.from_rotvec(spin * time).as_matrix().T + start + step * time)

    colliders = [moving(shape, path)]
    if rng.random() < 0.5:
        low = body.surface.vertices[:, 2].min() - 0.11 - float(rng.uniform(0.0, 0.2))
        table = plate()
        colliders.append(AnimatedCollider("Table", table.vertices + np.array([0.0, 0.0, low - 0.01]), table.triangles))
    return scene(body, fps=FPS, last=1 + HIT_FRAMES + CALM_FRAMES, colliders=tuple(colliders))


def random_hit(name: str, kind: str, seed: int) -> Scene:
    """Return a scene with a body and a random hammer, plates, teleport, jump of pins, or swinging mesh, see HITS.

    The mesh of "ride" swings a third as fast as that of "swing", so that bodies fall onto it and ride on it.
    """
    rng = np.random.default_rng([seed, HITS.index(name), BODIES.index(kind)])
    # A rigid body on pins cannot give way.
    is_held = name == "jump" or bool(rng.random() < 0.5 and name not in ("swing", "ride") and kind != "RIGID")
    body = violent_body(kind, pinned=is_held, size=int(rng.integers(150, 500)))
    around = Rotation.random(random_state=int(rng.integers(1 << 30)))
    speed, offset = 10.0 ** rng.uniform(-0.7, 0.5), 0.15 * rng.normal(size=3)
    colliders: list[AnimatedCollider] = []
    if name == "hammer":
        shape = plate(float(rng.uniform(0.3, 0.8)), float(rng.uniform(0.3, 0.8)))
        turned = replace(shape, vertices=around.apply(shape.vertices))
        step = speed * around.apply(np.eye(3)[0])
        colliders = [straight(turned, offset - step * (1.2 / speed + 1.0), step)]
    elif name == "plates":
        shape = plate()
        turned, up = replace(shape, vertices=around.apply(shape.vertices)), around.apply(np.eye(3)[2])
        gap = float(rng.uniform(0.05, 0.5))
        start = 0.75 + 0.1
        step = (start - 0.1 - 0.5 * gap) / HIT_FRAMES
        colliders = [
            straight(turned, sign * start * up + offset, -sign * step * up, f"Plate {sign}") for sign in (1.0, -1.0)
        ]
    elif name == "teleport":
        shape = plate(float(rng.uniform(0.5, 3.0)))
        turned, up = replace(shape, vertices=around.apply(shape.vertices)), around.apply(np.eye(3)[2])
        when = int(rng.integers(3, 8))
        colliders = [moving(turned, lambda frame: turned.vertices + (8.0 * up if frame < when else offset))]
    elif name == "jump":
        rest, jump = body.surface.vertices, 3.0 * speed * rng.normal(size=3)
        when = sorted(rng.choice(np.arange(2, HIT_FRAMES), 3, replace=False).tolist())
        turn = Rotation.from_rotvec(rng.normal(size=3) * float(rng.random() < 0.5))

        def path(frame: float) -> np.ndarray:
            count = sum(frame >= one for one in when)
            return np.asarray((turn**count).apply(rest) + (count % 2) * jump)

        body = replace(body, motion=path)
    else:
        low = float(body.surface.vertices[:, 2].min()) - 0.12
        shape = plate(2.0)
        hinge = np.array([0.0, 0.0, low - 0.1])
        axis = rng.normal(size=3) * np.array([1.0, 1.0, 0.3])
        angle, period = float(rng.uniform(0.2, 0.7)), float(rng.uniform(6.0, 18.0))
        period *= 3.0 if name == "ride" else 1.0

        def swing(frame: float) -> np.ndarray:
            phase = 2.0 * np.pi * min(frame - 1.0, HIT_FRAMES) / period
            turned = Rotation.from_rotvec(angle * np.sin(phase) * axis / np.linalg.norm(axis))
            return np.asarray(turned.apply(shape.vertices) + hinge + 0.2 * np.sin(phase) * np.array([1.0, 0.0, 0.5]))

        colliders = [moving(shape, swing, "Mesh")]
    return scene(body, fps=FPS, last=1 + HIT_FRAMES + CALM_FRAMES, colliders=tuple(colliders))


@dataclass(frozen=True)
class ViolentFrame:
    """Measures of a frame.

    seconds: of processor time.  evaluations: of the potential.  guards: names.
    depth: in colliders, over the smaller size.
    size: diameter over that at rest or in the first frame, of the piece that grew most.
    speed: of the fastest node, m/s, besides the fall of its piece.
    energy: kinetic, elastic and of the weight, J.
    """

    number: int
    seconds: float
    evaluations: int
    guards: tuple[str, ...]
    depth: float
    size: float
    speed: float
    energy: float = 0.0


def relative_depth_in_colliders(made: Scene, shape: np.ndarray, frame: float) -> float:
    """Return the largest depth of the only body in a collider, relative to the smaller size of the two.

    Pinned points of threads and sheets do not count: their animation decides where they are.
    """
    (body,), deepest = made.bodies, 0.0
    for collider, one in zip(made.colliders, made.sample(frame).colliders, strict=True):
        smaller = min(body.surface.size, float(np.linalg.norm(np.ptp(one.vertices, axis=0))))
        if body.kind == "SOLID":
            depth = penetration_depth(shape, body.surface.triangles, one.vertices, collider.triangles)
        else:
            free = shape if body.pins is None else shape[body.pins == 0.0]
            depth = float(depth_inside(free, Triangles(one.vertices, collider.triangles)).max(initial=0.0))
        deepest = max(deepest, depth / max(smaller, 1e-9))
    return deepest


def largest_growth(body: Body, shape: np.ndarray, first: np.ndarray | None = None) -> float:
    """Return the largest diameter of a connected piece over that at rest. Strands of hair may spread.

    first: shape whose pieces may be larger than at rest: loose woven cloth sags by more than a quarter.
    """
    edges = np.concatenate([body.surface.triangles[:, [0, 1]], body.surface.triangles[:, [1, 2]], body.edges])
    ones, count = np.ones(len(edges)), len(shape)
    labels = connected_components(csr_matrix((ones, edges.T), shape=(count, count)), directed=False)[1]
    pieces = [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]
    known = [body.surface.vertices, *([] if first is None else [first])]
    return max(diameter(shape[own]) / max(diameter(one[own]) for one in known) for own in pieces if len(own) > 1)


def updated_falls(simulation: Simulation, state: State, falls: np.ndarray) -> np.ndarray:
    """Return the velocities (r, 3) m/s that the weight gave to the regions of the only body, after a frame.

    falls: before it. A floor turns those of a body in the air, and they end where a region is stopped or does not fall.
    """
    (body,) = simulation.scene.bodies
    system, updated = simulation.system_of(body.name), falls.copy()
    for place, region in enumerate(system.regions):
        mean = np.average(state.velocities[region.free], axis=0, weights=system.mass[region.free])
        fall = falls[place] + simulation.scene.gravity / simulation.scene.fps
        if len(region.constrained_nodes):
            updated[place] = fall * np.clip(mean @ fall / max(float(fall @ fall), 1e-300), 0.0, 1.0)
        else:
            updated[place] = mean * min(float(np.linalg.norm(fall) / max(np.linalg.norm(mean), 1e-300)), 1.0)
    return updated


def fastest_speed(simulation: Simulation, state: State, falls: np.ndarray) -> float:
    """Return the speed of the fastest node of the only body, m/s, besides the falls (r, 3) m/s of the regions."""
    (body,) = simulation.scene.bodies
    velocities = state.velocities.copy()
    for region, fall in zip(simulation.system_of(body.name).regions, falls, strict=True):
        velocities[region.free] -= fall
    return float(np.linalg.norm(velocities, axis=1).max())


def diameter(points: np.ndarray) -> float:
    """Return the largest distance of two points (n, 3), m. Unlike the bounding box, it does not change in turns."""
    return float(pdist(points).max())


class EvaluationCounter:
    """Counter of the evaluations of all meters while it is entered."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> EvaluationCounter:
        self._metered, counter = WorkMeter.metered, self

        def metered(meter: WorkMeter, minimise: Minimise, cost: float) -> Minimise:
            def counted(problem: Any, start: np.ndarray, tolerance: Tolerance) -> Minimum:
                found = minimise(problem, start, tolerance)
                counter.count += found.evaluations
                return found

            return counter._metered(meter, counted, cost)

        WorkMeter.metered = metered  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        WorkMeter.metered = self._metered  # type: ignore[method-assign]


def impact_speed(made: Scene) -> float:
    """Return the largest speed of an animated vertex, m/s."""
    fastest, last = 0.0, made.sample(float(made.first))
    for number in range(made.first + 1, made.last + 1):
        sample = made.sample(float(number))
        for one, other in zip((*sample.colliders, *sample.bodies), (*last.colliders, *last.bodies), strict=True):
            fastest = max(fastest, made.fps * float(np.linalg.norm(one.vertices - other.vertices, axis=1).max()))
        last = sample
    return fastest


def mechanical_energy(simulation: Simulation, frame: Frame) -> float:
    """Return the kinetic energy and the elastic and external potential energy of the only body, J."""
    (body,) = simulation.scene.bodies
    system, state = simulation.system_of(body.name), frame.state
    moving = 0.5 * float(system.mass @ (state.velocities**2).sum(axis=1))
    lifted = -float(system.mass @ (state.positions @ simulation.scene.gravity))
    return moving + lifted + system.elastic_energy(state.positions, np.ones(len(system.blocks)))


def run_violent(made: Scene) -> Iterator[ViolentFrame]:
    """Simulate a scene with one body and yield the measures of each frame."""
    simulation = Simulation(made)
    begun = time.process_time()
    first = simulation.first_frame()
    yield ViolentFrame(first.number, time.process_time() - begun, 0, (), 0.0, 1.0, 0.0)
    run = SimulationRun(simulation, first, simulation.sample_frame(first.number))
    (body,) = made.bodies
    falls = np.zeros((len(simulation.system_of(body.name).regions), 3))
    while run.frame.number < made.last:
        inputs = simulation.sample_frame(run.frame.number + 1, run.substep_count)
        begun = time.process_time()
        with EvaluationCounter() as counter:
            frame = run.advance(inputs)
        seconds = time.process_time() - begun
        shape, falls = frame.shapes[body.name], updated_falls(simulation, frame.state, falls)
        yield ViolentFrame(
            frame.number,
            seconds,
            counter.count,
            tuple(frame.guards),
            relative_depth_in_colliders(made, shape, float(frame.number)),
            largest_growth(body, shape, first.shapes[body.name]),
            fastest_speed(simulation, frame.state, falls),
            mechanical_energy(simulation, frame),
        )

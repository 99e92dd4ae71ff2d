"""Penetration in hard contact: fast, sharp, thin, squeezed and stacked bodies.

See docs/explanation/physics/07-contact.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import DOWN, gridded_box, scene, static_body
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.collision.intersections import penetration_depth
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.measure.contact_results import VISIBLE_PENETRATION, body_contact_forces
from dampsim.core.simulation.contact_setup import weld_coincident
from dampsim.core.simulation.simulation import Simulation, SimulationRun
from shapes import box, sphere
from supports import block, collider, max_depth_inside, plane, rotate_surface, wave_sheet

SIZE = 0.2 * 3**0.5
R = 0.005 * SIZE


def start_moving(simulation: Simulation, velocity: np.ndarray) -> SimulationRun:
    """Return a run at its first frame, with a velocity (n, 3) or (3,) m/s added to all nodes."""
    run = SimulationRun(simulation, simulation.first_frame(), simulation.sample_frame(1))
    state = run.frame.state
    run.frame = replace(run.frame, state=replace(state, velocities=state.velocities + velocity))
    return run


def welded_depth(simulation: Simulation, frame: Frame, one: str, other: str) -> float:
    surfaces = {body.name: body.surface for body in simulation.scene.bodies}
    (a, b) = (
        (frame.shapes[name], weld_coincident(surfaces[name].vertices, surfaces[name].triangles))
        for name in (one, other)
    )
    return penetration_depth(*a, *b)


PLATES = {
    "open": wave_sheet(15, 1.4, 0.0, 1.0),
    "closed": gridded_box("Plate", (-0.7, -0.7, -0.02), (0.7, 0.7, 0.0), 0.1),
}


def shoot_at_plate(plate: str, stiffness: float, substeps: int) -> tuple[float, bool]:
    """Return the penetration of a cube at 40 m/s into a plate over its size, and whether it ends in front."""
    body = block(low=(-0.1, -0.1, 0.4), stiffness=stiffness, substeps=substeps)
    simulation = Simulation(scene(body, last=24, gravity=0.0 * DOWN, colliders=(collider(PLATES[plate]),)))
    run = start_moving(simulation, np.array([0.0, 0.0, -40.0]))
    lowest = []
    for number in range(2, 14):
        frame = run.advance(simulation.sample_frame(number, run.substep_count))
        # Vertices over the plate.
        over = (np.abs(frame.surface[:, :2]) < 0.7).all(axis=1)
        lowest.append(float(frame.surface[over, 2].min()))
    return -min(lowest) / SIZE, bool(frame.surface[:, 2].mean() > 0.0)


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("plate", "stiffness", "substeps"),
    [
        ("closed", 100.0, 1),
        slow("closed", 100.0, 2),
        slow("closed", 1000.0, 4),
        slow("open", 1000.0, 1),
        slow("open", 1000.0, 2),
        slow("open", 1000.0, 4),
        slow("open", 100.0, 1),
        slow("open", 100.0, 2),
        slow("open", 100.0, 4),
    ],
)
def test_fast_cube_does_not_tunnel_plate(plate: str, stiffness: float, substeps: int) -> None:
    """At 40 m/s the cube penetrates by less than is visible and rebounds."""
    deepest, back = shoot_at_plate(plate, stiffness, substeps)
    assert deepest < VISIBLE_PENETRATION
    assert back


def ball_drop_depth() -> float:
    """Return the largest penetration of a ball that falls from two metres onto a table, over its size."""
    ball = sphere(600)
    ball = Surface(
        "Ball",
        0.25 * ball.vertices / np.linalg.norm(ball.vertices, axis=1)[:, None] + np.array([0.05, 0.02, 2.25]),
        ball.triangles,
    )
    table = gridded_box("Table", (-1, -1, -0.5), (1, 1, 0), 0.2)
    body = static_body(ball, stiffness=100.0, settle=24.0, bounce=30.0, resolution=1500)
    simulation = Simulation(scene(body, last=60, colliders=(collider(table),)))
    deep = [max_depth_inside(one.surface, table.vertices, table.triangles) for one in simulation.frames()]
    return max(deep) / ball.size


@pytest.mark.slow
def test_dropped_ball_penetration_is_invisible() -> None:
    assert ball_drop_depth() < VISIBLE_PENETRATION


def bar_on_waves() -> tuple[float, float]:
    """Return the largest penetration of a bar into moving waves, and its largest gap, both over its size."""
    surface = gridded_box("Bar", (-0.4, -0.1, 0.09), (0.4, 0.1, 0.29), 0.05)
    ground = wave_sheet(41, 2.0, 0.06, 0.5)

    def path(frame: float) -> np.ndarray:
        t = (frame - 1.0) / 24.0
        return np.array([0.2 * np.sin(2.0 * t), 0.1 * t, 0.08 * np.sin(5.0 * t)])

    body = static_body(surface, stiffness=100.0, settle=12.0, bounce=20.0, resolution=400)
    simulation = Simulation(scene(body, last=72, colliders=(collider(ground, path),)))
    gaps = []
    for frame in simulation.frames():
        points = frame.surface - path(frame.number)
        high = 0.06 * np.sin(2 * np.pi * points[:, 0] / 0.5) * np.cos(2 * np.pi * points[:, 1] / 0.5)
        gaps.append(float((points[:, 2] - high).min()))
    # Largest distance of the sheet's triangles from the exact waves.
    flat = 0.06 * (2 * np.pi / 0.5) ** 2 * (2.0 / 40) ** 2 / 4.0
    return (-min(gaps) - flat) / surface.size, (max(gaps[24:]) - flat) / surface.size


@pytest.mark.slow
def test_bar_on_moving_waves() -> None:
    deepest, off = bar_on_waves()
    assert deepest < VISIBLE_PENETRATION
    # It stays on the waves.
    assert off < 0.02


def edge_penetration(spacing: float) -> float:
    """Return the largest penetration of a box's edge into a tail that falls over it, over the tail's size."""
    tail = gridded_box("Tail", (0.0, -0.05, 0.0), (0.6, 0.05, 0.1), spacing)
    pins = (tail.vertices[:, 0] < 1e-6).astype(float)
    obstacle = rotate_surface(
        Surface("Edge", box((0.3, 0.6, 0.3)).vertices, box((0.3, 0.6, 0.3)).triangles), (0, 45, 0), (0.33, 0, -0.23)
    )
    body = static_body(tail, pins, stiffness=50.0, settle=12.0, bounce=0.0, resolution=300, contact_distance=0.003)
    simulation = Simulation(scene(body, last=48, colliders=(collider(obstacle),)))
    triangles = weld_coincident(tail.vertices, tail.triangles)
    frames = list(simulation.frames())
    deep = [penetration_depth(one.surface, triangles, obstacle.vertices, obstacle.triangles) for one in frames]
    assert len(body_contact_forces(simulation, frames[-1], "Tail")) > 0
    return max(deep) / tail.size


@pytest.mark.parametrize("spacing", [0.05, pytest.param(0.02, marks=pytest.mark.slow)])
def test_box_edge_under_coarse_tail(spacing: float) -> None:
    """A sharp edge does not penetrate between the vertices of a tail that lies over it."""
    assert edge_penetration(spacing) < VISIBLE_PENETRATION


def squeeze_protrusion(closed: bool) -> float:
    """Return how far a ball pressed to 45% of its width protrudes through the plates, over its size."""
    ball = sphere(400)
    ball = Surface("Belly", 0.2 * ball.vertices / np.linalg.norm(ball.vertices, axis=1)[:, None], ball.triangles)

    def height(frame: float) -> float:
        return 0.201 - 0.111 * min(max((frame - 5.0) / 30.0, 0.0), 1.0)

    obstacles = []
    for k, sign in enumerate((1.0, -1.0)):
        low = min(0.2 * sign, 0.0)
        plate = (
            gridded_box("", (-0.6, -0.6, low), (0.6, 0.6, low + 0.2), 0.15) if closed else wave_sheet(9, 1.2, 0.0, 1.0)
        )
        named = Surface(f"Plate{k}", plate.vertices, plate.triangles)
        obstacles.append(collider(named, lambda frame, sign=sign: np.array([0.0, 0.0, sign * height(frame)])))
    body = static_body(ball, stiffness=30.0, settle=12.0, bounce=0.0, poisson=0.45, resolution=800)
    simulation = Simulation(scene(body, last=48, gravity=0.0 * DOWN, colliders=tuple(obstacles)))
    worst = 0.0
    for frame in simulation.frames():
        worst = max(worst, float(np.abs(frame.surface[:, 2]).max()) - height(frame.number))
    return worst / ball.size


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
def test_squeezed_ball_stays_between_plates(closed: bool) -> None:
    assert squeeze_protrusion(closed) < VISIBLE_PENETRATION


def oblique_momentum_errors(substeps: int) -> tuple[float, float]:
    """Return the relative errors of linear and angular momentum in an oblique collision of two bodies.

    The angular error is relative to the momentum times the bodies' size, about their lever arm.
    """
    one = block("One", low=(-0.3, -0.1, -0.1), touch_together=True, substeps=substeps)
    two = block("Two", low=(0.02, -0.02, -0.07), touch_together=True, substeps=substeps)
    simulation = Simulation(scene(one, two, last=16, gravity=0.0 * DOWN))
    system = simulation.islands[0].system
    mass, half = system.mass, system.slices[0]
    start = np.zeros((len(mass), 3))
    start[half] = [2.0, 0.3, 0.0]
    run = start_moving(simulation, start)

    def momenta(frame: Frame) -> np.ndarray:
        x, p = frame.state.positions, mass[:, None] * frame.state.velocities
        return np.concatenate([p.sum(axis=0), np.cross(x, p).sum(axis=0)])

    before = momenta(run.frame)
    for number in range(2, 17):
        run.advance(simulation.sample_frame(number, run.substep_count))
    off = momenta(run.frame) - before
    assert np.abs(run.frame.state.velocities[system.slices[1]]).max() > 0.3
    scale = float(np.linalg.norm(before[:3]))
    return float(np.abs(off[:3]).max() / scale), float(np.linalg.norm(off[3:]) / (scale * SIZE))


@pytest.mark.slow
def test_oblique_collision_conserves_momenta() -> None:
    (linear, angular), (finer, less) = (oblique_momentum_errors(substeps) for substeps in (1, 4))
    assert max(linear, finer) < 1e-10
    assert angular < 0.02
    assert less < 0.005


@pytest.mark.parametrize("pinned", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_collision_momentum_with_distant_body(pinned: bool) -> None:
    """Large enough for a preconditioner in single precision, slow, and with a third body in the same island."""
    bodies = [
        block(name, low=low, resolution=500, settle=96.0, touch_together=True)
        for name, low in {"One": (-0.3, -0.1, -0.1), "Two": (0.02, -0.02, -0.07), "Far": (5.0, 5.0, 5.0)}.items()
    ]
    if pinned:
        bodies[2] = replace(bodies[2], pins=(bodies[2].surface.vertices[:, 0] < 5.001).astype(float))
    simulation = Simulation(scene(*bodies, last=7, gravity=0.0 * DOWN))
    system = simulation.islands[0].system
    start = np.zeros((len(system.mass), 3))
    start[system.slices[0]] = [2.0, 0.3, 0.0]
    run = start_moving(simulation, start)
    pair = np.r_[system.slices[0], system.slices[1]]
    before = system.mass[pair] @ run.frame.state.velocities[pair]
    for number in range(2, 8):
        run.advance(simulation.sample_frame(number, run.substep_count))
    assert np.abs(run.frame.state.velocities[system.slices[1]]).max() > 0.3
    off = system.mass[pair] @ run.frame.state.velocities[pair] - before
    assert float(np.linalg.norm(off)) < 1e-12 * float(np.linalg.norm(before))


def stack(count: int, last: int) -> Simulation:
    bodies = [
        block(
            f"Cube{k}",
            low=(0.01 * (k % 2), 0.008 * (k % 3), 0.001 + 0.202 * k),
            stiffness=500.0,
            settle=24.0,
            touch_together=True,
        )
        for k in range(count)
    ]
    return Simulation(scene(*bodies, last=last, colliders=(plane(),)))


@pytest.mark.parametrize(("count", "last"), [(2, 72), pytest.param(5, 241, marks=pytest.mark.slow)])
def test_stack_stands_without_penetration(count: int, last: int) -> None:
    simulation = stack(count, last)
    frames = list(simulation.frames())
    for frame in frames[:: max(last // 12, 1)]:
        for k in range(count - 1):
            assert welded_depth(simulation, frame, f"Cube{k}", f"Cube{k + 1}") == 0.0
            assert frame.shapes["Cube0"][:, 2].min() > 0.0
    top = f"Cube{count - 1}"
    assert np.abs(frames[-1].shapes[top] - frames[0].shapes[top]).max() < 0.05
    assert np.linalg.norm(frames[-1].state.velocities, axis=1).max() < 1e-3


def shaken_walk(forwards: float, backwards: float, seconds: float) -> tuple[float, int]:
    """Return the way of a block with anisotropic friction on shaken ground, m, and its frames with hard steps.

    The ground moves by 5 cm, twice per second.
    """

    def path(frame: float) -> np.ndarray:
        return np.array([0.05 * np.sin(4.0 * np.pi * (frame - 1.0) / 24.0), 0.0, 0.0])

    body = block(low=(0.0, 0.0, 0.95 * R), front="PLUS_X", friction=forwards, friction_back=backwards, substeps=2)
    frames = list(Simulation(scene(body, last=round(24 * seconds) + 1, colliders=(plane(path=path),))).frames())
    return float((frames[-1].surface - frames[0].surface)[:, 0].mean()), sum(bool(one.guards) for one in frames)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [2.5, pytest.param(10.0, marks=pytest.mark.slow)])
def test_anisotropic_friction_walks_on_shaken_ground(seconds: float) -> None:
    way, hard_frames = shaken_walk(0.1, 0.8, seconds)
    # A rigid block moves 4.33 m in 10 s with steps of 1/48 s.
    assert 0.4 * seconds < way < 0.46 * seconds
    assert hard_frames == 0
    alike, hard_frames = shaken_walk(0.45, 0.45, seconds)
    assert abs(alike) < 0.1
    assert hard_frames == 0


def test_self_contact_of_loose_mesh_part() -> None:
    """With self-contact a loose part of a mesh lands on the pinned part; without it falls through."""
    lower, upper = (
        gridded_box("Both", (-0.2, -0.2, -0.2), (0.2, 0.2, 0.0), 0.1),
        gridded_box("", (-0.1, -0.1, 0.5), (0.1, 0.1, 0.7), 0.1),
    )
    vertices = np.concatenate([lower.vertices, upper.vertices])
    both = Surface("Both", vertices, np.concatenate([lower.triangles, upper.triangles + len(lower.vertices)]))
    pins = (vertices[:, 2] < -0.19).astype(float)
    dials = {"stiffness": 200.0, "settle": 12.0, "bounce": 0.0, "resolution": 600, "start_settled": False}
    for itself in (True, False):
        made = scene(static_body(both, pins, touch_self=itself, **dials), last=36)
        shapes = np.array([one.surface for one in Simulation(made).frames()])
        gap = shapes[:, len(lower.vertices) :, 2].min(axis=1)
        if itself:
            assert gap.min() > -0.01
            # It stays where it landed.
            assert np.abs(shapes[-1] - shapes[-4]).max() < 1e-3
        else:
            assert gap.min() < -1.0


@pytest.mark.parametrize(("over", "way"), [(0.03, "NEAREST"), (0.12, "NEAREST"), (0.12, "CONSISTENT")])
def test_initial_penetration_exit_speed_is_limited(over: float, way: str) -> None:
    """A block of 0.2 m starts in a slab of the same thickness; beyond its middle the nearest exits would tear it apart.

    It may come out at 0.5 of its size (0.35 m) per second, and then rests on the slab.
    """
    slab = collider(gridded_box("Slab", (-0.3, -0.3, -0.2), (0.3, 0.3, 0.0), 0.1))
    body = block(low=(-0.1, -0.1, -over), start_settled=False, depth=way)
    low = [float(f.surface[:, 2].min()) for f in Simulation(scene(body, last=34, colliders=(slab,))).frames()]
    # A soft body comes out 5% faster.
    assert np.diff(low).max() <= 1.05 * 0.5 * SIZE / 24.0
    assert -R < low[-1] < 1.1 * R

"""What is fast, sharp, thin, squeezed or piled up stays in front of what it touches (docs/physics.md section 7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import DOWN, gridded, scene, still
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.crossings import depth_between
from dampsim.core.geometry.surface import Surface
from dampsim.core.measure.contacts import SEEN, pressing
from dampsim.core.simulation.contacts import sewn
from dampsim.core.simulation.simulation import Run, Simulation
from grounds import block, collider, plane, sunk, turned, waves
from shapes import box, sphere

SIZE = 0.2 * 3**0.5
R = 0.005 * SIZE


def moving(simulation: Simulation, velocity: np.ndarray) -> Run:
    """From its first frame, with all of it on its way, m/s."""
    run = Run(simulation, simulation.first_frame(), simulation.sampled(1))
    state = run.frame.state
    run.frame = replace(run.frame, state=replace(state, velocities=state.velocities + velocity))
    return run


def sewn_depth(simulation: Simulation, frame: Frame, one: str, other: str) -> float:
    surfaces = {body.name: body.surface for body in simulation.scene.bodies}
    (a, b) = ((frame.shapes[name], sewn(surfaces[name].vertices, surfaces[name].triangles)) for name in (one, other))
    return depth_between(*a, *b)


PLATES = {"open": waves(15, 1.4, 0.0, 1.0), "closed": gridded("Plate", (-0.7, -0.7, -0.02), (0.7, 0.7, 0.0), 0.1)}


def shot(plate: str, stiffness: float, substeps: int) -> tuple[float, bool]:
    """The deepest vertex of a cube that hits a plate with 40 m/s, of its size, and whether it stays in front."""
    body = block(low=(-0.1, -0.1, 0.4), stiffness=stiffness, substeps=substeps)
    simulation = Simulation(scene(body, last=24, gravity=0.0 * DOWN, obstacles=(collider(PLATES[plate]),)))
    run = moving(simulation, np.array([0.0, 0.0, -40.0]))
    lowest = []
    for number in range(2, 14):
        frame = run.advance(simulation.sampled(number, run.count))
        # As long as it is over the plate.
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
def test_a_cube_of_40_metres_a_second_stays_in_front_of_a_plate(plate: str, stiffness: float, substeps: int) -> None:
    deepest, back = shot(plate, stiffness, substeps)
    assert deepest < SEEN
    assert back


def landed() -> float:
    """The deepest vertex of a ball that falls from two metres onto a table, of its size."""
    ball = sphere(600)
    ball = Surface(
        "Ball",
        0.25 * ball.vertices / np.linalg.norm(ball.vertices, axis=1)[:, None] + np.array([0.05, 0.02, 2.25]),
        ball.triangles,
    )
    table = gridded("Table", (-1, -1, -0.5), (1, 1, 0), 0.2)
    body = still(ball, stiffness=100.0, settle=24.0, bounce=30.0, resolution=1500)
    simulation = Simulation(scene(body, last=60, obstacles=(collider(table),)))
    deep = [sunk(one.surface, table.vertices, table.triangles) for one in simulation.frames()]
    return max(deep) / ball.size


@pytest.mark.slow
def test_a_ball_from_two_metres_stays_in_front_of_a_table() -> None:
    assert landed() < SEEN


def on_waves() -> tuple[float, float]:
    """How deep a bar gets into moving waves, and how far off them, of its size."""
    surface = gridded("Bar", (-0.4, -0.1, 0.09), (0.4, 0.1, 0.29), 0.05)
    ground = waves(41, 2.0, 0.06, 0.5)

    def path(frame: float) -> np.ndarray:
        t = (frame - 1.0) / 24.0
        return np.array([0.2 * np.sin(2.0 * t), 0.1 * t, 0.08 * np.sin(5.0 * t)])

    body = still(surface, stiffness=100.0, settle=12.0, bounce=20.0, resolution=400)
    simulation = Simulation(scene(body, last=72, obstacles=(collider(ground, path),)))
    gaps = []
    for frame in simulation.frames():
        points = frame.surface - path(frame.number)
        high = 0.06 * np.sin(2 * np.pi * points[:, 0] / 0.5) * np.cos(2 * np.pi * points[:, 1] / 0.5)
        gaps.append(float((points[:, 2] - high).min()))
    # The sheet's triangles lie up to this far from the waves that they are of.
    flat = 0.06 * (2 * np.pi / 0.5) ** 2 * (2.0 / 40) ** 2 / 4.0
    return (-min(gaps) - flat) / surface.size, (max(gaps[24:]) - flat) / surface.size


@pytest.mark.slow
def test_a_bar_follows_moving_waves_without_sinking_in() -> None:
    deepest, off = on_waves()
    assert deepest < SEEN
    # It lies on them, and is not thrown off.
    assert off < 0.02


def over_edge(spacing: float) -> float:
    """How deep the edge of a box is in a tail that falls over it, of its size."""
    tail = gridded("Tail", (0.0, -0.05, 0.0), (0.6, 0.05, 0.1), spacing)
    pins = (tail.vertices[:, 0] < 1e-6).astype(float)
    obstacle = turned(
        Surface("Edge", box((0.3, 0.6, 0.3)).vertices, box((0.3, 0.6, 0.3)).triangles), (0, 45, 0), (0.33, 0, -0.23)
    )
    body = still(tail, pins, stiffness=50.0, settle=12.0, bounce=0.0, resolution=300, contact_distance=0.003)
    simulation = Simulation(scene(body, last=48, obstacles=(collider(obstacle),)))
    triangles = sewn(tail.vertices, tail.triangles)
    frames = list(simulation.frames())
    deep = [depth_between(one.surface, triangles, obstacle.vertices, obstacle.triangles) for one in frames]
    assert len(pressing(simulation, frames[-1], "Tail")) > 0
    return max(deep) / tail.size


@pytest.mark.parametrize("spacing", [0.05, pytest.param(0.02, marks=pytest.mark.slow)])
def test_the_edge_of_a_box_does_not_sink_between_the_vertices_of_a_tail(spacing: float) -> None:
    assert over_edge(spacing) < SEEN


def squeezed(closed: bool) -> float:
    """How far a ball that plates press to 45% of its width comes through them, of its size."""
    ball = sphere(400)
    ball = Surface("Belly", 0.2 * ball.vertices / np.linalg.norm(ball.vertices, axis=1)[:, None], ball.triangles)

    def height(frame: float) -> float:
        return 0.201 - 0.111 * min(max((frame - 5.0) / 30.0, 0.0), 1.0)

    obstacles = []
    for k, sign in enumerate((1.0, -1.0)):
        low = min(0.2 * sign, 0.0)
        plate = gridded("", (-0.6, -0.6, low), (0.6, 0.6, low + 0.2), 0.15) if closed else waves(9, 1.2, 0.0, 1.0)
        named = Surface(f"Plate{k}", plate.vertices, plate.triangles)
        obstacles.append(collider(named, lambda frame, sign=sign: np.array([0.0, 0.0, sign * height(frame)])))
    body = still(ball, stiffness=30.0, settle=12.0, bounce=0.0, poisson=0.45, resolution=800)
    simulation = Simulation(scene(body, last=48, gravity=0.0 * DOWN, obstacles=tuple(obstacles)))
    worst = 0.0
    for frame in simulation.frames():
        worst = max(worst, float(np.abs(frame.surface[:, 2]).max()) - height(frame.number))
    return worst / ball.size


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
def test_a_belly_squeezed_between_plates_stays_between_them(closed: bool) -> None:
    assert squeezed(closed) < SEEN


def aslant(substeps: int) -> tuple[float, float]:
    """What two bodies that hit each other aslant change of their momentum, in parts of it, and of their angular one.

    The latter against what the two turn about their centre with when they meet: a lever of about their size.
    """
    one = block("One", low=(-0.3, -0.1, -0.1), touch_together=True, substeps=substeps)
    two = block("Two", low=(0.02, -0.02, -0.07), touch_together=True, substeps=substeps)
    simulation = Simulation(scene(one, two, last=16, gravity=0.0 * DOWN))
    system = simulation.islands[0].system
    mass, half = system.mass, system.slices[0]
    start = np.zeros((len(mass), 3))
    start[half] = [2.0, 0.3, 0.0]
    run = moving(simulation, start)

    def momenta(frame: Frame) -> np.ndarray:
        x, p = frame.state.positions, mass[:, None] * frame.state.velocities
        return np.concatenate([p.sum(axis=0), np.cross(x, p).sum(axis=0)])

    before = momenta(run.frame)
    for number in range(2, 17):
        run.advance(simulation.sampled(number, run.count))
    off = momenta(run.frame) - before
    assert np.abs(run.frame.state.velocities[system.slices[1]]).max() > 0.3
    scale = float(np.linalg.norm(before[:3]))
    return float(np.abs(off[:3]).max() / scale), float(np.linalg.norm(off[3:]) / (scale * SIZE))


@pytest.mark.slow
def test_bodies_that_hit_each_other_aslant_keep_their_momenta() -> None:
    (linear, angular), (finer, less) = (aslant(substeps) for substeps in (1, 4))
    assert max(linear, finer) < 1e-10
    assert angular < 0.02
    assert less < 0.005


@pytest.mark.parametrize("pinned", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_is_far_away_changes_no_momentum_of_what_meets(pinned: bool) -> None:
    """Large enough for a metric in single precision, slow, and beside a third body of the same island."""
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
    run = moving(simulation, start)
    pair = np.r_[system.slices[0], system.slices[1]]
    before = system.mass[pair] @ run.frame.state.velocities[pair]
    for number in range(2, 8):
        run.advance(simulation.sampled(number, run.count))
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
    return Simulation(scene(*bodies, last=last, obstacles=(plane(),)))


@pytest.mark.parametrize(("count", "last"), [(2, 72), pytest.param(5, 241, marks=pytest.mark.slow)])
def test_a_stack_stands_with_nothing_inside_of_anything(count: int, last: int) -> None:
    simulation = stack(count, last)
    frames = list(simulation.frames())
    for frame in frames[:: max(last // 12, 1)]:
        for k in range(count - 1):
            assert sewn_depth(simulation, frame, f"Cube{k}", f"Cube{k + 1}") == 0.0
            assert frame.shapes["Cube0"][:, 2].min() > 0.0
    top = f"Cube{count - 1}"
    assert np.abs(frames[-1].shapes[top] - frames[0].shapes[top]).max() < 0.05
    assert np.linalg.norm(frames[-1].state.velocities, axis=1).max() < 1e-3


def shaken(forwards: float, backwards: float, seconds: float) -> tuple[float, int]:
    """How far a block with a front walks on ground shaken by 5 cm, twice a second, m; and how often it was helped."""

    def path(frame: float) -> np.ndarray:
        return np.array([0.05 * np.sin(4.0 * np.pi * (frame - 1.0) / 24.0), 0.0, 0.0])

    body = block(low=(0.0, 0.0, 0.95 * R), front="PLUS_X", friction=forwards, friction_back=backwards, substeps=2)
    frames = list(Simulation(scene(body, last=round(24 * seconds) + 1, obstacles=(plane(path=path),))).frames())
    return float((frames[-1].surface - frames[0].surface)[:, 0].mean()), sum(one.helped for one in frames)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [2.5, pytest.param(10.0, marks=pytest.mark.slow)])
def test_what_slides_more_easily_forwards_walks_on_shaken_ground(seconds: float) -> None:
    way, helped = shaken(0.1, 0.8, seconds)
    # A rigid block makes 4.33 m in 10 s, by a step of a 48th of a second.
    assert 0.4 * seconds < way < 0.46 * seconds
    assert helped == 0
    alike, helped = shaken(0.45, 0.45, seconds)
    assert abs(alike) < 0.1
    assert helped == 0


def test_a_loose_piece_of_a_mesh_lands_on_a_pinned_one_where_it_touches_itself() -> None:
    lower, upper = (
        gridded("Both", (-0.2, -0.2, -0.2), (0.2, 0.2, 0.0), 0.1),
        gridded("", (-0.1, -0.1, 0.5), (0.1, 0.1, 0.7), 0.1),
    )
    vertices = np.concatenate([lower.vertices, upper.vertices])
    both = Surface("Both", vertices, np.concatenate([lower.triangles, upper.triangles + len(lower.vertices)]))
    pins = (vertices[:, 2] < -0.19).astype(float)
    dials = {"stiffness": 200.0, "settle": 12.0, "bounce": 0.0, "resolution": 600, "start_settled": False}
    for itself in (True, False):
        made = scene(still(both, pins, touch_self=itself, **dials), last=36)
        shapes = np.array([one.surface for one in Simulation(made).frames()])
        gap = shapes[:, len(lower.vertices) :, 2].min(axis=1)
        if itself:
            assert gap.min() > -0.01
            # And stays where it has landed.
            assert np.abs(shapes[-1] - shapes[-4]).max() < 1e-3
        else:
            assert gap.min() < -1.0


@pytest.mark.parametrize(("over", "way"), [(0.03, "NEAREST"), (0.12, "NEAREST"), (0.12, "CONSISTENT")])
def test_what_begins_inside_comes_out_slowly_and_all_one_way(over: float, way: str) -> None:
    """A block of 0.2 m that begins in a slab as thick: beyond the middle of it the nearest ways out tear it apart.

    It may come out with 0.5 of its size (0.35 m) a second, and lies as if it had been put there then.
    """
    slab = collider(gridded("Slab", (-0.3, -0.3, -0.2), (0.3, 0.3, 0.0), 0.1))
    body = block(low=(-0.1, -0.1, -over), start_settled=False, depth=way)
    low = [float(f.surface[:, 2].min()) for f in Simulation(scene(body, last=34, obstacles=(slab,))).frames()]
    # And 5% more, as what is soft comes out of it.
    assert np.diff(low).max() <= 1.05 * 0.5 * SIZE / 24.0
    assert -R < low[-1] < 1.1 * R

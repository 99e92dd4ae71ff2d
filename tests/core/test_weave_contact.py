"""Contact of woven cloth with colliders: yarns stop, rest, sleep, slide with friction and move along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from stored_history import history_bytes
from woven_scenes import swatch

from builders import gridded_box, scene, static_body
from dampsim.core.contact_response.contact_solve import ContactSolve
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.collision.intersections import depth_inside
from dampsim.core.geometry.collision.proximity import Triangles
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.measure.contact_results import body_contact_forces, contact_summary
from dampsim.core.objective.weave_problem import WeaveProblem
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Collider, Scene
from dampsim.core.simulation.contact_setup import weld_coincident
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.system.state import State
from shapes import sphere, tube
from supports import Path, collider, plane, zero_path

# Diagonal of a square metre. A thousandth of it is visible.
SIZE = 2.0**0.5
VISIBLE = 1e-3 * SIZE


def horizontal_swatch(count: int, height: float, **more: object) -> Body:
    """Return a horizontal square metre of yarns 5 mm thick, slightly off the z axis."""
    surface, edges = swatch(count, count, 1.0 / (count + 1))
    points = surface.vertices - [0.487, 0.493, -height]
    dials = {"thickness": 5.0, "density": 300.0, "bending": 0.05, "stiffness": 2000.0, "yarn_grip": 30.0}
    made = Surface("Swatch", points, surface.triangles)
    return static_body(made, kind="WEAVE", edges=edges, **{**dials, "settle": 12.0, **more})


def ball(path: Path = zero_path) -> Collider:
    """Return a ball with a radius of 0.25 m and its top at the origin."""
    round_ = sphere(300)
    return collider(Surface("Ball", 0.25 * (round_.vertices - [0.0, 0.0, 1.0]), round_.triangles), path)


def crate() -> Collider:
    """Return a box 0.5 m wide with its top at z = 0 and few vertices: only yarns between nodes meet its edges."""
    return collider(gridded_box("Crate", (-0.25, -0.25, -0.5), (0.25, 0.25, 0.0), 0.25))


def pole() -> Collider:
    """Return a pole 2 cm thick along the y axis that lies between two yarns and touches no crossing."""
    rod = tube(1.6, 0.01, 16, 12)
    return collider(Surface("Pole", rod.vertices[:, [1, 2, 0]] - [0.03, 0.8, 0.01], rod.triangles))


def yarn_points(simulation: Simulation, x: np.ndarray) -> np.ndarray:
    """Return points (p, 3) along all yarn segments, including their ends."""
    a, b = simulation.islands[0].system.blocks[0].groups[0].T
    parts = np.linspace(0.0, 1.0, 9)[:, None, None]
    return np.asarray((1.0 - parts) * x[a] + parts * x[b]).reshape(-1, 3)


def yarn_penetration(simulation: Simulation, x: np.ndarray, obstacle: Collider, frame: float) -> float:
    """Return the penetration of the deepest yarn in m."""
    points, there = yarn_points(simulation, x), obstacle.vertices_at(frame)
    if obstacle.is_plane:
        normal = np.cross(there[1] - there[0], there[2] - there[0])
        return -float(((points - there[0]) @ normal).min() / np.linalg.norm(normal))
    triangles = weld_coincident(obstacle.vertices, obstacle.triangles)
    return float(depth_inside(points, Triangles(there, triangles)).max(initial=0.0))


def simulate_with_substeps(
    made: Scene, monkeypatch: pytest.MonkeyPatch
) -> tuple[Simulation, Iterator[tuple[Frame, list[np.ndarray]]]]:
    """Return the simulation and its frames, each with the positions at the end of all substeps that led to it."""
    simulation = Simulation(made)
    within: list[np.ndarray] = []
    stepper = simulation.statics.steppers[0]
    step = stepper._step_in_parts

    def seen(*given: object) -> object:
        state, report, count = step(*given)
        within.append(state.positions)
        return state, report, count

    monkeypatch.setattr(stepper, "_step_in_parts", seen)

    def frames() -> Iterator[tuple[Frame, list[np.ndarray]]]:
        for frame in simulation.frames():
            yield frame, list(within) or [frame.state.positions]
            within.clear()

    return simulation, frames()


@pytest.mark.slow
@pytest.mark.parametrize("obstacle", [crate(), ball()], ids=lambda one: one.name)
def test_draped_yarns_never_penetrate(obstacle: Collider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cloth that falls over a collider never penetrates it and comes to rest."""
    made = scene(horizontal_swatch(8, 0.03, substeps=2), last=60, colliders=(obstacle,))
    simulation, frames = simulate_with_substeps(made, monkeypatch)
    found = []
    for frame, steps in frames:
        assert max(yarn_penetration(simulation, x, obstacle, 1.0) for x in steps) < VISIBLE
        found.append(frame)
    # The corners hang down beside the collider.
    assert found[-1].surface[:, 2].min() < -0.15
    moved = [np.linalg.norm(one.surface - found[-1].surface, axis=1).max() for one in found]
    # It falls, slips slightly and rests within 1% after four times Settle.
    assert max(moved[48:]) < 0.01 * SIZE


@pytest.mark.slow
def test_thin_pole_supports_yarns() -> None:
    """A pole that is thinner than the gaps between yarns supports the yarns that cross it."""
    body = horizontal_swatch(8, 0.03, friction=1.0)
    simulation = Simulation(scene(body, last=24, colliders=(pole(),)))
    # Exclude the tails, which hang down at both ends of the pole.
    over = (np.abs(body.surface.vertices[:, :2] + [0.03, 0.0]) < [0.06, 0.42]).all(axis=1)
    for frame in simulation.frames():
        x = frame.state.positions
        assert yarn_penetration(simulation, x, pole(), 1.0) < VISIBLE
        # Nothing falls through.
        assert x[over, 2].min() > -0.03
    # Both sides hang down.
    assert all(x[side, 2].min() < -0.3 for side in (x[:, 0] < -0.03, x[:, 0] > -0.03))


@pytest.mark.slow
@pytest.mark.parametrize("obstacle", [crate(), ball()], ids=lambda one: one.name)
def test_draped_cloth_falls_asleep(obstacle: Collider) -> None:
    frames = list(Simulation(scene(horizontal_swatch(8, 0.03), last=140, colliders=(obstacle,))).frames())
    assert all(frame.iterations == 0 for frame in frames[-3:])
    assert frames[-1].state.positions.tobytes() == frames[-3].state.positions.tobytes()


def test_dropped_cloth_rests_on_ground() -> None:
    """Dropped cloth rests on the ground with its weight as contact force, and sleeps."""
    simulation = Simulation(scene(horizontal_swatch(6, 0.4), last=60, colliders=(plane(),)))
    frames = list(simulation.frames())
    weight = float(simulation.system_of("Swatch").mass.sum()) * 9.81
    found = body_contact_forces(simulation, frames[-1], "Swatch")
    # Each crossing and each end of a tail carries some of it.
    assert len(found) == len(frames[-1].surface)
    np.testing.assert_allclose(found.total_force("Floor"), [0.0, 0.0, weight], atol=0.01 * weight)
    assert frames[-1].iterations == 0
    assert not contact_summary(simulation, frames[-1].state, "Swatch").penetrations
    # Its height is the yarn thickness or the default contact distance, whichever is larger, compressed by up to 10%.
    np.testing.assert_allclose(frames[-1].surface[:, 2], 0.005 * SIZE, rtol=0.1)
    # At the impact with 2.8 m/s it is compressed by less than half.
    assert min(frame.surface[:, 2].min() for frame in frames) > 0.5 * 0.005 * SIZE


def test_thick_yarns_rest_above_ground() -> None:
    """Crossings are one yarn thickness above the ground, so that the surface of the lower yarn just touches it."""
    *_, frame = Simulation(scene(horizontal_swatch(6, 0.04, thickness=30.0), last=24, colliders=(plane(),))).frames()
    np.testing.assert_allclose(frame.surface[:, 2], 0.03, rtol=0.1)


@pytest.mark.slow
def test_hanging_cloth_returns_after_push(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cloth that a moving collider pushes aside hangs as before afterwards."""
    body = horizontal_swatch(8, 0.0, yarn_grip=1000.0)
    upright = body.surface.vertices[:, [0, 2, 1]]
    upright[:, 2] -= upright[:, 2].max()
    pins = (upright[:, 2] > -1e-6).astype(float)
    body = replace(body, surface=replace(body.surface, vertices=upright), pins=pins, motion=lambda frame: upright)

    def through(frame: float) -> np.ndarray:
        """Return the path of the ball from in front of the cloth to 0.2 m behind it, and back."""
        t = np.clip((frame - 4.0) / 16.0, 0.0, 1.0) - np.clip((frame - 28.0) / 16.0, 0.0, 1.0)
        return np.array([0.0, -0.32 + 0.45 * t * t * (3.0 - 2.0 * t), -0.45])

    moving = ball(through)
    simulation, frames = simulate_with_substeps(scene(body, last=70, colliders=(moving,)), monkeypatch)
    far, first, last = 0.0, None, None
    for frame, steps in frames:
        assert yarn_penetration(simulation, steps[-1], moving, float(frame.number)) < VISIBLE
        far = max(far, float(frame.surface[:, 1].max()))
        first, last = frame.surface if first is None else first, frame.surface
    assert far > 0.2
    assert first is not None
    assert last is not None
    # Each half of the lower border folds by 2.5 cm to either side; yarns slid by less.
    first[:, 1], last[:, 1] = np.abs(first[:, 1]), np.abs(last[:, 1])
    assert np.abs(last - first).max() < 0.01


SLOPE = np.arctan(0.5)
SLOPE_GRAVITY = 9.81 * np.array([np.sin(SLOPE), 0.0, -np.cos(SLOPE)])


def test_friction_holds_below_friction_angle() -> None:
    made = scene(
        horizontal_swatch(5, 0.0069, friction=0.55, settle=6.0), last=72, gravity=SLOPE_GRAVITY, colliders=(plane(),)
    )
    frames = list(Simulation(made).frames())
    # Friction yields elastically by an invisible amount and then holds.
    assert np.abs(frames[-1].surface - frames[0].surface).max() < 0.1 * VISIBLE
    assert frames[-1].iterations == 0


@pytest.mark.parametrize("substeps", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_sliding_above_angle_matches_coulomb(substeps: int) -> None:
    made = scene(
        horizontal_swatch(5, 0.0069, friction=0.3, substeps=substeps, start_settled=False),
        last=25,
        gravity=SLOPE_GRAVITY,
        colliders=(plane(),),
    )
    frames = list(Simulation(made).frames())
    a = 9.81 * (np.sin(SLOPE) - 0.3 * np.cos(SLOPE))
    speeds = [frame.state.velocities[:, 0].mean() for frame in frames]
    # Measure once it has settled on the slope; friction follows the normal force with a lag of one iteration.
    assert (speeds[-1] - speeds[8]) / (16.0 / 24.0) == pytest.approx(a, rel=0.01)


def test_moving_ground_carries_cloth() -> None:
    def path(frame: float) -> np.ndarray:
        t = np.clip((frame - 20.0) / 24.0, 0.0, 1.0)
        return np.array([0.5, 0.2, 0.3]) * t * t * (3.0 - 2.0 * t)

    made = scene(horizontal_swatch(5, 0.0069, friction=0.8), last=60, colliders=(plane(path=path),))
    frames = list(Simulation(made).frames())
    way = frames[-1].surface - frames[0].surface
    # The acceleration is at most 0.72 m/s^2, far below the 7.8 m/s^2 that friction can hold.
    np.testing.assert_allclose(way, np.tile([0.5, 0.2, 0.3], (len(way), 1)), atol=VISIBLE)
    assert frames[-1].iterations == 0
    # It slept before it was moved.
    assert frames[17].iterations == 0
    assert frames[20].iterations > 0


def scene_over_crate(last: int = 20) -> Scene:
    """Return a scene of cloth that falls over a crate and slides on it."""
    return scene(horizontal_swatch(5, 0.03, friction=0.2), last=last, colliders=(crate(),))


@pytest.mark.slow
def test_resumed_frames_with_contact_are_identical() -> None:
    whole = list(Simulation(scene_over_crate()).frames())
    for start in (5, 11):
        again = Simulation(scene_over_crate()).frames(whole[start])
        for frame, other in zip(whole[start + 1 :], again, strict=True):
            assert frame.state.positions.tobytes() == other.state.positions.tobytes()
            assert history_bytes(frame.state.history) == history_bytes(other.state.history)


@pytest.mark.slow
def test_thick_yarns_around_box_corner() -> None:
    """A yarn above a corner, beyond the end of an upright edge, must not count as a penetration of that edge."""
    vertices = np.array([(x, y, z) for x in (-0.25, 0.25) for y in (-0.25, 0.25) for z in (-0.5, 0.0)])
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    faces = np.array([three for a, b, c, d in quads for three in ((a, b, c), (a, c, d))])
    box = collider(Surface("Box", vertices, faces))
    # Yarns have the default thickness of 0.4 pitch. A frame after a fall of 30 cm the cloth bends around the box.
    simulation = Simulation(scene(horizontal_swatch(16, 0.3, thickness=23.5, settle=24.0), last=8, colliders=(box,)))
    for frame in simulation.frames():
        assert yarn_penetration(simulation, frame.state.positions, box, frame.number) == 0.0
        assert not contact_summary(simulation, frame.state, "Swatch").penetrations


def test_woven_step_with_pins_and_contact() -> None:
    """The gradient follows psi with soft pins and contacts, and friction limits follow the normal forces."""
    body = horizontal_swatch(4, 0.004, friction=0.5)
    along = body.surface.vertices[:, 0]
    # Soft pins at one border, hard pins at the other.
    body = replace(body, pins=0.5 * (along < along.min() + 1e-9) + (along > along.max() - 1e-9))
    simulation, h = Simulation(scene(body, colliders=(plane(),), last=2)), 1e-3
    island, stepper, controls = simulation.islands[0], simulation.statics.steppers[0], simulation.controls()[0]
    pose = simulation.pose_evaluator.pose(simulation.sample_frame(2).samples[-1])[0]
    inputs, state = simulation.pose_evaluator.step_inputs(island, pose, pose), State.at_rest(island.system.rest)
    problem, rng = WeaveProblem(stepper, state, inputs, h, controls), np.random.default_rng(0)
    v = problem.start + np.where(stepper.unknowns.is_free, 0.1 * rng.standard_normal(problem.start.shape), 0.0)
    v[: len(state.positions), 2] -= 0.3
    contacts = ContactSolve(island.system, state, inputs, h, controls).detection(problem.positions(v))
    problem.set_contacts(contacts, np.zeros(len(contacts)), v)
    assert problem.contacts is not None
    way, step = np.where(stepper.unknowns.is_free, rng.standard_normal(v.shape), 0.0), 1e-5
    value, gradient = problem.value_gradient(v)
    ahead, behind = (problem.value_gradient(v + sign * step * way)[0] for sign in (1.0, -1.0))
    assert (ahead - behind) / (2.0 * step) == pytest.approx(float(np.vdot(gradient, way)), rel=1e-5)
    point = problem.accept(v, value, gradient)
    pressed = problem.contacts.forces_at(problem.positions(v)).force
    assert pressed.max() > 0.0
    assert problem.contacts.lagged_normal_force == pytest.approx(pressed)
    assert point.value == problem.value_gradient(v)[0] != value
    # Contacts are stiff except at hard pins.
    nodal, pressing = way[: len(state.positions)].ravel(), problem.sparse_hessian(v).full()
    pushed = h * problem.contacts.hessian(problem.positions(v), True) @ nodal
    pushed[island.system.is_fixed.repeat(3)] = 0.0
    problem.set_contacts(contacts.select(np.zeros(len(contacts), dtype=bool)), np.zeros(0), v)
    found = (pressing - problem.sparse_hessian(v).full()) @ np.where(way == 0.0, 1.0, way).ravel()
    np.testing.assert_allclose(found[: len(nodal)], pushed, atol=1e-9 * np.abs(pushed).max())
    assert np.abs(pushed).max() > 0.0

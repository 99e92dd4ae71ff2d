"""Rigid bodies: mass properties, free flight, swinging from pins, contact and chains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from builders import DOWN, gridded_box, scene, static_body
from dampsim.core.base.errors import MeshError, ParameterError
from dampsim.core.bodies.rigid import RigidKind, mass_properties, tetrahedron_of
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.mesh.rigid_motion import fit_rigid_motion
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.simulation.contact_setup import weld_coincident
from dampsim.core.simulation.simulation import Simulation
from shapes import sheet, sphere
from supports import block, plane, rotate_surface

# Surfaces of frames are stored in single precision.
STORED = 2e-7
# Standard gravity of builders.DOWN, m/s^2.
GRAVITY = 9.81
TURN = Rotation.from_rotvec([0.3, -1.0, 0.7]).as_matrix()


def rigid(surface: Surface, pins: np.ndarray | None = None, **more: Any) -> Body:
    return static_body(surface, pins, kind="RIGID", **{"start_settled": False, **more})


def inertia_tensor(mass: np.ndarray, points: np.ndarray, centre: np.ndarray) -> np.ndarray:
    offset = points - centre
    second = (mass[:, None] * offset).T @ offset
    return np.asarray(np.trace(second) * np.eye(3) - second)


def deformation(rest: np.ndarray, now: np.ndarray) -> float:
    """Return the largest distance of a point from the best rigid motion of the rest shape, m."""
    turn, shift = fit_rigid_motion(rest, now)
    return float(np.linalg.norm(now - rest @ turn.T - shift, axis=1).max())


def torus(around: int = 20, across: int = 10, radius: float = 0.06, thickness: float = 0.03) -> Surface:
    """Return a ring around the z axis. radius: m, of its middle line.  thickness: m, of its wire."""
    u, v = np.meshgrid(*(2.0 * np.pi * np.arange(n) / n for n in (around, across)), indexing="ij")
    width = radius + 0.5 * thickness * np.cos(v)
    vertices = np.stack([width * np.cos(u), width * np.sin(u), 0.5 * thickness * np.sin(v)], axis=-1)
    k = np.arange(around * across).reshape(around, across)
    a, b, c, d = k, np.roll(k, -1, 0), np.roll(np.roll(k, -1, 0), -1, 1), np.roll(k, -1, 1)
    triangles = np.concatenate([np.stack(one, axis=-1).reshape(-1, 3) for one in ((a, b, c), (a, c, d))])
    return Surface("Ring", vertices.reshape(-1, 3), triangles.astype(np.int64))


def chain(count: int, pitch: float = 0.085) -> tuple[Surface, int]:
    """Return a chain of rings below each other in one mesh, and the number of vertices of each ring."""
    ring = torus()
    size, vertices = len(ring.vertices), []
    for k in range(count):
        turn = Rotation.from_euler("xz", [90.0, 90.0 * (k % 2)], degrees=True).as_matrix()
        vertices.append(ring.vertices @ turn.T - np.array([0.0, 0.0, k * pitch]))
    triangles = np.concatenate([ring.triangles + k * size for k in range(count)])
    return Surface("Chain", np.concatenate(vertices), triangles), size


def test_mass_properties_of_turned_box() -> None:
    """A box has the volume a b c and the covariance diag(a^2, b^2, c^2)/12, wherever it is."""
    sides, place = np.array([0.4, 0.2, 0.1]), np.array([5.0, -3.0, 2.0])
    box = gridded_box("Box", -0.5 * sides, 0.5 * sides, 0.1)
    vertices = box.vertices @ TURN.T + place
    found = mass_properties(vertices, weld_coincident(vertices, box.triangles), 1.0)
    assert found.volume == pytest.approx(sides.prod(), rel=1e-12)
    np.testing.assert_allclose(found.centre, place, atol=1e-12)
    np.testing.assert_allclose(found.covariance, TURN @ np.diag(sides**2 / 12.0) @ TURN.T, atol=1e-14)
    inwards = mass_properties(vertices, weld_coincident(vertices, box.triangles)[:, ::-1], 1.0)
    np.testing.assert_allclose(inwards.second_moments, found.second_moments, rtol=1e-12)


def test_mass_properties_match_samples() -> None:
    """The moments of an irregular polyhedron are those of random points inside it."""
    surface = sphere(60)
    vertices = surface.vertices * np.array([1.0, 0.6, 0.3]) + np.array([0.2, 0.0, 0.1])
    triangles = weld_coincident(vertices, surface.triangles)
    found = mass_properties(vertices, triangles, 1.0)
    rng, low, high = np.random.default_rng(3), vertices.min(axis=0), vertices.max(axis=0)
    points = rng.uniform(low, high, (200_000, 3))
    # The polyhedron is convex: a point inside it is behind all planes.
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    inside = points[((points @ normals.T) <= (a * normals).sum(axis=1)).all(axis=1)]
    # Standard errors of 200,000 samples are about 0.3%.
    assert found.volume == pytest.approx(np.prod(high - low) * len(inside) / len(points), rel=0.01)
    np.testing.assert_allclose(found.centre, inside.mean(axis=0), atol=0.005)
    np.testing.assert_allclose(found.covariance, np.cov(inside.T), atol=0.003)


def test_open_mesh_is_a_shell() -> None:
    """A square sheet of side a and thickness t has the covariance of a plate, diag(a^2, a^2, t^2)/12."""
    one = sheet(5)
    found = mass_properties(one.vertices, one.triangles, 0.02)
    assert found.volume == pytest.approx(0.02, rel=1e-12)
    sides = np.sort(np.diag(found.covariance))
    np.testing.assert_allclose(sides, np.array([0.02**2, 1.0, 1.0]) / 12.0, rtol=1e-12)


def test_four_masses_have_moments_of_body() -> None:
    surface = torus()
    found = mass_properties(surface.vertices, surface.triangles, 1.0)
    points = tetrahedron_of(found)
    np.testing.assert_allclose(points.mean(axis=0), found.centre, atol=1e-15)
    np.testing.assert_allclose(np.cov(points.T, bias=True), found.covariance, rtol=1e-12, atol=1e-18)
    # A ring of radius R and tube radius r: C_zz = r^2/4, C_xx = R^2/2 + 3 r^2/8. The polygon is a little smaller.
    ideal = np.array([0.06**2 / 2.0 + 3.0 * 0.015**2 / 8.0, 0.015**2 / 4.0])
    np.testing.assert_allclose(np.diag(found.covariance)[[0, 2]], ideal, rtol=0.13)


@pytest.mark.parametrize(("turns", "error"), [(1.0, 1e-11), pytest.param(3.0, 1.5e-3, marks=pytest.mark.slow)])
def test_free_top_keeps_momenta_and_energy(turns: float, error: float) -> None:
    """A box that tumbles about its middle axis keeps its momenta, kinetic energy and shape for 4 s.

    At 3 turns per second one step per frame turns it by 45 degrees; its momenta and energy then stay within 0.15%.
    """
    surface = gridded_box("Box", (-0.2, -0.1, -0.05), (0.2, 0.1, 0.05), 0.1)
    throw = {"velocity_x": 1.0, "spin_x": 0.05, "spin_y": turns, "spin_z": 0.1}
    simulation = Simulation(scene(rigid(surface, **throw), last=97, gravity=np.zeros(3)))
    mass, kept, turned = simulation.system_of("Box").mass, [], []
    for frame in simulation.frames():
        x, v = frame.state.positions, frame.state.velocities
        centre, velocity = mass @ x / mass.sum(), mass @ v / mass.sum()
        angular = (mass[:, None] * np.cross(x - centre, v - velocity)).sum(axis=0)
        turning = 0.5 * angular @ np.linalg.solve(inertia_tensor(mass, x, centre), angular)
        kept.append([*(mass.sum() * velocity), *angular, turning])
        turned.append(fit_rigid_motion(surface.vertices, frame.surface)[0][:, 1])
        assert deformation(surface.vertices, frame.surface) < 1e-6
    kept_after = np.array(kept[1:])
    change = np.abs(kept_after - kept_after[0]).max(axis=0)
    sizes = [kept_after[0, :3]] * 3 + [kept_after[0, 3:6]] * 3 + [kept_after[0, 6:]]
    assert (change < error * np.array([np.linalg.norm(one) for one in sizes])).all()
    # It tumbles: the middle axis does not stay where it was.
    assert np.min(np.array(turned)[:, 1]) < 0.5


@pytest.mark.parametrize("hinge", [pytest.param("point", marks=pytest.mark.slow), "line"])
def test_pendulum_swings_with_real_period(hinge: str) -> None:
    """A hinged bar swings with the period of a physical pendulum, and rests after Settle, on its pins."""
    surface = gridded_box("Bar", (-0.02, -0.02, -0.4), (0.02, 0.02, 0.0), 0.02)
    x = surface.vertices
    on_line = (np.abs(x[:, 0]) < 1e-6) & (x[:, 2] == 0.0)
    held = on_line if hinge == "line" else on_line & (np.abs(x[:, 1]) < 1e-6)
    slope = np.array([np.sin(0.1), 0.0, -np.cos(0.1)]) * GRAVITY
    simulation = Simulation(scene(rigid(surface, held.astype(float), settle=96.0), last=121, gravity=slope))
    system = simulation.system_of("Bar")
    frames = list(simulation.frames())
    angles = []
    for frame in frames:
        assert deformation(x, frame.surface) < 1e-6
        assert np.abs(frame.surface[held] - x[held]).max() < 1e-5
        turn = fit_rigid_motion(x, frame.surface)[0]
        angles.append(np.arctan2(-turn[0, 2], turn[2, 2]))
    swing = np.array(angles) - angles[-1]
    crossings = [k + swing[k] / (swing[k] - swing[k + 1]) for k in range(70) if swing[k] * swing[k + 1] < 0.0]
    pivot, mass = x[held].mean(axis=0), system.mass
    centre = mass @ system.rest / mass.sum()
    weight = mass.sum() * GRAVITY * np.linalg.norm((centre - pivot)[[0, 2]])
    period = 2.0 * np.pi * np.sqrt(inertia_tensor(mass, system.rest, pivot)[1, 1] / weight) * 24.0
    # The decay lengthens the period by 1%, and the amplitude of 6 degrees by 0.1%.
    assert 2.0 * np.diff(crossings).mean() == pytest.approx(period, rel=0.04)
    assert np.abs(swing[97:]).max() < 0.02 * np.abs(swing).max() < np.abs(swing[60:70]).max() * 2.0


def test_widely_pinned_piece_follows_rigidly() -> None:
    """Pins that are no hinge carry the whole piece, also where the animation deforms the rest of it."""
    surface = gridded_box("Box", (-0.2, -0.1, -0.1), (0.2, 0.1, 0.1), 0.1)
    pins = (surface.vertices[:, 0] < -0.15).astype(float)

    def motion(frame: float) -> np.ndarray:
        turn = Rotation.from_euler("z", 10.0 * (frame - 1.0), degrees=True).as_matrix()
        bent = surface.vertices.copy()
        bent[pins == 0.0, 2] += 0.01 * (frame - 1.0)
        return np.asarray(bent @ turn.T)

    body = replace(rigid(surface, pins), motion=motion)
    for frame in Simulation(scene(body, last=4)).frames():
        turn = Rotation.from_euler("z", 10.0 * (frame.number - 1.0), degrees=True).as_matrix()
        np.testing.assert_allclose(frame.surface, surface.vertices @ turn.T, atol=STORED)


def test_pieces_fall_and_tumble_to_rest() -> None:
    """A tilted cube falls on a floor, keeps its shape and comes to rest on a face within a second."""
    surface = rotate_surface(block().surface, (20.0, 30.0, 10.0), (0.0, 0.0, 0.5))
    frames = list(Simulation(scene(rigid(surface), last=49, colliders=(plane(),))).frames())
    for frame in frames:
        assert deformation(surface.vertices, frame.surface) < 1e-6
        # The contact distance is 0.5% of the cube's diagonal, 1.7 mm; the plane is never crossed.
        assert frame.surface[:, 2].min() > 0.0
    low, high = frames[-1].surface[:, 2].min(), frames[-1].surface[:, 2].max()
    assert high - low == pytest.approx(0.2, abs=1e-3)
    assert np.abs(frames[-1].surface - frames[30].surface).max() < 1e-4


def test_stack_of_two_stays() -> None:
    bodies = [
        rigid(block(f"Block {k}", (-0.1 + 0.03 * k, -0.1, 0.01 + 0.22 * k)).surface, touch_together=True)
        for k in range(2)
    ]
    frames = list(Simulation(scene(*bodies, last=37, colliders=(plane(),))).frames())
    early, late = (shapes(frames[k], bodies) for k in (24, -1))
    assert np.abs(np.subtract(late, early)).max() < 2e-4
    assert late[1][:, 2].min() - late[0][:, 2].max() == pytest.approx(0.0, abs=3e-3)


def shapes(frame: Frame, bodies: list[Body]) -> list[np.ndarray]:
    return [np.asarray(frame.shapes[body.name]) for body in bodies]


@pytest.mark.parametrize("count", [pytest.param(count, marks=pytest.mark.slow) for count in (3, 5)])
def test_chain_holds_together_and_rests(count: int) -> None:
    """Rings that hang from a pinned one collide with each other: none passes through its neighbour.

    The centres of two rings cannot be farther apart than twice the radius of their hole, 0.09 m, if no wires overlap.
    """
    surface, size = chain(count)
    pins = (np.arange(len(surface.vertices)) < size).astype(float)
    gravity = GRAVITY * np.array([0.2, 0.25, -0.9])
    body = rigid(surface, pins, touch_self=True)
    frames = list(Simulation(scene(body, last=97, gravity=gravity)).frames())
    for frame in frames:
        links = frame.surface.reshape(count, size, 3)
        assert np.linalg.norm(np.diff(links.mean(axis=1), axis=0), axis=1).max() < 0.0905
        for k, link in enumerate(links):
            assert deformation(surface.vertices.reshape(count, size, 3)[k], link) < 1e-6
    moved = np.linalg.norm(frames[20].surface - frames[0].surface, axis=1).max()
    still = np.linalg.norm(frames[-1].surface - frames[-2].surface, axis=1).max()
    assert moved > 0.02
    # It swings on bare contacts, whose friction alone damps it: 2 mm per frame after 4 s.
    assert still < 2e-3


def test_release_keeps_momentum() -> None:
    """When Hold is keyed off, a carried piece flies on with its velocity."""
    surface, carried = gridded_box("Box", (-0.1, -0.1, -0.1), (0.1, 0.1, 0.1), 0.1), np.array([0.05, 0.0, 0.0])
    body = static_body(
        surface, np.ones(len(surface.vertices)), lambda frame: surface.vertices + (frame - 1.0) * carried,
        kind="RIGID", settings_by_frame=lambda frame: replace(body_settings, hold=float(frame <= 4)),
        has_animated_pins=True,
    )  # fmt: skip
    body_settings = body.settings
    frames = list(Simulation(scene(body, last=10, gravity=np.zeros(3))).frames())
    np.testing.assert_allclose(frames[-1].surface, surface.vertices + 9.0 * carried, atol=1e-5)


def test_rigid_needs_faces() -> None:
    bare = Surface("Wire", np.eye(3), np.zeros((0, 3), dtype=np.int64))
    with pytest.raises(MeshError, match=r"Wire: a rigid body needs faces\. Add faces"):
        RigidKind.check(rigid(bare))
    flat = Surface("Line", np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]), np.array([[0, 1, 2]]))
    with pytest.raises(MeshError, match="Line: a piece has neither volume nor area"):
        RigidKind.build(rigid(flat))


def test_rigid_refuses_damping_models() -> None:
    with pytest.raises(ParameterError, match=r"Ring: rigid bodies have no damping model; choose Settle and Bounce\."):
        RigidKind.check(rigid(torus(), damping_by="RAYLEIGH"))


def test_weight_pulls_on_whole_piece() -> None:
    """A piece falls with the acceleration of gravity."""
    surface = block(low=(0.0, 0.0, 5.0)).surface
    frames = list(Simulation(scene(rigid(surface, substeps=4), last=13)).frames())
    fallen = frames[-1].surface - surface.vertices
    # Steps of h displace it by g t (t + h)/2.
    np.testing.assert_allclose(fallen, np.broadcast_to(0.5 * 0.5 * (0.5 + 1.0 / 96.0) * DOWN, fallen.shape), atol=1e-5)

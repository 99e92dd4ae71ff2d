"""Woven cloth stops at colliders with its yarns, lies on them, sleeps there, slides by friction, and is carried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from woven_scenes import swatch

from builders import gridded, scene, still
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.intersections import depth_inside
from dampsim.core.geometry.proximity import Triangles
from dampsim.core.geometry.surface import Surface
from dampsim.core.measure.contact_results import body_contact_forces, contact_summary
from dampsim.core.scene.body import Body
from dampsim.core.scene.collider import Collider
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.contact_setup import weld_coincident
from dampsim.core.simulation.simulation import Simulation
from grounds import Path, collider, plane, still_path
from shapes import sphere, tube

# Diagonal of a square metre, of which a thousandth can be seen.
SIZE = 2.0**0.5
SEEN = 1e-3 * SIZE


def lying(count: int, height: float, **more: object) -> Body:
    """A level square metre of yarns 5 mm thick, a little beside the z axis."""
    surface, edges = swatch(count, count, 1.0 / (count + 1))
    points = surface.vertices - [0.487, 0.493, -height]
    dials = {"thickness": 5.0, "density": 300.0, "bending": 0.05, "stiffness": 2000.0, "yarn_grip": 30.0}
    made = Surface("Swatch", points, surface.triangles)
    return still(made, kind="WEAVE", edges=edges, **{**dials, "settle": 12.0, **more})


def ball(path: Path = still_path) -> Collider:
    """0.25 m in radius, its top at the origin."""
    round_ = sphere(300)
    return collider(Surface("Ball", 0.25 * (round_.vertices - [0.0, 0.0, 1.0]), round_.triangles), path)


def crate() -> Collider:
    """Half a metre wide, its top at z = 0, with few vertices: between them its edges are met by yarns alone."""
    return collider(gridded("Crate", (-0.25, -0.25, -0.5), (0.25, 0.25, 0.0), 0.25))


def pole() -> Collider:
    """2 cm thick, along the y axis, so that it lies between two yarns and meets no crossing."""
    rod = tube(1.6, 0.01, 16, 12)
    return collider(Surface("Pole", rod.vertices[:, [1, 2, 0]] - [0.03, 0.8, 0.01], rod.triangles))


def yarns(simulation: Simulation, x: np.ndarray) -> np.ndarray:
    """(p, 3) points along all pieces of yarn, ends and what is between them."""
    a, b = simulation.islands[0].system.blocks[0].groups[0].T
    parts = np.linspace(0.0, 1.0, 9)[:, None, None]
    return np.asarray((1.0 - parts) * x[a] + parts * x[b]).reshape(-1, 3)


def depth(simulation: Simulation, x: np.ndarray, obstacle: Collider, frame: float) -> float:
    """m, of the deepest yarn."""
    points, there = yarns(simulation, x), obstacle.vertices_at(frame)
    if obstacle.is_plane:
        normal = np.cross(there[1] - there[0], there[2] - there[0])
        return -float(((points - there[0]) @ normal).min() / np.linalg.norm(normal))
    triangles = weld_coincident(obstacle.vertices, obstacle.triangles)
    return float(depth_inside(points, Triangles(there, triangles)).max(initial=0.0))


def followed(
    made: Scene, monkeypatch: pytest.MonkeyPatch
) -> tuple[Simulation, Iterator[tuple[Frame, list[np.ndarray]]]]:
    """The simulation; its frames, with the positions at the end of all steps that led there, also those within it."""
    simulation = Simulation(made)
    within: list[np.ndarray] = []
    stepper = simulation.statics.steppers[0]
    step = stepper._in_parts  # type: ignore[attr-defined]

    def seen(*given: object) -> object:
        state, report = step(*given)
        within.append(state.positions)
        return state, report

    monkeypatch.setattr(stepper, "_in_parts", seen)

    def frames() -> Iterator[tuple[Frame, list[np.ndarray]]]:
        for frame in simulation.frames():
            yield frame, list(within) or [frame.state.positions]
            within.clear()

    return simulation, frames()


@pytest.mark.slow
@pytest.mark.parametrize("obstacle", [crate(), ball()], ids=lambda one: one.name)
def test_no_yarn_of_what_is_laid_over_something_is_ever_in_it_and_it_comes_to_rest(
    obstacle: Collider, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene(lying(8, 0.03, substeps=2), last=60, colliders=(obstacle,))
    simulation, frames = followed(made, monkeypatch)
    found = []
    for frame, steps in frames:
        assert max(depth(simulation, x, obstacle, 1.0) for x in steps) < SEEN
        found.append(frame)
    # Its corners hang down outside.
    assert found[-1].surface[:, 2].min() < -0.15
    moved = [np.linalg.norm(one.surface - found[-1].surface, axis=1).max() for one in found]
    # It falls, slips a little, and comes to rest, to one percent, within four times Settle.
    assert max(moved[48:]) < 0.01 * SIZE


@pytest.mark.slow
def test_a_pole_thinner_than_the_holes_carries_the_yarns_that_cross_it() -> None:
    body = lying(8, 0.03, friction=1.0)
    simulation = Simulation(scene(body, last=24, colliders=(pole(),)))
    # Tails aside, which hang down at both of its ends.
    over = (np.abs(body.surface.vertices[:, :2] + [0.03, 0.0]) < [0.06, 0.42]).all(axis=1)
    for frame in simulation.frames():
        x = frame.state.positions
        assert depth(simulation, x, pole(), 1.0) < SEEN
        # Nothing falls through.
        assert x[over, 2].min() > -0.03
    # Both sides hang down.
    assert all(x[side, 2].min() < -0.3 for side in (x[:, 0] < -0.03, x[:, 0] > -0.03))


@pytest.mark.slow
@pytest.mark.parametrize("obstacle", [crate(), ball()], ids=lambda one: one.name)
def test_what_lies_over_something_sleeps_in_the_end(obstacle: Collider) -> None:
    frames = list(Simulation(scene(lying(8, 0.03), last=140, colliders=(obstacle,))).frames())
    assert all(frame.iterations == 0 for frame in frames[-3:])
    assert frames[-1].state.positions.tobytes() == frames[-3].state.positions.tobytes()


def test_what_is_dropped_on_the_ground_lies_there_with_its_weight_and_sleeps() -> None:
    simulation = Simulation(scene(lying(6, 0.4), last=60, colliders=(plane(),)))
    frames = list(simulation.frames())
    weight = float(simulation.system_of("Swatch").mass.sum()) * 9.81
    found = body_contact_forces(simulation, frames[-1], "Swatch")
    # Crossings and the ends of tails carry it, each one.
    assert len(found) == len(frames[-1].surface)
    np.testing.assert_allclose(found.total_force("Floor"), [0.0, 0.0, weight], atol=0.01 * weight)
    assert frames[-1].iterations == 0
    assert not contact_summary(simulation, frames[-1].state, "Swatch").penetrations
    # As thick as a yarn, or as the usual contact distance, whichever is more; pressed in by less than a tenth of it.
    np.testing.assert_allclose(frames[-1].surface[:, 2], 0.005 * SIZE, rtol=0.1)
    # It lands with 2.8 m/s, and is pressed in by less than half of it.
    assert min(frame.surface[:, 2].min() for frame in frames) > 0.5 * 0.005 * SIZE


def test_thick_yarns_lie_on_the_ground_and_not_in_it() -> None:
    """Their middle, of two that cross, is a thickness above it, so that what is drawn of the lower one just touches."""
    *_, frame = Simulation(scene(lying(6, 0.04, thickness=30.0), last=24, colliders=(plane(),))).frames()
    np.testing.assert_allclose(frame.surface[:, 2], 0.03, rtol=0.1)


@pytest.mark.slow
def test_what_was_hung_beside_something_is_pushed_aside_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    body = lying(8, 0.0, yarn_grip=1000.0)
    upright = body.surface.vertices[:, [0, 2, 1]]
    upright[:, 2] -= upright[:, 2].max()
    pins = (upright[:, 2] > -1e-6).astype(float)
    body = replace(body, surface=replace(body.surface, vertices=upright), pins=pins, motion=lambda frame: upright)

    def through(frame: float) -> np.ndarray:
        """From before it to 0.2 m behind where it hung, and back."""
        t = np.clip((frame - 4.0) / 16.0, 0.0, 1.0) - np.clip((frame - 28.0) / 16.0, 0.0, 1.0)
        return np.array([0.0, -0.32 + 0.45 * t * t * (3.0 - 2.0 * t), -0.45])

    moving = ball(through)
    simulation, frames = followed(scene(body, last=70, colliders=(moving,)), monkeypatch)
    far, first, last = 0.0, None, None
    for frame, steps in frames:
        assert depth(simulation, steps[-1], moving, float(frame.number)) < SEEN
        far = max(far, float(frame.surface[:, 1].max()))
        first, last = frame.surface if first is None else first, frame.surface
    assert far > 0.2
    assert first is not None
    assert last is not None
    # Each half of its lower border folds by 2.5 cm to one side or the other; what slid meanwhile is less.
    first[:, 1], last[:, 1] = np.abs(first[:, 1]), np.abs(last[:, 1])
    assert np.abs(last - first).max() < 0.01


SLOPE = np.arctan(0.5)
PULL = 9.81 * np.array([np.sin(SLOPE), 0.0, -np.cos(SLOPE)])


def test_friction_holds_on_a_slope_below_its_angle() -> None:
    made = scene(lying(5, 0.0069, friction=0.55, settle=6.0), last=72, gravity=PULL, colliders=(plane(),))
    frames = list(Simulation(made).frames())
    # It gives way as a spring does, by much less than can be seen, and then stays.
    assert np.abs(frames[-1].surface - frames[0].surface).max() < 0.1 * SEEN
    assert frames[-1].iterations == 0


@pytest.mark.parametrize("substeps", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_above_its_angle_it_slides_as_coulomb_says(substeps: int) -> None:
    made = scene(
        lying(5, 0.0069, friction=0.3, substeps=substeps, start_settled=False),
        last=25,
        gravity=PULL,
        colliders=(plane(),),
    )
    frames = list(Simulation(made).frames())
    a = 9.81 * (np.sin(SLOPE) - 0.3 * np.cos(SLOPE))
    speeds = [frame.state.velocities[:, 0].mean() for frame in frames]
    # From where it lies; friction follows what presses from iteration to iteration.
    assert (speeds[-1] - speeds[8]) / (16.0 / 24.0) == pytest.approx(a, rel=0.01)


def test_what_it_lies_on_carries_it() -> None:
    def path(frame: float) -> np.ndarray:
        t = np.clip((frame - 20.0) / 24.0, 0.0, 1.0)
        return np.array([0.5, 0.2, 0.3]) * t * t * (3.0 - 2.0 * t)

    made = scene(lying(5, 0.0069, friction=0.8), last=60, colliders=(plane(path=path),))
    frames = list(Simulation(made).frames())
    way = frames[-1].surface - frames[0].surface
    # 0.72 m/s^2 sideways at most: friction, of 7.8, hardly gives way.
    np.testing.assert_allclose(way, np.tile([0.5, 0.2, 0.3], (len(way), 1)), atol=SEEN)
    assert frames[-1].iterations == 0
    # It slept before it was moved.
    assert frames[17].iterations == 0
    assert frames[20].iterations > 0


def thrown_over(last: int = 20) -> Scene:
    """It falls over a crate and slides on it."""
    return scene(lying(5, 0.03, friction=0.2), last=last, colliders=(crate(),))


@pytest.mark.slow
def test_going_on_from_a_kept_frame_gives_the_same_bytes_while_it_falls_and_slides() -> None:
    whole = list(Simulation(thrown_over()).frames())
    for start in (5, 11):
        again = Simulation(thrown_over()).frames(whole[start])
        for frame, other in zip(whole[start + 1 :], again, strict=True):
            assert frame.state.positions.tobytes() == other.state.positions.tobytes()
            assert frame.state.history.keys() == other.state.history.keys()
            for name, value in frame.state.history.items():
                assert value.tobytes() == other.state.history[name].tobytes()


@pytest.mark.slow
def test_thick_yarns_that_hit_a_plain_box_are_in_nothing_and_no_sentence_says_they_are() -> None:
    """A yarn that passes above a corner, beyond the end of an upright edge, was counted as deep behind that edge."""
    vertices = np.array([(x, y, z) for x in (-0.25, 0.25) for y in (-0.25, 0.25) for z in (-0.5, 0.0)])
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    faces = np.array([three for a, b, c, d in quads for three in ((a, b, c), (a, c, d))])
    box = collider(Surface("Box", vertices, faces))
    # As Weave makes it: yarns of 0.4 of what is between them. A frame after it has fallen 30 cm it is bent round.
    simulation = Simulation(scene(lying(16, 0.3, thickness=23.5, settle=24.0), last=8, colliders=(box,)))
    for frame in simulation.frames():
        assert depth(simulation, frame.state.positions, box, frame.number) == 0.0
        assert not contact_summary(simulation, frame.state, "Swatch").penetrations

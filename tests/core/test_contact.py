"""What bodies do on the ground: they stay, slide, rest and bounce as dialled (docs/physics.md section 7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import DOWN, gridded, scene, still
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.rigid import rigid_motion
from dampsim.core.geometry.surface import Surface
from dampsim.core.measure.contacts import touched
from dampsim.core.measure.report import Report
from dampsim.core.scene.collider import Obstacle
from dampsim.core.simulation.simulation import Run, Simulation
from dampsim.core.stepping.remembered import forgotten
from dampsim.core.system.state import OF
from grounds import block, collider, plane, waves
from promise import Outcome

SIZE = 0.2 * 3**0.5
# Half a percent of the size: r.
R = 0.005 * SIZE


def frames_of(made: Any) -> tuple[Simulation, list[Frame]]:
    simulation = Simulation(made)
    return simulation, list(simulation.frames())


def drift(simulation: Simulation, frames: list[Frame]) -> np.ndarray:
    """(k, 3) m/s, of the centre of mass."""
    mass = simulation.islands[0].system.mass
    return np.array([mass @ one.state.velocities / mass.sum() for one in frames])


def pressed(frame: Frame) -> bool:
    return any(key.endswith(f"{OF}contacts") and len(kept) for key, kept in frame.state.memory.items())


def on_slope(friction: float, seconds: float, substeps: int, **more: Any) -> tuple[Simulation, list[Frame]]:
    """On ground that falls by 1 in 2 along x, by turning the weight."""
    pull = 9.81 * np.array([np.sin(np.arctan(0.5)), 0.0, -np.cos(np.arctan(0.5))])
    body = block(low=(0, 0, 0.95 * R), friction=friction, substeps=substeps, **more)
    return frames_of(scene(body, last=round(24 * seconds) + 1, gravity=pull, obstacles=(plane(),)))


def crept(seconds: float, substeps: int, **more: Any) -> tuple[float, float]:
    """How far a block that friction holds on a slope moves in the second half of the time, and in all of it, m."""
    simulation, frames = on_slope(0.6, seconds, substeps, **more)
    system = simulation.islands[0].system
    first, last = (
        system.mass @ one.state.positions / system.mass.sum() for one in (frames[len(frames) // 2], frames[-1])
    )
    return float(np.abs(last - first).max()), float(np.abs(frames[-1].surface - frames[0].surface).max())


def slid(substeps: int, **more: Any) -> float:
    """A block's acceleration on a slope where friction cannot hold it, over Coulomb's."""
    simulation, frames = on_slope(0.3, 3.0, substeps, **more)
    v = drift(simulation, frames)[:, 0]
    wanted = 9.81 * (np.sin(np.arctan(0.5)) - 0.3 * np.cos(np.arctan(0.5)))
    return float((v[-1] - v[36]) / (36 / 24.0) / wanted)


@pytest.mark.parametrize(
    ("seconds", "substeps", "more"),
    [
        (3.0, 1, {}),
        pytest.param(10.0, 1, {}, marks=pytest.mark.slow),
        pytest.param(10.0, 4, {}, marks=pytest.mark.slow),
        pytest.param(10.0, 1, {"settle": 48.0}, marks=pytest.mark.slow),
        pytest.param(10.0, 1, {"settle": 24.0, "bounce": 50.0}, marks=pytest.mark.slow),
    ],
)
def test_what_friction_holds_does_not_creep(seconds: float, substeps: int, more: dict[str, float]) -> None:
    creep, way = crept(seconds, substeps, **more)
    # What it leans and calms takes its settle time; slow and springy ones are not at rest by then, to 1e-4 m.
    assert creep < (1e-4 if more else 1e-8)
    assert way < 0.1 * SIZE


@pytest.mark.parametrize(
    ("substeps", "more"),
    [
        (1, {}),
        pytest.param(4, {}, marks=pytest.mark.slow),
        pytest.param(1, {"settle": 24.0, "bounce": 50.0}, marks=pytest.mark.slow),
    ],
)
def test_what_friction_cannot_hold_slides_as_fast_as_coulomb_has_it(substeps: int, more: dict[str, float]) -> None:
    assert slid(substeps, **more) == pytest.approx(1.0, rel=0.01)


def rest(friction: float, height: float, frames: int = 300, **more: Any) -> np.ndarray:
    """(v, 3) m, how it lies in the end, about its middle."""
    _, found = frames_of(scene(block(low=(0, 0, height), friction=friction, **more), last=frames, obstacles=(plane(),)))
    return found[-1].surface


def stretched(part: float, **more: Any) -> np.ndarray:
    """(v, 3) m, how a block lies in the end on ground that has grown by a part, or shrunk: its foot slid all over."""
    sheet = waves(9, 0.6, 0.0, 1.0)

    def there(frame: float) -> np.ndarray:
        grown = 1.0 + part * min(max(frame - 5.0, 0.0), 20.0) / 20.0
        return sheet.vertices * np.array([grown, grown, 1.0])

    body = block(low=(-0.1, -0.1, 0.95 * R), friction=0.5, settle=6.0, start_settled=True, **more)
    _, frames = frames_of(scene(body, last=80, obstacles=(Obstacle("Ground", there(1.0), sheet.triangles, there),)))
    return frames[-1].surface


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """In parts of the size, wherever they lie."""
    turn, shift = rigid_motion(one, other)
    return float(np.abs(one @ turn.T + shift - other).max()) / SIZE


@pytest.mark.slow
def test_without_friction_the_shape_at_rest_knows_neither_dials_nor_the_way_there() -> None:
    shape = rest(0.0, 0.95 * R, settle=6.0)
    for more in ({"settle": 48.0}, {"settle": 24.0, "bounce": 50.0}, {"settle": 12.0, "substeps": 4}):
        # What is left of a motion that calms to a hundredth in its settle time.
        assert apart(rest(0.0, 0.95 * R, **more), shape) < 1e-6
        assert apart(rest(0.0, 0.1, 400, **more), shape) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("height", "more"),
    [
        (0.95 * R, {"settle": 48.0}),
        pytest.param(0.95 * R, {"settle": 12.0, "substeps": 4}, marks=pytest.mark.slow),
        (0.95 * R, {"settle": 24.0, "bounce": 50.0}),
        (0.1, {"settle": 6.0}),
        pytest.param(0.2, {"settle": 12.0}, marks=pytest.mark.slow),
    ],
)
def test_with_friction_the_shape_at_rest_is_one_that_coulomb_holds(height: float, more: dict[str, float]) -> None:
    outwards, inwards = stretched(0.1), stretched(-0.1)
    held = apart(outwards, inwards)
    assert held > 2e-3
    shape, placed = rest(0.5, height, 400, **more), rest(0.5, 0.95 * R, settle=6.0)
    assert apart(shape, placed) < 1.05 * held
    # What is placed hardly slides, however it calms: a springy one by a fifteenth of what friction could hold.
    if height < R:
        assert apart(shape, placed) < (3e-4 if more.get("bounce") else 1e-4)


@pytest.mark.parametrize("high", [0.95 * R, 0.0])
@pytest.mark.parametrize(
    "more", [{"settle": 6.0}, pytest.param({"settle": 24.0, "bounce": 50.0}, marks=pytest.mark.slow)]
)
def test_what_touches_the_ground_at_the_start_begins_as_it_lies(high: float, more: dict[str, float]) -> None:
    body = block(low=(0, 0, high), stiffness=30.0, start_settled=True, **more)
    _, frames = frames_of(scene(body, last=30, obstacles=(plane(),)))
    # It is squashed by its weight, by more than a hundredth.
    assert np.ptp(frames[0].surface[:, 2]) < 0.2 - 0.01 * SIZE
    assert max(np.abs(one.surface - frames[0].surface).max() for one in frames) < 1e-6 * SIZE


@pytest.mark.slow
def test_what_would_fall_over_or_begins_inside_begins_as_modelled() -> None:
    edge = gridded("Table", (-0.5, -0.5, -0.3), (0.0, 0.5, 0.0), 0.1)
    for body, under in (
        # Three quarters of it are over the edge.
        (block(low=(-0.05, -0.1, 0.95 * R), start_settled=True), collider(edge)),
        (block(low=(0, 0, -0.01), start_settled=True), plane()),
    ):
        first = Simulation(scene(body, last=3, obstacles=(under,))).first_frame()
        np.testing.assert_allclose(first.surface, body.surface.vertices, atol=1e-12)


@pytest.mark.slow
def test_a_sag_is_the_same_over_a_floor_that_stops_it() -> None:
    bar = gridded("Bar", (0.0, 0.0, 0.0), (0.5, 0.1, 0.1), 0.05)
    pins = (bar.vertices[:, 0] < 1e-6).astype(float)
    body = still(bar, pins, stiffness_by="SAG", sag=10.0)
    made = [Simulation(scene(body, last=3, obstacles=some)) for some in ((), (plane(-0.02),))]
    assert made[0].factors(0) == pytest.approx(made[1].factors(0), rel=1e-12)
    low = [one.first_frame().surface[:, 2].min() for one in made]
    assert low[0] < -0.04
    # There it begins lying on it.
    assert low[1] == pytest.approx(-0.02 + 0.005 * bar.size, abs=0.002 * bar.size)


def test_what_lies_lies_still_and_costs_little() -> None:
    _, frames = frames_of(scene(block(low=(0, 0, 0.95 * R)), last=110, obstacles=(plane(),)))
    speeds = np.array([np.linalg.norm(one.state.velocities, axis=1).max() for one in frames])
    assert speeds[48:].max() < 5e-9
    assert np.mean([one.iterations for one in frames[1:]]) <= 8.0
    assert sum(one.helped for one in frames) == 0
    # By a twentieth of the contact distance and what its weight presses its own foot.
    assert frames[-1].surface[:, 2].min() == pytest.approx(0.95 * R, abs=0.1 * R)


def test_what_lies_goes_on_lying_where_its_motion_is_forgotten() -> None:
    simulation = Simulation(scene(block(low=(0, 0, 0.95 * R)), last=99, obstacles=(plane(),)))
    run = Run(simulation, simulation.first_frame(), simulation.sampled(1))
    for number in range(2, 50):
        run.advance(simulation.sampled(number, run.count))
    state = run.frame.state
    # As after a step that was calmed, or an edit.
    run.frame = replace(run.frame, state=replace(state, memory=forgotten(state.memory)))
    assert len(run.frame.state.memory) < len(state.memory)
    rest = run.frame.surface
    for number in range(50, 60):
        run.advance(simulation.sampled(number, run.count))
        assert np.abs(run.frame.surface - rest).max() < 1e-5 * SIZE


@pytest.mark.parametrize("low", [3.0 * R, 0.01])
def test_what_is_not_yet_near_as_a_step_begins_is_stopped_in_it(low: float) -> None:
    # Its weight alone makes 17 mm of the first step.
    _, frames = frames_of(scene(block(low=(0, 0, low)), last=12, obstacles=(plane(),)))
    assert min(one.surface[:, 2].min() for one in frames) > 0.0
    assert sum(one.helped for one in frames) == 0


def height(spacing: float) -> float:
    """How high the middle of a soft block rests, m."""
    body = block(low=(0, 0, 0.95 * R), stiffness=20.0, spacing=spacing)
    simulation, frames = frames_of(scene(body, last=48, obstacles=(plane(),)))
    mass = simulation.islands[0].system.mass
    return float(mass @ frames[-1].state.positions[:, 2] / mass.sum())


def test_a_cube_of_eight_vertices_stands_on_its_faces_as_a_finer_one_does() -> None:
    assert height(0.2) == pytest.approx(height(0.05), abs=0.1 * R)


def rebound(height: float, bounce: float, settle: float, fps: float) -> tuple[float, float, float]:
    """A drop's rebound and fastest later motion, in parts of its approach, and its deepest vertex, of its size.

    settle: in 24ths of a second; so many frames a second that a frame is a step.
    """
    body = block(low=(-0.1, -0.1, height), bounce=bounce, settle=settle * fps / 24.0)
    simulation, frames = frames_of(scene(body, last=round(1.2 * fps), fps=fps, obstacles=(plane(),)))
    assert simulation.substeps("Block", body.settings).count == 1
    v = drift(simulation, frames)[:, 2]
    landed = next(k for k, one in enumerate(frames) if pressed(one))
    speed = -v[landed - 1]
    off = next((k for k in range(landed, len(frames)) if not pressed(frames[k])), None)
    out = 0.0 if off is None else v[off] + 9.81 / fps
    deepest = -min(float(one.surface[:, 2].min()) for one in frames)
    return float(out / speed), float(np.abs(v[landed:]).max() / speed), deepest / SIZE


@pytest.mark.parametrize(
    ("height", "bounce", "settle", "fps"),
    [
        (0.5, 0.0, 12.0, 24.0),
        (0.5, 30.0, 12.0, 48.0),
        pytest.param(0.5, 50.0, 24.0, 96.0, marks=pytest.mark.slow),
        pytest.param(0.5, 50.0, 96.0, 24.0, marks=pytest.mark.slow),
        pytest.param(0.5, 80.0, 24.0, 144.0, marks=pytest.mark.slow),
        pytest.param(2.0, 50.0, 12.0, 96.0, marks=pytest.mark.slow),
        pytest.param(2.0, 80.0, 24.0, 144.0, marks=pytest.mark.slow),
        pytest.param(2.0, 80.0, 96.0, 96.0, marks=pytest.mark.slow),
        pytest.param(2.0, 30.0, 24.0, 240.0, marks=pytest.mark.slow),
    ],
)
def test_a_drop_bounces_back_as_dialled_and_stays_in_front(
    height: float, bounce: float, settle: float, fps: float
) -> None:
    out, thrown, deepest = rebound(height, bounce, settle, fps)
    assert out == pytest.approx(bounce / 100.0, abs=0.05)
    assert deepest < 1e-3
    # Nor is it thrown by a later landing.
    assert thrown < max(bounce / 100.0 + 0.05, 1.0)


def spikes(places: list[tuple[float, float]]) -> Surface:
    """Thin pyramids of 5 cm whose tips are at height 0."""
    vertices, triangles = [], []
    for x, y in places:
        k = len(vertices)
        foot = [(x + 0.004 * a, y + 0.004 * b, -0.05) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        vertices += [*foot, (x, y, 0.0)]
        sides = [(k + a, k + (a + 1) % 4, k + 4) for a in range(4)]
        triangles += [*sides, (k + 1, k, k + 2), (k + 2, k, k + 3)]
    return Surface("Spikes", np.array(vertices, dtype=float), np.array(triangles))


@pytest.mark.slow
def test_what_stands_on_spikes_comes_to_rest() -> None:
    body = block(low=(-0.1, -0.1, 0.002), stiffness=20.0)
    under = collider(spikes([(-0.06, -0.06), (0.06, -0.06), (0.0, 0.07)]))
    _, frames = frames_of(scene(body, last=70, obstacles=(under,)))
    assert np.linalg.norm(frames[-1].state.velocities, axis=1).max() < 1e-4
    assert abs(frames[-1].surface[:, 2].mean() - 0.1) < 0.02


def ride(
    direction: np.ndarray, settle: float, weight: float = 1.0, surface: Surface | None = None, **more: Any
) -> tuple[Simulation, list[Frame]]:
    """A block on rough ground that moves steadily, m/s, and stops; the frames from the stop on.

    weight: times the earth's.  surface: of another body, which is placed on the ground.
    """
    stop = 10 + round(2.5 * settle)

    def path(frame: float) -> np.ndarray:
        return direction * (min(frame, stop) - 1.0) / 24.0

    body = block(low=(-0.1, -0.1, 0.95 * R), settle=settle, friction=5.0, **more)
    if surface is not None:
        low, size = surface.vertices.min(axis=0), float(np.linalg.norm(np.ptp(surface.vertices, axis=0)))
        # As far above it as what lies there will be, nearly.
        placed = Surface("Block", surface.vertices - low + [0.0, 0.0, 0.95 * 0.005 * size], surface.triangles)
        body = still(placed, None, **vars(body.settings))
    last = stop + round(2.0 * settle) + 20
    ground = (plane(path=path),)
    simulation, frames = frames_of(scene(body, last=last, gravity=weight * DOWN, obstacles=ground))
    return simulation, frames[stop - 1 :]


def told(simulation: Simulation, frames: list[Frame]) -> float:
    """Frames at the soonest, as the panel says."""
    return 24.0 * Report.of((one.number, touched(simulation, one.state, "Block")) for one in frames).soonest


def outcome(frames: list[Frame]) -> Outcome:
    """Of the surface, from where it rests in the end."""
    ways = np.array([one.surface for one in frames]) - frames[-1].surface
    return Outcome.of(ways, [one.iterations for one in frames], 1)


@pytest.mark.parametrize(
    ("settle", "more"),
    [
        # Softer, its own momentum is what calms last.
        (6.0, {"stiffness": 400.0}),
        (12.0, {}),
        pytest.param(24.0, {}, marks=pytest.mark.slow),
        pytest.param(48.0, {}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "direction", [(0.3, 0.0, 0.0), (0.0, 0.0, -0.3), pytest.param((0.2, 0.2, 0.0), marks=pytest.mark.slow)]
)
def test_what_rides_on_the_ground_rests_as_dialled_after_a_stop(
    settle: float, more: dict[str, float], direction: tuple[float, ...]
) -> None:
    found = outcome(ride(np.array(direction), settle, **more)[1])
    # Where a stop lifts parts of the foot more is lost at once; pressed flat, as below, it is not.
    assert -max(1.0, 0.05 * settle) < found.rest - settle < 1.0
    assert found.overshoot < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("direction", [(0.3, 0.0, 0.0), (0.2, 0.2, 0.0)])
def test_what_is_pressed_flat_rests_within_a_frame_of_a_slow_dial(direction: tuple[float, ...]) -> None:
    found = outcome(ride(np.array(direction), 48.0, 3.0)[1])
    assert found.rest == pytest.approx(48.0, abs=1.0)
    assert found.overshoot < 0.02


@pytest.mark.slow
def test_what_leans_under_its_weight_rests_as_dialled_however_soft_it_is() -> None:
    # A stop in a random direction, of those of docs/validation/contact.md.
    way = np.array([0.2976, 0.0199, -0.0317])
    rests = [outcome(ride(way, 48.0, 3.0, stiffness=stiffness)[1]).rest for stiffness in (200.0, 50.0)]
    # By a weight that turns at once what leans, softer ones would rest later: by one and a half frames.
    assert abs(rests[1] - rests[0]) < 0.8
    assert rests == pytest.approx([48.0, 48.0], abs=1.3)


@pytest.mark.slow
@pytest.mark.parametrize(("settle", "stiffness"), [(48.0, 25.0), (96.0, 75.0)])
def test_what_lies_calms_however_much_its_weight_leans_on_it(settle: float, stiffness: float) -> None:
    # What leans grows as it sinks in, long after it touched: held firmly at first, it would swing by mm/s for ever.
    body = block(low=(-0.1, -0.1, 0.95 * R), settle=settle, stiffness=stiffness, friction=5.0)
    _, frames = frames_of(scene(body, last=180, gravity=3.0 * DOWN, obstacles=(plane(),)))
    assert np.abs(frames[-1].state.velocities).max() < 1e-5


@pytest.mark.parametrize("stiffness", [40.0, pytest.param(100.0, marks=pytest.mark.slow)])
def test_what_cannot_rest_as_soon_as_dialled_says_how_soon_it_can(stiffness: float) -> None:
    simulation, frames = ride(np.array([0.3, 0.0, 0.0]), 6.0, stiffness=stiffness)
    found = outcome(frames)
    assert found.rest == pytest.approx(max(told(simulation, frames), 6.0), abs=1.0)
    # And does not swing, as it would by a tenth on what gives way.
    assert found.overshoot < 0.01

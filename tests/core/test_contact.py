"""Bodies on the ground: sticking, sliding, resting and bouncing (docs/explanation/physics/07-contact.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from animated import AnimatedCollider
from builders import DOWN, gridded_box, scene, static_body
from dampsim.core.base.errors import PinError, SceneError
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.mesh.rigid_motion import fit_rigid_motion
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.measure.contact_results import contact_summary
from dampsim.core.measure.report import ShotReport
from dampsim.core.scene.fingerprint import cache_inputs, describe_changes, model_fingerprint
from dampsim.core.scene.scene import Collider, check_scene
from dampsim.core.simulation.simulation import Simulation, SimulationRun
from settle_cases import Outcome
from supports import block, collider, plane, wave_sheet

SIZE = 0.2 * 3**0.5
# Contact distance r: half a percent of the size.
R = 0.005 * SIZE


def simulate(made: Any) -> tuple[Simulation, list[Frame]]:
    simulation = Simulation(made)
    return simulation, list(simulation.frames())


def drift(simulation: Simulation, frames: list[Frame]) -> np.ndarray:
    """Return the velocities of the centre of mass, (k, 3) m/s."""
    mass = simulation.islands[0].system.mass
    return np.array([mass @ one.state.velocities / mass.sum() for one in frames])


def has_active_contact(frame: Frame) -> bool:
    return any(len(one.contacts.keys) for one in frame.state.history.contacts.values())


def block_on_slope(friction: float, seconds: float, substeps: int, **more: Any) -> tuple[Simulation, list[Frame]]:
    """Return the simulation of a block on a slope of 1 in 2 along x, made by rotating gravity."""
    pull = 9.81 * np.array([np.sin(np.arctan(0.5)), 0.0, -np.cos(np.arctan(0.5))])
    body = block(low=(0, 0, 0.95 * R), friction=friction, substeps=substeps, **more)
    return simulate(scene(body, last=round(24 * seconds) + 1, gravity=pull, colliders=(plane(),)))


def slope_creep(seconds: float, substeps: int, **more: Any) -> tuple[float, float]:
    """Return the motion of a sticking block on a slope in the second half of the time, and in all of it, m."""
    simulation, frames = block_on_slope(0.6, seconds, substeps, **more)
    system = simulation.islands[0].system
    first, last = (
        system.mass @ one.state.positions / system.mass.sum() for one in (frames[len(frames) // 2], frames[-1])
    )
    return float(np.abs(last - first).max()), float(np.abs(frames[-1].surface - frames[0].surface).max())


def slide_ratio(substeps: int, **more: Any) -> float:
    """Return a sliding block's acceleration on a slope over Coulomb's."""
    simulation, frames = block_on_slope(0.3, 3.0, substeps, **more)
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
def test_sticking_block_on_slope_without_creep(seconds: float, substeps: int, more: dict[str, float]) -> None:
    creep, way = slope_creep(seconds, substeps, **more)
    # Leaning decays within the Settle time; slow and bouncy blocks are not yet at rest to better than 1e-4 m.
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
def test_sliding_acceleration_matches_coulomb(substeps: int, more: dict[str, float]) -> None:
    assert slide_ratio(substeps, **more) == pytest.approx(1.0, rel=0.01)


def test_sliding_follows_painted_roughness() -> None:
    """A block on a slope of 1 in 2 has Coulomb's acceleration on the rough half, and on the ice after it."""
    x, y = (one.ravel() for one in np.meshgrid(np.linspace(-0.4, 11.2, 30), [-0.4, 0.4], indexing="ij"))
    k = np.arange(0, 58, 2)
    triangles = np.concatenate([np.stack([k, k + 2, k + 1], 1), np.stack([k + 1, k + 2, k + 3], 1)])
    roughness = np.where(x < 5.0, 1.0, 0.2)
    ground = Collider("Ground", np.stack([x, y, 0.0 * x], 1), triangles, roughness_map=roughness)
    angle = np.arctan(0.5)
    pull = 9.81 * np.array([np.sin(angle), 0.0, -np.cos(angle)])
    body = block(low=(-0.2, -0.1, 0.95 * R), friction=0.3, settle=6.0)
    simulation, frames = simulate(scene(body, last=77, gravity=pull, colliders=(ground,)))
    v, place = drift(simulation, frames)[:, 0], np.array([one.surface[:, 0] for one in frames])
    rough, ice = place.max(axis=1) < 4.8, (place.min(axis=1) > 5.3) & (place.max(axis=1) < 11.0)
    # At first, the block leans and settles.
    rough[:36] = False
    for patch, factor in ((rough, 1.0), (ice, 0.2)):
        assert patch.sum() >= 8
        acceleration = np.diff(v[patch]).mean() * 24.0
        assert acceleration == pytest.approx(9.81 * (np.sin(angle) - 0.3 * factor * np.cos(angle)), rel=0.01)


def test_painted_roughness_is_an_input() -> None:
    """A changed map makes caches and models stale; without one, both are those of earlier versions."""
    ground = wave_sheet(3, 1.0, 0.0, 1.0)
    plain = Collider("Ground", ground.vertices, ground.triangles)
    shots = [scene(block(), colliders=(replace(plain, roughness_map=one),)) for one in (None, np.ones(9), np.zeros(9))]
    assert len({model_fingerprint(one) for one in shots}) == 3
    inputs = [cache_inputs(one) for one in shots]
    assert [describe_changes(inputs[0], one) for one in inputs] == [[], ["the colliders"], ["the colliders"]]
    assert describe_changes(inputs[1], inputs[2]) == ["the colliders"]
    with pytest.raises(SceneError, match="Ground: its painted roughness does not fit the mesh"):
        check_scene(scene(block(), colliders=(replace(plain, roughness_map=np.ones(8)),)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5])
def test_invalid_painted_weights(value: float) -> None:
    """Modifiers can store such weights."""
    ground, body, wrong = wave_sheet(3, 1.0, 0.0, 1.0), block(), "a weight of its vertex groups is negative or not"
    painted = Collider("Ground", ground.vertices, ground.triangles, roughness_map=np.append(np.ones(8), value))
    with pytest.raises(PinError, match=f"Ground: {wrong}"):
        check_scene(scene(body, colliders=(painted,)))
    weights = np.ones(len(body.surface.vertices))
    weights[-1] = value
    for name in ("pins", "stiffness_map", "damping_map"):
        with pytest.raises(PinError, match=f"{body.name}: {wrong}"):
            check_scene(scene(replace(body, **{name: weights})))
    shot = scene(body)
    first = shot.sample(1.0)
    animated = replace(shot, sampler=lambda frame: replace(first, bodies=(replace(first.bodies[0], pins=weights),)))
    with pytest.raises(PinError, match=f"{body.name}: {wrong}"):
        animated.sample(2.0)


def rest_shape(friction: float, height: float, frames: int = 300, **more: Any) -> np.ndarray:
    """Return the surface of a block at the end, (v, 3) m."""
    _, found = simulate(scene(block(low=(0, 0, height), friction=friction, **more), last=frames, colliders=(plane(),)))
    return found[-1].surface


def shape_on_growing_ground(part: float, **more: Any) -> np.ndarray:
    """Return the surface of a block, (v, 3) m, after the ground below it grew or shrank by a fraction.

    All of its foot slides on the ground.
    """
    sheet = wave_sheet(9, 0.6, 0.0, 1.0)

    def there(frame: float) -> np.ndarray:
        grown = 1.0 + part * min(max(frame - 5.0, 0.0), 20.0) / 20.0
        return sheet.vertices * np.array([grown, grown, 1.0])

    body = block(low=(-0.1, -0.1, 0.95 * R), friction=0.5, settle=6.0, start_settled=True, **more)
    _, frames = simulate(
        scene(body, last=80, colliders=(AnimatedCollider("Ground", there(1.0), sheet.triangles, motion=there),))
    )
    return frames[-1].surface


def aligned_distance(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest distance of two surfaces after rigid alignment, relative to the size."""
    turn, shift = fit_rigid_motion(one, other)
    return float(np.abs(one @ turn.T + shift - other).max()) / SIZE


@pytest.mark.slow
def test_frictionless_rest_shape_is_unique() -> None:
    """Without friction the shape at rest does not depend on Settle, Bounce, substeps or the drop height."""
    shape = rest_shape(0.0, 0.95 * R, settle=6.0)
    for more in ({"settle": 48.0}, {"settle": 24.0, "bounce": 50.0}, {"settle": 12.0, "substeps": 4}):
        # The residual of a motion that decays to a hundredth within the Settle time.
        assert aligned_distance(rest_shape(0.0, 0.95 * R, **more), shape) < 1e-6
        assert aligned_distance(rest_shape(0.0, 0.1, 400, **more), shape) < 1e-6


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
def test_rest_shape_within_friction_bounds(height: float, more: dict[str, float]) -> None:
    """The shape at rest lies within the range that Coulomb friction can hold."""
    outwards, inwards = shape_on_growing_ground(0.1), shape_on_growing_ground(-0.1)
    held = aligned_distance(outwards, inwards)
    assert held > 2e-3
    shape, placed = rest_shape(0.5, height, 400, **more), rest_shape(0.5, 0.95 * R, settle=6.0)
    assert aligned_distance(shape, placed) < 1.05 * held
    # A placed block hardly slides; a bouncy one slides by a fifteenth of the distance that friction could hold.
    if height < R:
        assert aligned_distance(shape, placed) < (3e-4 if more.get("bounce") else 1e-4)


@pytest.mark.parametrize("high", [0.95 * R, 0.0])
@pytest.mark.parametrize(
    "more", [{"settle": 6.0}, pytest.param({"settle": 24.0, "bounce": 50.0}, marks=pytest.mark.slow)]
)
def test_touching_body_starts_at_rest(high: float, more: dict[str, float]) -> None:
    body = block(low=(0, 0, high), stiffness=30.0, start_settled=True, **more)
    _, frames = simulate(scene(body, last=30, colliders=(plane(),)))
    # Its weight compresses it by more than 1%.
    assert np.ptp(frames[0].surface[:, 2]) < 0.2 - 0.01 * SIZE
    assert max(np.abs(one.surface - frames[0].surface).max() for one in frames) < 1e-6 * SIZE


@pytest.mark.slow
def test_unstable_or_penetrating_start_stays_modelled() -> None:
    """A body that would tip over, or starts inside a collider, starts in its modelled shape."""
    edge = gridded_box("Table", (-0.5, -0.5, -0.3), (0.0, 0.5, 0.0), 0.1)
    for body, under in (
        # Three quarters of it overhang the edge.
        (block(low=(-0.05, -0.1, 0.95 * R), start_settled=True), collider(edge)),
        (block(low=(0, 0, -0.01), start_settled=True), plane()),
    ):
        first = Simulation(scene(body, last=3, colliders=(under,))).first_frame()
        np.testing.assert_allclose(first.surface, body.surface.vertices, atol=1e-12)


@pytest.mark.slow
def test_sag_stiffness_ignores_floor() -> None:
    """The stiffness for a given Sag does not depend on a floor that the body reaches."""
    bar = gridded_box("Bar", (0.0, 0.0, 0.0), (0.5, 0.1, 0.1), 0.05)
    pins = (bar.vertices[:, 0] < 1e-6).astype(float)
    body = static_body(bar, pins, stiffness_by="SAG", sag=10.0)
    made = [Simulation(scene(body, last=3, colliders=some)) for some in ((), (plane(-0.02),))]
    assert made[0].stiffness_factors(0) == pytest.approx(made[1].stiffness_factors(0), rel=1e-12)
    low = [one.first_frame().surface[:, 2].min() for one in made]
    assert low[0] < -0.04
    # It starts resting on the floor.
    assert low[1] == pytest.approx(-0.02 + 0.005 * bar.size, abs=0.002 * bar.size)


def test_resting_block_stays_still_cheaply() -> None:
    _, frames = simulate(scene(block(low=(0, 0, 0.95 * R)), last=110, colliders=(plane(),)))
    speeds = np.array([np.linalg.norm(one.state.velocities, axis=1).max() for one in frames])
    assert speeds[48:].max() < 5e-9
    assert np.mean([one.iterations for one in frames[1:]]) <= 8.0
    assert not any(one.guards for one in frames)
    # Lowered by a twentieth of the contact distance and the compression of its foot.
    assert frames[-1].surface[:, 2].min() == pytest.approx(0.95 * R, abs=0.1 * R)


def test_resting_block_without_history_stays() -> None:
    simulation = Simulation(scene(block(low=(0, 0, 0.95 * R)), last=99, colliders=(plane(),)))
    run = SimulationRun(simulation, simulation.first_frame(), simulation.sample_frame(1))
    for number in range(2, 50):
        run.advance(simulation.sample_frame(number, run.substep_count))
    state = run.frame.state
    # As after a step with fallback damping, or an edit.
    run.frame = replace(run.frame, state=replace(state, history=state.history.without_deformation()))
    assert state.history.block("Block").deformation is not None
    rest = run.frame.surface
    for number in range(50, 60):
        run.advance(simulation.sample_frame(number, run.substep_count))
        assert np.abs(run.frame.surface - rest).max() < 1e-5 * SIZE


@pytest.mark.parametrize("low", [3.0 * R, 0.01])
def test_contact_found_within_first_step(low: float) -> None:
    # Gravity alone moves it by 17 mm in the first step.
    _, frames = simulate(scene(block(low=(0, 0, low)), last=12, colliders=(plane(),)))
    assert min(one.surface[:, 2].min() for one in frames) > 0.0
    assert not any(one.guards for one in frames)


def rest_height(spacing: float) -> float:
    """Return the height at which the centre of a soft block rests, m."""
    body = block(low=(0, 0, 0.95 * R), stiffness=20.0, spacing=spacing)
    simulation, frames = simulate(scene(body, last=48, colliders=(plane(),)))
    mass = simulation.islands[0].system.mass
    return float(mass @ frames[-1].state.positions[:, 2] / mass.sum())


def test_coarse_cube_rests_like_fine_cube() -> None:
    assert rest_height(0.2) == pytest.approx(rest_height(0.05), abs=0.1 * R)


def rebound(height: float, bounce: float, settle: float, fps: float) -> tuple[float, float, float]:
    """Return rebound speed and largest later speed over that of the approach, and penetration over the size.

    settle: in 24ths of a second. Each frame is one step.
    """
    body = block(low=(-0.1, -0.1, height), bounce=bounce, settle=settle * fps / 24.0)
    simulation, frames = simulate(scene(body, last=round(1.2 * fps), fps=fps, colliders=(plane(),)))
    assert simulation.substeps("Block", body.settings).count == 1
    v = drift(simulation, frames)[:, 2]
    landed = next(k for k, one in enumerate(frames) if has_active_contact(one))
    speed = -v[landed - 1]
    off = next((k for k in range(landed, len(frames)) if not has_active_contact(frames[k])), None)
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
def test_drop_rebound_matches_bounce(height: float, bounce: float, settle: float, fps: float) -> None:
    """The block rebounds at Bounce times the speed of approach, without penetration and without later kicks."""
    out, thrown, deepest = rebound(height, bounce, settle, fps)
    assert out == pytest.approx(bounce / 100.0, abs=0.05)
    assert deepest < 1e-3
    # No later landing accelerates it.
    assert thrown < max(bounce / 100.0 + 0.05, 1.0)


def spikes(places: list[tuple[float, float]]) -> Surface:
    """Return thin pyramids of 5 cm with their tips at height 0."""
    vertices, triangles = [], []
    for x, y in places:
        k = len(vertices)
        foot = [(x + 0.004 * a, y + 0.004 * b, -0.05) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        vertices += [*foot, (x, y, 0.0)]
        sides = [(k + a, k + (a + 1) % 4, k + 4) for a in range(4)]
        triangles += [*sides, (k + 1, k, k + 2), (k + 2, k, k + 3)]
    return Surface("Spikes", np.array(vertices, dtype=float), np.array(triangles))


@pytest.mark.slow
def test_block_on_spikes_comes_to_rest() -> None:
    body = block(low=(-0.1, -0.1, 0.002), stiffness=20.0)
    under = collider(spikes([(-0.06, -0.06), (0.06, -0.06), (0.0, 0.07)]))
    _, frames = simulate(scene(body, last=70, colliders=(under,)))
    assert np.linalg.norm(frames[-1].state.velocities, axis=1).max() < 1e-4
    assert abs(frames[-1].surface[:, 2].mean() - 0.1) < 0.02


def ride_and_stop(
    direction: np.ndarray, settle: float, weight: float = 1.0, surface: Surface | None = None, **more: Any
) -> tuple[Simulation, list[Frame]]:
    """Return a block on rough ground that moves at a constant velocity, m/s, and stops: the frames after the stop.

    weight: factor on gravity.  surface: of another body, which is placed on the ground.
    """
    stop = 10 + round(2.5 * settle)

    def path(frame: float) -> np.ndarray:
        return direction * (min(frame, stop) - 1.0) / 24.0

    body = block(low=(-0.1, -0.1, 0.95 * R), settle=settle, friction=5.0, **more)
    if surface is not None:
        low, size = surface.vertices.min(axis=0), float(np.linalg.norm(np.ptp(surface.vertices, axis=0)))
        # Nearly at the height at which it rests.
        placed = Surface("Block", surface.vertices - low + [0.0, 0.0, 0.95 * 0.005 * size], surface.triangles)
        body = static_body(placed, None, **vars(body.settings))
    last = stop + round(2.0 * settle) + 20
    ground = (plane(path=path),)
    simulation, frames = simulate(scene(body, last=last, gravity=weight * DOWN, colliders=ground))
    return simulation, frames[stop - 1 :]


def reported_rest_time(simulation: Simulation, frames: list[Frame]) -> float:
    """Return the earliest rest time that the panel reports, frames."""
    return (
        24.0
        * ShotReport.from_frames(
            (one.number, contact_summary(simulation, one.state, "Block")) for one in frames
        ).earliest_rest
    )


def outcome(frames: list[Frame]) -> Outcome:
    """Return the settling of the surface, measured from its last frame."""
    ways = np.array([one.surface for one in frames]) - frames[-1].surface
    return Outcome.of(ways, [one.iterations for one in frames], 1)


@pytest.mark.parametrize(
    ("settle", "more"),
    [
        # In a softer block its own momentum decays last.
        (6.0, {"stiffness": 400.0}),
        (12.0, {}),
        pytest.param(24.0, {}, marks=pytest.mark.slow),
        pytest.param(48.0, {}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "direction", [(0.3, 0.0, 0.0), (0.0, 0.0, -0.3), pytest.param((0.2, 0.2, 0.0), marks=pytest.mark.slow)]
)
def test_settle_after_moving_ground_stops(settle: float, more: dict[str, float], direction: tuple[float, ...]) -> None:
    found = outcome(ride_and_stop(np.array(direction), settle, **more)[1])
    # A stop that lifts parts of the foot loses energy at once, unlike a foot pressed flat, as below.
    assert -max(1.0, 0.05 * settle) < found.rest - settle < 1.0
    assert found.overshoot < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("direction", [(0.3, 0.0, 0.0), (0.2, 0.2, 0.0)])
def test_long_settle_when_pressed_flat(direction: tuple[float, ...]) -> None:
    found = outcome(ride_and_stop(np.array(direction), 48.0, 3.0)[1])
    assert found.rest == pytest.approx(48.0, abs=1.0)
    assert found.overshoot < 0.02


@pytest.mark.slow
def test_settle_of_soft_leaning_block() -> None:
    # A stop in one of the random directions of docs/validation/contact.md.
    way = np.array([0.2976, 0.0199, -0.0317])
    rests = [outcome(ride_and_stop(way, 48.0, 3.0, stiffness=stiffness)[1]).rest for stiffness in (200.0, 50.0)]
    # With an undamped moment of the weight softer blocks would rest one and a half frames later.
    assert abs(rests[1] - rests[0]) < 0.8
    assert rests == pytest.approx([48.0, 48.0], abs=1.3)


@pytest.mark.slow
@pytest.mark.parametrize(("settle", "stiffness"), [(48.0, 25.0), (96.0, 75.0)])
def test_soft_heavy_block_comes_to_rest(settle: float, stiffness: float) -> None:
    # The lean grows long after touchdown as the block sinks in. Support modes taken at touchdown would let it swing by
    # mm/s for ever.
    body = block(low=(-0.1, -0.1, 0.95 * R), settle=settle, stiffness=stiffness, friction=5.0)
    _, frames = simulate(scene(body, last=180, gravity=3.0 * DOWN, colliders=(plane(),)))
    assert np.abs(frames[-1].state.velocities).max() < 1e-5


@pytest.mark.parametrize("stiffness", [40.0, pytest.param(100.0, marks=pytest.mark.slow)])
def test_earliest_rest_time_is_reported(stiffness: float) -> None:
    """A body on a support too soft for its Settle time rests when the report says."""
    simulation, frames = ride_and_stop(np.array([0.3, 0.0, 0.0]), 6.0, stiffness=stiffness)
    found = outcome(frames)
    assert found.rest == pytest.approx(max(reported_rest_time(simulation, frames), 6.0), abs=1.0)
    # It does not overshoot, as it would by a tenth on an undamped soft support.
    assert found.overshoot < 0.01

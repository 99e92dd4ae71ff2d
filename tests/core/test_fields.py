"""Force fields and animated gravity, docs/explanation/physics/08-force-fields.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields as parts_of
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from builders import DOWN, bar, net, scene, weld
from dampsim.core.fields.field import (
    ExternalForces,
    Falloff,
    FalloffType,
    ForceField,
    ForceFieldShape,
    ForceFieldSide,
    ForceFieldType,
)
from dampsim.core.fields.forces import FORCES, field_accelerations, flicker, gradient_noise, turbulence
from dampsim.core.frames.frame import Frame
from dampsim.core.literature.damping import DAMPINGS
from dampsim.core.literature.integrators import INTEGRATORS
from dampsim.core.scene.body import Body
from dampsim.core.scene.fingerprint import cache_inputs, describe_changes
from dampsim.core.settle.controls import Controls
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.steppers import implicit
from dampsim.core.system.inputs import BlockInputs, Inputs
from dampsim.core.system.state import State
from dampsim.core.system.system import System
from references.fields import acceleration

FPS = 24.0
X = np.array([1.0, 0.0, 0.0])
NOWHERE = np.zeros(3)
# A step so short that drag stops nothing within it.
SHORT = 1e-4


def wind(strength: float, axis: np.ndarray = X, **more: Any) -> ForceField:
    return ForceField(ForceFieldType.WIND, ForceFieldShape.PLANE, NOWHERE, axis, strength, **more)


def with_forces(body: Body, outside: Callable[[float], ExternalForces]) -> Body:
    return replace(body, external_forces=outside)


def with_steady_fields(body: Body, *fields: ForceField, gravity: np.ndarray = DOWN) -> Body:
    return with_forces(body, lambda frame: ExternalForces(gravity, fields))


def frames(body: Body, last: int, **more: Any) -> list[Frame]:
    return list(Simulation(scene(body, last=last, **more)).frames())


def is_identical(first: list[Frame], second: list[Frame]) -> bool:
    return all(
        a.state.positions.tobytes() == b.state.positions.tobytes()
        and a.state.velocities.tobytes() == b.state.velocities.tobytes()
        for a, b in zip(first, second, strict=True)
    )


# Accelerations of nodes.

FALLOFFS = (Falloff(), Falloff(1.5), Falloff(2.0, 0.8), Falloff(0.5, None, 1.6), Falloff(1.0, 0.4, 2.0))


@pytest.mark.parametrize(
    "kind", [kind for kind in ForceFieldType if kind is not ForceFieldType.TURBULENCE], ids=lambda kind: kind.name
)
def test_field_acceleration_matches_formula(kind: ForceFieldType) -> None:
    """For each kind, shape, falloff and side."""
    chance = np.random.default_rng(3)
    points, velocities = chance.normal(size=(2, 40, 3))
    cases = list(product(ForceFieldShape, FalloffType, ForceFieldSide, FALLOFFS))
    acted = 0
    for shape, kept_within, side, fade in cases:
        if kind is ForceFieldType.VORTEX and shape is ForceFieldShape.LINE:
            # Blender has no vortex of this shape.
            continue
        axis = chance.normal(size=3)
        axis /= np.linalg.norm(axis)
        across = Falloff(0.7, 20.0, 100.0) if kept_within is FalloffType.CONE else Falloff(1.0, 0.3, 1.5)
        field = ForceField(
            kind, shape, chance.normal(size=3), axis, chance.uniform(-3.0, 3.0), damping=0.4, flow=0.3,
            rest_length=chance.choice([0.0, 0.7]), gravitation=bool(chance.integers(2)), falloff_type=kept_within,
            falloff=fade, second_falloff=across, side=side,
        )  # fmt: skip
        found = field_accelerations([field], 0.8, 7.0, points, velocities, SHORT)
        for point, velocity, one in zip(points, velocities, found, strict=True):
            expected = acceleration(
                kind.name, shape.name, tuple(field.location), tuple(axis), tuple(point), tuple(velocity),
                field.strength, damping=0.4, flow=0.3, rest_length=field.rest_length, gravitation=field.gravitation,
                within=kept_within.name, fade=(fade.power, fade.min, fade.max),
                across=(across.power, across.min, across.max), side=side.name, weight=0.8,
            )  # fmt: skip
            # Rounding; gravitation reaches some thousand near its centre.
            np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-12)
        acted += int((found != 0.0).any(axis=1).sum())
    assert acted > 1000


def test_fields_add_up_weight_zero() -> None:
    chance = np.random.default_rng(4)
    points, velocities = chance.normal(size=(2, 10, 3))
    several = [
        ForceField(kind, ForceFieldShape.PLANE, NOWHERE, X, 2.0, flow=0.5, damping=0.1, noise=0.3, seed=5)
        for kind in ForceFieldType
    ]
    whole = field_accelerations(several, 1.0, 3.5, points, velocities, SHORT)
    apart = [field_accelerations([one], 1.0, 3.5, points, velocities, SHORT) for one in several]
    np.testing.assert_allclose(whole, sum(apart), atol=1e-12)
    assert not field_accelerations(several, 0.0, 3.5, points, velocities, SHORT).any()
    assert set(FORCES) == set(ForceFieldType)


@pytest.mark.parametrize(
    "kind",
    [ForceFieldType.WIND, ForceFieldType.DRAG, ForceFieldType.HARMONIC, ForceFieldType.VORTEX],
    ids=lambda kind: kind.name,
)
def test_strong_drag_never_reverses_velocity(kind: ForceFieldType) -> None:
    field = ForceField(
        kind,
        ForceFieldShape.PLANE,
        NOWHERE,
        X,
        0.0 if kind in (ForceFieldType.WIND, ForceFieldType.VORTEX) else 1e6,
        1e6,
        1e6,
    )
    velocities = np.array([[0.0, 100.0, -3.0]])
    found = field_accelerations([field], 1.0, 1.0, np.zeros((1, 3)), velocities, 0.1)
    after = velocities + 0.1 * found
    # A vortex also slows nodes without its flow.
    assert np.abs(after).max() <= (1.0 if kind is ForceFieldType.VORTEX else 1e-9) * np.abs(velocities).max()


def test_noise_smooth_uniform_and_reproducible() -> None:
    points = np.random.default_rng(1).uniform(-50.0, 50.0, (20000, 3))
    found = turbulence(points, 2.0, 117)
    assert np.abs(found).max() < 1.0
    # Means of 20,000 values whose root mean square is about a quarter: within four standard errors.
    root = np.sqrt((found**2).mean(axis=0))
    assert (np.abs(found.mean(axis=0)) < 4.0 * root / np.sqrt(len(points))).all()
    assert np.ptp(root) < 0.05 * root.max()
    near = turbulence(points + 1e-6, 2.0, 117)
    # Slopes of noise with unit cells are at most about ten, times the octaves.
    assert np.abs(near - found).max() < 1e-4
    assert not gradient_noise(np.floor(points), 3).any()
    assert np.abs(np.corrcoef(np.column_stack([found, turbulence(points, 2.0, 118)]).T) - np.eye(6)).max() < 0.05
    known = turbulence(np.array([[0.3, -1.7, 2.2], [-40.1, 0.5, 1e3]]), 1.0, 5)
    np.testing.assert_allclose(known, KNOWN, atol=1e-12)
    flickers = np.array([flicker(k / 4.0, 9) for k in range(4000)])
    assert np.abs(flickers).max() <= 1.0
    assert abs(flickers.mean()) < 0.1
    assert flicker(2.5, 9) == pytest.approx(0.5 * (flicker(2.0, 9) + flicker(3.0, 9)))
    assert flicker(2.0, 9) == pytest.approx(KNOWN_FLICKER, abs=1e-12)


# Values of the first implementation.
KNOWN = np.array(
    [
        [-0.32558454157674804, -0.34305000045003353, 0.030992314443132312],
        [-0.2372914285714294, 0.2961462857142853, -0.3405028571428587],
    ]
)
KNOWN_FLICKER = -0.4301715725443995


@pytest.mark.slow
def test_field_settings_change_frame_digest() -> None:
    one = wind(1.0)
    other: dict[str, Any] = {
        "kind": ForceFieldType.FORCE, "shape": ForceFieldShape.LINE, "location": X, "axis": -X, "strength": 1.5,
        "damping": 0.1, "flow": 0.2, "size": 0.3, "rest_length": 0.4, "gravitation": True, "noise": 0.5, "seed": 6,
        "fixed_pattern": True, "falloff_type": FalloffType.TUBE, "falloff": Falloff(1.0),
        "second_falloff": Falloff(0.0, 1.0), "side": ForceFieldSide.POSITIVE,
    }  # fmt: skip
    assert set(other) == {part.name for part in parts_of(ForceField)}
    body = bar("Bar", 0.0, 1.0, True, resolution=60)

    def digest(field: ForceField | None, gravity: np.ndarray = DOWN, **dials: Any) -> str:
        there = replace(body, settings=replace(body.settings, **dials))
        there = there if field is None else with_steady_fields(there, field, gravity=gravity)
        return Simulation(scene(there, last=2)).sample_frame(1).digests["Bar"]

    variants = [replace(one, **{name: value}) for name, value in other.items()]
    variants += [replace(one, falloff=Falloff(0.0, 0.0)), replace(one, falloff=Falloff(0.0, None, 0.0))]
    found = [digest(one), digest(None), *(digest(field) for field in variants)]
    found += [digest(one, gravity=2.0 * DOWN), digest(one, field_weight=0.5), digest(None, gravity_weight=0.5)]
    assert len(set(found)) == len(found)
    assert digest(replace(one)) == digest(one)


def test_caches_without_fields_stay_valid() -> None:
    body = bar("Bar", 0.0, 1.0, True, resolution=60)
    now = cache_inputs(scene(body))
    assert {"Gravity Weight", "Force Field Weight"} <= set(now["bodies"]["Bar"])
    known = {
        name: value
        for name, value in now["bodies"]["Bar"].items()
        if name not in ("Gravity Weight", "Force Field Weight")
    }
    before = {**now, "bodies": {"Bar": known}}
    assert describe_changes(before, now) == []


# Motion of bodies.


def free_bar(**dials: Any) -> Body:
    return bar("Bar", 0.0, 1.0, False, **{"resolution": 60, "stiffness": 1000.0, "accuracy": "TIGHT", **dials})


def pinned_bar(**dials: Any) -> Body:
    return bar("Bar", 0.0, 1.0, True, **{"resolution": 60, "stiffness": 1000.0, "settle": 12.0, **dials})


# Settings with which explicit steps stay bounded.
SOFT: dict[bool, dict[str, Any]] = {True: {}, False: {"stiffness": 5.0, "substeps": 20}}
STEPS = [
    pytest.param({}, id="default law"),
    pytest.param({"damping_by": "FIRST_MODE"}, id="first-mode law"),
    *(
        pytest.param({"damping_by": DAMPINGS[0].name, "integrator": one.name, **SOFT[one.is_implicit]}, id=one.name)
        for one in INTEGRATORS
    ),
]


@pytest.mark.parametrize("dials", STEPS)
def test_uniform_wind_acts_like_gravity(dials: dict[str, Any]) -> None:
    """With each integrator."""
    pull = np.array([3.0, 1.0, -2.0])
    strength = float(np.linalg.norm(pull))
    blown = with_steady_fields(free_bar(**dials), wind(strength, pull / strength), gravity=NOWHERE)
    one, other = frames(blown, 8, gravity=NOWHERE), frames(free_bar(**dials), 8, gravity=pull)
    assert np.abs(other[-1].state.positions - other[0].state.positions).max() > 0.01
    for a, b in zip(one, other, strict=True):
        # Rounding of the wind's direction, and tolerance of the minimisation.
        np.testing.assert_allclose(a.state.positions, b.state.positions, atol=1e-8)


@pytest.mark.parametrize("substeps", [1, 4])
def test_free_body_approaches_wind_velocity(substeps: int) -> None:
    strength, flow = 5.0, 2.0
    body = with_steady_fields(free_bar(substeps=substeps, bounce=0.0), wind(strength, flow=flow), gravity=NOWHERE)
    found = frames(body, 60, gravity=NOWHERE)
    simulation = Simulation(scene(body, gravity=NOWHERE))
    mass = simulation.system_of("Bar").mass
    speed, h = 0.0, 1.0 / (FPS * substeps)
    for frame in found[1:]:
        for _ in range(substeps):
            speed += h * (strength - flow * speed)
        momentum = mass @ frame.state.velocities
        np.testing.assert_allclose(momentum, mass.sum() * speed * X, atol=1e-7 * mass.sum())
    # The velocity approaches that of the air, strength over flow.
    assert speed == pytest.approx(strength / flow, rel=0.02)
    # A uniform wind has no torque.
    centre = mass @ found[-1].state.positions / mass.sum()
    spin = (mass[:, None] * np.cross(found[-1].state.positions - centre, found[-1].state.velocities)).sum(axis=0)
    assert np.abs(spin).max() < 1e-7 * mass.sum()


def test_vortex_transfers_momentum_and_torque() -> None:
    h, body = 1.0 / FPS, free_bar(bounce=0.0, settle=2.0, stiffness=1e5)
    field = ForceField(
        ForceFieldType.VORTEX, ForceFieldShape.POINT, np.array([0.3, 0.2, 0.4]), np.array([0.0, 0.0, 1.0]), 2.0
    )
    simulation = Simulation(scene(with_steady_fields(body, field, gravity=NOWHERE), last=2, gravity=NOWHERE))
    first, second = simulation.frames()
    mass, x = simulation.system_of("Bar").mass, first.state.positions
    force = mass[:, None] * field_accelerations([field], 1.0, 1.0, x, np.zeros_like(x), h)
    np.testing.assert_allclose(mass @ second.state.velocities, h * force.sum(axis=0), atol=1e-9 * mass.sum())
    centre = mass @ x / mass.sum()
    after, middle = second.state.positions, mass @ second.state.positions / mass.sum()
    # Momenta of displacements are those at their ends (decision 0009).
    spin = (mass[:, None] * np.cross(after - middle, (after - x) / h)).sum(axis=0)
    torque = np.cross(x - centre, force).sum(axis=0)
    assert np.linalg.norm(torque) > 0.1 * mass.sum()
    np.testing.assert_allclose(spin, h * torque, rtol=0.01, atol=1e-3 * h * np.linalg.norm(torque))


def test_steady_wind_shifts_equilibrium_without_swing() -> None:
    pull = DOWN + 4.0 * np.array([0.0, 1.0, 0.0])
    blown = frames(with_steady_fields(pinned_bar(), wind(4.0, np.array([0.0, 1.0, 0.0]), flow=1.0)), 20)
    heavy = Simulation(scene(pinned_bar(), gravity=pull)).first_frame()
    calm = Simulation(scene(pinned_bar())).first_frame()
    assert np.abs(blown[0].surface - calm.surface).max() > 0.02
    # Single precision of surfaces, and tolerance of the static solve.
    np.testing.assert_allclose(blown[0].surface, heavy.surface, atol=1e-6)
    assert max(float(np.abs(frame.surface - blown[0].surface).max()) for frame in blown) < 1e-6
    # It sleeps in the wind.
    assert [frame.iterations for frame in blown[-10:]] == [0] * 10


def test_drag_of_body_moved_by_pins() -> None:
    body, speed, flow = pinned_bar(settle=6.0), 2.0, 3.0
    surface = body.surface.vertices
    flying = replace(body, motion=lambda frame: surface + np.array([0.0, speed * (frame - 1.0) / FPS, 0.0]))
    found = frames(with_steady_fields(flying, wind(0.0, flow=flow)), 40)
    behind = found[-1].surface - (flying.vertices_at(40.0) - surface)
    # In the body's frame it is a head wind of this acceleration.
    expected = Simulation(scene(body, gravity=DOWN - np.array([0.0, speed * flow, 0.0]))).first_frame().surface
    assert np.abs(expected - Simulation(scene(body)).first_frame().surface).max() > 0.02
    np.testing.assert_allclose(behind, expected, atol=1e-5)


def test_sleep_in_wind_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[bool] = []
    ask = implicit.is_asleep

    def asked(system: System, state: State, inputs: Inputs, controls: Controls) -> bool:
        found = ask(system, state, inputs, controls)
        if not controls.is_static:
            slept.append(found)
        return found

    monkeypatch.setattr(implicit, "is_asleep", asked)

    def outside(frame: float) -> ExternalForces:
        return ExternalForces(DOWN, (wind(2.0 if frame < 15 else 2.001, np.array([0.0, 1.0, 0.0]), flow=1.0),))

    frames(with_forces(pinned_bar(substeps=1, bounce=0.0), outside), 20)
    # Steps to frames 2 to 20: sleep begins after three steps at rest.
    assert slept[-19:-5] == [False] * 3 + [True] * 10 + [False]


def test_step_subintervals_share_acceleration() -> None:
    place, pull = np.zeros((2, 3)), np.ones((4, 3))
    assert BlockInputs(place, place + 1.0, None, pull).subinterval(1, 4).acceleration is pull


def test_sag_ignores_gravity_weight() -> None:
    light, heavy = (
        Simulation(scene(pinned_bar(gravity_weight=part, stiffness_by="SAG"))).young("Bar") for part in (0.0, 1.0)
    )
    assert light == pytest.approx(heavy, rel=1e-2)


def test_preroll_settles_in_initial_wind() -> None:
    side = wind(4.0, np.array([0.0, 1.0, 0.0]))
    blown = Simulation(scene(with_steady_fields(pinned_bar(), side))).first_frame()
    calmed = Simulation(scene(with_steady_fields(pinned_bar(preroll=80, start_settled=False), side))).first_frame()
    # Bakes are solved to a thousandth of each step.
    np.testing.assert_allclose(calmed.surface, blown.surface, atol=1e-5)


def rest_after(found: list[Frame], end: Frame, number: int) -> int:
    """Return after how many frames the swing after a frame stays below a hundredth of its peak."""
    off = np.array([np.abs(frame.surface - end.surface).max() for frame in found])
    return int(np.flatnonzero(off > 0.01 * off[number - 1 :].max())[-1]) + 2 - number


@pytest.mark.parametrize("flow", [0.0, 1.0])
@pytest.mark.parametrize(("settle", "bounce"), [(24.0, 30.0), (12.0, 0.0), (36.0, 60.0)])
def test_settle_after_wind_stops(settle: float, bounce: float, flow: float) -> None:
    number = 20

    def outside(frame: float) -> ExternalForces:
        return ExternalForces(DOWN, (wind(1.5 if frame < number else 0.0, np.array([0.0, 1.0, 0.0]), flow=flow),))

    body = pinned_bar(settle=settle, bounce=bounce)
    found = frames(with_forces(body, outside), number + 80)
    calm, released = Simulation(scene(body)).first_frame(), Simulation(scene(body)).dials.release_law(0, body.settings)
    times = np.arange(0.0, 2.0 * settle, 0.05) / FPS
    expected = FPS * times[np.flatnonzero(np.abs(released.release_response(times)) > 0.01)[-1]]
    # The release response of any deflection, in whole frames.
    assert rest_after(found, calm, number - 1) == pytest.approx(expected, abs=1.5)
    assert rest_after(found, calm, number - 1) <= settle + 1
    np.testing.assert_allclose(found[-1].surface, calm.surface, atol=1e-5)


def weightless_from(number: int) -> Callable[[float], ExternalForces]:
    return lambda frame: ExternalForces(DOWN if frame < number else NOWHERE)


def test_gravity_switched_off_wakes_body() -> None:
    body = pinned_bar(settle=6.0)
    found = frames(with_forces(body, weightless_from(40)), 80)
    assert found[30].iterations == 0 < found[39].iterations
    assert is_identical(found[:39], frames(body, 39))
    straight = Simulation(scene(body, gravity=NOWHERE)).first_frame()
    assert np.abs(found[0].surface - straight.surface).max() > 0.01
    # Bakes are solved to a thousandth of each step.
    np.testing.assert_allclose(found[-1].surface, straight.surface, atol=1e-5)
    assert found[-1].iterations == 0


def keyed_gust(frame: float) -> ExternalForces:
    side = np.array([0.0, 1.0, 0.0])
    turbulent = ForceField(
        ForceFieldType.TURBULENCE, ForceFieldShape.POINT, np.array([0.1 * frame, 0.0, 0.0]), X, 3.0, size=0.4, noise=1.0
    )
    return ExternalForces(DOWN * (1.0 if frame < 6 else 0.5), (wind(0.5 * frame, side, flow=1.0, noise=2.0), turbulent))


@pytest.mark.parametrize("number", [5, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 9))])
@pytest.mark.parametrize("kind", ["solid", "net"])
def test_restart_from_frame_is_identical(kind: str, number: int) -> None:
    body = with_forces(pinned_bar() if kind == "solid" else net(5, stiffness=1e4), keyed_gust)
    whole = frames(body, 14)
    rest = list(Simulation(scene(body, last=14)).frames(whole[number - 1]))
    assert is_identical(rest, whole[number:])


def test_zero_field_weight_changes_nothing() -> None:
    blown = with_forces(pinned_bar(field_weight=0.0), lambda frame: ExternalForces(DOWN, keyed_gust(frame).fields))
    assert is_identical(frames(blown, 8), frames(pinned_bar(), 8))


@pytest.mark.parametrize("kind", ["solid", "net"])
def test_gravity_weight_equals_scaled_gravity(kind: str) -> None:
    one = pinned_bar() if kind == "solid" else net(5, stiffness=1e4)
    lighter = replace(one, settings=replace(one.settings, gravity_weight=0.5))
    assert is_identical(frames(lighter, 6), frames(one, 6, gravity=0.5 * DOWN))


def test_linked_bodies_use_own_weights() -> None:
    left = bar("Left", 0.0, 0.5, True, resolution=50, stiffness=2000.0)
    right = bar("Right", 0.5, 1.0, False, resolution=50, stiffness=2000.0)
    weightless = replace(right, settings=replace(right.settings, gravity_weight=0.0))

    def tip(end: Body) -> float:
        there = scene(left, end, last=2, links=weld("Weld", "Left", "Right", 0.5))
        return float(Simulation(there).first_frame().shapes["Right"][:, 2].min())

    both, one = tip(right), tip(weightless)
    assert both < one - 0.01
    assert one < -1e-4

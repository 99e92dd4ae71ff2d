"""Force fields and gravity that changes, docs/physics.md section 8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields as parts_of
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from builders import DOWN, bar, net, scene, weld
from dampsim.core.damping.registry import DAMPINGS
from dampsim.core.fields.field import Fade, Field, Kind, Outside, Shape, Side, Within
from dampsim.core.fields.forces import FORCES, accelerations
from dampsim.core.fields.noise import flicker, gradient_noise, turbulence
from dampsim.core.frames.frame import Frame
from dampsim.core.integrators import INTEGRATORS
from dampsim.core.scene.body import Body
from dampsim.core.scene.fingerprint import changes, inputs
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.stepping import step as stepping
from dampsim.core.system.inputs import BlockInputs
from references.fields import acceleration

FPS = 24.0
X = np.array([1.0, 0.0, 0.0])
NOWHERE = np.zeros(3)
# Steps so short that nothing is stopped within one.
SHORT = 1e-4


def wind(strength: float, axis: np.ndarray = X, **more: Any) -> Field:
    return Field(Kind.WIND, Shape.PLANE, NOWHERE, axis, strength, **more)


def within(body: Body, outside: Callable[[float], Outside]) -> Body:
    return replace(body, outside=outside)


def steadily(body: Body, *fields: Field, gravity: np.ndarray = DOWN) -> Body:
    return within(body, lambda frame: Outside(gravity, fields))


def frames(body: Body, last: int, **more: Any) -> list[Frame]:
    return list(Simulation(scene(body, last=last, **more)).frames())


def same(first: list[Frame], second: list[Frame]) -> bool:
    return all(
        a.state.positions.tobytes() == b.state.positions.tobytes()
        and a.state.velocities.tobytes() == b.state.velocities.tobytes()
        for a, b in zip(first, second, strict=True)
    )


# What a field does to a node.

FADES = (Fade(), Fade(1.5), Fade(2.0, 0.8), Fade(0.5, None, 1.6), Fade(1.0, 0.4, 2.0))


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.TURBULENCE], ids=lambda kind: kind.name)
def test_every_kind_shape_and_falloff_does_what_its_formula_says(kind: Kind) -> None:
    chance = np.random.default_rng(3)
    points, velocities = chance.normal(size=(2, 40, 3))
    cases = list(product(Shape, Within, Side, FADES))
    acted = 0
    for shape, kept_within, side, fade in cases:
        if kind is Kind.VORTEX and shape is Shape.LINE:
            # Blender offers none.
            continue
        axis = chance.normal(size=3)
        axis /= np.linalg.norm(axis)
        across = Fade(0.7, 20.0, 100.0) if kept_within is Within.CONE else Fade(1.0, 0.3, 1.5)
        field = Field(
            kind, shape, chance.normal(size=3), axis, chance.uniform(-3.0, 3.0), damping=0.4, flow=0.3,
            rest_length=chance.choice([0.0, 0.7]), gravitation=bool(chance.integers(2)), within=kept_within,
            fade=fade, across=across, side=side,
        )  # fmt: skip
        found = accelerations([field], 0.8, 7.0, points, velocities, SHORT)
        for point, velocity, one in zip(points, velocities, found, strict=True):
            expected = acceleration(
                kind.name, shape.name, tuple(field.place), tuple(axis), tuple(point), tuple(velocity), field.strength,
                damping=0.4, flow=0.3, rest_length=field.rest_length, gravitation=field.gravitation,
                within=kept_within.name, fade=(fade.power, fade.least, fade.most),
                across=(across.power, across.least, across.most), side=side.name, weight=0.8,
            )  # fmt: skip
            # Rounding; a gravitation goes up to some thousand near its middle.
            np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-12)
        acted += int((found != 0.0).any(axis=1).sum())
    assert acted > 1000


def test_fields_add_up_and_none_acts_with_no_weight() -> None:
    chance = np.random.default_rng(4)
    points, velocities = chance.normal(size=(2, 10, 3))
    several = [Field(kind, Shape.PLANE, NOWHERE, X, 2.0, flow=0.5, damping=0.1, noise=0.3, seed=5) for kind in Kind]
    whole = accelerations(several, 1.0, 3.5, points, velocities, SHORT)
    apart = [accelerations([one], 1.0, 3.5, points, velocities, SHORT) for one in several]
    np.testing.assert_allclose(whole, sum(apart), atol=1e-12)
    assert not accelerations(several, 0.0, 3.5, points, velocities, SHORT).any()
    assert set(FORCES) == set(Kind)


@pytest.mark.parametrize("kind", [Kind.WIND, Kind.DRAG, Kind.HARMONIC, Kind.VORTEX], ids=lambda kind: kind.name)
def test_what_slows_a_node_never_throws_it_back_within_a_step(kind: Kind) -> None:
    field = Field(kind, Shape.PLANE, NOWHERE, X, 0.0 if kind in (Kind.WIND, Kind.VORTEX) else 1e6, 1e6, 1e6)
    velocities = np.array([[0.0, 100.0, -3.0]])
    found = accelerations([field], 1.0, 1.0, np.zeros((1, 3)), velocities, 0.1)
    after = velocities + 0.1 * found
    # A vortex slows by itself as well as by its flow.
    assert np.abs(after).max() <= (1.0 if kind is Kind.VORTEX else 1e-9) * np.abs(velocities).max()


def test_noise_is_smooth_alike_everywhere_and_the_same_on_every_machine() -> None:
    points = np.random.default_rng(1).uniform(-50.0, 50.0, (20000, 3))
    found = turbulence(points, 2.0, 117)
    assert np.abs(found).max() < 1.0
    # Means of 20,000 values whose root mean square is about a quarter: within four standard errors.
    root = np.sqrt((found**2).mean(axis=0))
    assert (np.abs(found.mean(axis=0)) < 4.0 * root / np.sqrt(len(points))).all()
    assert np.ptp(root) < 0.05 * root.max()
    near = turbulence(points + 1e-6, 2.0, 117)
    # Slopes of a noise of unit cells do not exceed ten or so, times the octaves.
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


# As first found.
KNOWN = np.array(
    [
        [-0.32558454157674804, -0.34305000045003353, 0.030992314443132312],
        [-0.2372914285714294, 0.2961462857142853, -0.3405028571428587],
    ]
)
KNOWN_FLICKER = -0.4301715725443995


@pytest.mark.slow
def test_every_setting_of_a_field_changes_the_digest_of_a_frame() -> None:
    one = wind(1.0)
    other: dict[str, Any] = {
        "kind": Kind.FORCE, "shape": Shape.LINE, "place": X, "axis": -X, "strength": 1.5, "damping": 0.1, "flow": 0.2,
        "size": 0.3, "rest_length": 0.4, "gravitation": True, "noise": 0.5, "seed": 6, "fixed_pattern": True,
        "within": Within.TUBE, "fade": Fade(1.0), "across": Fade(0.0, 1.0), "side": Side.POSITIVE,
    }  # fmt: skip
    assert set(other) == {part.name for part in parts_of(Field)}
    body = bar("Bar", 0.0, 1.0, True, resolution=60)

    def digest(field: Field | None, gravity: np.ndarray = DOWN, **dials: Any) -> str:
        there = replace(body, settings=replace(body.settings, **dials))
        there = there if field is None else steadily(there, field, gravity=gravity)
        return Simulation(scene(there, last=2)).sampled(1).digests["Bar"]

    variants = [replace(one, **{name: value}) for name, value in other.items()]
    variants += [replace(one, fade=Fade(0.0, 0.0)), replace(one, fade=Fade(0.0, None, 0.0))]
    found = [digest(one), digest(None), *(digest(field) for field in variants)]
    found += [digest(one, gravity=2.0 * DOWN), digest(one, field_weight=0.5), digest(None, gravity_weight=0.5)]
    assert len(set(found)) == len(found)
    assert digest(replace(one)) == digest(one)


def test_caches_of_before_there_were_fields_still_fit() -> None:
    body = bar("Bar", 0.0, 1.0, True, resolution=60)
    now = inputs(scene(body))
    assert {"Gravity Weight", "Force Field Weight"} <= set(now["bodies"]["Bar"])
    known = {
        name: value
        for name, value in now["bodies"]["Bar"].items()
        if name not in ("Gravity Weight", "Force Field Weight")
    }
    before = {**now, "bodies": {"Bar": known}}
    assert changes(before, now) == []


# What it does to bodies.


def free(**dials: Any) -> Body:
    return bar("Bar", 0.0, 1.0, False, **{"resolution": 60, "stiffness": 1000.0, "accuracy": "TIGHT", **dials})


def held(**dials: Any) -> Body:
    return bar("Bar", 0.0, 1.0, True, **{"resolution": 60, "stiffness": 1000.0, "settle": 12.0, **dials})


# What explicit steps stay bounded with.
SOFT: dict[bool, dict[str, Any]] = {True: {}, False: {"stiffness": 5.0, "substeps": 20}}
STEPS = [
    pytest.param({}, id="own"),
    pytest.param({"damping_by": "FIRST_MODE"}, id="first mode"),
    *(
        pytest.param({"damping_by": DAMPINGS[0].name, "integrator": one.name, **SOFT[one.implicit]}, id=one.name)
        for one in INTEGRATORS
    ),
]


@pytest.mark.parametrize("dials", STEPS)
def test_an_even_wind_moves_a_body_as_gravity_does_whatever_takes_the_steps(dials: dict[str, Any]) -> None:
    pull = np.array([3.0, 1.0, -2.0])
    strength = float(np.linalg.norm(pull))
    blown = steadily(free(**dials), wind(strength, pull / strength), gravity=NOWHERE)
    one, other = frames(blown, 8, gravity=NOWHERE), frames(free(**dials), 8, gravity=pull)
    assert np.abs(other[-1].state.positions - other[0].state.positions).max() > 0.01
    for a, b in zip(one, other, strict=True):
        # Rounding of the wind's direction, and of minima that are found from it.
        np.testing.assert_allclose(a.state.positions, b.state.positions, atol=1e-8)


@pytest.mark.parametrize("substeps", [1, 4])
def test_a_body_in_flight_takes_up_the_wind_as_its_flow_says(substeps: int) -> None:
    strength, flow = 5.0, 2.0
    body = steadily(free(substeps=substeps, bounce=0.0), wind(strength, flow=flow), gravity=NOWHERE)
    found = frames(body, 60, gravity=NOWHERE)
    simulation = Simulation(scene(body, gravity=NOWHERE))
    mass = simulation.system_of("Bar").mass
    speed, h = 0.0, 1.0 / (FPS * substeps)
    for frame in found[1:]:
        for _ in range(substeps):
            speed += h * (strength - flow * speed)
        momentum = mass @ frame.state.velocities
        np.testing.assert_allclose(momentum, mass.sum() * speed * X, atol=1e-7 * mass.sum())
    # Its velocity ends at that of the air, strength over flow.
    assert speed == pytest.approx(strength / flow, rel=0.02)
    # An even wind turns nothing.
    centre = mass @ found[-1].state.positions / mass.sum()
    spin = (mass[:, None] * np.cross(found[-1].state.positions - centre, found[-1].state.velocities)).sum(axis=0)
    assert np.abs(spin).max() < 1e-7 * mass.sum()


def test_a_field_that_differs_from_place_to_place_gives_its_momentum_and_its_torque() -> None:
    h, body = 1.0 / FPS, free(bounce=0.0, settle=2.0, stiffness=1e5)
    field = Field(Kind.VORTEX, Shape.POINT, np.array([0.3, 0.2, 0.4]), np.array([0.0, 0.0, 1.0]), 2.0)
    simulation = Simulation(scene(steadily(body, field, gravity=NOWHERE), last=2, gravity=NOWHERE))
    first, second = simulation.frames()
    mass, x = simulation.system_of("Bar").mass, first.state.positions
    force = mass[:, None] * accelerations([field], 1.0, 1.0, x, np.zeros_like(x), h)
    np.testing.assert_allclose(mass @ second.state.velocities, h * force.sum(axis=0), atol=1e-9 * mass.sum())
    centre = mass @ x / mass.sum()
    after, middle = second.state.positions, mass @ second.state.positions / mass.sum()
    # Momenta of displacements are those at their ends (decision 0009).
    spin = (mass[:, None] * np.cross(after - middle, (after - x) / h)).sum(axis=0)
    torque = np.cross(x - centre, force).sum(axis=0)
    assert np.linalg.norm(torque) > 0.1 * mass.sum()
    np.testing.assert_allclose(spin, h * torque, rtol=0.01, atol=1e-3 * h * np.linalg.norm(torque))


def test_a_steady_wind_moves_the_place_of_rest_and_nothing_swings() -> None:
    pull = DOWN + 4.0 * np.array([0.0, 1.0, 0.0])
    blown = frames(steadily(held(), wind(4.0, np.array([0.0, 1.0, 0.0]), flow=1.0)), 20)
    heavy = Simulation(scene(held(), gravity=pull)).first_frame()
    calm = Simulation(scene(held())).first_frame()
    assert np.abs(blown[0].surface - calm.surface).max() > 0.02
    # Single precision of surfaces, and what the static solve stops at.
    np.testing.assert_allclose(blown[0].surface, heavy.surface, atol=1e-6)
    assert max(float(np.abs(frame.surface - blown[0].surface).max()) for frame in blown) < 1e-6
    # It sleeps in the wind.
    assert [frame.iterations for frame in blown[-10:]] == [0] * 10


def test_what_is_carried_through_still_air_hangs_behind_as_its_flow_says() -> None:
    body, speed, flow = held(settle=6.0), 2.0, 3.0
    surface = body.surface.vertices
    flying = replace(body, motion=lambda frame: surface + np.array([0.0, speed * (frame - 1.0) / FPS, 0.0]))
    found = frames(steadily(flying, wind(0.0, flow=flow)), 40)
    behind = found[-1].surface - (flying.motion(40.0) - surface)
    # In the air's frame that is a wind from ahead, of so much.
    expected = Simulation(scene(body, gravity=DOWN - np.array([0.0, speed * flow, 0.0]))).first_frame().surface
    assert np.abs(expected - Simulation(scene(body)).first_frame().surface).max() > 0.02
    np.testing.assert_allclose(behind, expected, atol=1e-5)


def test_what_rests_in_the_wind_sleeps_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[bool] = []
    ask = stepping.asleep
    monkeypatch.setattr(stepping, "asleep", lambda *args: slept.append(ask(*args)) or slept[-1])

    def outside(frame: float) -> Outside:
        return Outside(DOWN, (wind(2.0 if frame < 15 else 2.001, np.array([0.0, 1.0, 0.0]), flow=1.0),))

    frames(within(held(substeps=1, bounce=0.0), outside), 20)
    # Of the steps to frames 2 to 20: three still ones are waited for.
    assert slept[-19:-5] == [False] * 3 + [True] * 10 + [False]


def test_parts_of_a_step_are_pulled_as_the_whole_one() -> None:
    place, pull = np.zeros((2, 3)), np.ones((4, 3))
    assert BlockInputs(place, place + 1.0, None, pull).part(1, 4).pull is pull


def test_where_gravity_weighs_nothing_sag_is_what_it_would_be_with_it() -> None:
    light, heavy = (
        Simulation(scene(held(gravity_weight=part, stiffness_by="SAG"))).young("Bar") for part in (0.0, 1.0)
    )
    assert light == pytest.approx(heavy, rel=1e-2)


def test_a_preroll_ends_in_the_wind_of_the_first_frame() -> None:
    side = wind(4.0, np.array([0.0, 1.0, 0.0]))
    blown = Simulation(scene(steadily(held(), side))).first_frame()
    calmed = Simulation(scene(steadily(held(preroll=80, start_settled=False), side))).first_frame()
    # Bakes are solved to a thousandth of each step.
    np.testing.assert_allclose(calmed.surface, blown.surface, atol=1e-5)


def rest_after(found: list[Frame], end: Frame, number: int) -> int:
    """How many frames after a frame its largest swing falls below a hundredth for good."""
    off = np.array([np.abs(frame.surface - end.surface).max() for frame in found])
    return int(np.flatnonzero(off > 0.01 * off[number - 1 :].max())[-1]) + 2 - number


@pytest.mark.parametrize("flow", [0.0, 1.0])
@pytest.mark.parametrize(("settle", "bounce"), [(24.0, 30.0), (12.0, 0.0), (36.0, 60.0)])
def test_when_the_wind_dies_down_it_rests_as_if_let_go(settle: float, bounce: float, flow: float) -> None:
    number = 20

    def outside(frame: float) -> Outside:
        return Outside(DOWN, (wind(1.5 if frame < number else 0.0, np.array([0.0, 1.0, 0.0]), flow=flow),))

    body = held(settle=settle, bounce=bounce)
    found = frames(within(body, outside), number + 80)
    calm, released = Simulation(scene(body)).first_frame(), Simulation(scene(body)).dials.released(0, body.settings)
    times = np.arange(0.0, 2.0 * settle, 0.05) / FPS
    expected = FPS * times[np.flatnonzero(np.abs(released.released(times)) > 0.01)[-1]]
    # The law that every deflection follows when it is let go; in whole frames.
    assert rest_after(found, calm, number - 1) == pytest.approx(expected, abs=1.5)
    assert rest_after(found, calm, number - 1) <= settle + 1
    np.testing.assert_allclose(found[-1].surface, calm.surface, atol=1e-5)


def weightless_from(number: int) -> Callable[[float], Outside]:
    return lambda frame: Outside(DOWN if frame < number else NOWHERE)


def test_gravity_that_is_switched_off_lets_it_rise_and_what_sleeps_wakes() -> None:
    body = held(settle=6.0)
    found = frames(within(body, weightless_from(40)), 80)
    assert found[30].iterations == 0 < found[39].iterations
    assert same(found[:39], frames(body, 39))
    straight = Simulation(scene(body, gravity=NOWHERE)).first_frame()
    assert np.abs(found[0].surface - straight.surface).max() > 0.01
    # Bakes are solved to a thousandth of each step.
    np.testing.assert_allclose(found[-1].surface, straight.surface, atol=1e-5)
    assert found[-1].iterations == 0


def keyed_gust(frame: float) -> Outside:
    side = np.array([0.0, 1.0, 0.0])
    turbulent = Field(Kind.TURBULENCE, Shape.POINT, np.array([0.1 * frame, 0.0, 0.0]), X, 3.0, size=0.4, noise=1.0)
    return Outside(DOWN * (1.0 if frame < 6 else 0.5), (wind(0.5 * frame, side, flow=1.0, noise=2.0), turbulent))


@pytest.mark.parametrize("number", [5, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 9))])
@pytest.mark.parametrize("kind", ["solid", "net"])
def test_a_shot_gone_on_with_from_any_frame_has_the_same_bytes(kind: str, number: int) -> None:
    body = within(held() if kind == "solid" else net(5, stiffness=1e4), keyed_gust)
    whole = frames(body, 14)
    rest = list(Simulation(scene(body, last=14)).frames(whole[number - 1]))
    assert same(rest, whole[number:])


def test_without_weight_fields_leave_every_byte_as_it_was() -> None:
    blown = within(held(field_weight=0.0), lambda frame: Outside(DOWN, keyed_gust(frame).fields))
    assert same(frames(blown, 8), frames(held(), 8))


@pytest.mark.parametrize("kind", ["solid", "net"])
def test_half_of_gravity_is_as_half_the_gravity(kind: str) -> None:
    one = held() if kind == "solid" else net(5, stiffness=1e4)
    lighter = replace(one, settings=replace(one.settings, gravity_weight=0.5))
    assert same(frames(lighter, 6), frames(one, 6, gravity=0.5 * DOWN))


def test_linked_bodies_feel_each_its_own_weights() -> None:
    left = bar("Left", 0.0, 0.5, True, resolution=50, stiffness=2000.0)
    right = bar("Right", 0.5, 1.0, False, resolution=50, stiffness=2000.0)
    weightless = replace(right, settings=replace(right.settings, gravity_weight=0.0))

    def tip(end: Body) -> float:
        there = scene(left, end, last=2, links=weld("Weld", "Left", "Right", 0.5))
        return float(Simulation(there).first_frame().shapes["Right"][:, 2].min())

    both, one = tip(right), tip(weightless)
    assert both < one - 0.01
    assert one < -1e-4

"""Every mode of cloth, ropes, hair and shells with a visible swing decays as dialled (docs/decisions/0076)."""

from __future__ import annotations

from dataclasses import replace

import hanging_bodies
import numpy as np
import pytest

from animated import AnimatedBody
from builders import DOWN, run_to_end, static_body, wire_cube
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.measure.calibrate import calibrate
from dampsim.core.objective.inertia import retained_parts
from dampsim.core.objective.step_potential import elastic_force_change
from dampsim.core.scene.parameters import BounceBy
from dampsim.core.settle.first_mode import FirstModeLaw, first_mode_law
from dampsim.core.settle.law import Coefficients
from dampsim.core.settle.support_modes import ContactEnvironment
from dampsim.core.settle.waveform import REST_FRACTION
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.steppers.sheet import SheetProblem, SheetStepper
from dampsim.core.system.inputs import Inputs
from dampsim.core.system.state import State
from references import laws
from settle_cases import make_simulation
from shapes import sheet


def slack_law(overshoot: float) -> FirstModeLaw:
    return first_mode_law(1.5, overshoot, 37.0, has_slack_modes=True, counts_from_stop=True)


@pytest.mark.parametrize("overshoot", [0.1, 0.6])
@pytest.mark.parametrize("h", [1 / 24, 1 / 60, 1 / 240])
def test_all_modes_decay_alike(overshoot: float, h: float) -> None:
    """With a visible swing every mode loses the same part per substep, and the first mode follows the law."""
    law = slack_law(overshoot)
    c = law.coefficients(h)
    expected = laws.retained_first_mode(law.decay, law.frequency, law.eigenvalue, h)
    for name, value in expected.items():
        assert getattr(c, name) == pytest.approx(value, rel=1e-12), name
    for ratio in (0.2, 1.0, 4.0, 100.0):
        q = h * c.inertia_time * law.eigenvalue * ratio
        # (1 + q) y'' - (1 + kappa + sigma q) y' + (kappa + sigma q) y = 0 of successive substeps
        roots = np.roots([1.0 + q, -(1.0 + c.kappa + c.sigma * q), c.kappa + c.sigma * q])
        assert np.prod(roots).real == pytest.approx(np.exp(-2.0 * law.decay * h), rel=1e-12)
        if ratio == 1.0:
            assert np.abs(roots - np.exp((-law.decay + 1j * law.frequency) * h)).min() < 1e-12


def test_invisible_swing_retains_nothing() -> None:
    """Without a visible swing, with painted Settle and in bodies kept by elasticity the coefficients are as before."""
    for law in (
        slack_law(0.0),
        slack_law(0.005),
        replace(slack_law(0.3), settle_scale=np.array([0.5])),
        replace(slack_law(0.3), has_slack_modes=False),
        replace(slack_law(0.3), can_snap_taut=True),
    ):
        assert law.coefficients(0.02).sigma == 0.0


def test_stiff_motion_retains_less() -> None:
    """The retained force change is limited where the step does not resolve the motion; kappa then replaces it."""
    mass, s, sigma, q = np.array([2.0, 3.0]), 0.1, 0.9, 0.1
    coefficients = Coefficients(0.9, s, sigma=sigma, first_mode_stiffness_ratio=q)
    velocity = np.array([[1.0, 0.0, 2.0], [0.0, -1.0, 0.0]])
    inertial = mass[:, None] / s * velocity

    def parts(kappa: float, speed: float, change: float) -> tuple[float, float]:
        # Beside it, a region that retains all of its change.
        own = [replace(coefficients, kappa=kappa), coefficients]
        vectors = np.array([speed * velocity, velocity]), np.array([change * inertial, inertial])
        sigmas, kappas = retained_parts(own, np.array([mass, mass]), *vectors)
        assert (sigmas[1], kappas[1]) == (sigma, 0.9)
        return float(sigmas[0]), float(kappas[0])

    assert parts(0.9, 1.0, 2.97) == pytest.approx((sigma, 0.9))
    assert parts(0.9, 1.0, 6.0) == pytest.approx((sigma / 4, 0.9 + 0.675 * q))
    assert parts(0.95, 1.0, 1e3)[1] == 1.0
    # A shorter Settle that was just keyed makes the motion faster.
    assert parts(1.3, 1.0, 1e3)[1] == 1.3
    assert parts(0.9, 0.0, 0.0) == pytest.approx((sigma, 0.9))


def standing_card(**dials: object) -> AnimatedBody:
    """Return a stiff sheet that stands on its lower edge."""
    flat = sheet(6)
    x, y, z = (0.6 * flat.vertices).T
    pins = (flat.vertices[:, 0] < 0.3).astype(float)
    material = {"stiffness": 2e5, "thickness": 3.0, "density": 300.0, "bending": 300.0}
    surface = Surface("Card", np.stack([y, z, x], 1), flat.triangles)
    return static_body(surface, pins, kind="CLOTH", **{**material, **dials})  # type: ignore[return-value]


def start_of(body: AnimatedBody) -> tuple[Simulation, State, Inputs]:
    simulation = make_simulation(body, 24.0, 2, DOWN)
    inputs = simulation.pose_evaluator.stationary_inputs(simulation.islands[0], simulation.sample_frame(1).samples[-1])
    return simulation, simulation.first_frame().state, inputs


@pytest.mark.parametrize("case", ["held", "free", "touched"])
def test_free_and_touched_retain_nothing(case: str) -> None:
    """Free pieces, whose momenta are physical, and touched ones keep no change of the elastic force."""
    body = standing_card(settle=24.0, bounce=30.0, bounce_by=BounceBy.DIALLED)
    if case == "free":
        body = replace(body, pins=np.zeros(len(body.surface.vertices)))
    simulation, state, inputs = start_of(body)
    (island,), (controls,) = simulation.islands, simulation.controls()
    environment = ContactEnvironment(touched_regions=frozenset({0} if case == "touched" else ()))
    h = 1.0 / 24.0
    problem = SheetProblem(SheetStepper(island.system), state, inputs, h, controls, environment=environment)
    law = controls.laws[0]
    expected = law.coefficients(h) if case == "held" else law.fallback_coefficients(h)
    assert problem._coefficients == [expected]
    assert bool(np.any(expected.sigma > 0.0)) == (case == "held")


def test_slack_sheet_retains_nothing() -> None:
    """Slack sheets and nets, whose stress may vanish within a step, retain no force; stiff sheets and ropes do."""
    corners = (hanging_bodies.flag(6).surface.vertices[:, [0, 2]] == [[0.0, 0.0]]).all(axis=1)
    dials = {"settle": 24.0, "bounce": 30.0, "bounce_by": BounceBy.DIALLED}
    for body, can_retain in (
        (hanging_bodies.flag(6, pins=corners.astype(float), **dials), False),
        (hanging_bodies.flag(6, **dials), False),
        (standing_card(**dials), True),
        (hanging_bodies.rope(6, **dials), True),
        (wire_cube(**dials), False),
    ):
        (law,) = make_simulation(body, 24.0, 2, DOWN).controls()[0].laws
        assert bool(np.any(law.coefficients(1.0 / 24.0).sigma)) == can_retain


def test_force_change_matches_gradient() -> None:
    """The force change is that of the scaled energies between both shapes; gravity does not change."""
    simulation, state, inputs = start_of(standing_card())
    (system,) = (island.system for island in simulation.islands)
    ways = 1e-3 * np.random.default_rng(3).standard_normal(state.positions.shape)
    change = elastic_force_change(system, state, inputs, np.array([2.0]), ways)
    terms = [(energy.value_gradient(state.positions)[1], energy.value_gradient(state.positions - ways)[1])
             for _, _, energy in system.active_energies(state, inputs)]  # fmt: skip
    assert len(terms) > 0
    np.testing.assert_allclose(change, 2.0 * sum(now - before for now, before in terms), rtol=1e-9, atol=1e-12)


def rest_after_release(body: AnimatedBody, way: np.ndarray) -> float:
    """Return the frames until rest after a release from a pull in m/s^2, counted from the stop that the law assumes.

    Every substep is simulated as a frame, since swings fall between frames.
    """
    count = make_simulation(body, 24.0, 2, DOWN).substeps(body.name, body.settings).count
    settle, fps = count * body.settings.settle, 24.0 * count
    body = replace(body, settings=replace(body.settings, settle=settle, substeps=1))
    pulled = make_simulation(body, fps, 2, DOWN + way).first_frame().state
    simulation = make_simulation(body, fps, int(1.5 * settle), DOWN)
    frames = simulation.frames(replace(simulation.first_frame(), state=State.at_rest(pulled.positions)))
    course = np.array([pulled.positions, *(one.state.positions for one in frames)])
    distance = np.linalg.norm(course - course[-1], axis=2).max(axis=1)
    last = int(np.flatnonzero(distance > REST_FRACTION * distance.max())[-1])
    return last / count + simulation.dials.release_law(0, body.settings).time_to_peak * 24.0


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("make", "pull"),
    [
        (standing_card, (0.0, 100.0, 0.0)),
        pytest.param(hanging_bodies.tail, (0.0, 3.0, 1.0), marks=pytest.mark.slow),
    ],
)
def test_bouncing_cloth_rests_on_time(make, pull: tuple[float, float, float]) -> None:  # type: ignore[no-untyped-def]
    """Cards and tails that bounce by 60% rest at Settle; without the retained force after 11.6 of 20 frames."""
    body = make(settle=20.0, bounce=60.0, bounce_by=BounceBy.DIALLED)
    assert rest_after_release(body, np.array(pull)) == pytest.approx(20.0, abs=1.0)


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.parametrize("make", [standing_card, hanging_bodies.tail])
def test_calibrate_keeps_bouncing_cloth(make) -> None:  # type: ignore[no-untyped-def]
    """Calibrate corrects nothing in cards and tails that bounce. Before, five trials ended at 16.9 of 20 frames."""
    body = make(settle=20.0, bounce=60.0, bounce_by=BounceBy.DIALLED)
    found = run_to_end(calibrate(make_simulation(body, 24.0, 2, DOWN), body.name, 0.1))
    assert found.before.rest == pytest.approx(20.0, abs=1.0)
    assert found.correction == pytest.approx(1.0, abs=0.05)

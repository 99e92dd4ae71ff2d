"""Settle laws and the terms of a substep equal references/laws.py.

Equations are those of docs/explanation/physics/02-settle-law.md.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.special import jn_zeros

from builders import bar as bar_of
from builders import scene, static_body
from damping_cases import assert_close, spring_chain
from dampsim.core.geometry.mesh.rigid_motion import rigid_mode_basis
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.literature.papers.compare import bar
from dampsim.core.materials.loads_and_springs import spring_energy
from dampsim.core.objective.inertia import first_mode_inertia, first_mode_inertias, region_motions
from dampsim.core.objective.reference_motion import StepContext, region_slices
from dampsim.core.objective.step_problem import StepProblem
from dampsim.core.settle.controls import Controls, SettleLawFactory, choose_substeps
from dampsim.core.settle.first_mode import FirstModeLaw, first_mode_law
from dampsim.core.settle.geometric_stiffness import with_minimum_eigenvalues
from dampsim.core.settle.law import BackwardEulerLaw, Coefficients, TauKappaLaw
from dampsim.core.settle.waveform import WaveformLaw, settle_law
from dampsim.core.simulation.dials import law_for_settings
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.objective import Outcome
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.system.discretization import BodyDiscretization
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import State
from dampsim.core.system.system import assemble_system, build_system
from dampsim.core.system.term import Potential
from references import laws


def coefficient_values(found: Coefficients) -> dict[str, np.ndarray]:
    # Only parts have an offset, see test_parts.py, and only the first law has a lag, see test_release_of_cloth.py.
    # Only dials that change have a dial change, see test_keyed_dials.py.
    assert found.follow_through_offset == found.force_lag == found.dial_change == 0.0
    others = ("is_waveform", "follow_through_offset", "force_lag", "dial_change")
    return {one.name: np.asarray(getattr(found, one.name)) for one in fields(found) if one.name not in others}


@pytest.mark.parametrize("frequency", [0.0, 3.0, 30.0])
@pytest.mark.parametrize("whip", [1.05, 1.8])
@pytest.mark.parametrize("h", [1 / 24, 1 / 300])
def test_waveform_coefficients_match_formulas(frequency: float, whip: float, h: float) -> None:
    """Coefficients and fallback coefficients of the waveform law match the formulas, also with a settle scale."""
    a, lam = 4.0, 250.0
    law = WaveformLaw(a, frequency, lam, high_mode_frequency_ratio=whip)
    for found, formula in ((law.coefficients(h), laws.waveform), (law.fallback_coefficients(h), laws.fallback)):
        wanted = formula(a, frequency, whip, lam, h)
        for name, value in coefficient_values(found).items():
            # 1 - B/B_inf cancels for stiff modes that swing hardly faster.
            assert float(value) == pytest.approx(wanted[name], rel=1e-9, abs=1e-13), name
    for t in (-h, 0.0, 0.1, 1.0):
        assert law.release_response(t) == pytest.approx(laws.release_response(a, frequency, t), rel=1e-12)
    # A settle scale below 1 gives a correspondingly faster law.
    parts = np.array([1.0, 0.5, 0.2])
    painted = replace(law, settle_scale=parts)
    for name, formula in (("coefficients", laws.waveform), ("fallback_coefficients", laws.fallback)):
        calm = name == "fallback_coefficients" and frequency * h / parts.min() > np.pi / 5
        for key, values in coefficient_values(getattr(painted, name)(h)).items():
            # One node whose phase is too large switches all nodes to fallback damping.
            each = [
                formula(
                    a / p,
                    0.0 if calm and key in ("kappa", "inertia_time", "first_mode_stiffness_ratio") else frequency / p,
                    whip,
                    lam,
                    h,
                )[key]
                for p in parts
            ]
            np.testing.assert_allclose(np.broadcast_to(values, 3), each, rtol=1e-9, atol=1e-13, err_msg=key)


@pytest.mark.parametrize("frequency", [0.0, 3.0, 12.0])
def test_first_mode_coefficients_match_formulas(frequency: float) -> None:
    a, lam, h = 4.0, 250.0, 1 / 30
    law = FirstModeLaw(a, frequency, lam)
    wanted = laws.first_mode(a, frequency, lam, h)
    assert law.coefficients(h).kappa == pytest.approx(wanted["kappa"], rel=1e-12)
    assert law.coefficients(h).inertia_time == pytest.approx(wanted["inertia_time"], rel=1e-12)
    fast = laws.first_mode(a / 0.5, frequency / 0.5, lam, h)
    painted = replace(law, settle_scale=np.array([0.5])).coefficients(h)
    assert float(np.ravel(painted.kappa)[0]) == pytest.approx(fast["kappa"], rel=1e-12)
    assert float(np.ravel(painted.inertia_time)[0]) == pytest.approx(fast["inertia_time"], rel=1e-12)


@pytest.mark.parametrize("phi", [0.0, 0.35, 1.0])
@pytest.mark.parametrize("painted", [False, True])
def test_first_mode_inertia_matches_dense_operators(phi: float, painted: bool) -> None:
    """A bar on one pin, about which it may swing: (2.3) to (2.8) with full matrices, for any motion of the pin."""
    rng = np.random.default_rng(6)
    plain = bar((2, 1, 1), clamped=False)
    block = plain.blocks[0]
    gravity = np.array([1.0, 2.0, -9.0])
    system = build_system(
        block.rest, block.groups[0], block.mass, block.energies, gravity, np.array([0]), np.array([np.inf])
    )
    (region,) = system.regions
    assert region.rigid_modes == 3
    x = system.rest + 0.02 * rng.standard_normal(system.rest.shape)
    v, reference = rng.standard_normal(x.shape), 0.3 * rng.standard_normal(x.shape)
    h, shift = 0.02, np.array([0.01, -0.02, 0.03])
    inputs = (BlockInputs(x[[0]], x[[0]] + shift),)
    state = State(0.0, x, v, reference)
    s: float | np.ndarray = rng.uniform(0.1, 0.4, len(region.free)) if painted else 0.3
    terms = first_mode_inertia(
        StepContext.create(system, state, inputs, h),
        region,
        region_slices(system, region),
        Coefficients(0.6, s),
        np.array([phi]),
    )
    free, mass = region.free, system.mass[region.free]
    # One pin leaves the rotation undetermined: the reference motion is a translation.
    c = np.tile(shift / h, (len(free), 1))
    u = v[free] - c + c - reference[free]
    arms = x[free] - x[0]
    fields_here = laws.rotation_fields(arms)
    inner = u - (laws.projection(fields_here, mass) @ u.ravel()).reshape(-1, 3)
    Q = laws.coasting_rotation(arms, mass, (mass[:, None] * np.cross(arms, u)).sum(axis=0), h)
    assert_close(terms.predicted_velocity, c + arms @ (Q - np.eye(3)).T / h + 0.6 * inner @ Q.T, 1e-9)
    assert_close(terms.reference_velocity, c)
    ahead = x[free] + h * c + arms @ (Q - np.eye(3)).T - (x[0] + shift)
    swings = laws.rotation_fields(ahead)
    P = laws.projection(swings, mass)
    push = (mass[:, None] * (c - reference[free]) / h).ravel()
    load = (mass[:, None] * gravity).ravel() - phi * push - (1 - phi) * P.T @ push
    assert_close(terms.load.ravel(), load, 1e-9)
    Y = terms.columns.reshape(3 * len(free), -1)
    operator = np.diag(terms.inertia.repeat(3)) + Y @ np.diag(terms.signs) @ Y.T
    assert_close(operator, laws.inertia(swings, mass, np.broadcast_to(s, len(free)), h), 1e-9)
    R = rigid_mode_basis(ahead, np.zeros((1, 3)), mass).reshape(3 * len(free), -1)
    assert_close(R @ R.T * mass.repeat(3), P, 1e-9)


@pytest.mark.parametrize("phi", [0.0, 0.35, 1.0])
@pytest.mark.parametrize("frequency", [0.0, 6.0])
@pytest.mark.parametrize("turns", [False, True])
def test_waveform_substep_gradient_matches_formula(phi: float, frequency: float, turns: bool) -> None:
    """A clamped bar: the gradient of (2.24) with (2.34) to (2.36) and, in the first substep, (2.38)."""
    rng = np.random.default_rng(7)
    plain = bar((2, 1, 1))
    system = replace(plain, gravity=np.array([1.0, 2.0, -9.0]))
    (energy,) = system.blocks[0].energies
    free, h, e, lam = np.flatnonzero(~system.is_fixed), 0.02, 1.7, system.regions[0].eigenvalue
    mass = system.mass[free][:, None]
    law = WaveformLaw(5.0, frequency, lam)
    k = laws.waveform(5.0, frequency, 1.05, lam, h)
    stepper, controls = Stepper(system), Controls((law,), phi, 1e-12, e)
    x = system.rest.copy()
    x[free] += 0.01 * rng.standard_normal((len(free), 3))
    place = system.rest[system.pinned]
    state = State(0.0, x, np.zeros_like(x), np.zeros_like(x))
    own = rate = np.zeros((len(free), 3))
    turned, moved, reference = np.eye(3), np.zeros(3), np.zeros((len(free), 3))
    for step in range(3):
        angle = 0.1 * (step + 1) if turns else 0.0
        turn = Rotation.from_rotvec(angle * np.array([0.48, -0.6, 0.64])).as_matrix()
        shift = rng.standard_normal(3) * 0.02
        end = place @ turn.T + shift
        inputs = (BlockInputs(place, end),)
        home = system.rest[free] @ turned.T + moved
        c_home, c = (home @ turn.T + shift - home) / h, (x[free] @ turn.T + shift - x[free]) / h
        wide = (angle / 2 / np.sin(angle / 2)) ** 2 if angle else 1.0
        A = wide * (c_home - reference) @ turn.T / h
        g = e * energy.value_gradient(x)[1][free]
        dead = (1 - k["theta"]) * g - k["sigma"] * h * rate
        if step == 0:
            dead = (1 - k["theta"]) * g - k["sigma"] * k["initial_force_change"] * (g - mass * system.gravity)
        ahead = x[free] + h * c
        predicted = (ahead - x[free]) / h + k["kappa"] * own @ turn.T
        problem = StepProblem(stepper, state, inputs, h, controls)
        for _ in range(2):
            v = rng.standard_normal((len(free), 3))
            y = x.copy()
            y[system.pinned], y[free] = end, x[free] + h * v
            there = k["theta"] * e * energy.value_gradient(y)[1][free]
            load = mass * (system.gravity - phi * k["reference_inertia_ratio"] * A)
            slope = mass / k["inertia_time"] * (v - predicted) + there + dead @ turn.T - load
            assert_close(problem.value_gradient(v)[1], slope, 1e-9)
        state, report = stepper.step(state, inputs, h, controls)
        assert report.outcome is Outcome.CONVERGED
        assert_close(state.reference[free], c_home, 1e-9)
        assert_close(state.reference[system.pinned], (end - place) / h, 1e-9)
        own = (state.positions[free] - ahead) / h
        rate = (e * energy.value_gradient(state.positions)[1][free] - g @ turn.T) / h
        x, place, reference = state.positions, end, c_home
        turned, moved = turn @ turned, turn @ moved + shift


@pytest.mark.parametrize("dialled", [settle_law, first_mode_law])
@pytest.mark.parametrize("overshoot", [0.1, 0.3, 0.6, 0.85])
def test_substep_count_limits_first_mode_phase(dialled: SettleLawFactory, overshoot: float) -> None:
    """As few substeps as keep the phase below pi/6, (2.18). Where 20 exceed pi/5, the overshoot is reduced."""
    for settle in (0.1, 0.3, 1.0, 3.0):
        turned = dialled(settle, overshoot, 1.0).frequency / 24
        found = choose_substeps(settle, overshoot, 1 / 24, 2, dialled)
        assert found.is_limited == (turned / 20 > np.pi / 5)
        if found.is_limited:
            at, beyond = (dialled(settle, found.overshoot + more, 1.0).frequency / 24 / 20 for more in (0.0, 1e-6))
            # The law adjusts some overshoots, so that its frequency jumps there.
            assert at <= np.pi / 5 * (1 + 1e-9)
            assert beyond > np.pi / 5
        else:
            assert found.count == min(max(2, int(np.ceil(turned / (np.pi / 6)))), 20)

    def exact(settle: float, overshoot: float, eigenvalue: float) -> FirstModeLaw:
        return FirstModeLaw(1.0, 24.0 * 3.0 * np.pi / 6.0, eigenvalue)

    # Rounding does not raise an integer number of substeps by one.
    assert choose_substeps(1.0, 0.3, 1 / 24, 1, exact).count == 3


def test_constant_laws_return_their_coefficients() -> None:
    found = TauKappaLaw(0.3, 0.2).coefficients(0.01)
    assert (found.kappa, found.inertia_time, found.theta, found.sigma, found.reference_inertia_ratio) == (
        0.3,
        0.2,
        1.0,
        0.0,
        1.0,
    )
    plain = BackwardEulerLaw().coefficients(0.01)
    assert (plain.kappa, plain.inertia_time) == (1.0, 0.01)
    assert plain.is_backward_euler(0.01)
    assert not found.is_backward_euler(0.01)


def test_backward_euler_needs_both_coefficients() -> None:
    """Only kappa = 1 with s = h, at all nodes, is backward Euler."""
    h = 0.01
    assert Coefficients(1.0, h).is_backward_euler(h)
    assert not Coefficients(1.0, 2.0 * h).is_backward_euler(h)
    assert not Coefficients(0.5, h).is_backward_euler(h)
    assert not Coefficients(np.array([1.0, 0.5]), h).is_backward_euler(h)
    assert not Coefficients(1.0, h, is_waveform=True).is_backward_euler(h)


def test_net_eigenvalue_has_chain_minimum() -> None:
    """The eigenvalue of a net is at least that of a hanging chain, (2.22): (j/2)^2 g/L with the first zero j of J_0."""
    x, edges, lengths, W = spring_chain()
    low, high = float(x[1:, 2].min()), float(x[0, 2])
    fixed = np.array([0]), np.array([np.inf])
    terms = (Potential(spring_energy(edges, lengths, W / lengths)),)
    for gravity, pull in ((np.array([0.0, 0.0, -4.0]), 4.0), (np.zeros(3), 9.81)):
        for net in (True, False):
            block = BodyDiscretization("Net", x, np.ones(5), (edges,), terms, *fixed, is_net=net)
            system = assemble_system((block,), gravity, None, has_eigenvalues=False)
            length = high - low if gravity.any() else float(np.abs(x[1:] - x[0]).max())
            slowest = (jn_zeros(0, 1)[0] / 2.0) ** 2 * pull / length
            for own in (0.3, 100.0):
                known = replace(system, regions=(replace(system.regions[0], eigenvalue=own),))
                # The stiffness factor scales the elastic eigenvalue only.
                (region,) = with_minimum_eigenvalues(known, np.array([2.0]))
                wanted = max(slowest, 2.0 * own) if net else 2.0 * own
                # The chain's constant has four digits.
                assert region.effective_eigenvalue(2.0 * own) == pytest.approx(wanted, rel=2e-4)


def test_settle_time_from_frames_and_rate() -> None:
    """T = N x calibration/f, for the law and for its number of substeps."""
    for fps in (24.0, 60.0):
        body = bar_of("Bar", 0.0, 1.0, True, settle=5.0, bounce=60.0, calibration=1.3, substeps=1, resolution=100)
        settings, settle = body.settings, 5.0 * 1.3 / fps
        found = Simulation(scene(body, fps=fps)).substeps("Bar", settings)
        wanted = choose_substeps(settle, 0.6, 1.0 / fps, 1)
        assert (found.count, found.overshoot) == (wanted.count, wanted.overshoot)
        assert wanted.count > 1
        law = law_for_settings(settings, wanted.overshoot, 1.0 / fps, 50.0, False)
        assert law == replace(settle_law(settle, wanted.overshoot, 50.0), high_mode_frequency_ratio=settings.whip)
        assert law_for_settings(settings, 0.6, 1.0 / fps, 50.0, True) == first_mode_law(
            settle, 0.6, 50.0, True, counts_from_stop=True
        )


def test_inertia_of_many_regions_at_once() -> None:
    """Strands of two lengths with their own laws and moving pins, all at once and one by one."""
    rng = np.random.default_rng(3)
    lengths, points, edges, pins = (5, 6, 5, 6), [], [], []
    for length in lengths:
        first = sum(map(len, points))
        points.append(rng.standard_normal((length, 3)))
        edges += [(first + k, first + k + 1) for k in range(length - 1)]
        pins += [1.0, 1.0, *(length - 2) * [0.0]]
    surface = Surface("Hair", np.concatenate(points), np.zeros((0, 3), dtype=np.int64))
    simulation = Simulation(scene(static_body(surface, np.array(pins), kind="ROPE", edges=np.array(edges)), last=2))
    (island,) = simulation.islands
    system, x = island.system, island.system.rest + 0.1 * rng.standard_normal(island.system.rest.shape)
    assert len(system.regions) == len(lengths)
    (still,) = simulation.pose_evaluator.stationary_inputs(island, simulation.sample_frame(1).samples[-1])
    # The pins of the first strand rest.
    shift = 0.1 * rng.standard_normal(still.end.shape)
    shift[:2] = 0.0
    state = State(0.0, x, rng.standard_normal(x.shape), rng.standard_normal(x.shape))
    context = StepContext.create(system, state, (replace(still, end=still.end + shift),), 0.02)
    slices = [region_slices(system, region) for region in system.regions]
    coefficients = [Coefficients(0.3 + 0.1 * k, 0.1 + 0.05 * k) for k in range(4)]
    phi = np.array([0.4])
    found = first_mode_inertias(
        context, system.regions, slices, coefficients, phi, region_motions(context, system.regions, slices)
    )
    for region, own, each, terms in zip(system.regions, slices, coefficients, found, strict=True):
        alone = first_mode_inertia(context, region, own, each, phi)
        for name in ("reference_velocity", "predicted_velocity", "load", "inertia", "rotation", "deformation_velocity"):
            assert_close(getattr(terms, name), getattr(alone, name))
        assert terms.columns.shape == alone.columns.shape == (len(region.free), 3, 0)

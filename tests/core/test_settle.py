"""Mathematics of Settle: from frames and overshoot to coefficients (docs/explanation/physics/02-settle-law.md)."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.settle.controls import MAX_PHASE, MAX_SUBSTEPS, TARGET_PHASE, SettleLawFactory, choose_substeps
from dampsim.core.settle.first_mode import first_mode_law
from dampsim.core.settle.waveform import REST_FRACTION, WaveformLaw, settle_law, visible_swings

OVERSHOOTS = [0.0, 0.05, 0.1, 0.3, 0.6, 0.85]
EIGENVALUE_RATIOS = np.geomspace(1.0, 1e7, 60)


@pytest.mark.parametrize("overshoot", OVERSHOOTS)
@pytest.mark.parametrize("dialled", [settle_law, first_mode_law])
def test_release_rests_at_settle_time(dialled: SettleLawFactory, overshoot: float) -> None:
    """The continuous release response falls below the rest threshold at the settle time, counted from its peak."""
    law = dialled(2.0, overshoot, 100.0)
    times = np.linspace(law.time_to_peak, 6.0, 60001)
    above = times[np.abs(law.release_response(times - law.time_to_peak)) > REST_FRACTION]
    assert above[-1] == pytest.approx(2.0, abs=2e-4)  # Twice the spacing of the times.


def stop_response(law: WaveformLaw, times: np.ndarray) -> np.ndarray:
    """Return e^{-at} sin wt, or e^{-at} - e^{-2at}: the response to an initial velocity without deflection."""
    if law.frequency == 0.0:
        return np.exp(-law.decay * times) - np.exp(-2.0 * law.decay * times)
    return np.exp(-law.decay * times) * np.sin(law.frequency * times)


@pytest.mark.parametrize("overshoot", OVERSHOOTS)
def test_stop_rests_at_settle_time(overshoot: float) -> None:
    """A stop rests at the settle time, and a release earlier by the time to the peak."""
    law = settle_law(2.0, overshoot, 100.0)
    times = np.linspace(0.0, 6.0, 60001)
    swing = np.abs(stop_response(law, times))
    assert times[swing > REST_FRACTION * swing.max()][-1] == pytest.approx(2.0, abs=2e-4)
    assert times[swing.argmax()] == pytest.approx(law.time_to_peak, abs=2e-4)
    # The docs state 0.8 to 1; the minimum is at overshoots of a few percent.
    assert 0.8 <= (2.0 - law.time_to_peak) / 2.0 < 1.0


@pytest.mark.parametrize("overshoot", OVERSHOOTS)
@pytest.mark.parametrize(("dialled", "moved"), [(settle_law, 0.014), (first_mode_law, 0.0041)])
def test_release_overshoot_matches_bounce(dialled: SettleLawFactory, moved: float, overshoot: float) -> None:
    law = dialled(2.0, overshoot, 100.0)
    lowest = np.min(law.release_response(np.linspace(0.0, 2.0, 20001)))
    # The law moves the overshoot by this much to keep the last swing off the threshold.
    assert -min(lowest, 0.0) == pytest.approx(overshoot, abs=moved)


@pytest.mark.parametrize("overshoot", OVERSHOOTS)
@pytest.mark.parametrize("h", [1 / 24, 1 / 60, 1 / 240])
def test_first_mode_step_has_exact_roots(overshoot: float, h: float) -> None:
    """The characteristic roots of a step equal those of the continuous first-mode law."""
    law = first_mode_law(1.5, overshoot, 37.0)
    c = law.coefficients(h)
    q = c.inertia_time * h * 37.0
    roots = np.roots([1.0 + q, -(1.0 + c.kappa), c.kappa])
    meant = np.exp((-law.decay + 1j * law.frequency) * h)
    assert np.abs(roots - meant).min() < 1e-12


class Oscillator:
    """One mode of eigenvalue l and mass 1, whose substeps minimise

    (v - kappa u)^2/(2 s) + theta/h l y(v)^2/2 + ((1 - theta) g - sigma h g') v - L v,   y(v) = y + h v,  g = l y

    It is written from docs/explanation/physics/02-settle-law.md, independently of the code of the step.
    """

    def __init__(self, law: WaveformLaw, h: float, stiffness: float, y: float = 0.0) -> None:
        self.c, self.h, self.l, self.y, self.u = law.coefficients(h), h, stiffness, y, 0.0
        self.rate = float(self.c.initial_force_change) * stiffness * y / h

    def step(self, load: float = 0.0) -> float:
        c, h, g = self.c, self.h, self.l * self.y
        dead = (1.0 - c.theta) * g - c.sigma * h * self.rate
        v = (c.kappa * self.u / c.inertia_time + load - dead - c.theta * self.l * self.y) / (
            1.0 / c.inertia_time + c.theta * h * self.l
        )
        before, self.y, self.u = g, self.y + h * v, v
        self.rate = (self.l * self.y - before) / h
        return float(self.y)


@pytest.fixture(params=[(o, h) for o in OVERSHOOTS for h in (1 / 12, 1 / 24, 1 / 240)], ids=str)
def law_and_step(request: pytest.FixtureRequest) -> tuple[WaveformLaw, float]:
    overshoot, h = request.param
    return settle_law(1.5, overshoot, 37.0), h / choose_substeps(1.5, overshoot, h, 1).count


def test_first_mode_release_is_exact(law_and_step: tuple[WaveformLaw, float]) -> None:
    """Substeps of the first mode sample the release response exactly."""
    law, h = law_and_step
    mode = Oscillator(law, h, law.eigenvalue, 1.0)
    found = [mode.step() for _ in range(40)]
    np.testing.assert_allclose(found, law.release_response(h * np.arange(1, 41)), atol=1e-12)


def test_first_mode_stop_is_exact(law_and_step: tuple[WaveformLaw, float]) -> None:
    """Substeps of the first mode sample the response to a stop exactly."""
    law, h = law_and_step
    mode, speed = Oscillator(law, h, law.eigenvalue), 3.0
    # The reference motion stops within one substep; the inertial load on the deformation is -m_s A.
    found = [
        mode.step(float(law.coefficients(h).reference_inertia_ratio) * speed / h),
        *(mode.step() for _ in range(39)),
    ]
    times = h * np.arange(1, 41)
    kick = law.frequency if law.frequency else law.decay
    np.testing.assert_allclose(found, speed * stop_response(law, times) / kick, atol=1e-12)


def test_higher_modes_decay_and_frequency(
    law_and_step: tuple[WaveformLaw, float],
) -> None:
    """All modes have the dialled decay, and their frequency exceeds the first one at most by the Whip ratio."""
    law, h = law_and_step
    c = law.coefficients(h)
    for ratio in EIGENVALUE_RATIOS:
        q = h * c.inertia_time * law.eigenvalue * ratio
        A, B = (c.kappa + c.sigma * q) / (1.0 + c.theta * q), q / (1.0 + c.theta * q)
        roots = np.roots([1.0, -(1.0 + A - B), A])
        if law.frequency == 0.0:
            # All roots are real, and the slowest decay is the dialled one.
            assert np.abs(roots.imag).max() < 1e-7
            assert np.abs(roots).max() == pytest.approx(np.exp(-law.decay * h), abs=1e-9)
            assert roots.real.min() > 0.0
        else:
            np.testing.assert_allclose(np.abs(roots), np.exp(-law.decay * h), atol=1e-9)
            assert law.frequency * h * (1 - 1e-9) <= np.abs(np.angle(roots)).max() <= 1.0501 * law.frequency * h + 1e-6


def test_static_response_is_independent_of_dials(law_and_step: tuple[WaveformLaw, float]) -> None:
    law, h = law_and_step
    mode = Oscillator(law, h, 5.0 * law.eigenvalue)
    for _ in range(int(8.0 * 1.5 / h)):
        mode.step(2.0)
    assert mode.y == pytest.approx(2.0 / mode.l, rel=1e-9)


@pytest.mark.parametrize("painted", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("overshoot", [0.0, 0.3])
def test_settle_scale_equals_shorter_settle(painted: float, overshoot: float) -> None:
    h = 1 / 96
    law = settle_law(1.5, overshoot, 37.0)
    part = WaveformLaw(law.decay, law.frequency, law.eigenvalue, settle_scale=np.array([painted])).coefficients(h)
    meant = settle_law(1.5 * painted, overshoot, 37.0).coefficients(h)
    for name in (
        "kappa",
        "inertia_time",
        "theta",
        "sigma",
        "reference_inertia_ratio",
        "initial_force_change",
        "decay_rate",
    ):
        np.testing.assert_allclose(getattr(part, name), getattr(meant, name), rtol=1e-9)


def test_visible_swings_above_threshold() -> None:
    assert [visible_swings(o) for o in (0.0, 0.005, 0.05, 0.3, 0.6)] == [0, 0, 1, 3, 9]


@pytest.mark.parametrize("dialled", [settle_law, first_mode_law])
def test_substeps_limit_phase_or_overshoot(dialled: SettleLawFactory) -> None:
    """Substeps limit the phase per substep; at their maximum number the overshoot is reduced."""
    enough = choose_substeps(1.0, 0.6, 1 / 24, 1, dialled)
    assert not enough.is_limited
    assert dialled(1.0, enough.overshoot, 1.0).frequency / 24 / enough.count <= TARGET_PHASE + 1e-9
    limited = choose_substeps(2 / 24, 0.89, 1 / 24, 1, dialled)
    assert limited.is_limited
    assert limited.count == MAX_SUBSTEPS
    assert dialled(2 / 24, limited.overshoot, 1.0).frequency / 24 / limited.count <= MAX_PHASE * (1 + 1e-6)
    assert choose_substeps(1.0, 0.0, 1 / 24, 5, dialled).count == 5

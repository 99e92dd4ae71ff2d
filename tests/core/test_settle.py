"""The dial's own mathematics: frames and overshoot to the step's coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.stepping.law import (
    GOOD_PHASE,
    MAX_PHASE,
    MAX_SUBSTEPS,
    REST_FRACTION,
    choose_substeps,
    settle_law,
    visible_swings,
)

OVERSHOOTS = [0.0, 0.05, 0.1, 0.3, 0.6, 0.85]


@pytest.mark.parametrize("overshoot", OVERSHOOTS)
def test_the_continuous_law_is_at_rest_at_the_dialled_time(overshoot: float) -> None:
    law = settle_law(2.0, overshoot, 100.0)
    times = np.linspace(0.0, 6.0, 60001)
    above = times[np.abs(law.released(times)) > REST_FRACTION]
    assert above[-1] == pytest.approx(2.0, abs=2e-4)  # The grid's spacing, twice.


@pytest.mark.parametrize("overshoot", OVERSHOOTS)
def test_the_continuous_law_swings_as_far_as_dialled(overshoot: float) -> None:
    law = settle_law(2.0, overshoot, 100.0)
    lowest = law.released(np.linspace(0.0, 2.0, 20001)).min()
    # Up to 0.3 points of it keep the last swing clear of the threshold.
    assert -min(lowest, 0.0) == pytest.approx(overshoot, abs=0.003)


@pytest.mark.parametrize("overshoot", OVERSHOOTS)
@pytest.mark.parametrize("h", [1 / 24, 1 / 60, 1 / 240])
def test_the_step_has_exactly_the_laws_roots(overshoot: float, h: float) -> None:
    law = settle_law(1.5, overshoot, 37.0)
    c = law.coefficients(h)
    q = c.s * h * 37.0
    roots = np.roots([1.0 + q, -(1.0 + c.kappa), c.kappa])
    meant = np.exp((-law.decay + 1j * law.frequency) * h)
    assert np.abs(roots - meant).min() < 1e-12


@pytest.mark.parametrize("settle", [0.25, 1.0, 4.0])
def test_higher_modes_never_outlive_the_first(settle: float) -> None:
    law = settle_law(settle, 0.6, 10.0)
    h = 1 / 24 / choose_substeps(settle, 0.6, 1 / 24, 1).count
    c = law.coefficients(h)
    first = np.exp(-law.decay * h)
    for eigenvalue in 10.0 * np.geomspace(1.001, 1e6, 40):
        q = c.s * h * eigenvalue
        assert np.abs(np.roots([1.0 + q, -(1.0 + c.kappa), c.kappa])).max() <= first + 1e-12


def test_visible_swings_count_the_peaks_above_the_threshold() -> None:
    assert [visible_swings(o) for o in (0.0, 0.005, 0.05, 0.3, 0.6)] == [0, 0, 1, 3, 9]


def test_substeps_resolve_the_swings_or_the_overshoot_gives_in() -> None:
    enough = choose_substeps(1.0, 0.6, 1 / 24, 1)
    assert not enough.limited
    assert settle_law(1.0, enough.overshoot, 1.0).frequency / 24 / enough.count <= GOOD_PHASE + 1e-9
    limited = choose_substeps(2 / 24, 0.89, 1 / 24, 1)
    assert limited.limited
    assert limited.count == MAX_SUBSTEPS
    assert settle_law(2 / 24, limited.overshoot, 1.0).frequency / 24 / limited.count <= MAX_PHASE * (1 + 1e-6)
    assert choose_substeps(1.0, 0.0, 1 / 24, 5).count == 5

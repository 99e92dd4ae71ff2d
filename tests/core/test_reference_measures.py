"""Measurements of simulations equal known values of analytic curves."""

from __future__ import annotations

import numpy as np
import pytest

from builders import bar, scene
from dampsim.core.measure.calibrate import _deflected_start
from dampsim.core.measure.release import count_swings, largest_distance, rest_time
from dampsim.core.simulation.simulation import Simulation


def test_rest_time_is_last_threshold_crossing() -> None:
    """A curve rests where it falls below 1% of its start for the last time."""
    # Straight lines through 0.01: from 0.03 to 0.005 after 4/5 of the way.
    curve = np.array([2.0, 0.0, 0.06, 0.01, 0.0])
    assert rest_time(curve, 0.5) == pytest.approx(0.5 * (2.0 + (0.06 - 0.02) / (0.06 - 0.01)), rel=1e-14)
    assert rest_time(np.array([1.0, 0.5, 0.2]), 0.5) == np.inf
    assert rest_time(np.zeros(3), 0.5) == 0.0
    times = np.linspace(0.0, 8.0, 4001)
    assert rest_time(np.exp(-times), 0.002) == pytest.approx(np.log(100.0), abs=1e-5)


def test_swing_count_of_damped_oscillation() -> None:
    """Swings past rest are counted as long as they are visible."""
    times = np.linspace(0.0, 12.0, 4001)
    # It passes through rest four times, where tan t = -pi, and ends at 1.5%.
    curve = np.exp(-times / np.pi) * (np.cos(times) + np.sin(times) / np.pi)
    assert count_swings(-3.0 * curve) == 4
    assert count_swings(np.exp(-times)) == 0
    short = np.exp(-3.0 * times) * (np.cos(times) + 3.0 * np.sin(times))
    assert count_swings(short) == 0


def test_largest_distance_of_two_nodes() -> None:
    places, reference = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 6.0]]), np.array([[0.0, 0.0, 0.0], [0.0, 3.0, 2.0]])
    assert largest_distance(places, reference) == 5.0


@pytest.mark.slow
def test_release_deflection_relative_to_size() -> None:
    """A release test begins with a deflection relative to the size of the body."""
    short = bar("Short", 0.0, 0.5, True, stiffness=300.0)
    simulation = Simulation(scene(short, gravity=np.zeros(3)))
    still, start = _deflected_start(simulation, "Short", 0.05)
    free = ~simulation.system_of("Short").is_fixed
    size = float(np.ptp(simulation.system_of("Short").rest[free], axis=0).max())
    moved = largest_distance(start.positions, still.state.positions)
    # The load has the shape of the first mode; a large bend is slightly smaller than the linear one.
    assert moved == pytest.approx(0.05 * size, rel=0.1)

"""What is measured of a simulation, against curves whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from builders import bar, scene
from dampsim.core.measure.calibrate import _deflected_start
from dampsim.core.measure.diagnostics import count_swings, largest_distance, rest_time
from dampsim.core.simulation.simulation import Simulation


def test_a_curve_rests_where_it_passes_a_hundredth_of_its_start_for_the_last_time() -> None:
    # Straight lines through 0.01: from 0.03 to 0.005 after 4/5 of the way.
    curve = np.array([2.0, 0.0, 0.06, 0.01, 0.0])
    assert rest_time(curve, 0.5) == pytest.approx(0.5 * (2.0 + (0.06 - 0.02) / (0.06 - 0.01)), rel=1e-14)
    assert rest_time(np.array([1.0, 0.5, 0.2]), 0.5) == np.inf
    assert rest_time(np.zeros(3), 0.5) == 0.0
    times = np.linspace(0.0, 8.0, 4001)
    assert rest_time(np.exp(-times), 0.002) == pytest.approx(np.log(100.0), abs=1e-5)


def test_swings_are_counted_past_rest_as_long_as_they_are_seen() -> None:
    times = np.linspace(0.0, 12.0, 4001)
    # It passes through rest where tan t = -pi, four times, and is at 1.5% in the end.
    curve = np.exp(-times / np.pi) * (np.cos(times) + np.sin(times) / np.pi)
    assert count_swings(-3.0 * curve) == 4
    assert count_swings(np.exp(-times)) == 0
    short = np.exp(-3.0 * times) * (np.cos(times) + 3.0 * np.sin(times))
    assert count_swings(short) == 0


def test_the_distance_of_the_farthest_node_counts() -> None:
    places, reference = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 6.0]]), np.array([[0.0, 0.0, 0.0], [0.0, 3.0, 2.0]])
    assert largest_distance(places, reference) == 5.0


@pytest.mark.slow
def test_a_release_test_begins_with_a_deflection_in_parts_of_the_size() -> None:
    short = bar("Short", 0.0, 0.5, True, stiffness=300.0)
    simulation = Simulation(scene(short, gravity=np.zeros(3)))
    still, start = _deflected_start(simulation, "Short", 0.05)
    free = ~simulation.system_of("Short").is_fixed
    size = float(np.ptp(simulation.system_of("Short").rest[free], axis=0).max())
    moved = largest_distance(start.positions, still.state.positions)
    # Pulled by a load of the first mode's shape: a bend of so much is a little less than a straight line says.
    assert moved == pytest.approx(0.05 * size, rel=0.1)

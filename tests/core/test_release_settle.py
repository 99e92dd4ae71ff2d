"""Settle and Bounce: the measured rest time and overshoot match the settings."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from dampsim.core.literature.papers.compare import COARSE_CELLS, bar
from dampsim.core.measure.release import ReleaseResult, deflect, measure_release, without_gravity
from dampsim.core.scene.parameters import TOLERANCES, Accuracy
from dampsim.core.settle.waveform import visible_swings
from dampsim.core.system.state import State
from dampsim.core.system.system import System, build_system


@functools.cache
def deflected_bar(deflection: float) -> tuple[System, State]:
    system = bar(COARSE_CELLS)
    return system, deflect(without_gravity(system), deflection)


def measured_release(
    deflection: float, frames: int, overshoot: float, fps: int, substeps: int, tolerance: float
) -> ReleaseResult:
    system, state = deflected_bar(deflection)
    return measure_release(without_gravity(system), state, frames / fps, overshoot, 1 / fps, substeps, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("substeps", "tolerance"), [*((1, one) for one in TOLERANCES), (4, Accuracy.PREVIEW), (4, Accuracy.BAKE)]
)
@pytest.mark.parametrize("fps", [24, 60])
@pytest.mark.parametrize("overshoot", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("deflection", [0.02, 0.3])
def test_rest_time_matches_settle(deflection: float, overshoot: float, fps: int, substeps: int, tolerance: str) -> None:
    for frames in (6, 24, 48):
        result = measured_release(deflection, frames, overshoot, fps, substeps, TOLERANCES[tolerance])
        # A release begins at the peak of a stop's swing, slightly after the stop.
        assert result.settle_time * fps == pytest.approx(frames, abs=1.0)
        assert 0.8 * frames <= result.time_to_rest * fps <= frames
        assert result.swing_count == visible_swings(overshoot)
        # A bend of 30% of the length is nonlinear, but within about six percentage points.
        assert result.overshoot == pytest.approx(
            overshoot, abs=max(0.05 * overshoot, 0.014) if deflection < 0.1 else 0.065
        )


@pytest.mark.slow
@pytest.mark.parametrize("deflection", [0.02, 0.3])
@pytest.mark.parametrize("overshoot", [0.3, 0.6])
def test_overshoot_independent_of_frame_rate(deflection: float, overshoot: float) -> None:
    peaks = [
        measured_release(deflection, 24, overshoot, fps, sub, 1e-3).overshoot
        for fps in (24, 30, 60)
        for sub in (1, 2, 4)
    ]
    assert max(peaks) - min(peaks) < 0.05 * overshoot


def test_long_and_short_regions_settle_together() -> None:
    system = bar((24, 4, 4))
    # Pinned in a slice off the centre: 0.6 m on one side and 0.25 m on the other, in one mesh.
    slice_ = np.flatnonzero((system.rest[:, 0] > 0.59) & (system.rest[:, 0] < 0.76))
    pins = np.full(len(slice_), np.inf)
    (block,) = system.blocks
    cut = build_system(block.rest, block.groups[0], block.mass, block.energies, system.gravity, slice_, pins)
    assert len(cut.regions) == 2
    slow, fast = sorted(region.eigenvalue for region in cut.regions)
    assert fast > 5.0 * slow
    for which in (0, 1):
        for fps in (24, 60):
            answer = measure_release(
                without_gravity(cut), deflect(without_gravity(cut), 0.02, [which]), 20 / fps, 0.4, 1 / fps, 1, 1e-3
            )
            assert answer.settle_time * fps == pytest.approx(20, abs=1.0)
            assert answer.swing_count == visible_swings(0.4)

"""The promise: the dialled frames are the measured frames."""

from __future__ import annotations

import functools

import pytest

from dampsim.core.models.bar import HALF, bar
from dampsim.core.parameters import TOLERANCES
from dampsim.core.release import Release, pulled, release
from dampsim.core.settle import visible_swings
from dampsim.core.state import State
from dampsim.core.system import System


@functools.cache
def start(deflection: float) -> tuple[System, State]:
    system = bar(HALF)
    return system, pulled(system, deflection)


def measured(deflection: float, frames: int, overshoot: float, fps: int, substeps: int, tolerance: float) -> Release:
    system, state = start(deflection)
    return release(system, state, frames / fps, overshoot, 1 / fps, substeps, tolerance)


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("substeps", [1, 4])
@pytest.mark.parametrize("fps", [24, 60])
@pytest.mark.parametrize("overshoot", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("deflection", [0.02, 0.3])
def test_rest_comes_at_the_dialled_frame(
    deflection: float, overshoot: float, fps: int, substeps: int, tolerance: str
) -> None:
    for frames in (6, 24, 48):
        result = measured(deflection, frames, overshoot, fps, substeps, TOLERANCES[tolerance])
        assert result.rest * fps == pytest.approx(frames, abs=1.0)
        assert result.swings == visible_swings(overshoot)
        # Five percent, as promised, of the dialled overshoot; a bend of 30% is not the linear law's any more.
        assert result.overshoot == pytest.approx(overshoot, rel=0.05, abs=0.003)

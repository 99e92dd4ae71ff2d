"""Random runs of tools/settle_runs.py: they follow from their seeds, continue, and are measured in continuous time."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dampsim.core.settle.waveform import settle_law

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool():  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location("settle_runs", ROOT / "tools" / "settle_runs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules["settle_runs"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("settle", "bounce"), [(6.0, 0.0), (6.0, 0.3), (12.0, 0.6), (48.0, 0.1)])
def test_measure_law_between_steps(tool, settle: float, bounce: float) -> None:  # type: ignore[no-untyped-def]
    """Samples of the law, at most a twelfth of a period apart, give its rest and overshoot."""
    law = settle_law(settle, bounce, 1.0)
    step = min(0.5, np.pi / 6.0 / max(law.frequency, 1e-9))
    swing = law.release_response(np.arange(0.0, 1.7 * settle, step))
    ways = np.multiply.outer(swing, [[0.0, 0.3, 0.1], [0.1, 0.1, 0.0]])
    largest, overshoot, steps = tool.measure(ways)
    assert largest == pytest.approx(np.hypot(0.3, 0.1), rel=1e-9)
    assert overshoot == pytest.approx(np.exp(-np.pi * law.decay / law.frequency) if bounce else 0.0, abs=0.005)
    assert steps * step + law.time_to_peak == pytest.approx(settle, rel=0.005)


def test_moving_body_never_rests(tool) -> None:  # type: ignore[no-untyped-def]
    ways = np.sin(np.arange(50.0))[:, None, None] * np.ones((1, 1, 3))
    assert tool.measure(ways)[2] == np.inf


def test_runs_follow_from_seeds(tool, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A file lacks no run and repeats none, and a run is the same at each call."""
    first, second = (tool.draw(seed, 1) for seed in (3, 3))
    assert first[0] == second[0]
    assert first[0] != tool.draw(3, 2)[0]
    assert {tool.draw(seed, 1)[0].kind for seed in range(8)} == set(tool.KINDS)
    path, run = tmp_path / "runs.csv", replace(first[0], reached=0.25, rest=11.5, failure="StepError: a, b")
    tool._append(path, run)
    assert tool.read(path) == [run]
    assert tool.extend(path, [3], 1, 1) == [run]


def test_run_holds_within_frame(tool) -> None:  # type: ignore[no-untyped-def]
    """A run may be off by a frame or 5%, with a natural bounce 10%, and its overshoot by 10 points."""
    run = replace(tool.draw(0, 1)[0], settle=40.0, bounce=30, rest=42.0, overshoot=0.39)
    assert run.rests
    assert run.swings
    assert not replace(run, rest=42.1).rests
    assert replace(run, rest=43.9, bounce=-1, overshoot=0.9).rests
    assert replace(run, settle=6.0, rest=5.1).rests
    assert not replace(run, overshoot=0.41).swings
    assert not replace(run, bounce=0, overshoot=0.03).swings
    assert not replace(run, failure="StepError").rests


@pytest.mark.filterwarnings("ignore:Optimal rotation is not uniquely")
def test_turn_about_pin_counts_from_start(tool) -> None:  # type: ignore[no-untyped-def]
    """A turn of a rope about its only pin does not move it. Counted from its stop, it would rest four frames early."""
    run = tool.make(*tool.draw(307, 4187))
    assert (run.shape, run.motion) == ("hanging", "stop of a turn")
    assert run.rest == pytest.approx(run.settle, abs=0.5)


# Without (2.48), they moved 3.6, 1.6 and 1.6 times as far as they were pulled.
@pytest.mark.parametrize(
    "seed", [122, pytest.param(64, marks=pytest.mark.slow), pytest.param(124, marks=pytest.mark.slow)]
)
def test_crushed_solids_swing_as_dialled(tool, seed: int) -> None:  # type: ignore[no-untyped-def]
    """Solids whose load crushes them rest on time, and do not swing far beyond the pull."""
    run = tool.make(*tool.draw(seed, 84))
    assert run.rests
    # With Bounce 60%, half a swing has eight steps, and the pace is bounded.
    assert abs(run.overshoot - run.bounce / 100.0) < 0.2

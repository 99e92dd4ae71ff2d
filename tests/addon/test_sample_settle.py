"""Accuracy of the dials on the samples: rest and overshoot of each region after a sudden stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
SAMPLES = Path(__file__).parents[2] / "sample_blends"
# First swing after the stop, in parts of a region's size. A region moves as a whole and bends at its pins only. A
# larger swing bends the thin foot of the antenna beyond the linear range; Calibrate is for such cases.
SWING = 0.01
DIRECTION = np.array([1.0, 0.3, 0.1]) / np.linalg.norm([1.0, 0.3, 0.1])


@pytest.mark.parametrize("fps", [24, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "resolution"),
    [
        *(pytest.param(name, 0, marks=pytest.mark.slow) for name in ("jelly", "creature", "antenna")),
        ("creature", 2000),
        pytest.param("creature", 10000, marks=pytest.mark.slow),
    ],
)
def test_settle_and_bounce_after_sudden_stop(load: Load, name: str, resolution: int, fps: int) -> None:
    """Each region comes to rest after Settle frames and overshoots by Bounce."""
    bpy.ops.wm.open_mainfile(filepath=str(SAMPLES / f"{name}.blend"))
    scene = bpy.context.scene
    snapshot, simulate = load("dampsim_addon.scene_reader.scene_builder"), load("core.simulation.simulation")
    with snapshot.GroupSampler(scene, bpy.context.view_layer, [bpy.context.object]) as sampler:
        taken = snapshot.build_scene(sampler)
        (body,) = taken.bodies
        still = taken.sample(float(scene.frame_start))
    settings = body.settings
    if resolution:
        settings = replace(settings, resolution=resolution)
    settings = replace(settings, follow_through=1.0)
    stop = 6
    last = stop + int(1.4 * settings.settle) + 8
    speed = 0.0

    def sample(frame: float) -> Any:
        moved = still.bodies[0].vertices + DIRECTION * speed * min(frame, stop) / fps
        return replace(still.with_body(0, vertices=moved), frame=frame)

    body = replace(body, settings=settings, has_animated_settings=False)
    simulation = simulate.Simulation(replace(taken, bodies=(body,), fps=float(fps), first=0, last=last, sampler=sample))
    system, (controls,) = simulation.islands[0].system, simulation.controls()
    laws, factors = controls.laws, np.array(controls.stiffness)
    first = simulation.first_frame()
    # The swing of a region is its speed times this factor, whatever its stiffness.
    speed = min(
        SWING * float(np.ptp(system.rest[r.free], axis=0).max()) / swing_per_speed(law)
        for r, law in zip(system.regions, laws, strict=True)
    )
    moving = np.tile(speed * DIRECTION, (len(system.rest), 1))
    state = replace(first.state, velocities=moving, reference=moving)
    frames = list(simulation.frames(replace(first, state=state)))[stop:]
    end = simulation.sample_frame(last).samples[-1]
    rest = simulation.statics.solve_equilibrium(0, end, factors).positions
    limit = load("core.settle.waveform").REST_FRACTION
    for region in system.regions:
        ways = np.array([(f.state.positions - rest)[region.free] for f in frames])
        distance = np.linalg.norm(ways, axis=2).max(axis=1)
        peak = int(distance.argmax())
        relative = distance / distance[peak]
        k = int(np.flatnonzero(relative > limit)[-1])
        frames_to_rest = k + (relative[k] - limit) / (relative[k] - relative[k + 1])
        along = (ways * ways[peak]).sum(axis=(1, 2)) / (ways[peak] ** 2).sum()
        # Stiffer regions swing faster by the factor Whip, and rest earlier by the same factor.
        assert settings.settle / settings.whip - 1.0 <= frames_to_rest <= settings.settle + 1.0
        assert -along[peak:].min() == pytest.approx(settings.overshoot, abs=0.05)


def swing_per_speed(law: Any) -> float:
    """Return the swing after a stop from 1 m/s, m."""
    return float(np.exp(-law.decay * law.time_to_peak) * np.sin(law.frequency * law.time_to_peak) / law.frequency)

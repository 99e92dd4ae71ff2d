"""The dials' promise on the samples: rest and overshoot after a sudden stop, measured in each region's first mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
SAMPLES = Path(__file__).parents[2] / "sample_blends"
# How far the stop shall throw a region, in parts of its size: more is a large bend, which Calibrate is for.
SWING = 0.05
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
def test_rest_after_a_sudden_stop_is_as_dialled(load: Load, name: str, resolution: int, fps: int) -> None:
    bpy.ops.wm.open_mainfile(filepath=str(SAMPLES / f"{name}.blend"))
    scene = bpy.context.scene
    snapshot, simulate, test = (
        load("dampsim_addon.scene.snapshot"),
        load("core.simulation.simulation"),
        load("core.measure.release"),
    )
    with snapshot.GroupSampler(scene, bpy.context.view_layer, [bpy.context.object]) as sampler:
        taken = snapshot.take(sampler)
        (body,) = taken.bodies
        pose = body.motion(float(scene.frame_start))
    settings = body.settings
    if resolution:
        settings = replace(settings, resolution=resolution)
    settings = replace(settings, follow_through=1.0)
    stop = 6
    last = stop + int(1.4 * settings.settle) + 8
    speed = 0.0

    def motion(frame: float) -> np.ndarray:
        return pose + DIRECTION * speed * min(frame, stop) / fps

    body = replace(body, settings=settings, motion=motion, dials=None)
    simulation = simulate.Simulation(replace(taken, bodies=(body,), fps=float(fps), first=0, last=last))
    system, (controls,) = simulation.islands[0].system, simulation.controls()
    laws, factors = controls.laws, np.array(controls.stiffness)
    first = simulation.first_frame()
    # A stop from speed v throws the first mode by at most v e^{-at} / sqrt(a^2 + w^2), t later.
    speed = min(
        SWING * float(np.ptp(system.rest[r.free], axis=0).max())
        * math.hypot(law.decay, law.frequency) * math.exp(law.decay * law.lead)
        for r, law in zip(system.regions, laws, strict=True)
    )  # fmt: skip
    moving = np.tile(speed * DIRECTION, (len(system.rest), 1))
    state = replace(first.state, velocities=moving, reference=moving)
    frames = list(simulation.frames(replace(first, state=state)))[stop - 1 :]
    # Constant speed leaves no deformation, so that the shape at the stop is the one at rest.
    rest = frames[0].state.positions
    hanging = test.Still(system, frames[0].state, None, factors)
    stiff = system.tangent(frames[0].state, np.ones(1))
    for region in system.regions:
        mode = (system.mass[:, None] * test.first_mode(hanging, region, stiff))[region.free]
        along = np.array([float(np.vdot(mode, (f.state.positions - rest)[region.free])) for f in frames])
        peak = next(k for k in range(1, len(along)) if abs(along[k]) >= abs(along[k + 1]))
        # The turning point lies between frames, on a parabola.
        before, top, after = along[peak - 1 : peak + 2]
        shift = 0.5 * (before - after) / (before - 2.0 * top + after)
        size = top - 0.25 * (before - after) * shift
        relative = np.abs(along[peak:] / size)
        limit = load("core.stepping.waveform").REST_FRACTION
        k = int(np.flatnonzero(relative > limit)[-1])
        frames_to_rest = peak + k + (relative[k] - limit) / (relative[k] - relative[k + 1])
        assert frames_to_rest == pytest.approx(settings.settle, abs=1.0)
        assert -(along[peak:] / size).min() == pytest.approx(settings.overshoot, abs=0.05)

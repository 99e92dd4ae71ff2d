"""Shots: gravity, reference motion, maps, preroll, loops, named coefficients and calibration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from animated import AnimatedBody, AnimatedScene, Motion
from builders import run_to_end
from dampsim.core.base.errors import PinError, SceneError
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.literature.damping.damping import removed_fraction, retained_fraction
from dampsim.core.measure.calibrate import calibrate
from dampsim.core.measure.curve import FrameShape, shot_curve
from dampsim.core.measure.release import deflect, run_release, without_gravity
from dampsim.core.scene.parameters import Settings
from dampsim.core.scene.scene import Scene
from dampsim.core.settle.waveform import WaveformLaw, settle_law
from dampsim.core.simulation.simulation import Simulation
from shapes import tube, with_body

GRAVITY = np.array([0.0, 0.0, -9.81])


def rod() -> Surface:
    """Return a round rod of 1 m that stands on z = 0."""
    return tube(1.0, 0.08, 24, 12)


def scene(settings: Settings, motion: Motion | None = None, fps: float = 24.0, last: int = 60, **more: Any) -> Scene:
    surface = rod()
    pins = (surface.vertices[:, 2] < 0.06).astype(float)
    gravity = more.pop("gravity", GRAVITY)
    return AnimatedScene((AnimatedBody(surface, pins, settings, motion=motion, **more),), fps, gravity, 1, last)


def frame_shapes(frames: list[Frame]) -> list[FrameShape]:
    return [FrameShape(frame.surface, frame.inputs["Tube"]) for frame in frames]


SOFT = Settings(stiffness=2500.0, settle=24.0, bounce=50.0, resolution=300)


def test_settle_of_tall_body_under_gravity() -> None:
    """Gravity softens the rod when it stands and stiffens it when it hangs. Settle holds for both."""
    for sign in (1.0, -1.0):
        simulation = Simulation(scene(SOFT, gravity=sign * GRAVITY))
        (region,) = simulation.islands[0].system.regions
        (stiffness,) = simulation.controls((SOFT,))[0].stiffness
        change = region.gravity_eigenvalue / (stiffness * region.eigenvalue)
        assert sign * change < -0.1
        result = run_to_end(calibrate(simulation, "Tube", 0.02))
        assert result.before.rest == pytest.approx(24.0, abs=1.0)
        assert result.before.overshoot == pytest.approx(0.5, abs=0.03)


def move_then_stop(surface: Surface, speed: float, stop: float) -> Motion:
    """Return a motion along x with a speed in m per frame that ends at a frame."""
    return lambda frame: surface.vertices + np.array([speed * min(frame - 1.0, stop), 0.0, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("fps", [24.0, 60.0])
def test_settle_after_sudden_stop(fps: float) -> None:
    settings = replace(SOFT, settle=20.0, bounce=30.0)
    simulation = Simulation(scene(settings, move_then_stop(rod(), 0.24 / fps, 40.0), fps, last=90))
    frames = list(simulation.frames())
    law = simulation.controls((settings,))[0].laws[0]
    assert isinstance(law, WaveformLaw)
    count = simulation.substeps("Tube", settings).count
    curve = shot_curve(frame_shapes(frames), law, fps, settings.settle, settings.overshoot, count)
    assert curve is not None
    assert curve.rest == pytest.approx(20.0, abs=1.0)
    assert curve.overshoot == pytest.approx(0.3, abs=0.05)
    assert curve.predicted is not None
    assert np.abs(curve.measured - curve.predicted).max() < 0.1


def test_curve_without_stop_is_none() -> None:
    simulation = Simulation(scene(SOFT, move_then_stop(rod(), 0.01, 100.0), last=20))
    law = simulation.controls((SOFT,))[0].laws[0]
    assert shot_curve(frame_shapes(list(simulation.frames())), law, 24.0, 24.0, 0.5) is None


def bent_rod(surface: Surface, frame: float) -> np.ndarray:
    """Return the rod bent as by an armature, by up to 1 rad at its top."""
    angle = 0.5 * (1.0 - np.cos(0.5 * (frame - 1.0))) * surface.vertices[:, 2]
    x, z = surface.vertices[:, 0], surface.vertices[:, 2]
    # The rod follows an arc of constant curvature.
    bend = np.maximum(angle, 1e-9)
    radius = z / bend - x
    return np.stack([z / bend - radius * np.cos(angle), surface.vertices[:, 1], radius * np.sin(angle)], axis=1)


@pytest.mark.slow
def test_soft_pinned_body_follows_armature() -> None:
    """A body with soft pins everywhere and strong damping stays close to its animated mesh."""
    surface = rod()
    lag = {}
    for carrier in ("MESH", "PINS"):
        settings = Settings(
            stiffness=20.0, settle=40.0, bounce=0.0, follow_through=0.0, resolution=300, carrier=carrier
        )
        made = scene(settings, lambda frame: bent_rod(surface, frame), last=14, gravity=np.zeros(3))
        made = with_body(made, pins=np.full(len(surface.vertices), 0.9))
        frames = list(Simulation(made).frames())
        lag[carrier] = max(float(np.abs(frame.surface - bent_rod(surface, frame.number)).max()) for frame in frames)
    # Its pins are springs, which it follows at once with any reference motion.
    assert max(lag.values()) < 0.05


def test_reference_motions_for_rigid_animation() -> None:
    """Pins and mesh give the same result for a rigid animation; without reference motion the body drags behind."""
    surface = rod()

    def turning(frame: float) -> np.ndarray:
        a = 0.05 * (frame - 1.0)
        turn = np.array([[np.cos(a), -np.sin(a), 0.0], [np.sin(a), np.cos(a), 0.0], [0.0, 0.0, 1.0]])
        return (surface.vertices + np.array([0.3, 0.0, 0.0])) @ turn.T

    last = {}
    for carrier in ("PINS", "MESH", "NONE"):
        settings = replace(SOFT, carrier=carrier, settle=30.0, bounce=0.0, follow_through=0.0)
        last[carrier] = list(Simulation(scene(settings, turning, last=30)).frames())[-1].surface
    assert np.abs(last["MESH"] - last["PINS"]).max() < 2e-3
    assert np.abs(last["NONE"] - last["PINS"]).max() > 0.1


@pytest.mark.parametrize(("deforming", "carrier"), [(False, "PINS"), (True, "MESH")])
def test_automatic_reference_motion(deforming: bool, carrier: str) -> None:
    """The automatic reference motion is the mesh if the animation deforms it, and the pins otherwise."""
    assert scene(SOFT, is_deforming=deforming).bodies[0].reference_motion == carrier
    assert scene(replace(SOFT, carrier="NONE"), is_deforming=deforming).bodies[0].reference_motion == "NONE"


def test_half_settle_map_halves_settle() -> None:
    surface = rod()
    middle = np.abs(surface.vertices[:, 2] - 0.5) < 0.2
    low = surface.vertices[:, 2] < 0.5
    settings = Settings(stiffness=200.0, settle=24.0, bounce=30.0, resolution=400)
    made = scene(settings, gravity=np.zeros(3), settle_map=np.where(low, 0.5, 1.0))
    simulation = Simulation(with_body(made, pins=middle.astype(float)))
    (island,) = simulation.islands
    regions = island.system.regions
    assert len(regions) == 2
    still = without_gravity(island.system)
    substeps = simulation.substeps("Tube", settings)
    (controls,) = simulation.controls((settings,))
    steps = run_release(
        replace(still, factors=controls.stiffness_per_block(1)), deflect(still, 0.01), controls,
        1.0 / (24 * substeps.count), 32 * substeps.count, substeps,
    )  # fmt: skip
    for region, answer in zip(regions, run_to_end(steps), strict=True):
        expected = 12.0 if still.system.rest[region.free][:, 2].mean() < 0.5 else 24.0
        lead = settle_law(expected / 24.0, 0.3, 1.0).time_to_peak
        assert (answer.time_to_rest + lead) * 24.0 == pytest.approx(expected, abs=1.0)


def test_settle_map_keeps_free_fall() -> None:
    """The damping of rigid motion is zero for any settle map."""
    surface = rod()
    made = scene(SOFT, settle_map=np.linspace(0.2, 1.0, len(surface.vertices)), last=25)
    simulation = Simulation(with_body(made, pins=np.zeros(len(surface.vertices))))
    frames = list(simulation.frames())
    mass = simulation.islands[0].system.mass
    fallen = (mass @ frames[-1].state.positions - mass @ frames[0].state.positions)[2] / mass.sum()
    # The fall by backward Euler in n steps of h is g h^2 n (n + 1) / 2.
    n = 24 * simulation.substeps("Tube", SOFT).count
    assert fallen == pytest.approx(-9.81 / 24**2 * 24**2 * (1.0 + 1.0 / n) / 2.0, rel=1e-9)


def test_stiffness_map_scales_sag() -> None:
    surface = rod()
    settings = replace(SOFT, stiffness=2000.0)
    sags = []
    for weight in (1.0, 0.5, 0.0):
        made = scene(settings, stiffness_map=np.full(len(surface.vertices), weight), gravity=np.array([0.02, 0, 0]))
        sags.append(Simulation(made).sag("Tube"))
    # A map weight w scales the stiffness by 100^(w - 1), so that half of it is a factor of ten. The springs at the
    # border of the pins keep their stiffness and affect the first sag by up to a tenth.
    assert sags[1] / sags[0] == pytest.approx(10.0, rel=0.1)
    assert sags[2] / sags[1] == pytest.approx(10.0, rel=0.03)


def test_preroll_ends_at_rest() -> None:
    """Preroll ends at rest in the first pose."""
    surface = rod()
    pose = bent_rod(surface, 6.0)
    made = scene(replace(SOFT, preroll=40), lambda frame: pose, last=20)
    frames = list(Simulation(made).frames())
    size = 1.0
    moved = max(float(np.abs(frame.surface - frames[0].surface).max()) for frame in frames)
    assert moved < 1e-4 * size
    hard = made.bodies[0].pins > 0.999
    assert np.abs(frames[0].surface[hard] - pose[hard]).max() < 1e-3 * size
    # Without the static solve, the preroll alone reaches this shape.
    loose = Simulation(with_body(made, settings=replace(SOFT, preroll=60, start_settled=False)))
    assert np.abs(loose.first_frame().surface - frames[0].surface).max() < 0.01 * size


def cyclic_motion(surface: Surface) -> Motion:
    return lambda frame: surface.vertices + np.array([0.1 * np.sin(2 * np.pi * (frame - 1.0) / 20.0), 0.0, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("last", [20, 21])
def test_loop_ends_at_its_start(last: int) -> None:
    simulation = Simulation(scene(replace(SOFT, loop=True), cyclic_motion(rod()), last=last))
    frames = list(simulation.frames())
    start, end = simulation.first_frame(), frames[-1]
    assert simulation.loop_error <= 1e-4
    if last == 21:
        assert np.abs(end.surface - start.surface).max() < 1e-3
    else:
        # The cycle needs one more step.
        longer = Simulation(scene(replace(SOFT, loop=True), cyclic_motion(rod()), last=21))
        assert np.abs(longer.first_frame().surface - start.surface).max() < 1e-3
    swing = max(float(np.abs(frame.surface - cyclic_motion(rod())(frame.number)).max()) for frame in frames)
    assert swing > 0.01


def test_loop_without_cycle_is_refused() -> None:
    simulation = Simulation(scene(replace(SOFT, loop=True), move_then_stop(rod(), 0.01, 100.0), last=20))
    with pytest.raises(SceneError, match="neither frame 20 nor the one after it has the pose of frame 1"):
        simulation.first_frame()


@pytest.mark.slow
def test_named_coefficients_are_used() -> None:
    for settings, kappa in (
        (replace(SOFT, damping_by="TAU_KAPPA", tau=0.02, kappa=0.3, substeps=2), 0.3),
        (replace(SOFT, damping_by="TAU_GAMMA", tau=0.02, gamma=0.36, substeps=2), 0.8),
    ):
        (found,) = Simulation(scene(settings)).law_coefficients((settings,))
        # (1 - 0.36)^(24/48) = 0.8.
        assert (found.inertia_time, found.kappa) == (0.02, pytest.approx(kappa, rel=1e-12))
    assert removed_fraction(retained_fraction(0.36, 1 / 60), 1 / 60) == pytest.approx(0.36, rel=1e-12)
    # The coefficients of the first-mode law, entered by name, give the same motion.
    dials = replace(SOFT, substeps=2, damping_by="FIRST_MODE")
    simulation = Simulation(scene(dials, move_then_stop(rod(), 0.01, 10.0), last=20))
    (found,) = simulation.law_coefficients((dials,))
    named = replace(dials, damping_by="TAU_KAPPA", tau=float(found.inertia_time), kappa=float(found.kappa))
    one = list(simulation.frames())[-1]
    other = list(Simulation(scene(named, move_then_stop(rod(), 0.01, 10.0), last=20)).frames())[-1]
    assert np.abs(one.surface - other.surface).max() < 1e-5


@pytest.mark.slow
def test_calibration_of_large_deflection() -> None:
    settings = replace(SOFT, bounce=40.0, settle=30.0)
    simulation = Simulation(scene(settings, fps=24.0))
    result = run_to_end(calibrate(simulation, "Tube", 0.5))
    assert abs(result.after.rest - 30.0) <= abs(result.before.rest - 30.0)
    assert result.after.rest == pytest.approx(30.0, abs=1.0)
    if abs(result.before.rest - 30.0) > 0.5:
        assert result.correction != 1.0


def test_calibration_without_pins_is_refused() -> None:
    made = scene(SOFT)
    free = Simulation(with_body(made, pins=np.zeros_like(made.bodies[0].pins)))
    with pytest.raises(PinError, match="it is not completely held"):
        run_to_end(calibrate(free, "Tube", 0.1))


def test_resumed_frames_are_identical() -> None:
    made = scene(replace(SOFT, carrier="MESH"), move_then_stop(rod(), 0.01, 10.0), last=14)
    whole: list[Frame] = list(Simulation(made).frames())
    part = Simulation(made)
    again = list(part.frames(whole[6]))
    for one, other in zip(whole[7:], again, strict=True):
        assert one.state.positions.tobytes() == other.state.positions.tobytes()

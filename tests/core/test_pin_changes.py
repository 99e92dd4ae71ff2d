"""Pins that let go and catch between frames; tests/core/test_body_types.py checks every body type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from animated import AnimatedBody
from builders import gridded_box, scene
from dampsim.core.base.errors import SceneError
from dampsim.core.frames.frame import Frame, history_arrays, history_from_arrays
from dampsim.core.measure.contact_results import contact_summary
from dampsim.core.scene.parameters import Settings
from dampsim.core.simulation.pin_changes import offsets_at
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.simulation.stored_frames import find_fault
from dampsim.core.system.state import Catch
from shapes import sheet
from supports import plane

BOX = gridded_box("Box", (-0.2, -0.1, -0.05), (0.2, 0.1, 0.05), 0.1)
LEFT, RIGHT = (BOX.vertices[:, 0] < -0.05), (BOX.vertices[:, 0] > 0.05)


def swing(frame: float) -> np.ndarray:
    """Return the box carried along an arc."""
    t = (frame - 1.0) / 24.0
    return np.asarray(BOX.vertices + np.array([0.6 * np.sin(2.0 * t), 0.0, 0.4 - 0.4 * np.cos(3.0 * t)]))


def carried_box(hold_at: Callable[[float], float] | None, *, is_still: bool = False, **more: Any) -> AnimatedBody:
    """Return a box that is held by its left side. hold_at: function of the frame; None for no keyframes."""
    pins_by_frame = more.pop("pins_by_frame", None)
    settings = Settings(**{"stiffness": 100.0, "resolution": 60, "settle": 12.0, "bounce": 0.0, **more})
    return AnimatedBody(
        BOX, LEFT.astype(float), settings,
        motion=None if is_still else swing,
        settings_by_frame=None if hold_at is None else lambda frame: replace(settings, hold=hold_at(frame)),
        has_animated_pins=hold_at is not None or pins_by_frame is not None,
        pins_by_frame=pins_by_frame,
    )  # fmt: skip


def simulated_frames(body: AnimatedBody, last: int, **more: Any) -> list[Frame]:
    return list(Simulation(scene(body, last=last, **more)).frames())


def test_offsets_follow_quintic() -> None:
    """The offset is the polynomial of degree 5 with the given start and a still, flat end."""
    duration, offset, velocity = 0.25, 0.3, -2.0
    powers = np.arange(6)

    def derivative(t: float, order: int) -> np.ndarray:
        factor = np.array([np.prod(np.arange(p, p - order, -1.0)) for p in powers])
        return factor * t ** np.maximum(powers - order, 0) * (powers >= order)

    rows = [derivative(t, order) for t in (0.0, duration) for order in range(3)]
    coefficients = np.linalg.solve(np.array(rows), [offset, velocity, 0.0, 0.0, 0.0, 0.0])
    catch = Catch(np.full((1, 3), offset), np.full((1, 3), velocity), np.array([1.0]))
    for t in np.linspace(0.0, duration, 9):
        expected = derivative(float(t), 0) @ coefficients
        np.testing.assert_allclose(offsets_at(catch, 1.0 + float(t), duration), np.full((1, 3), expected), atol=1e-12)
    assert not offsets_at(catch, 2.0, duration).any()


def test_constant_keys_change_nothing() -> None:
    """Hold that is keyed but stays 1 gives the same motion as Hold without keyframes."""
    keyed, plain = (simulated_frames(carried_box(hold), 12) for hold in (lambda _: 1.0, None))
    for one, other in zip(keyed, plain, strict=True):
        np.testing.assert_allclose(one.surface, other.surface, atol=2e-4)


@pytest.mark.parametrize("substeps", [1, 3])
def test_catch_has_no_pop(substeps: int) -> None:
    """While a thrown box is caught, its acceleration stays below that of a quintic from its offset and velocity."""
    count, hold = 8, lambda frame: float(frame <= 8 or frame >= 15)
    frames = simulated_frames(carried_box(hold, catch_frames=count, substeps=substeps), 34)
    surfaces = np.array([frame.surface for frame in frames])
    gaps = np.array([np.abs(frame.surface - swing(frame.number))[LEFT].max() for frame in frames])
    assert gaps[:8].max() < 1e-6 < gaps[8:21].min()
    assert gaps[21:].max() < 1e-6
    change = np.linalg.norm(np.diff(surfaces, n=2, axis=0), axis=2).max(axis=1)
    # Largest second derivatives of the two parts of the quintic: 10/sqrt(3) and 3.2 (rounded up).
    gap, speed = gaps[13], np.abs(surfaces[13] - surfaces[12] - swing(15.0) + swing(14.0)).max()
    assert change[12:21].max() < 1.5 * (5.78 * gap / count**2 + 3.2 * speed / count) * np.sqrt(3.0)
    # At the release, weight is all that changes.
    assert change[6:12].max() < 2.0 * 9.81 / 24.0**2


def test_pins_are_read_each_frame() -> None:
    """Evaluated weights may move the pins from one side of a body to the other."""
    body = carried_box(
        None, is_still=True, catch_frames=3, pins_by_frame=lambda frame: (LEFT if frame < 8 else RIGHT).astype(float)
    )
    frames = simulated_frames(body, 24)
    assert np.abs(frames[5].surface - BOX.vertices)[LEFT].max() < 1e-6
    assert np.abs(frames[5].surface - BOX.vertices)[RIGHT].max() > 1e-3
    for frame in frames[9:]:
        assert np.abs(frame.surface - BOX.vertices)[RIGHT].max() < 1e-6
    assert np.abs(frames[-1].surface - BOX.vertices)[LEFT].max() > 1e-3


def test_hold_weakens_pins_gradually() -> None:
    """A box whose Hold fades out hangs lower in each frame, without a jump at its end."""
    frames = simulated_frames(carried_box(lambda f: max(1.0 - f / 12.0, 0.0), is_still=True), 14)
    heights = [float(frame.surface[:, 2].mean()) for frame in frames]
    assert (np.diff(heights) < 0.0).all()
    assert np.abs(np.diff(heights, n=2)).max() < 2.0 * 9.81 / 24.0**2


def test_free_start_keeps_stiffness_for_sag() -> None:
    """A body with Hold 0 at the first frame falls from its animation; Sag refers to its pins with Hold 1."""
    dials = {"stiffness_by": "SAG", "sag": 2.0}
    simulation = Simulation(scene(carried_box(lambda f: float(f > 6), is_still=True, **dials), last=12))
    held = Simulation(scene(carried_box(None, **dials)))
    assert simulation.young("Box") == pytest.approx(held.young("Box"), rel=0.02)
    frames = list(simulation.frames())
    assert frames[0].surface == pytest.approx(BOX.vertices, abs=1e-6)
    lag = 0.5 * 9.81 * 5 / 24.0**2
    fall = frames[5].surface[:, 2].mean() - BOX.vertices[:, 2].mean()
    assert fall == pytest.approx(-0.5 * 9.81 * (5 / 24.0) ** 2, abs=1.01 * lag)
    assert np.abs(frames[-1].surface - BOX.vertices)[LEFT].max() < 1e-6


def test_changed_hold_outdates_its_frames() -> None:
    """A moved keyframe of Hold changes the digests of the frames between, and of no others."""
    early, late = (
        Simulation(scene(carried_box(lambda frame, end=end: float(frame <= end)), last=12)) for end in (4, 7)
    )
    changed = [n for n in range(1, 13) if early.sample_frame(n).digests != late.sample_frame(n).digests]
    assert changed == [5, 6, 7]


def test_catch_survives_storage() -> None:
    """The history of a catch is stored exactly; one of another size is recognised as damaged."""
    simulation = Simulation(scene(carried_box(lambda frame: float(frame <= 3 or frame >= 6)), last=8))
    frames = list(simulation.frames())
    arrays = history_arrays(frames[6].state.history)
    assert arrays["Box"]["catch"].any()
    assert history_arrays(history_from_arrays(arrays))["Box"]["catch"].tobytes() == arrays["Box"]["catch"].tobytes()
    sample = simulation.sample_frame(7).samples[-1]
    assert find_fault(frames[6], frames[5], simulation, sample) == ""
    arrays["Box"]["catch"] = arrays["Box"]["catch"][1:]
    broken = replace(frames[6], state=replace(frames[6].state, history=history_from_arrays(arrays)))
    assert "has another size" in find_fault(broken, frames[5], simulation, sample)


def juggled_box(hold_at: Callable[[float], float], **more: Any) -> AnimatedBody:
    """Return a box on a hand that moves up and down once in 24 frames."""
    lift = lambda frame: np.array([0.0, 0.0, 0.1 * np.sin(2.0 * np.pi * (frame - 1.0) / 24.0)])  # noqa: E731
    body = carried_box(hold_at, loop=True, **more)
    return replace(body, motion=lambda frame: BOX.vertices + lift(frame))


@pytest.mark.parametrize("last", [24, 25])
def test_juggled_box_loops(last: int) -> None:
    """A box that is let go at frame 15 is caught at frame 22 and reaches its pins after the seam, at frame 6."""
    body = juggled_box(lambda frame: float((frame - 1.0) % 24.0 < 14.0 or (frame - 1.0) % 24.0 >= 21.0), catch_frames=8)
    simulation = Simulation(scene(body, last=last))
    frames = list(simulation.frames())
    assert simulation.loop_error < 1e-4
    surfaces = np.array([frame.surface for frame in frames])[:24]
    gaps = np.array([np.abs(f.surface - body.motion(f.number))[LEFT].max() for f in frames])
    assert gaps[5:14].max() < 1e-6
    assert min(*gaps[:2], *gaps[16:24]) > 2e-3
    cycles = np.concatenate([surfaces, surfaces])
    change = np.linalg.norm(np.diff(cycles, n=2, axis=0), axis=2).max(axis=1)
    # The seam is no pop: its second differences are within those around it.
    assert change[22:24].max() < 1.1 * max(change[20:22].max(), change[24:26].max())
    if last == 25:
        assert np.abs(frames[-1].surface - frames[0].surface).max() < 2e-4 * BOX.size


def test_looped_hold_must_be_cycle() -> None:
    body = juggled_box(lambda frame: float(frame < 12.0))
    with pytest.raises(SceneError, match=r"has the pose and pins of frame 1\. The keyframes of Hold"):
        Simulation(scene(body, last=24)).first_frame()


def test_dropped_cloth_reports_its_contacts() -> None:
    """Cloth that pins divide in two falls as one region on a floor; the reports of all frames are made."""
    surface = sheet(9)
    x = surface.vertices[:, 0]
    settings = Settings(stiffness=2000.0, settle=12.0, thickness=5.0, start_settled=False)
    body = AnimatedBody(
        surface, ((x > 0.3) & (x < 0.7)).astype(float), settings, "CLOTH",
        settings_by_frame=lambda frame: replace(settings, hold=float(frame <= 3 or frame >= 12)),
        has_animated_pins=True,
    )  # fmt: skip
    simulation = Simulation(scene(body, last=16, colliders=(plane(height=-0.2),)))
    frames = list(simulation.frames())
    counts = [
        len(simulation.version_at(simulation.scene.sample(n)).statics.islands[0].system.regions) for n in (1.0, 8.0)
    ]
    assert counts == [2, 1]
    assert any(frame.state.history.contacts["Sheet"].contacts.forces.any() for frame in frames[3:11])
    summaries = [contact_summary(simulation, frame.state, "Sheet") for frame in frames]
    assert all(np.isfinite(one.earliest_rest) for one in summaries)


def test_yielding_body_is_caught() -> None:
    """Plastic flow, which changes the rest shape, goes with pins that change."""
    hold = lambda frame: float(frame <= 3 or frame >= 6)  # noqa: E731
    body = carried_box(hold, plastic_yield=0.1, plastic_creep=1000.0, stiffness=10.0, catch_frames=2)
    frames = simulated_frames(body, 16)
    assert np.abs(frames[-1].surface - swing(16.0))[LEFT].max() < 1e-6
    assert frames[-1].state.history.block("Box").reference_flows


def test_free_start_is_thrown() -> None:
    """A pinned body with Hold 0 at the first frame has the dialled velocity; with Hold 1, its pins stop it."""
    for hold, moved in ((0.0, 0.5), (1.0, 0.0)):
        body = carried_box(lambda _, hold=hold: hold, is_still=True, velocity_x=3.0, gravity_weight=0.0)
        frames = simulated_frames(body, 5)
        shift = (frames[-1].surface - frames[0].surface)[LEFT].mean(axis=0)
        np.testing.assert_allclose(shift, [moved, 0.0, 0.0], atol=1e-3)

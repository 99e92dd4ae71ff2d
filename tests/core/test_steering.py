"""Steering: far deflections of solids rest on time, and nothing else changes (docs/decisions/0065)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from animated import AnimatedBody
from builders import DOWN, gridded_box, static_body
from dampsim.core.frames.frame import history_arrays, history_from_arrays
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.objective.factorised_system import FactorisedSystem
from dampsim.core.objective.steering import law_envelope, steered_pace, turning_pace
from dampsim.core.objective.swing_record import SwingRecord, is_stable
from dampsim.core.scene.part import Part
from dampsim.core.settle.waveform import WaveformLaw, settle_law
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.system.state import State
from references import laws
from settle_cases import (
    ZERO_GRAVITY,
    deflected_state,
    first_mode_load,
    load_along,
    make_simulation,
    outcome_after_release,
    outcome_after_stop,
    pinned_body,
    rotation_motion,
    translation_motion,
)
from shapes import box, dumbbell, ear, horn, horseshoe, ring, tail


@pytest.mark.parametrize("frequency", [0.0, 2.0, 9.0])
@pytest.mark.parametrize("h", [1 / 240, 1 / 24, 0.3])
def test_envelope_of_law_is_exact(frequency: float, h: float) -> None:
    """The envelope of a released vector is release_envelope e^{-at}, at any length of the steps."""
    law, vector, t = WaveformLaw(3.0, frequency, 1.0), np.array([[0.3, -0.2, 0.1], [0.0, 0.1, 0.0]]), 0.4
    now, before = (float(law.release_response(one)) * vector for one in (t, t - h))
    expected = law.release_envelope * np.exp(-law.decay * t) * np.linalg.norm(vector[0])
    assert law_envelope(law, now, now - before, h) == pytest.approx(expected, rel=1e-9)


def test_envelope_covers_all_directions() -> None:
    """Two perpendicular motions in quadrature have the larger amplitude as their envelope, at any phase."""
    law, h = WaveformLaw(1.0, 4.0, 1.0), 0.05
    for t in np.linspace(0.0, 1.5, 7):
        now, before = (np.exp(-s) * np.array([[0.5 * np.cos(4.0 * s), 0.2 * np.sin(4.0 * s), 0.0]]) for s in (t, t - h))
        assert law_envelope(law, now, now - before, h) == pytest.approx(0.5 * np.exp(-t), rel=1e-9)


@pytest.mark.parametrize("bounce", [0.0, 0.1, 0.6])
@pytest.mark.parametrize(("ratio", "phase"), [(1.0, 0.0), (0.7, 0.4), (2.5, 1.7)])
def test_pace_matches_formula(bounce: float, ratio: float, phase: float) -> None:
    """The pace is that of (2.43), and 1 where the envelope is that of the law."""
    law, swing = settle_law(2.0, bounce, 50.0), 0.3
    envelope = ratio * law.release_envelope * swing * np.exp(-phase)
    rest_phase = law.decay * law.release_rest_time
    found = steered_pace(law, swing, phase, envelope)
    assert found == pytest.approx(
        laws.steered_pace(law.decay, law.frequency, swing, phase, envelope, rest_phase), rel=1e-12
    )
    assert ratio != 1.0 or found == pytest.approx(1.0, rel=1e-12)
    # In the phase that is left, the envelope decays to that of the law at rest.
    last = envelope * np.exp(-found * (rest_phase - phase))
    assert last == pytest.approx(law.release_envelope * swing * np.exp(-rest_phase), rel=1e-9)


@pytest.mark.parametrize("bounce", [0.0, 0.1, 0.3, 0.6])
@pytest.mark.parametrize(("ratio", "part"), [(1.0, 0.0), (1.09, 0.0), (1.2, 0.3), (2.0, 0.6), (3.0, 0.97), (90.0, 0.0)])
def test_turning_pace_matches_formula(bounce: float, ratio: float, part: float) -> None:
    """At the pace of (2.48) the envelope at the next swing is that of the law, unless a bound acts."""
    law, swing = settle_law(2.0, bounce, 50.0), 0.3
    turn = np.pi * law.decay / law.frequency if bounce else 0.7
    phase = part * turn
    envelope = ratio * law.release_envelope * swing * np.exp(-phase)
    found = turning_pace(law, swing, phase, envelope)
    expected = laws.turning_pace(law.decay, law.frequency, swing, phase, envelope)
    assert found == pytest.approx(expected, rel=1e-12)
    if not bounce or ratio < 1.1:
        assert found == 1.0
    elif found < 4.0 and part < 0.9:
        last = envelope * np.exp(-found * (turn - phase))
        assert last == pytest.approx(law.release_envelope * swing * np.exp(-turn), rel=1e-9)
    assert turning_pace(law, swing, 1.01 * turn, 2.0 * envelope) == 1.0


# Without steering, they rest 1.6, 4.1, 10.7 and 11.3 frames late.
@pytest.mark.parametrize(
    ("shape", "part", "settle", "bounce"),
    [
        (dumbbell, 0.5, 24.0, 0.0),
        (horseshoe, 0.79, 12.0, 10.0),
        pytest.param(ring, 0.7, 28.0, 10.0, marks=pytest.mark.slow),
        pytest.param(tail, 0.6, 39.0, 10.0, marks=pytest.mark.slow),
    ],
)
def test_far_release_rests_on_time(shape: object, part: float, settle: float, bounce: float) -> None:
    body = pinned_body(shape(), 0.05, settle=settle, bounce=bounce, resolution=250, substeps=2)  # type: ignore[operator]
    outcome = outcome_after_release(body, first_mode_load, part, 24.0)
    law = settle_law(settle, bounce / 100.0, 1.0)
    assert outcome.rest + law.time_to_peak == pytest.approx(settle, abs=max(1.0, 0.05 * settle))


@pytest.mark.parametrize("bounce", [0.0, 10.0])
def test_far_stop_with_weight_rests(bounce: float) -> None:
    """A hanging body that turns and stops far rests on time. Without steering it is 2 and 8 frames late."""
    surface = ear()
    body = pinned_body(surface, 0.05, settle=24.0, bounce=bounce, resolution=250, stiffness=1000.0, substeps=2)
    spin = np.array([0.0, 6.0, 14.0])
    outcome = outcome_after_stop(body, rotation_motion(surface, spin), 24.0, DOWN)
    assert outcome.largest > 0.2 * surface.size
    assert outcome.rest == pytest.approx(24.0, abs=1.2)


def records_after(simulation: Simulation, state: State | None = None, count: int = 8) -> list[SwingRecord]:
    """Return the records of the only system's regions some frames after a start at a state."""
    first = simulation.first_frame()
    run = simulation.frames(first if state is None else replace(first, state=state))
    frame = next(one for k, one in enumerate(run, 1) if k == count)
    numbers = frame.state.history.block(simulation.islands[0].system.name).steering
    return [] if numbers is None else [SwingRecord.read(row) for row in numbers]


@pytest.mark.parametrize("stiffness", [300.0, 3000.0])
@pytest.mark.parametrize("bounce", [0.0, 30.0])
def test_small_swing_keeps_dialled_pace(stiffness: float, bounce: float) -> None:
    """Steering leaves small swings alone, also about a hanging shape far from the modelled one."""
    body = pinned_body(box((1.0, 0.2, 0.2)), 0.05, settle=24.0, bounce=bounce, stiffness=stiffness, resolution=250)
    simulation = make_simulation(body, 24.0, 30, DOWN)
    state = deflected_state(simulation, load_along(np.array([0.2, 1.0, 0.5]))(simulation.islands[0].system), 0.01)
    (record,) = records_after(simulation, state)
    # Nodes lie outside the surface, and the hanging shape is known to a thousandth.
    assert record.swing == pytest.approx(0.01 * body.surface.size, rel=0.1)
    assert record.pace == pytest.approx(1.0, abs=0.01)


def test_rate_does_not_matter() -> None:
    """A far release follows one trajectory at 12, 24 and 60 fps and with 1 to 4 substeps, within 2% of its swing."""
    surface, courses = horn(), []
    for fps, substeps in ((12.0, 2), (24.0, 1), (24.0, 4), (60.0, 1)):
        settle = fps
        body = pinned_body(surface, 0.05, settle=settle, bounce=10.0, resolution=250, substeps=substeps)
        simulation = make_simulation(body, fps, int(fps) + 1)
        state = deflected_state(simulation, load_along(np.array([0.0, 1.0, 0.3]))(simulation.islands[0].system), 0.5)
        shapes = [one.shapes[body.name] for one in simulation.frames(replace(simulation.first_frame(), state=state))]
        # Every twelfth of a second.
        courses.append(np.array(shapes)[int(fps / 12) - 1 :: int(fps / 12)])
    swing = 0.5 * surface.size
    for one in courses[1:]:
        assert np.abs(one - courses[0]).max() < 0.02 * swing


@pytest.mark.parametrize(("bounce", "substeps"), [(0.2, 1), (0.5, 1), (0.5, 2), (0.8, 2)])
def test_hardly_any_bounce_rests_on_time(bounce: float, substeps: int) -> None:
    """A swing whose first turn comes after rest ends on time, also where a step begins exactly at rest."""
    dials = {"settle": 12.0, "bounce": bounce, "stiffness": 60.0, "resolution": 250, "substeps": substeps}
    motion = translation_motion(ear(), np.array([0.4, 2.0, -1.0]))
    outcome = outcome_after_stop(pinned_body(ear(), 0.05, **dials), motion, 24.0, DOWN)
    assert outcome.rest == pytest.approx(12.0, abs=1.0)
    assert outcome.overshoot < 0.02


def test_regions_are_steered_separately() -> None:
    """Each end of a rod that is pinned in its middle has its own swing and rests on time."""
    surface = gridded_box("Rod", (0.0, 0.0, 0.0), (2.0, 0.2, 0.15), 0.05)
    pins = (np.abs(surface.vertices[:, 0] - 1.0) < 0.4).astype(float)
    body = static_body(surface, pins, settle=24.0, bounce=0.0, stiffness=100.0, poisson=0.4, resolution=500)
    simulation = make_simulation(body, 24.0, 44)
    system = simulation.islands[0].system
    assert len(system.regions) == 2
    strength = np.where(system.rest[:, 0] < 1.0, 1.0, 0.05)[:, None]
    load = strength * load_along(np.array([0.6, 0.0, -1.0]))(system)
    first = simulation.first_frame()
    frames = list(simulation.frames(replace(first, state=deflected_state(simulation, load, 0.35))))
    paces = [row[2] for row in frames[10].state.history.block("Rod").steering]  # type: ignore[union-attr]
    assert abs(paces[0] - paces[1]) > 0.05
    distances = np.linalg.norm([one.shapes["Rod"] - first.shapes["Rod"] for one in frames], axis=2)
    lead = settle_law(24.0, 0.0, 1.0).time_to_peak
    for half in (surface.vertices[:, 0] < 1.0, surface.vertices[:, 0] > 1.0):
        distance = distances[:, half].max(axis=1)
        rest = int(np.flatnonzero(distance > 0.01 * distance[0])[-1]) + 1
        assert rest + 0.5 + lead == pytest.approx(24.0, abs=1.2)


def test_rest_shape_is_kept() -> None:
    body = pinned_body(horn(), 0.05, settle=8.0, bounce=10.0, resolution=250)
    simulation = make_simulation(body, 24.0, 40)
    state = deflected_state(simulation, first_mode_load(simulation.islands[0].system), 0.5)
    first = simulation.first_frame()
    *_, last = simulation.frames(replace(first, state=state))
    assert np.abs(last.shapes[body.name] - first.shapes[body.name]).max() < 1e-5 * body.surface.size


def unsteered_bodies() -> dict[str, AnimatedBody]:
    surface = horn()
    dials = {"settle": 12.0, "bounce": 0.0, "resolution": 250}
    held = pinned_body(surface, 0.05, **dials)
    ones = np.ones(len(surface.vertices))
    found = {
        "free": pinned_body(surface, -1.0, **dials),
        "painted": replace(held, settle_map=0.5 + 0.5 * ones),
        "parts": replace(held, parts=(Part("All", ones, 8.0, 10.0, 1.0),)),
        "plastic": pinned_body(surface, 0.05, plastic_yield=5.0, plastic_creep=50.0, **dials),
    }
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["free", "painted", "parts", "plastic"])
def test_other_bodies_are_not_steered(name: str) -> None:
    """Free and plastic bodies, painted pace and parts follow their laws as without steering."""
    body = unsteered_bodies()[name]
    moving = replace(body, motion=lambda frame: translation_motion(body.surface, np.array([0.0, 9.0, 0.0]))(frame / 24))
    simulation = make_simulation(moving, 24.0, 12)
    assert all(one.pace == 1.0 for one in records_after(simulation))


def test_record_is_stored() -> None:
    body = pinned_body(horn(), 0.05, settle=12.0, bounce=0.0, resolution=250)
    simulation = make_simulation(body, 24.0, 12)
    state = deflected_state(simulation, first_mode_load(simulation.islands[0].system), 0.5)
    frame = list(simulation.frames(replace(simulation.first_frame(), state=state)))[5]
    arrays = history_arrays(frame.state.history)
    again = history_arrays(history_from_arrays(arrays))[body.name]["steering"]
    assert again.shape == (1, 9)
    assert again.tobytes() == arrays[body.name]["steering"].tobytes()


def test_release_during_swing_starts_anew() -> None:
    """A body that swings and stops again counts Settle from the second stop."""
    surface = ear()
    body = pinned_body(surface, 0.05, settle=24.0, bounce=0.0, resolution=250)
    velocity = np.array([0.0, 4.0, 4.0])

    def way(frame: float) -> np.ndarray:
        time = (min(frame, 5.0) + np.clip(frame - 12.0, 0.0, 4.0)) / 24.0
        return np.asarray(surface.vertices + time * velocity)

    simulation = make_simulation(replace(body, motion=way), 24.0, 60, ZERO_GRAVITY)
    frames = list(simulation.frames())
    shapes = np.array([one.shapes[body.name] for one in frames if one.number >= 16])
    distance = np.linalg.norm(shapes - (shapes[-1]), axis=2).max(axis=1)
    rest = int(np.flatnonzero(distance > 0.01 * distance.max())[-1])
    assert 22 <= rest <= 25


def test_hard_step_releases_anew() -> None:
    """A body that a hard step has left without history rests as after a release. It rested when a thrown one does."""
    body = pinned_body(horn(), 0.05, settle=24.0, bounce=0.0, resolution=250)
    simulation = make_simulation(body, 24.0, 60, ZERO_GRAVITY)
    state = deflected_state(simulation, first_mode_load(simulation.islands[0].system), 0.5)
    frame = list(simulation.frames(replace(simulation.first_frame(), state=state)))[6]
    history, (block,) = frame.state.history, simulation.islands[0].system.blocks
    own = replace(history.block(block.name), deformation=None)
    interrupted = replace(frame, state=replace(frame.state, history=history.with_block(block.name, own)))
    assert interrupted.state.velocities.any()
    shapes = np.array([one.shapes[body.name] for one in (frame, *simulation.frames(interrupted))])
    distance = np.linalg.norm(shapes - shapes[-1], axis=2).max(axis=1)
    rest = int(np.flatnonzero(distance > 0.01 * distance.max())[-1])
    (law,) = simulation.controls()[0].laws
    assert isinstance(law, WaveformLaw)
    assert rest == pytest.approx(24.0 * law.release_rest_time, abs=1.2)


def stretched_release(make: Callable[[], Surface], part: float, **dials: float) -> tuple[np.ndarray, list[SwingRecord]]:
    """Return the largest distances (k,) from rest, over the first one, after a release from a stretch lengthwise.

    The records are those of the frames after the release.
    """
    body = pinned_body(make(), 0.05, resolution=250, stiffness=100.0, **dials)
    simulation = make_simulation(body, 24.0, 36)
    load = load_along(np.array([1.0, 0.03, -0.02]))(simulation.islands[0].system)
    first, state = simulation.first_frame(), deflected_state(simulation, load, part)
    shape = simulation.shapes(state, simulation.sample_frame(1).samples[-1])[body.name]
    frames = list(simulation.frames(replace(first, state=state)))
    ways = np.array([shape, *(one.shapes[body.name] for one in frames)]) - first.shapes[body.name]
    distances = np.linalg.norm(ways, axis=2).max(axis=1)
    blocks = [one.state.history.block(body.name).steering for one in frames]
    return distances / distances[0], [SwingRecord.read(one[0]) for one in blocks if one is not None]


# With bounce, they buckle and move 13 to 1.5 times as far as they were pulled.
@pytest.mark.parametrize(
    ("make", "part", "bounce"),
    [(dumbbell, 0.12, 45.0), (dumbbell, 0.5, 20.0), (lambda: box((1.0, 0.2, 0.15)), 0.2, 60.0)],
)
@pytest.mark.parametrize("substeps", [1, 4])
def test_stretched_solid_does_not_buckle(
    make: Callable[[], Surface], part: float, bounce: float, substeps: int
) -> None:
    distances, records = stretched_release(make, part, settle=20.0, bounce=bounce, substeps=substeps)
    law = settle_law(20.0, bounce / 100.0, 1.0)
    assert distances.max() == distances[0]
    rest = int(np.flatnonzero(distances > 0.01)[-1]) + 0.5
    assert rest + law.time_to_peak == pytest.approx(20.0, abs=1.0)
    # Bounce returns with the next swing.
    assert not records[0].has_bounce
    assert records[-1].has_bounce


def test_stout_solid_keeps_its_bounce() -> None:
    """A stretched solid that is too stout to buckle swings past rest by Bounce."""
    distances, records = stretched_release(lambda: box((1.0, 0.6, 0.6)), 0.1, settle=20.0, bounce=30.0, substeps=2)
    assert all(one.has_bounce for one in records)
    turn = int(distances[:8].argmin())
    assert distances[turn:].max() == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize(("strain", "stable"), [(-0.2, False), (-0.001, True), (0.3, True)])
def test_compressed_column_is_unstable(strain: float, stable: bool) -> None:
    """A slender column buckles between a strain of 0.1% and 20%, and never if it is stretched."""
    body = pinned_body(box((1.0, 0.15, 0.15)), 0.05, settle=20.0, bounce=30.0, stiffness=100.0, resolution=250)
    simulation = make_simulation(body, 24.0, 2)
    (system,) = (one.system for one in simulation.islands)
    stepper, (region,) = FactorisedSystem(system, None), system.regions
    displacements = strain * system.rest[region.free] * np.array([1.0, 0.0, 0.0])
    assert is_stable(stepper, region, displacements, np.ones(1)) is stable

"""Invariance of contact: resumed bakes, common motion of all objects, and unrelated objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored_history import history_bytes

from builders import gridded_box, scene, static_body
from dampsim.core.contact.collision_detection import CollisionDetection
from dampsim.core.contact.penalty_and_friction import ContactSet
from dampsim.core.contact_response import contact_solve
from dampsim.core.contact_response.impacts import ContactResultant, Impact, update_impacts
from dampsim.core.frames.cache import FrameCache
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.bake import bake
from dampsim.core.simulation.simulation import Simulation, SimulationRun
from random_pairs import extrude_polygon
from supports import block, collider, plane
from test_contact_penetration import stack

SIZE = 0.2 * 3**0.5
R = 0.005 * SIZE


def falling_blocks(last: int = 18) -> Scene:
    """Return two blocks that land on each other and on a moving table, with every kind of contact history."""
    one = block("One", low=(-0.1, -0.1, 0.02), touch_together=True, bounce=30.0)
    two = block("Two", low=(0.0, -0.05, 0.3), touch_together=True, stiffness=300.0, settle=24.0)
    table = gridded_box("Table", (-0.4, -0.4, -0.2), (0.4, 0.4, 0.0), 0.1)

    def path(frame: float) -> np.ndarray:
        return np.array([0.02 * np.sin(frame / 3.0), 0.0, 0.01 * np.cos(frame / 4.0)])

    return scene(one, two, last=last, colliders=(collider(table, path), plane(-0.1)))


def frame_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("frame_*"))}


@pytest.mark.slow
def test_bake_stopped_in_contact_resumes_identically(tmp_path: Path) -> None:
    for _ in bake(Simulation(falling_blocks()), FrameCache(tmp_path / "whole", "Group")):
        pass
    whole = frame_files(tmp_path / "whole")
    assert len(whole) == 18
    # After the first block landed, and after both did.
    for stop in (6, 13):
        folder = tmp_path / f"parts{stop}"
        steps = bake(Simulation(falling_blocks()), FrameCache(folder, "Group"))
        for progress in steps:
            if progress.done == stop:
                break
        steps.close()
        for _ in bake(Simulation(falling_blocks()), FrameCache(folder, "Group")):
            pass
        assert frame_files(folder) == whole


def test_frame_holds_complete_contact_history() -> None:
    made = scene(block(low=(-0.1, -0.1, 0.1), bounce=30.0, settle=8.0), last=14, colliders=(plane(),))
    frames = list(Simulation(made).frames())
    kinds = {name for one in frames for (_, name), kept in history_bytes(one.state.history).items() if any(kept)}
    assert {"contacts", "impacts", "held"} <= kinds
    for frame in frames[3:-1]:
        following = next(Simulation(made).frames(frame))
        assert np.array_equal(following.state.positions, frames[frame.number].state.positions)
        assert history_bytes(following.state.history) == history_bytes(frames[frame.number].state.history)


def landing_in_moving_frame(velocity: np.ndarray, height: float, bounce: float, last: int, **more: Any) -> np.ndarray:
    """Return positions (k, v, 3), m, of a block that falls onto ground, in a frame that moves with both.

    velocity: of block and ground, m/s.
    """

    def path(frame: float) -> np.ndarray:
        return velocity * (frame - 1.0) / 24.0

    body = block(low=(-0.1, -0.1, height), bounce=bounce, **more)
    simulation = Simulation(scene(body, last=last, colliders=(plane(path=path),)))
    run = SimulationRun(simulation, simulation.first_frame(), simulation.sample_frame(1))
    state = run.frame.state
    run.frame = replace(run.frame, state=replace(state, velocities=state.velocities + velocity))
    found = [run.frame.surface]
    for number in range(2, last + 1):
        found.append(run.advance(simulation.sample_frame(number, run.substep_count)).surface - path(number))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("velocity", "bounce"),
    [
        ((0.0, 0.0, 1.0), 50.0),
        pytest.param((0.0, 0.0, 1.0), 0.0, marks=pytest.mark.slow),
        pytest.param((0.0, 0.0, -1.0), 50.0, marks=pytest.mark.slow),
        pytest.param((1.0, 0.5, 0.0), 50.0, marks=pytest.mark.slow),
        pytest.param((1.0, 0.5, 0.3), 0.0, marks=pytest.mark.slow),
    ],
)
def test_landing_is_galilean_invariant(velocity: tuple[float, ...], bounce: float) -> None:
    still = landing_in_moving_frame(np.zeros(3), 0.3, bounce, 30)
    moved = landing_in_moving_frame(np.array(velocity), 0.3, bounce, 30)
    # Each step is solved to its tolerance; landings amplify the error.
    assert np.abs(still - moved).max() < 0.01 * SIZE


@pytest.mark.slow
def test_moving_ground_throws_landed_block() -> None:
    def path(frame: float) -> np.ndarray:
        return np.array([0.0, 0.0, 0.125 * min(max(frame - 49.0, 0.0), 6.0)])

    heights = []
    for drop in (0.95 * R, 0.5):
        body = block(low=(-0.1, -0.1, drop), settle=6.0)
        frames = list(Simulation(scene(body, last=76, colliders=(plane(path=path),))).frames())
        heights.append(max(float(one.surface[:, 2].min()) for one in frames))
    # 3 m/s give 0.46 m, less half a step of gravity.
    assert heights == pytest.approx([0.75 + 0.46] * 2, abs=0.07)


@pytest.mark.parametrize("seed", range(20))
def test_inelastic_impact_energy_and_momentum(seed: int) -> None:
    """An impact without Bounce adds no energy and changes no total momentum, wherever its resultant acts."""
    rng = np.random.default_rng(seed)
    one, two = (block(name, low=(k, 0.0, 0.0), touch_together=True) for k, name in enumerate(("One", "Two")))
    system = Simulation(scene(one, two)).islands[0].system
    x, mass = system.rest, system.mass
    v = np.zeros_like(x)
    for part in system.slices:
        spin, speed = rng.normal(size=(2, 3)) * [[10.0], [1.0]]
        v[part] = speed + np.cross(spin, x[part] - x[part].mean(axis=0))
    normal = rng.normal(size=3)
    normal /= np.linalg.norm(normal)
    for other in (-1, 1):
        # The resultant acts anywhere in the bodies, after an approach at any speed.
        centre = x[rng.integers(len(x))]
        touch = ContactResultant(0, other, 100.0 * normal, centre, rng.normal(size=3) * 0.1)
        for rebound in (-1.0, 0.0):
            known = {(0, other): Impact(0, other, 3, float(rng.uniform(0.5, 4.0)), rebound, normal)}
            _, after = update_impacts(system, known, [touch], (x, v), (x, v), [0.0, 0.0], 1.0 / 24.0, 0.4)
            # Relative to the collider, which nothing moves.
            there = touch.support_velocity if other < 0 else np.zeros(3)
            before, now = (0.5 * float(mass @ ((w - there) ** 2).sum(axis=1)) for w in (v, after))
            assert now <= before * (1.0 + 1e-12)
            if other >= 0:
                change = mass[:, None] * (after - v)
                np.testing.assert_allclose(change.sum(axis=0), 0.0, atol=1e-12 * np.abs(mass @ np.abs(v)).max())
                turned = np.cross(x, change).sum(axis=0)
                np.testing.assert_allclose(turned, 0.0, atol=1e-11 * np.abs(mass @ np.abs(v)).max())


@pytest.mark.slow
def test_spinning_rod_lands_and_rests() -> None:
    """A rod of eight sides at 4 turns per second, with a long Settle time that must not drive it on."""
    angle = np.pi * (np.arange(8) + 0.5) / 4.0
    rod = extrude_polygon("Rod", 0.08 * np.stack([np.cos(angle), np.sin(angle)], axis=1), 0.2)
    lying = np.stack([rod.vertices[:, 2], rod.vertices[:, 0], rod.vertices[:, 1]], axis=1)
    lying[:, 2] -= lying[:, 2].min() - 0.1
    dials = {"stiffness": 600.0, "settle": 42.0, "bounce": 0.0, "resolution": 150, "substeps": 4}
    body = static_body(replace(rod, vertices=lying), start_settled=False, **dials)
    simulation = Simulation(scene(body, last=40, colliders=(plane(),)))
    run = SimulationRun(simulation, simulation.first_frame(), simulation.sample_frame(1))
    state, mass = run.frame.state, simulation.islands[0].system.mass
    lever = state.positions - mass @ state.positions / mass.sum()
    run.frame = replace(run.frame, state=replace(state, velocities=np.cross([-25.0, 0.0, 0.0], lever)))
    found = []
    for number in range(2, 41):
        now = run.advance(simulation.sample_frame(number, run.substep_count)).state
        found.append(float(mass @ (0.5 * (now.velocities**2).sum(axis=1) + 9.81 * now.positions[:, 2])))
    # Relative to its energy at rest.
    above = np.array(found) - 9.81 * mass.sum() * 0.08 * np.cos(np.pi / 8.0)
    assert above.max() < 1.02 * above[0]
    assert above[-1] < 0.1 * above[0]


@pytest.mark.slow
def test_blocks_on_separate_plates_are_independent() -> None:
    plate, other = (
        gridded_box(name, (-0.3, y - 0.3, -0.2), (0.3, y + 0.3, 0.0), 0.15) for name, y in (("One", 0.0), ("Two", 5.0))
    )

    def path(frame: float) -> np.ndarray:
        return np.array([0.5 * (frame - 1.0) / 24.0, 0.0, 0.0])

    found = []
    for together in (False, True):
        bodies = [
            block("Here", low=(-0.1, -0.1, 0.95 * R), touch_together=True, friction=2.0, settle=4.0, stiffness=30.0)
        ]
        if together:
            bodies.append(
                block("There", low=(-0.1, 4.9, 0.95 * R), touch_together=True, friction=2.0, settle=4.0, stiffness=30.0)
            )
        made = scene(*bodies, last=48, colliders=(collider(plate, path), collider(other)))
        found.append(np.array([one.shapes["Here"] for one in Simulation(made).frames()]))
    # Within the tolerance of the steps.
    assert np.abs(found[0] - found[1]).max() < 1e-3 * SIZE


@pytest.mark.slow
def test_redetection_skip_keeps_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps with little motion skip the second detection, with the same result."""
    looked = []
    find = CollisionDetection.__call__

    def counted(detection: CollisionDetection, positions: np.ndarray) -> ContactSet:
        looked.append(1)
        return find(detection, positions)

    def run() -> tuple[np.ndarray, np.ndarray]:
        counts, places = [], []
        for frame in stack(2, 60).frames():
            counts.append(len(looked))
            looked.clear()
            places.append(frame.state.positions)
        return np.array(counts), np.array(places)

    monkeypatch.setattr(CollisionDetection, "__call__", counted)
    counts, places = run()
    monkeypatch.setattr(contact_solve, "_REDETECTION_FRACTION", 0.0)
    every, wanted = run()
    # During landing detection runs again at the end of the step. At the end motions are 10^-5 of the contact distance.
    assert (counts[1:8] >= 2).all()
    # A step at the level of rounding may need another attempt.
    assert np.count_nonzero(counts[-20:] == 1) >= 19
    assert (every[1:] >= 2).all()
    assert np.array_equal(places, wanted)

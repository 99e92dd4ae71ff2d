"""Step truncation: a step that ends with a new intersection stops before it becomes visible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import scene, static_body
from dampsim.core.base.arrays import Array
from dampsim.core.contact.intersections import INVISIBLE_DEPTH, exactly_checked_pairs, new_intersections, relative_depth
from dampsim.core.contact_response import contact_solve
from dampsim.core.contact_response.contact_solve import ContactSolve
from dampsim.core.frames.frame import Frame
from dampsim.core.measure.contact_results import VISIBLE_PENETRATION
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.objective import Minimum, Outcome
from random_pairs import Pair, floor, has_intersection, relative_penetration
from shapes import box

_FPS = 24.0


def _box(name: str, *low: float) -> Body:
    points = box((0.4, 0.4, 0.4)).vertices
    points = points - points.min(axis=0) + np.array(low)
    dials = {"stiffness": 200.0, "settle": 24.0, "bounce": 20.0, "resolution": 60, "touch_together": True}
    return static_body(replace(box((0.4, 0.4, 0.4)), name=name, vertices=points), **dials)


def _falling_boxes(last: int) -> Pair:
    """Return a box above another one, off its centre, above a floor."""
    bodies = _box("A", 0.0, 0.0, 0.1), _box("B", 0.11, 0.07, 0.62)
    return Pair(scene(*bodies, last=last, colliders=(floor(),)), "boxes")


def _disable_detection(monkeypatch: pytest.MonkeyPatch, until: float = np.inf) -> list[Any]:
    """Disable detection in steps that begin before a time, s; return the arguments and results of truncations."""
    sees, cuts, known = ContactSolve.solve, contact_solve.truncate_to_intersection_free, []

    def minimised(self: ContactSolve, made: Callable[[Any], Any], minimiser: Any, *given: Any) -> Any:
        if self.state.time >= until:
            return sees(self, made, minimiser, *given)
        problem = made(None)
        return problem, Minimum(problem.start, Outcome.CONTACT_SET, 0, 0, 0.0, 0.0)

    def cut_back(*given: Any) -> Any:
        known.append((*given, *cuts(*given)))
        return known[-1][-2:]

    monkeypatch.setattr(ContactSolve, "solve", minimised)
    monkeypatch.setattr(contact_solve, "truncate_to_intersection_free", cut_back)
    return known


def _first_frame_with_speeds(simulation: Simulation, **speeds: Array) -> Frame:
    """Return the first frame, with bodies at velocities (3,) m/s."""
    first = simulation.first_frame()
    velocities = first.state.velocities.copy()
    for name, speed in speeds.items():
        velocities[simulation.assembly.node_slice_of(simulation.scene.body_index(name))] = speed
    return replace(first, state=replace(first.state, velocities=velocities))


@pytest.mark.slow
def test_truncated_bodies_resume_falling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps without contacts are truncated before visible penetration; with contacts the fall goes on."""
    pair, found = _falling_boxes(40), 14
    known = _disable_detection(monkeypatch, found / _FPS)
    frames = list(Simulation(pair.scene).frames())
    # Without truncation they would be 1.4 m below the floor when detection starts.
    assert len([one for one in known if one[-1]]) > 20
    for frame in frames:
        assert relative_penetration(pair, frame.shapes) <= VISIBLE_PENETRATION, frame.number
    assert not has_intersection(pair, frames[-1].shapes)
    lowest = [float(frame.shapes["A"][:, 2].min()) for frame in frames]
    # The lower box reached the floor before, and both rest at the end.
    assert min(lowest[:found]) < 0.01
    assert float(np.abs(frames[-1].state.velocities).max()) < 0.1
    # No speed exceeds twice that of a fall of 0.22 m.
    fastest = max(float(np.linalg.norm(frame.state.velocities, axis=1).max()) for frame in frames)
    assert fastest < 2.0 * np.sqrt(2.0 * 9.81 * 0.22)


@pytest.mark.slow
def test_truncated_simulation_restarts_bit_identically(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = _falling_boxes(14)
    _disable_detection(monkeypatch, 8.0 / _FPS)
    frames = list(Simulation(pair.scene).frames())
    for start in (5, 7, 9):
        for one, other in zip(Simulation(pair.scene).frames(frames[start]), frames[start + 1 :], strict=True):
            assert one.state.positions.tobytes() == other.state.positions.tobytes()
            assert one.state.velocities.tobytes() == other.state.velocities.tobytes()


def test_truncation_conserves_momentum_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncated bodies keep their total momentum, and other bodies keep their motion."""
    bodies = _box("A", 0.0, 0.0, 0.0), _box("B", 0.05, 0.07, 0.5), _box("C", 3.0, 0.0, 0.0)
    simulation = Simulation(scene(*bodies, last=6, gravity=np.zeros(3)))
    known = _disable_detection(monkeypatch)
    speeds = {"A": np.zeros(3), "B": np.array([1.0, 0.0, -4.0]), "C": np.array([0.0, 2.0, 0.0])}
    list(simulation.frames(_first_frame_with_speeds(simulation, **speeds)))
    cut = [one for one in known if one[-1]]
    assert cut
    for system, moment, problem, wanted, _, _, found, blocks in cut:
        assert blocks == {0, 1}
        assert new_intersections(moment, problem.positions(wanted)) == [(0, 1)]
        assert not new_intersections(moment, problem.positions(found))
        mass = system.mass[:, None]
        mine, other = np.arange(system.slices[2].start), system.slices[2]
        # Within rounding.
        np.testing.assert_allclose((mass[mine] * found[mine]).sum(0), (mass[mine] * wanted[mine]).sum(0), atol=1e-9)
        np.testing.assert_array_equal(found[other], wanted[other])


def test_truncated_body_never_creeps_through_floor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(scene(_box("A", 0.0, 0.0, 0.1), _box("B", 0.0, 0.0, 9.0), last=6, colliders=(floor(),)), "box")
    simulation = Simulation(pair.scene)
    known = _disable_detection(monkeypatch)
    frames = list(simulation.frames(_first_frame_with_speeds(simulation, A=np.array([0.0, 0.0, -20.0]))))
    _, moment, problem, wanted, _, _, found, _ = known[0]
    (floored,) = (
        one for one in exactly_checked_pairs(moment) if new_intersections(moment, problem.positions(wanted)) == [one]
    )
    # Its displacement, 0.05 m, is truncated to 1/256, which is 0.0003 of its size.
    assert (
        0.2 * INVISIBLE_DEPTH
        < relative_depth(moment, moment.points_at(problem.positions(found)), floored)
        <= 0.5 * INVISIBLE_DEPTH
    )
    assert max(relative_penetration(pair, frame.shapes) for frame in frames) <= VISIBLE_PENETRATION


def test_no_truncation_against_animated_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    ground = floor()
    rising = replace(ground, motion=lambda frame: ground.vertices + np.array([0.0, 0.0, 0.1 * (frame - 1.0)]))
    simulation = Simulation(scene(_box("A", 0.0, 0.0, 0.001), last=3, colliders=(rising,), gravity=np.zeros(3)))
    known = _disable_detection(monkeypatch)
    list(simulation.frames())
    # With any displacement it is in the floor, so the step is not truncated.
    assert known
    assert all(one[-2] is one[3] and not one[-1] for one in known)

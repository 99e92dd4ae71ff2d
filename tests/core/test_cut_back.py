"""Where a step's search ends with one thing in another, they go only as far as nobody sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import scene, still
from dampsim.core.arrays import Array
from dampsim.core.contact.passing import DEEP, depth, looked_at, passes
from dampsim.core.frames.frame import Frame
from dampsim.core.measure.contacts import SEEN
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.problem import Minimum, Outcome
from dampsim.core.stepping import contact_step
from dampsim.core.stepping.contact_step import ContactStep
from pairs import Pair, crosses, floor, visible_depth
from shapes import box

_FPS = 24.0


def _box(name: str, *low: float) -> Body:
    points = box((0.4, 0.4, 0.4)).vertices
    points = points - points.min(axis=0) + np.array(low)
    dials = {"stiffness": 200.0, "settle": 24.0, "bounce": 20.0, "resolution": 60, "touch_together": True}
    return still(replace(box((0.4, 0.4, 0.4)), name=name, vertices=points), **dials)


def _falling(last: int) -> Pair:
    """A box above another one, aside of its middle, above a floor."""
    bodies = _box("A", 0.0, 0.0, 0.1), _box("B", 0.11, 0.07, 0.62)
    return Pair(scene(*bodies, last=last, obstacles=(floor(),)), "boxes")


def _blind(monkeypatch: pytest.MonkeyPatch, until: float = np.inf) -> list[Any]:
    """Steps that begin before a time in s find nothing that touches. Gives what was cut back, and into what."""
    sees, cuts, known = ContactStep.minimised, contact_step.cut_back, []

    def minimised(self: ContactStep, made: Callable[[Any], Any], minimiser: Any, *given: Any) -> Any:
        if self.state.time >= until:
            return sees(self, made, minimiser, *given)
        problem = made(None)
        return problem, Minimum(problem.start, Outcome.TOUCHING, 0, 0, 0.0, 0.0)

    def cut_back(*given: Any) -> Any:
        known.append((*given, *cuts(*given)))
        return known[-1][-2:]

    monkeypatch.setattr(ContactStep, "minimised", minimised)
    monkeypatch.setattr(contact_step, "cut_back", cut_back)
    return known


def _flying(simulation: Simulation, **speeds: Array) -> Frame:
    """The first frame, with bodies that go on with speeds (3,) m/s."""
    first = simulation.first_frame()
    velocities = first.state.velocities.copy()
    for name, speed in speeds.items():
        velocities[simulation.assembly.nodes_of(simulation.scene.place_of(name))] = speed
    return replace(first, state=replace(first.state, velocities=velocities))


@pytest.mark.slow
def test_bodies_whose_steps_find_nothing_get_into_nothing_and_fall_on_when_they_find_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair, found = _falling(40), 14
    known = _blind(monkeypatch, found / _FPS)
    frames = list(Simulation(pair.scene).frames())
    # Without contacts they would be 1.4 m below the floor when the steps begin to find them.
    assert len([one for one in known if one[-1]]) > 20
    for frame in frames:
        assert visible_depth(pair, frame.shapes) <= SEEN, frame.number
    assert not crosses(pair, frames[-1].shapes)
    lowest = [float(frame.shapes["A"][:, 2].min()) for frame in frames]
    # It went down to the floor before, and both lie there in the end.
    assert min(lowest[:found]) < 0.01
    assert float(np.abs(frames[-1].state.velocities).max()) < 0.1
    # Nothing was thrown: to there it is 0.1 m.
    fastest = max(float(np.linalg.norm(frame.state.velocities, axis=1).max()) for frame in frames)
    assert fastest < 2.0 * np.sqrt(2.0 * 9.81 * 0.22)


@pytest.mark.slow
def test_what_was_cut_back_goes_on_from_a_kept_frame_with_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = _falling(14)
    _blind(monkeypatch, 8.0 / _FPS)
    frames = list(Simulation(pair.scene).frames())
    for start in (5, 7, 9):
        for one, other in zip(Simulation(pair.scene).frames(frames[start]), frames[start + 1 :], strict=True):
            assert one.state.positions.tobytes() == other.state.positions.tobytes()
            assert one.state.velocities.tobytes() == other.state.velocities.tobytes()


def test_bodies_that_meet_in_the_air_keep_their_momentum_and_others_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = _box("A", 0.0, 0.0, 0.0), _box("B", 0.05, 0.07, 0.5), _box("C", 3.0, 0.0, 0.0)
    simulation = Simulation(scene(*bodies, last=6, gravity=np.zeros(3)))
    known = _blind(monkeypatch)
    speeds = {"A": np.zeros(3), "B": np.array([1.0, 0.0, -4.0]), "C": np.array([0.0, 2.0, 0.0])}
    list(simulation.frames(_flying(simulation, **speeds)))
    cut = [one for one in known if one[-1]]
    assert cut
    for system, moment, problem, wanted, _, found, blocks in cut:
        assert blocks == {0, 1}
        assert passes(moment, problem.positions(wanted)) == [(0, 1)]
        assert not passes(moment, problem.positions(found))
        mass = system.mass[:, None]
        mine, other = np.arange(system.slices[2].start), system.slices[2]
        # To rounding.
        np.testing.assert_allclose((mass[mine] * found[mine]).sum(0), (mass[mine] * wanted[mine]).sum(0), atol=1e-9)
        np.testing.assert_array_equal(found[other], wanted[other])


def test_a_body_goes_as_far_as_is_free_and_stays_there_without_coming_through_by_a_little_in_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(scene(_box("A", 0.0, 0.0, 0.1), _box("B", 0.0, 0.0, 9.0), last=6, obstacles=(floor(),)), "box")
    simulation = Simulation(pair.scene)
    known = _blind(monkeypatch)
    frames = list(simulation.frames(_flying(simulation, A=np.array([0.0, 0.0, -20.0]))))
    _, moment, problem, wanted, _, found, _ = known[0]
    (floored,) = (one for one in looked_at(moment) if passes(moment, problem.positions(wanted)) == [one])
    # Its way in the step, 0.05 m, is known to 1/256, which is 0.0003 of its size.
    assert 0.2 * DEEP < depth(moment, moment.points(problem.positions(found)), floored) <= 0.5 * DEEP
    assert max(visible_depth(pair, frame.shapes) for frame in frames) <= SEEN


def test_what_an_animated_floor_goes_into_is_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ground = floor()
    rising = replace(ground, motion=lambda frame: ground.vertices + np.array([0.0, 0.0, 0.1 * (frame - 1.0)]))
    simulation = Simulation(scene(_box("A", 0.0, 0.0, 0.001), last=3, obstacles=(rising,), gravity=np.zeros(3)))
    known = _blind(monkeypatch)
    list(simulation.frames())
    # Whether it stays or goes it is in the floor: what its search came to is taken.
    assert known
    assert all(one[-2] is one[3] and not one[-1] for one in known)

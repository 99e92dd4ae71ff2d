"""Contacts end the steering of the regions that they touch, and reports name them."""

from __future__ import annotations

from dataclasses import replace

import hanging_bodies
import numpy as np
import pytest

from animated import AnimatedBody, AnimatedCollider
from builders import gridded_box, scene
from dampsim.core.contact.contact_history import EDGE, POINT
from dampsim.core.frames.frame import Frame
from dampsim.core.measure.contact_results import contact_summary, partners_in_contact
from dampsim.core.measure.curve import SettleCurve, simulation_curve
from dampsim.core.measure.report import BodyContactSummary, ShotReport
from dampsim.core.objective.slack_steering import known_swings
from dampsim.core.simulation.simulation import Simulation
from supports import block, collider, plane

STOP = 5


def stopped_swing(body: AnimatedBody, floor: AnimatedCollider, last: int) -> tuple[Simulation, list[Frame]]:
    """Return the frames of a body that moves along y until STOP, beside a floor."""

    def motion(frame: float) -> np.ndarray:
        return np.asarray(body.surface.vertices + np.array([0.0, 0.04 * (min(frame, STOP) - 1.0), 0.0]))

    simulation = Simulation(scene(replace(body, motion=motion), last=last, colliders=(floor,)))
    return simulation, list(simulation.frames())


def test_touched_points_of_keys() -> None:
    """Points and ends of edges that a key names are touched, and every point of a touched surface."""
    table = collider(gridded_box("Table", (-1.0, -1.0, -1.0), (2.0, 2.0, 1.0), 1.0))
    model = Simulation(scene(block(), colliders=(table, plane(-2.0)))).islands[0].system.contact
    edges, others = (model.surfaces[k].edges_and_faces[0] for k in (0, 1))
    body, top, floor = (model.points_of(k) for k in range(3))
    crossed = np.array([[0, EDGE, 5 * len(others) + 9, 1]])
    assert model.touched_points(crossed).tolist() == sorted([*edges[5], *(top.start + others[9])])
    on_floor = np.array([[0, POINT, 7, 2]])
    assert model.touched_points(on_floor).tolist() == [7, *range(floor.start, floor.stop)]
    corner = np.array([[1, POINT, 2, 0]])
    assert model.touched_points(corner).tolist() == [*range(body.start, body.stop), top.start + 2]


def test_contact_of_pins_keeps_steering() -> None:
    """A flag whose pinned edge lies in a collider rests on time. Without this, it rested after 26.8 frames."""
    flag = hanging_bodies.flag(8, settle=12.0, bounce=0.0)
    there = plane(-0.001).vertices[[0, 2, 1]]
    upside_down = replace(plane(-0.001), vertices=there, motion=lambda frame: there)
    simulation, frames = stopped_swing(flag, upside_down, STOP + 24)
    assert len(frames[-1].state.history.contacts["Flag"].contacts.keys) > 0
    assert simulation.islands[0].system.touched_regions(frames[-1].state) == frozenset()
    assert partners_in_contact(simulation, frames[-1].state, "Flag") == ()
    (known,) = known_swings(frames[-1].state.history.block("Flag").steering, 1) or ()
    assert known.path >= 0.0
    curve = simulation_curve(simulation, "Flag", frames, flag.settings)
    assert curve is not None
    assert curve.rest == pytest.approx(12.0, abs=1.0)


def test_report_of_dragging_edge() -> None:
    """A flag whose lower edge drags on the floor is not steered, rests early, and the report names the floor."""
    flag = hanging_bodies.flag(8, settle=24.0, bounce=0.0, friction=0.5)
    simulation, frames = stopped_swing(flag, plane(-0.97), STOP + 60)
    assert simulation.islands[0].system.touched_regions(frames[-1].state) == frozenset({0})
    report = ShotReport.from_frames(
        (frame.number, contact_summary(simulation, frame.state, "Flag")) for frame in frames
    )
    curve = simulation_curve(simulation, "Flag", frames, flag.settings)
    assert curve is not None
    assert curve.has_missed_dial
    partner, numbers = report.longest_contact(STOP, STOP + 24)
    assert partner == "Floor"
    assert numbers[0] == STOP
    # The edge may leave the floor for a few frames.
    assert len(set(numbers) & set(range(STOP, STOP + 25))) == len(numbers) >= 20


def test_curve_counts_from_stop_of_ground() -> None:
    """The curve of a block on moving ground begins when the ground stops."""
    stop = 12

    def path(frame: float) -> np.ndarray:
        return np.array([0.3 * (min(frame, stop) - 1.0) / 24.0, 0.0, 0.0])

    body = block(low=(-0.1, -0.1, 0.95 * 0.005 * 0.2 * 3**0.5), settle=8.0, friction=5.0)
    simulation = Simulation(scene(body, last=stop + 20, colliders=(plane(path=path),)))
    frames = list(simulation.frames())
    curve = simulation_curve(simulation, "Block", frames, body.settings)
    assert curve is not None
    assert float(curve.frames[-1]) == pytest.approx(20.0, abs=1.0)
    assert curve.rest == pytest.approx(8.0, abs=1.0)


def test_frames_of_longest_contact() -> None:
    """The report collects the frames of each partner, and returns the partner with the most frames in a range."""
    summaries = [
        (number, BodyContactSummary(partners=tuple(name for name, kept in touches if number in kept)))
        for touches in [(("Floor", range(3, 9)), ("Wall", range(7, 11)))]
        for number in range(1, 13)
    ]
    report = ShotReport.from_frames(summaries)
    assert report.contact_frames == (("Floor", (3, 4, 5, 6, 7, 8)), ("Wall", (7, 8, 9, 10)))
    assert report.longest_contact(1, 12) == ("Floor", (3, 4, 5, 6, 7, 8))
    assert report.longest_contact(8, 12) == ("Wall", (8, 9, 10))
    assert report.longest_contact(11, 12) == ("", ())


@pytest.mark.parametrize(
    ("rest", "length", "missed"),
    [
        (20.0, 60.0, False),
        (21.9, 60.0, False),
        (22.1, 60.0, True),
        (17.9, 60.0, True),
        # A shot that ends too early says nothing.
        (np.inf, 21.0, False),
        (np.inf, 22.1, True),
    ],
)
def test_missed_dial(rest: float, length: float, missed: bool) -> None:
    """A rest beyond a tenth of the dial is missed; short dials may be a frame off."""
    zero = np.array([0.0, length])
    curve = SettleCurve(zero, zero, None, None, dial=20.0, rest=rest, bounce=0.0, overshoot=0.0)
    assert curve.has_missed_dial is missed
    assert not replace(curve, dial=4.0, rest=4.9).has_missed_dial
    assert not replace(curve, swing=0.9e-3).has_missed_dial

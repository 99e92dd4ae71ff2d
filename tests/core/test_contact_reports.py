"""Reports of contacts: forces, penetrations and earliest rest times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from woven_scenes import swatch

from builders import DOWN, gridded_box, scene, static_body, wire
from dampsim.core.contact.contact_history import POINT, ContactHistory
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.measure.contact_results import body_contact_forces, contact_summary
from dampsim.core.measure.report import BodyContactSummary, Penetration, ShotReport
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Collider, Scene
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.system.state import State

# Mass of a block of 0.2 m of 1000 kg/m^3, kg.
MASS = 8.0


def plane(height: float, tilt: float = 0.0, name: str = "Floor") -> Collider:
    turn = np.array([[np.cos(tilt), 0.0, -np.sin(tilt)], [0.0, 1.0, 0.0]])
    points = np.array([0.0, 0.0, height]) + np.concatenate([np.zeros((1, 3)), turn])
    return Collider(name, points, np.zeros((0, 3), dtype=np.int64), is_plane=True)


def table(height: float, wide: float = 1.0, name: str = "Table") -> Collider:
    """Return a closed box whose top is at a height, and that extends by wide to both sides along x."""
    surface = gridded_box(name, (-wide, -1.0, height - 0.3), (wide, 1.0, height), 0.25)
    return Collider(name, surface.vertices, surface.triangles)


def block(low: float = 0.0, name: str = "Block", **more: object) -> object:
    surface = gridded_box(name, (-0.1, -0.1, low), (0.1, 0.1, low + 0.2), 0.05)
    dials = {"stiffness": 100.0, "settle": 12.0, "bounce": 0.0, "resolution": 200, "density": 1000.0}
    return static_body(surface, **{**dials, **more})


def last_frame(made: Scene) -> tuple[Simulation, Frame]:
    simulation = Simulation(made)
    *_, frame = simulation.frames()
    return simulation, frame


@pytest.mark.parametrize("ground", [plane(0.0), table(0.0), pytest.param(table(0.0, 0.06), marks=pytest.mark.slow)])
def test_resting_contact_forces_balance_weight(ground: Collider) -> None:
    simulation, frame = last_frame(scene(block(), last=48, colliders=(ground,)))
    found = body_contact_forces(simulation, frame, "Block")
    weight = float(simulation.system_of("Block").mass.sum()) * 9.81
    # The beam has one row less on each side, plus its own edges.
    assert len(found) >= 15
    # At rest within the tolerance of Settle; friction balances lateral forces between the feet.
    np.testing.assert_allclose(found.total_force(ground.name), [0.0, 0.0, weight], atol=0.01 * weight)
    # Normals tilt where the block bends around the beam.
    np.testing.assert_allclose(found.normals, np.tile([0.0, 0.0, 1.0], (len(found), 1)), atol=0.01)
    assert np.abs(found.points[:, 2]).max() < 0.005 * 0.2 * 3**0.5
    assert not contact_summary(simulation, frame.state, "Block").penetrations


@pytest.mark.slow
def test_normal_forces_on_slope() -> None:
    """Reported forces are normal forces, without friction."""
    tilt = 0.3
    ground = plane(-0.1 * np.tan(tilt) - 1e-3, tilt)
    simulation, frame = last_frame(scene(block(), last=60, colliders=(ground,)))
    weight = float(simulation.system_of("Block").mass.sum()) * 9.81
    total = body_contact_forces(simulation, frame, "Block").total_force("Floor")
    np.testing.assert_allclose(np.linalg.norm(total), weight * np.cos(tilt), rtol=0.02)
    np.testing.assert_allclose(total / np.linalg.norm(total), [np.sin(tilt), 0.0, np.cos(tilt)], atol=1e-6)


@pytest.mark.slow
def test_contact_forces_between_bodies_are_opposite() -> None:
    lower, upper = block(0.0, "Lower", touch_together=True), block(0.204, "Upper", touch_together=True)
    simulation, frame = last_frame(scene(lower, upper, last=48, colliders=(plane(0.0),)))
    weights = [float(simulation.model_of(name).block.mass.sum()) * 9.81 for name in ("Lower", "Upper")]
    on, under = (body_contact_forces(simulation, frame, name) for name in ("Upper", "Lower"))
    np.testing.assert_allclose(on.total_force("Lower"), -under.total_force("Upper"), atol=1e-9 * weights[0])
    np.testing.assert_allclose(on.total_force("Lower")[2], weights[1], rtol=0.02)
    np.testing.assert_allclose(under.total_force("Floor")[2], sum(weights), rtol=0.02)
    assert (on.total_force("Floor") == 0.0).all()


def with_contacts(
    simulation: Simulation, state: State, *contacts: tuple[tuple[int, int, int, int], float, float]
) -> State:
    """Return a state with contacts of given keys, depths and pressures."""
    areas = simulation.system_of("Block").contact.surfaces[0].areas
    history = ContactHistory(
        np.array([key for key, _, _ in contacts], dtype=np.int64).reshape(-1, 4),
        np.zeros((len(contacts), 3)),
        np.array([pressure * areas[key[2]] for key, _, pressure in contacts]),
        np.array([depth for _, depth, _ in contacts]),
    )
    last = state.history.contacts["Block"]
    return replace(state, history=replace(state.history, contacts={"Block": replace(last, contacts=history)}))


def test_reported_penetration_count_and_depth() -> None:
    """The report has the count, the depth, and whether the body was squeezed in."""
    simulation, frame = last_frame(scene(block(stiffness=100.0), last=2, colliders=(plane(0.0), table(0.0))))
    young = simulation.young("Block")

    def told(*contacts: tuple[tuple[int, int, int, int], float, float]) -> tuple[Penetration, ...]:
        return contact_summary(simulation, with_contacts(simulation, frame.state, *contacts), "Block").penetrations

    floor, box = ((0, POINT, k, 1) for k in (3, 5)), ((0, POINT, 7, 2), (2, POINT, 4, 0))
    # Points of animated bodies press with any area.
    assert told(*((key, depth, 0.01 * young) for key, depth in zip(floor, (0.004, 0.002), strict=True))) == (
        Penetration("Floor", 2, 0, 0.004, False),
    )
    assert told(*((key, 0.003, 1.5 * young) for key in box)) == (Penetration("Table", 1, 1, 0.003, True),)
    # In front of the floor, or penetrating invisibly for a block with a diagonal of 0.35 m.
    assert told(((0, POINT, 3, 1), -0.001, young), ((0, POINT, 5, 1), 0.0003, 1.5 * young)) == ()


def test_earliest_rest_time_by_stiffness() -> None:
    answers = []
    for stiffness in (10.0, 40.0):
        made = scene(block(0.01, stiffness=stiffness, settle=4.0), last=12, colliders=(plane(0.0),))
        simulation = Simulation(made)
        frames = list(simulation.frames())
        said = [contact_summary(simulation, frame.state, "Block").earliest_rest for frame in frames]
        answers.append(next(one for one in said if one > 0.0))
        # Invisible motion counts as rest.
        assert said[-1] == 0.0
    # Four times the stiffness halves the time of a swing; the share of the law stays the same.
    assert 1.2 < answers[0] / answers[1] < 2.0
    assert answers[0] > 4.0 / 24.0
    free = Simulation(scene(block(), last=4, gravity=0.0 * DOWN))
    assert contact_summary(free, list(free.frames())[-1].state, "Block") == BodyContactSummary()


def test_report_keeps_deepest_penetrations() -> None:
    """A report keeps the deepest penetration of each partner and the earliest rest time after the last push."""

    def sunk(depth: float, other: str = "Floor", squeezed: bool = False) -> Penetration:
        return Penetration(other, 3, 0, depth, squeezed)

    frames = [
        (1, BodyContactSummary((sunk(0.1), sunk(0.2, "Box")), 0.3, 0.02)),
        (2, BodyContactSummary((sunk(0.3), sunk(0.01, squeezed=True)), 0.5, 0.03)),
        # The slowest motion remains at the end, however small it is.
        (3, BodyContactSummary((), 0.9, 0.01)),
        (4, BodyContactSummary((sunk(0.2),), 0.0)),
    ]
    report = ShotReport.from_frames(frames)
    assert [(number, one.partner, one.depth) for number, one in report.penetrations] == [
        (2, "Floor", 0.3), (1, "Box", 0.2), (2, "Floor", 0.01),
    ]  # fmt: skip
    assert report.earliest_rest == 0.5
    assert ShotReport.from_frames([*frames, (5, BodyContactSummary((), 0.4, 0.01))]).earliest_rest == 0.4
    assert ShotReport.from_frames([]) == ShotReport()
    # A root modelled into a collider is not reported while it stays; deeper penetration is.
    rooted = [
        (1, BodyContactSummary((sunk(0.2, squeezed=True),))),
        (2, BodyContactSummary((sunk(0.201, squeezed=True),))),
    ]
    assert ShotReport.from_frames(rooted) == ShotReport()
    further = [*rooted, (3, BodyContactSummary((sunk(0.25, squeezed=True), sunk(0.1, "Box", squeezed=True))))]
    assert [(number, one.partner, one.depth) for number, one in ShotReport.from_frames(further).penetrations] == [
        (3, "Floor", 0.25), (3, "Box", 0.1),
    ]  # fmt: skip


def strands(*lines: np.ndarray, pinned: int, **more: object) -> Body:
    """Return a rope of strands through points (v, 3) each, of which the first ones are pinned at both ends."""
    chains = [wire("Rope", line) for line in lines]
    starts = np.cumsum([0, *(len(line) for line in lines)])
    edges = np.concatenate([one.edges + start for one, start in zip(chains, starts, strict=False)])
    ends = np.concatenate([starts[:pinned], starts[1 : pinned + 1] - 1])
    surface = Surface("Rope", np.concatenate(lines), np.zeros((0, 3), dtype=np.int64))
    pins = np.isin(np.arange(starts[-1]), ends).astype(float)
    dials = {"thickness": 10.0, "settle": 12.0, "stiffness": 2000.0, **more}
    return static_body(surface, pins, kind="ROPE", edges=edges, **dials)


@pytest.mark.parametrize("is_woven", [False, True])
def test_contact_forces_of_ropes(is_woven: bool) -> None:
    """Ropes touch strands and threads along their length. Reports looked these edges up among those of triangles."""
    along, zero = np.linspace(-0.4, 0.4, 9), np.zeros(9)
    lower, upper = (np.column_stack(line) for line in ((along, zero + 0.013, zero - 0.02), (zero + 0.01, along, zero)))
    if is_woven:
        surface, edges = swatch(4, 4, 0.1)
        moved = Surface(
            "Weave", surface.vertices - surface.vertices.mean(axis=0) + [0.03, 0.03, 0.0], surface.triangles
        )
        woven = static_body(moved, None, kind="WEAVE", edges=edges, touch_together=True, settle=12.0, thickness=5.0)
        made = scene(strands(lower, pinned=1, touch_together=True), woven, last=6)
    else:
        made = scene(strands(lower, upper, pinned=1, touch_self=True), last=6)
    simulation, count = Simulation(made), 0
    for frame in simulation.frames():
        found = body_contact_forces(simulation, frame, "Rope")
        contact_summary(simulation, frame.state, "Rope")
        half = len(found) if is_woven else len(found) // 2
        other = body_contact_forces(simulation, frame, "Weave") if is_woven else found
        first, second = slice(half), slice(len(other) - half, None)
        # Both sides of a contact are near each other, and push each other apart.
        gaps = np.linalg.norm(found.points[first] - other.points[second], axis=1)
        np.testing.assert_allclose(gaps, np.abs(found.depths[first]), atol=3e-3)
        np.testing.assert_array_equal(found.normals[first], -other.normals[second])
        count += half
    assert count > 1

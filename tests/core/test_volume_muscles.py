"""Muscles in springs through the volume: along one side they bend it, along all of it they shorten it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from creatures import distance_walked, genes, long_edges, walk_scene, worm

from builders import run_to_end, scene, strutted_rod
from dampsim.core.base.errors import MeshError
from dampsim.core.bodies.muscle_springs import volume_muscle_indices
from dampsim.core.bodies.solid import LatticeBody
from dampsim.core.frames.frame import Frame
from dampsim.core.gait.rollout_batch import RolloutBatch
from dampsim.core.materials.assembly import element_edges
from dampsim.core.scene.body import Body
from dampsim.core.scene.muscles import MUSCLE_OVERRIDES, Controller, Muscle, MuscleOverride, SensorInputs
from dampsim.core.simulation.simulation import Simulation


def rod_with_muscles(*sides: tuple[float, float], pinned: bool = False, length: float = 0.7) -> Body:
    """Return a rod with a muscle on each range of heights, forced on from frame 2 to 29."""
    body = strutted_rod(settle=6.0, bounce=0.0, gravity_weight=0.0, start_settled=False)
    body = body if pinned else replace(body, pins=np.zeros(len(body.pins)))
    muscles = tuple(
        Muscle(f"Pull {k}", long_edges(body, one), length, stiffness_on=20.0) for k, one in enumerate(sides)
    )
    states = [
        SensorInputs(np.full(len(muscles), MUSCLE_OVERRIDES.index(one)))
        for one in (MuscleOverride.OFF, MuscleOverride.ON)
    ]
    return replace(body, controller=Controller(muscles), sensor_inputs=lambda frame: states[2.0 <= frame < 30.0])


def free_motion(body: Body) -> tuple[list[Frame], np.ndarray, np.ndarray]:
    """Return the frames, the centres of mass (k, 3) m and the angular momenta (k, 3) kg m^2/s of a free body."""
    simulation = Simulation(scene(body, last=60))
    found, mass = list(simulation.frames()), simulation.islands[0].system.mass
    states = [one.state for one in found]
    spins = [np.cross(one.positions, mass[:, None] * one.velocities).sum(axis=0) for one in states]
    return found, np.array([mass @ one.positions / mass.sum() for one in states]), np.array(spins)


@pytest.mark.parametrize("length", [0.7, pytest.param(1.1, marks=pytest.mark.slow)])
def test_volume_muscle_changes_length(length: float) -> None:
    """The springs along a rod set its length while they are on. It thickens, recovers, and keeps its momenta."""
    found, centres, spins = free_motion(rod_with_muscles((-1.0, 1.0), length=length))
    sizes = np.array([np.ptp(one.surface, axis=0) for one in found])
    # The springs across resist with a twentieth of the stiffness.
    assert sizes[28, 0] == pytest.approx(length, abs=0.03)
    assert np.sign(sizes[28, 1:] - sizes[0, 1:]).tolist() == [np.sign(1.0 - length)] * 2
    assert sizes[-1, 0] == pytest.approx(sizes[0, 0], abs=1e-3)
    # Springs have other shapes at rest nearby: lengthened, the rod stays 1.4% thinner.
    assert sizes[-1, 1:] == pytest.approx(sizes[0, 1:], rel=0.015)
    # Single precision of the inputs and the tolerance of a bake.
    assert np.ptp(centres, axis=0).max() < 1e-6
    assert np.abs(spins).max() < 1e-6


@pytest.mark.parametrize(("sides", "sign"), [((0.5, 1.0), 1.0), ((-1.0, -0.5), -1.0)])
def test_volume_muscle_bends_rod(sides: tuple[float, float], sign: float) -> None:
    """A muscle along one side bends the rod to that side."""
    body = rod_with_muscles(sides, pinned=True)
    found = list(Simulation(scene(body, last=28)).frames())
    tip = found[0].surface[:, 0].argmax()
    assert sign * (found[-1].surface[tip] - found[0].surface[tip])[2] > 0.15


def test_volume_muscles_take_nearest_springs() -> None:
    """Springs along a muscle's edges belong to it, those across it or far away do not; an empty one is refused."""
    body = rod_with_muscles((0.5, 1.0), (-1.0, -0.5))
    lattice = LatticeBody.of(body).mesh
    edges = element_edges(lattice.tets)
    found = volume_muscle_indices(body, lattice.nodes, edges)
    way, middle = lattice.nodes[edges[:, 1]] - lattice.nodes[edges[:, 0]], lattice.nodes[edges].mean(axis=1)
    along = np.abs(way[:, 0]) / np.linalg.norm(way, axis=1)
    assert along[found >= 0].min() > 0.7
    assert (middle[found == 0, 2] > middle[found == 1, 2].max() - 0.06).all()
    assert middle[found == 0, 2].mean() > 0.03
    assert middle[found == 1, 2].mean() < -0.03
    points = body.surface.vertices
    short = element_edges(body.surface.triangles)
    cap = short[(points[short][:, :, 0] > points[:, 0].max() - 1e-6).all(axis=1)]
    assert body.controller is not None
    wrong = replace(body, controller=Controller((replace(body.controller.muscles[0], edges=cap[:0]),)))
    with pytest.raises(MeshError, match="no edge of muscle Pull 0 is simulated"):
        volume_muscle_indices(wrong, lattice.nodes, edges)
    shared = replace(body, controller=Controller((body.controller.muscles[0],) * 2))
    with pytest.raises(MeshError, match="share an edge"):
        volume_muscle_indices(shared, lattice.nodes, edges)
    # No spring of a lattice 5 m away is within reach.
    with pytest.raises(MeshError, match="no spring of the volume runs along muscle Pull 0"):
        volume_muscle_indices(body, lattice.nodes + np.array([0.0, 0.0, 5.0]), edges)


@pytest.mark.parametrize(("degrees", "expected"), [(44.0, 0), (46.0, -1), (134.0, -1), (136.0, 0)])
def test_volume_muscle_limits_angle(degrees: float, expected: int) -> None:
    """A spring at the muscle's middle belongs to it up to 45 degrees, in both directions."""
    body = rod_with_muscles((0.5, 1.0))
    assert body.controller is not None
    start, end = body.surface.vertices[body.controller.muscles[0].edges[0]]
    angle, way = np.radians(degrees), (end - start) / np.linalg.norm(end - start)
    step = 0.05 * (np.cos(angle) * way + np.sin(angle) * np.array([0.0, 0.0, 1.0]))
    middle = 0.5 * (start + end)
    # The second spring runs along the muscle, which needs one.
    nodes = np.array([middle - step, middle + step, middle - 0.05 * way, middle + 0.05 * way])
    assert volume_muscle_indices(body, nodes, np.array([[0, 1], [2, 3]])).tolist() == [expected, 0]


@pytest.mark.parametrize("part", [0.0, 0.25, 0.75, 1.0])
def test_volume_muscle_reaches_whole_edge(part: float) -> None:
    """A spring anywhere beside a muscle's edge belongs to it."""
    body = rod_with_muscles((0.5, 1.0))
    assert body.controller is not None
    (muscle,) = body.controller.muscles
    body = replace(body, controller=Controller((replace(muscle, edges=muscle.edges[:1]),)))
    start, end = body.surface.vertices[muscle.edges[0]]
    place, step = start + part * (end - start), 0.05 * (end - start)
    # The first spring fixes the reach, and the second one lies beyond the edge's end.
    nodes = np.array([place - step, place + step, end + 4.0 * step, end + 6.0 * step])
    assert volume_muscle_indices(body, nodes, np.array([[0, 1], [2, 3]])).tolist() == [0, -1]


@pytest.mark.slow
@pytest.mark.parametrize("front", ["PLUS_X", "MINUS_X"])
def test_rollout_of_volume_follows_front(front: str) -> None:
    """A worm creeps about as far in the approximate walks as in the solver, along its front, and stands on its skin."""
    body = worm(front)
    simulation = Simulation(walk_scene(body, 2.0))
    batch = RolloutBatch.from_simulation(simulation, body.name)
    # All nodes at the lower border carry the lowest vertices, which touch the ground at the start.
    skin = simulation.model_of(body.name).skin.node_operator()[0]
    lowest = np.argmin(skin @ batch.start[:, 2])
    assert np.abs((batch.ground_heights - batch.start[:, 2])[skin[lowest].indices]).min() < 1e-9
    steps = batch.travelled_distances(*genes(body), 2.0)
    (approximate,) = run_to_end(steps)
    walked = distance_walked(list(simulation.frames())) * (1.0 if front == "PLUS_X" else -1.0)
    assert walked > 0.2
    assert 0.6 < approximate / walked < 1.6

"""Gait search (Find a Walk): friction and distances of rollouts, reproducibility, and errors."""

from __future__ import annotations

from dataclasses import replace

import creatures
import numpy as np
import pytest
from creatures import distance_walked, frames, looper, walk_scene
from scipy.spatial.transform import Rotation

from builders import run_to_end
from dampsim.core.base.errors import SceneError
from dampsim.core.gait.gait_search import WalkSearch, find_walks, select_distinct
from dampsim.core.gait.rollout_batch import _STEP_SAFETY, RolloutBatch
from dampsim.core.scene.body import Body
from dampsim.core.scene.muscles import Controller, Sensor, SensorType
from dampsim.core.simulation.simulation import Simulation

SMALL = WalkSearch(seed=1, count=32, generations=1, seconds=3.0, winners=2)


def make_batch(body: Body) -> RolloutBatch:
    return RolloutBatch.from_simulation(Simulation(walk_scene(body, 1.0)), body.name)


def genes(body: Body) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert body.controller is not None
    muscles = body.controller.muscles
    return (
        np.array([[one.weights for one in muscles]]),
        np.array([[one.threshold for one in muscles]]),
        np.array([[float(one.delay) for one in muscles]]),
    )


@pytest.mark.parametrize("degrees", [0.0, 60.0, 90.0, 180.0])
def test_directional_friction_of_rollouts(degrees: float) -> None:
    crowd = make_batch(looper())
    angle = np.radians(degrees)
    way_of = np.array([np.cos(angle), np.sin(angle), 0.0])
    # Only the feet slide, on the ground and without springs.
    none = np.zeros((1, len(crowd.spring_nodes)))
    x, v = crowd.start[None].copy(), np.tile(2.0 * way_of, (1, len(crowd.start), 1))
    h, steps = 1e-4, 1000
    for _ in range(steps):
        x, v, _ = crowd._advance(x, v, crowd.rest_length[None], none, none, crowd.front[None], h)
    # physics (7.7), and Coulomb.
    rough = 0.15 * 0.5 * (1.0 + np.cos(angle)) + 0.9 * 0.5 * (1.0 - np.cos(angle))
    # Contact begins slightly after the first step.
    assert v[0, 0] @ way_of == pytest.approx(2.0 - rough * 9.81 * h * steps, rel=2e-3)


def test_rollout_sensors_read_contact_and_length() -> None:
    body = looper()
    assert body.controller is not None
    feet, tops = (
        Sensor("Feet", SensorType.CONTACT, vertices=np.array([0, 1])),
        Sensor("Tops", SensorType.CONTACT, vertices=np.array([4])),
    )
    long = Sensor("Long", low=0.9, high=1.1, edges=np.array([[0, 2], [1, 3]]))
    muscles = tuple(replace(one, weights=(0.0, 0.0, 0.0)) for one in body.controller.muscles)
    crowd = make_batch(replace(body, controller=Controller(muscles, (feet, tops, long))))
    x, v = crowd.start[None].copy(), np.zeros((1, len(crowd.start), 3))
    on = np.zeros((1, 2), dtype=bool)
    for _ in range(50):
        x, v, pressed = crowd._advance(x, v, *crowd._spring_parameters(on), crowd.front[None], crowd.time_step)
    assert crowd._read_sensors(x, pressed).tolist() == [[1.0, 0.0, 1.0]]
    assert crowd._read_sensors(0.8 * x, 0.0 * pressed).tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("degrees", [0.0, 35.0, -140.0])
def test_rollout_front_rotates_with_body(degrees: float) -> None:
    crowd = make_batch(looper())
    angle = np.radians(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0], [0.0, 0.0, 1.0]])
    (front,) = crowd._front_directions((crowd.start @ turn.T + np.array([3.0, -2.0, 0.5]))[None])
    assert front == pytest.approx(turn @ np.array([1.0, 0.0, 0.0]), abs=1e-12)


@pytest.mark.slow
def test_rollout_distance_near_simulation() -> None:
    body = looper(2)
    (rough,) = run_to_end(make_batch(body).travelled_distances(*genes(body), 6.0))
    exact = distance_walked(frames(walk_scene(body, 6.0)))
    # Contact and damping differ from the simulation; the rollout only distinguishes gaits from none.
    assert 0.6 < rough / exact < 1.6
    (alike,) = run_to_end(
        make_batch(creatures.with_settings(body, friction_back=0.15)).travelled_distances(*genes(body), 6.0)
    )
    assert abs(alike) < 0.1 * exact


@pytest.mark.slow
def test_gait_search_is_reproducible() -> None:
    """A seed finds the same gaits, and the simulation walks as far with them."""
    scene = walk_scene(looper(), 3.0)
    first, second = (run_to_end(find_walks(scene, "Looper", SMALL)) for _ in range(2))
    assert first == second
    best = first[0]
    assert best.distance == max(one.distance for one in first)
    assert best.distance > 0.4
    again = distance_walked(frames(walk_scene(replace(looper(), controller=best.controller), 3.0)))
    # Shapes have single precision.
    assert again == pytest.approx(best.distance, abs=1e-5)
    other = run_to_end(find_walks(scene, "Looper", replace(SMALL, seed=2)))
    assert other[0].controller != best.controller


def test_equal_gaits_are_listed_once() -> None:
    ways = np.array([3.0, 3.0 - 1e-12, 2.9, 2.9, 2.9, 1.0, -np.inf, -np.inf])
    assert select_distinct(ways, 4) == [0, 2, 5]
    assert select_distinct(ways, 2) == [0, 2]
    assert select_distinct(np.full(8, -np.inf), 4) == [0]


def test_equivalent_controllers_walk_equal_distances() -> None:
    body = looper()
    weights, thresholds, delays = genes(body)
    # Doubled weights and thresholds are the same rule; another delay is not.
    crowd = (
        np.concatenate([weights, 2.0 * weights, weights]),
        np.concatenate([thresholds, 2.0 * thresholds, thresholds]),
        np.concatenate([delays, delays, delays + 3.0]),
    )
    ways = run_to_end(make_batch(body).travelled_distances(*crowd, 2.0))
    assert select_distinct(ways, 3) == [0, 2]


def test_gait_search_refuses_unsuitable_bodies() -> None:
    bare = looper()
    assert bare.controller is not None
    for body, words in (
        (replace(bare, controller=None), "it needs muscles, and sensors"),
        (creatures.with_settings(bare, front="NONE"), "its forward direction is missing. Choose an axis as Front"),
        (replace(bare, pins=np.eye(len(bare.pins))[0]), "it is pinned and cannot walk"),
    ):
        with pytest.raises(SceneError, match=words):
            next(find_walks(walk_scene(body, 1.0), "Looper", SMALL))


@pytest.mark.slow
def test_no_gait_with_isotropic_friction() -> None:
    scene = walk_scene(creatures.with_settings(looper(), friction_back=0.15), 3.0)
    words = r"none of 64 controllers walks farther than half of its length\. .*m in \S+ s\. Its feet have little grip"
    with pytest.raises(SceneError, match=words):
        run_to_end(find_walks(scene, "Looper", SMALL))


def test_rollout_turn_about_vertical() -> None:
    """A creature whose front points sideways keeps that front at any turn."""
    crowd = replace(make_batch(looper()), front=np.array([0.6, 0.8, 0.0]))
    angles = np.radians([0.0, 50.0, 170.0])
    turned = [crowd.start @ Rotation.from_rotvec([0.0, 0.0, one]).as_matrix().T for one in angles]
    wanted = [Rotation.from_rotvec([0.0, 0.0, one]).apply(crowd.front) for one in angles]
    assert crowd._front_directions(np.array(turned)) == pytest.approx(np.array(wanted), abs=1e-12)


@pytest.mark.parametrize("damping_on", [0.0, 3.0])
def test_rollout_step_is_stable(damping_on: float) -> None:
    """The step bounds the fastest motion of all springs with all muscles on, and is not far below."""
    crowd = make_batch(looper())
    factors = crowd.on_factors.copy()
    factors[:, 2] = damping_on
    crowd = replace(crowd, on_factors=factors)
    fastest = 0.0
    muscle = np.maximum(crowd.muscle, 0)
    is_muscle = crowd.muscle >= 0
    stiff = crowd.stiffness * np.where(is_muscle, np.maximum(1.0, factors[muscle, 1]), 1.0)
    damping = np.where(is_muscle, np.maximum(crowd.damper, crowd.stiffness * damping_on), crowd.damper)
    for values, power in ((stiff, 0.5), (damping, 1.0)):
        # All springs along one line: a bound of their motion in space.
        matrix = np.zeros((len(crowd.mass), len(crowd.mass)))
        for (i, j), value in zip(crowd.spring_nodes, values, strict=True):
            matrix[[i, j, i, j], [i, j, j, i]] += value * np.array([1.0, 1.0, -1.0, -1.0])
        fastest = max(fastest, float(np.linalg.eigvals(matrix / crowd.mass[:, None]).real.max()) ** power)
    # Gershgorin's bound is at most twice the largest eigenvalue of a chain, and a little more for a net.
    assert 0.3 < crowd.time_step / (_STEP_SAFETY / fastest) <= 1.0

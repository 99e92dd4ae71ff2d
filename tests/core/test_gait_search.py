"""Gait search (Find a Walk): friction and distances of rollouts, reproducibility, and errors."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import creatures
import numpy as np
import pytest
from creatures import distance_walked, frames, genes, looper, walk_scene, worm
from scipy.spatial.transform import Rotation

from builders import run_to_end
from dampsim.core.base.arrays import Array
from dampsim.core.base.errors import SceneError
from dampsim.core.bodies.kind import BASE_YOUNG
from dampsim.core.gait import gait_search, rollout_batch
from dampsim.core.gait.gait_search import Walk, WalkSearch, _advice, find_walks, select_distinct, select_trials
from dampsim.core.gait.rollout_batch import RolloutBatch, RolloutState
from dampsim.core.scene.body import Body
from dampsim.core.scene.muscles import Controller, Sensor, SensorType
from dampsim.core.scene.parameters import ColliderSettings
from dampsim.core.settle.law import Coefficients
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.system.state import BlockHistory, MuscleHistory
from dampsim.core.system.switched_springs import SwitchedSprings
from supports import collider, plane, wave_sheet

Steps = Generator[int, None, Array]
SMALL = WalkSearch(seed=1, count=32, generations=1, seconds=3.0, winners=2)


def make_batch(body: Body) -> RolloutBatch:
    return RolloutBatch.from_simulation(Simulation(walk_scene(body, 1.0)), body.name)


@pytest.mark.parametrize("degrees", [0.0, 60.0, 90.0, 180.0])
def test_directional_friction_of_rollouts(degrees: float) -> None:
    crowd = make_batch(looper())
    angle = np.radians(degrees)
    way_of = np.array([np.cos(angle), np.sin(angle), 0.0])
    # Only the feet slide, on the ground and without springs.
    none = np.zeros((1, len(crowd.spring_nodes)))
    state = RolloutState.at_rest(crowd.start[None])
    state = replace(state, v=np.tile(2.0 * way_of, (1, len(crowd.start), 1)))
    h, steps = 1e-4, 1000
    # With a retained fraction of 1, the deformation of the sliding feet is not damped.
    crowd = replace(crowd, substeps=round(1.0 / (crowd.fps * h)), law=Coefficients(1.0, h))
    for _ in range(steps):
        state = crowd._advance(state, crowd.rest_length[None], none, none, crowd.front[None])
    # physics (7.7), and Coulomb.
    rough = 0.15 * 0.5 * (1.0 + np.cos(angle)) + 0.9 * 0.5 * (1.0 - np.cos(angle))
    # Contact begins slightly after the first step.
    assert state.v[0, 0] @ way_of == pytest.approx(2.0 - rough * 9.81 * crowd.time_step * steps, rel=2e-3)


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
    state, on = RolloutState.at_rest(crowd.start[None]), np.zeros((1, 2), dtype=bool)
    for _ in range(50):
        state = crowd._advance(state, *crowd._spring_parameters(on), crowd.front[None])
    assert crowd._read_sensors(state).tolist() == [[1.0, 0.0, 1.0]]
    shrunk = replace(state, x=0.8 * state.x, contact_impulses=0.0 * state.contact_impulses)
    assert crowd._read_sensors(shrunk).tolist() == [[0.0, 0.0, 0.0]]


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


def test_trials_spread_below_best_walks() -> None:
    """Trials are the best walks and some of each order of magnitude, without repetitions and walks below the lowest."""
    ways = np.array([0.1, 8.0, 7.9, 7.9, 7.8, 7.7, 4.1, 4.0, 2.0, 1.0, 0.2, -1.0, -np.inf])
    assert select_trials(ways, 6, 2, 0.9) == [1, 2, 4, 7, 8, 9]
    assert select_trials(ways, 2, 2, 0.9) == [1, 2]
    assert select_trials(ways, 6, 2, 9.0) == [1, 2]
    assert select_trials(np.full(3, -np.inf), 6, 2, 0.9) == [0]


def test_confirmed_displacement_is_of_simulation() -> None:
    """A confirmation returns how far the centre moved in the solver with another controller."""
    body = looper()
    assert body.controller is not None
    other = replace(body.controller, muscles=tuple(replace(one, delay=1) for one in body.controller.muscles))
    simulation = Simulation(walk_scene(body, 4.0))
    moved = run_to_end(gait_search._simulate(simulation, "Looper", other, 12))
    found = frames(walk_scene(replace(body, controller=other), 0.5))
    # Shapes have single precision.
    assert moved == pytest.approx((found[-1].surface - found[0].surface).mean(axis=0), abs=1e-6)
    assert np.abs(moved).max() > 1e-3


def test_mutation_keeps_best_creatures() -> None:
    """The best eighth is kept as it is; the others are changed copies of these, with whole delays in the range."""
    rng = np.random.default_rng(3)
    genes = gait_search._sample(rng, (64, 3, 2))
    weights, thresholds, delays = gait_search._mutate(rng, genes)
    for kept, before in zip((weights, thresholds, delays), genes, strict=True):
        assert np.array_equal(kept[:8], before[:8])
        is_changed = kept[8:] != before[np.arange(8, 64) % 8]
        # Three in ten numbers change, here within about four standard deviations.
        assert 0.1 < is_changed.mean() < 0.5
    assert np.array_equal(delays, np.round(delays))
    assert delays.min() >= 0.0
    assert delays.max() <= 24.0


def test_search_rejects_exaggerated_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search finds creatures that walk, although approximate walks with short delays are much too long."""

    def exaggerate(batch: RolloutBatch, weights: Array, thresholds: Array, delays: Array, seconds: float) -> Steps:
        yield 0
        return 8.0 * np.exp(-0.5 * delays.mean(axis=1))

    def simulate(simulation: Simulation, name: str, controller: Controller, frames: int) -> Steps:
        yield frames
        mean = np.mean([one.delay for one in controller.muscles])
        return np.array([float(mean > 3.0) * frames / 72.0, 0.0, 0.0])

    monkeypatch.setattr(RolloutBatch, "travelled_distances", exaggerate)
    monkeypatch.setattr(gait_search, "_simulate", simulate)
    told = []

    def recorded() -> Generator[None, None, tuple[Walk, ...]]:
        search = find_walks(walk_scene(looper(), 3.0), "Looper", SMALL)
        while True:
            try:
                told.append(next(search))
            except StopIteration as end:
                return tuple(end.value)
            yield

    (best, *_) = run_to_end(recorded())
    done, totals = [one[0] for one in told], [one[1] for one in told]
    assert done == sorted(done)
    assert done[-1] == totals[-1]
    assert all(now <= total for now, total in zip(done, totals, strict=True))
    assert best.distance == 1.0
    assert best.rollout_distance < 0.5 * 8.0


@pytest.mark.slow
def test_search_finds_walk_through_volume() -> None:
    """A worm of springs through its volume finds a walk, although the longest approximate ones hardly move."""
    body = worm()
    search = WalkSearch(seed=2, count=24, generations=1, seconds=4.0, winners=1)
    (best,) = run_to_end(find_walks(walk_scene(body, 4.0), body.name, search))
    assert best.distance > 0.5 * body.surface.size


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


@pytest.mark.parametrize(
    ("damping", "backward", "advice"),
    [(0.15, 0.2, "little grip"), (0.0, 0.9, "raise Damping On"), (0.15, 0.9, "another Seed")],
)
def test_search_without_gait_gives_advice(damping: float, backward: float, advice: str) -> None:
    batch = make_batch(looper(damping=damping, friction_back=backward))
    assert advice in _advice(batch)


@pytest.mark.slow
def test_no_gait_with_isotropic_friction() -> None:
    scene = walk_scene(creatures.with_settings(looper(), friction_back=0.15), 3.0)
    words = r"none of 64 controllers walks farther than half of its length\. .*m in \S+ s\. Its feet have little grip"
    with pytest.raises(SceneError, match=words):
        run_to_end(find_walks(scene, "Looper", SMALL))


def test_rollout_step_matches_equation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A converged step solves physics (2.24): M/s (v - v*) = theta f(x + h v) + (1 - theta) f + sigma df - C v.

    v* is the velocity with the deformation's part multiplied by kappa. Individual dampers act beside those of muscles.
    """
    monkeypatch.setattr(rollout_batch, "_ITERATIONS", 300)
    rng = np.random.default_rng(6)
    crowd = make_batch(looper())
    h, n = crowd.time_step, len(crowd.start)
    individual = rng.uniform(0.0, 2.0, len(crowd.spring_nodes))
    crowd = replace(
        crowd, ground_heights=np.full(n, -np.inf), individual_damper=individual,
        law=Coefficients(0.8, 0.7 * h, theta=0.6, sigma=0.3),
    )  # fmt: skip
    x, v, f, df = crowd.start + 0.05 * rng.standard_normal((n, 3)), *rng.standard_normal((3, n, 3))
    on = np.array([[True, False]])
    length, k, c = (one[0] for one in crowd._spring_parameters(on))
    state = RolloutState(x[None], v[None], f[None], df[None], np.zeros((1, n)))
    after = crowd._advance(state, length[None], k[None], c[None], crowd.front[None])
    is_on = (crowd.muscle >= 0) & on[0][np.maximum(crowd.muscle, 0)]
    damping = np.where(is_on, crowd.stiffness * crowd.on_factors[np.maximum(crowd.muscle, 0), 2], crowd.damper)
    mass, centre = crowd.mass[:, None], crowd.mass @ x / crowd.mass.sum()
    mean, arms = crowd.mass @ v / crowd.mass.sum(), x - centre
    inertia = sum(m * (a @ a * np.eye(3) - np.outer(a, a)) for m, a in zip(crowd.mass, arms, strict=True))
    rigid = mean + np.cross(np.linalg.solve(inertia, np.cross(arms, mass * v).sum(axis=0)), arms)
    wanted = mass / (0.7 * h) * (after.v[0] - rigid - 0.8 * (v - rigid) - h * crowd.gravity)
    force, elastic = 0.4 * f + 0.3 * df, np.zeros((n, 3))
    for (i, j), rest, stiffness, slow in zip(crowd.spring_nodes, length, k, damping + individual, strict=True):
        far = after.x[0, i] - after.x[0, j]
        pull = -stiffness * (np.linalg.norm(far) - rest) * far / np.linalg.norm(far)
        unit = (x[i] - x[j]) / np.linalg.norm(x[i] - x[j])
        drag = -slow * ((after.v[0, i] - after.v[0, j]) @ unit) * unit
        elastic[[i, j]] += pull, -pull
        force[[i, j]] += 0.6 * pull + drag, -0.6 * pull - drag
    assert wanted == pytest.approx(force, abs=1e-8 * np.abs(force).max())
    assert after.force[0] == pytest.approx(elastic, abs=1e-10 * np.abs(elastic).max())
    assert after.force_change[0] == pytest.approx(elastic - f, abs=1e-10 * np.abs(elastic).max())


def test_rollout_springs_match_simulation() -> None:
    """Rest length, stiffness and damper of each spring are those of the simulation, whichever muscles are on."""
    body = looper()
    assert body.controller is not None
    rng = np.random.default_rng(2)
    muscles = tuple(
        replace(one, length=a, stiffness=b, stiffness_on=c, damping=d, damping_on=e)
        for one, (a, b, c, d, e) in zip(body.controller.muscles, rng.uniform(0.2, 2.0, (9, 5)), strict=False)
    )
    body = replace(body, controller=replace(body.controller, muscles=muscles))
    crowd = make_batch(body)
    simulation = Simulation(walk_scene(body, 1.0))
    scale, block = simulation.young(body.name) / BASE_YOUNG, simulation.model_of(body.name).block
    (switched,) = (term for term in block.terms if isinstance(term, SwitchedSprings))
    is_muscle, x = crowd.muscle >= 0, crowd.start + 0.01 * rng.standard_normal(crowd.start.shape)
    ends = crowd.spring_nodes[is_muscle]
    unit = x[ends[:, 0]] - x[ends[:, 1]]
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    masks = [np.array(on) for on in np.ndindex(*[2] * len(muscles))]
    for on in np.array(masks, dtype=bool):
        length, k, c = (one[0, is_muscle] for one in crowd._spring_parameters(on[None]))
        strain = switched.energy_when_active(on).strain
        np.testing.assert_allclose(length, strain.lengths, rtol=1e-12)
        np.testing.assert_allclose(k, scale * switched.energy_when_active(on).weights / strain.lengths**2, rtol=1e-12)
        history = BlockHistory(muscles=MuscleHistory(on, np.zeros(len(on))))
        matrix = switched.damping_matrix(history, x)
        assert matrix is not None
        v = rng.standard_normal(x.shape)
        rate = ((v[ends[:, 0]] - v[ends[:, 1]]) * unit).sum(axis=1)
        assert c @ rate**2 == pytest.approx(scale * float(v.ravel() @ (matrix @ v.ravel())), rel=1e-10)


def test_rollout_turn_about_vertical() -> None:
    """A creature whose front points sideways keeps that front at any turn."""
    crowd = replace(make_batch(looper()), front=np.array([0.6, 0.8, 0.0]))
    angles = np.radians([0.0, 50.0, 170.0])
    turned = [crowd.start @ Rotation.from_rotvec([0.0, 0.0, one]).as_matrix().T for one in angles]
    wanted = [Rotation.from_rotvec([0.0, 0.0, one]).apply(crowd.front) for one in angles]
    assert crowd._front_directions(np.array(turned)) == pytest.approx(np.array(wanted), abs=1e-12)


@pytest.mark.parametrize("damping_on", [0.0, 3.0])
def test_rollout_matrix_bounds_stiffness(damping_on: float) -> None:
    """The matrix of a step bounds its Hessian from above in every direction, with all muscles on or off."""
    crowd = make_batch(looper())
    factors = crowd.on_factors.copy()
    factors[:, 2] = damping_on
    crowd = replace(crowd, on_factors=factors)
    n, h, rng = len(crowd.mass), crowd.time_step, np.random.default_rng(2)
    bound = np.kron(np.linalg.inv(crowd._solve(np.eye(n))), np.eye(3))
    for on in (np.zeros((1, 2), dtype=bool), np.ones((1, 2), dtype=bool)):
        length, k, c = (one[0] for one in crowd._spring_parameters(on))
        x = 1.5 * crowd.start + 0.1 * rng.standard_normal(crowd.start.shape)
        hessian = np.diag(np.repeat(crowd._inertia, 3))
        for (i, j), rest, stiffness, damping in zip(crowd.spring_nodes, length, k, c, strict=True):
            far = float(np.linalg.norm(x[i] - x[j]))
            along = np.outer(x[i] - x[j], x[i] - x[j]) / far**2
            one = h * stiffness * (along + (1.0 - rest / far) * (np.eye(3) - along)) + damping * along
            hessian += np.kron(np.outer(np.eye(n)[i] - np.eye(n)[j], np.eye(n)[i] - np.eye(n)[j]), one)
        values = np.linalg.eigvalsh(bound - hessian)
        assert values[0] > -1e-9 * values[-1]


def test_rollout_keeps_momentum_in_flight() -> None:
    """Muscles and damping do not change the momentum of a creature that touches nothing."""
    crowd = replace(make_batch(looper()), ground_heights=np.full(len(looper().pins), -np.inf), gravity=np.zeros(3))
    rng = np.random.default_rng(4)
    x = crowd.start[None] + 0.05 * rng.standard_normal((1, len(crowd.start), 3))
    state = replace(RolloutState.at_rest(x), v=rng.standard_normal(x.shape))
    before = crowd.mass @ state.v[0]
    for _ in range(8):
        state = crowd._advance(state, *crowd._spring_parameters(np.ones((1, 2), dtype=bool)), crowd.front[None])
    assert crowd.mass @ state.v[0] == pytest.approx(before, rel=1e-9)


@pytest.mark.parametrize("is_mesh", [False, True])
def test_rollout_friction_has_roughness(is_mesh: bool) -> None:
    """The roughness of the ground, also painted, multiplies the friction of the approximate walks."""
    body = looper()
    if is_mesh:
        sheet = wave_sheet(5, 8.0, 0.0, 1.0)
        painted = np.where(sheet.vertices[:, 0] < 1e3, 0.5, 0.0)
        ground = replace(collider(sheet), roughness_map=painted)
        ground = replace(ground, settings_by_frame=lambda frame: ColliderSettings(roughness=3.0))
        expected = 1.5
    else:
        ground, expected = plane(roughness=2.0), 2.0
    batch = RolloutBatch.from_simulation(Simulation(walk_scene(body, 1.0, floor=ground)), body.name)
    assert batch.friction == pytest.approx((0.15 * expected, 0.9 * expected))

"""Force terms with limits and history, low-rank updates of many regions, and bounded caches."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix, diags
from stored_history import history_bytes

from builders import bar, gridded_box, scene, static_body, wire
from dampsim.core.bodies import kind_by_name
from dampsim.core.frames.cache import FrameCache
from dampsim.core.geometry.mesh.primitives import box_tets
from dampsim.core.materials import ElasticMaterial, Energy, SoftPins, StableNeoHookean, TetElasticity
from dampsim.core.materials.tetrahedra import lumped_mass, tet_volumes
from dampsim.core.objective.step_problem import StepProblem
from dampsim.core.scene.body import Body
from dampsim.core.scene.fingerprint import body_fingerprint
from dampsim.core.scene.parameters import Settings
from dampsim.core.settle.controls import Controls
from dampsim.core.settle.waveform import WaveformLaw, settle_law
from dampsim.core.simulation.bake import bake
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.factorisation import LowRank, LowRankUpdate, factorise
from dampsim.core.solvers.lbfgs import minimise_lbfgs
from dampsim.core.solvers.newton import minimise_newton
from dampsim.core.solvers.objective import Outcome
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.steppers.step_policy import Minimiser
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import BlockHistory, State
from dampsim.core.system.system import System, build_system
from dampsim.core.system.term import ForceTerm, StiffnessScaling

GRAVITY = np.array([0.0, 0.0, -9.81])


@dataclass(frozen=True)
class Barrier:
    """Energy -k log of the height above a plane. lowest: minimum height at each evaluation."""

    plane: float
    strength: float
    lowest: list[float]

    rounding = 0.0

    def value_gradient(self, positions: np.ndarray) -> tuple[float, np.ndarray]:
        height = positions[:, 2] - self.plane
        self.lowest.append(float(height.min()))
        gradient = np.zeros_like(positions)
        gradient[:, 2] = -self.strength / height
        return -self.strength * float(np.log(np.maximum(height, 1e-300)).sum()), gradient

    def hessian(self, positions: np.ndarray, project: bool) -> csr_matrix:
        curvature = np.zeros_like(positions)
        curvature[:, 2] = self.strength / (positions[:, 2] - self.plane) ** 2
        return diags(curvature.ravel()).tocsr()


@dataclass(frozen=True)
class Wall(ForceTerm):
    """Term that no node may pass."""

    barrier: Barrier
    scaling: StiffnessScaling = StiffnessScaling.FIXED

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        return self.barrier

    def largest_step(self, positions: np.ndarray, displacement: np.ndarray) -> float:
        down = displacement[:, 2] < 0.0
        if not down.any():
            return 1.0
        return min(1.0, 0.9 * float(((positions[down, 2] - self.barrier.plane) / -displacement[down, 2]).min()))


@dataclass(frozen=True)
class Clay(ForceTerm):
    """Spring between the last node and an anchor that yields beyond a bound."""

    node: int
    place: np.ndarray
    scaling: StiffnessScaling = StiffnessScaling.FIXED

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        there = history.terms.get("clay", self.place[None])
        return SoftPins(np.array([self.node]), np.array([50.0]), there)

    def history_update(self, history: BlockHistory, positions: np.ndarray) -> dict[str, np.ndarray]:
        there = history.terms.get("clay", self.place[None])
        way = positions[[self.node]] - there
        beyond = max(float(np.linalg.norm(way)) - 0.01, 0.0)
        return {"clay": there + way * beyond / max(float(np.linalg.norm(way)), 1e-30)}


def box_mesh(shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rest, tets = box_tets((0.3, 0.2, 0.2), (3, 2, 2))
    return rest + np.array([shift, 0.0, 0.0]), tets


def free_boxes(count: int, gap: float = 0.5) -> System:
    """Return a row of free blocks as one block of nodes."""
    nodes, tets = zip(*(box_mesh(k * gap) for k in range(count)), strict=True)
    rest = np.concatenate(nodes)
    elements = np.concatenate([part + k * len(nodes[0]) for k, part in enumerate(tets)])
    volumes = tet_volumes(rest, elements)
    elastic = TetElasticity(rest, elements, volumes, StableNeoHookean(ElasticMaterial(1e5, 0.4, 1000.0)))
    mass = lumped_mass(elements, volumes, 1000.0, len(rest))
    return build_system(rest, elements, mass, (elastic,), GRAVITY, np.zeros(0, dtype=np.int64), np.zeros(0))


@pytest.mark.parametrize("minimiser", [minimise_lbfgs, minimise_newton])
def test_minimisers_respect_largest_step(minimiser: Minimiser) -> None:
    """Minimisers never evaluate positions beyond the largest step of a term."""
    system = free_boxes(1)
    barrier = Barrier(float(system.rest[:, 2].min()) - 0.05, 0.1, [])
    stepper = Stepper(system.with_term(Wall(barrier)), minimiser)
    state = State.at_rest(system.rest)
    # The initial speed would pass the plane twenty times over in one step.
    state = replace(state, velocities=np.tile([0.0, 0.0, -25.0], (len(system.rest), 1)))
    controls = Controls((settle_law(1.0, 0.0, system.regions[0].eigenvalue),), 1.0, 1e-3)
    for _ in range(10):
        state, report = stepper.step(state, stepper.system.stationary_inputs(), 1.0 / 24.0, controls)
        assert report.outcome is Outcome.CONVERGED
        assert float(state.positions[:, 2].min()) > barrier.plane
    assert min(barrier.lowest) > 0.0


def clay_scene(last: int = 10) -> tuple[Any, dict[str, Any]]:
    points = np.stack([np.linspace(0.0, 1.0, 6), np.zeros(6), np.zeros(6)], axis=1)
    body = wire("Wire", points, thickness=20.0, start_settled=False)
    model = kind_by_name("SPRINGS").build(body)
    term = Clay(5, points[5] + np.array([0.0, 0.0, 0.02]))
    model = replace(model, block=replace(model.block, terms=(*model.block.terms, term)))
    other = bar("Bar", 2.0, 2.5, True, resolution=60)
    return scene(body, other, last=last), {body_fingerprint(body): model}


@pytest.mark.slow
def test_term_history_is_cached_and_resumed(tmp_path: Path) -> None:
    """The history of a term is stored in the state and in the cache, and resumed bakes are identical."""
    made, models = clay_scene()

    def baked(folder: Path, stop: int | None) -> list[bytes]:
        steps = bake(Simulation(made, models=models), FrameCache(folder, "Clay"))
        for progress in steps:
            if progress.stage == "Simulating" and progress.done == stop:
                steps.close()
                break
        return [path.read_bytes() for path in sorted(folder.iterdir())]

    whole = baked(tmp_path / "whole", None)
    assert len(baked(tmp_path / "parts", 5)) < len(whole)
    assert baked(tmp_path / "parts", None) == whole
    cache = FrameCache(tmp_path / "whole", "Clay")
    kept = [cache.read(number).state.history for number in (2, 5, 10)]
    simulation = Simulation(made, models=models)
    nodes = simulation.assembly.node_slice_of(0)
    played = [frame for frame in simulation.frames() if frame.number in (2, 5, 10)]
    for history, frame in zip(kept, played, strict=True):
        # The anchor follows the node's position at the end of the step, not at its start.
        way = frame.state.positions[nodes][5] - history.block("Wire").terms["clay"][0]
        assert np.linalg.norm(way) <= 0.01 * (1.0 + 1e-9)
        assert ("Wire", "clay") in history_bytes(history)
        assert history_bytes(history) == history_bytes(frame.state.history)
    # The anchor keeps moving, although the other island has no such history.
    clay = [history.block("Wire").terms["clay"] for history in kept]
    assert not np.array_equal(clay[0], clay[1])
    # The anchor yielded under gravity.
    assert clay[-1][0, 2] < 0.02 - 1e-3


@pytest.mark.parametrize("columns", [1, 6, 12])
@pytest.mark.parametrize("parts", [1, 3, 7])
def test_low_rank_update_of_many_parts(parts: int, columns: int) -> None:
    rng = np.random.default_rng(3)
    part = np.sort(rng.integers(parts, size=40 * parts))
    n = len(part)
    plain = rng.standard_normal((n, n)) * (part[:, None] == part)
    matrix = plain @ plain.T + 10.0 * np.eye(n)
    held, signs = rng.standard_normal((n, columns)), rng.choice([1.0, -1.0], (parts, columns))
    # Some parts have fewer columns than others.
    held[part == 0, columns // 2 + 1 :] = 0.0
    whole = matrix.copy()
    for k in range(parts):
        Y = held * (part == k)[:, None]
        whole += 0.3 * Y @ np.diag(np.where(signs[k] > 0.0, 1.0, -0.05)) @ Y.T
    scale = np.sqrt(0.3 * np.where(signs[part] > 0.0, 1.0, 0.05))
    solve = LowRankUpdate(factorise(csr_matrix(matrix)), LowRank(held * scale, signs, part))
    right = rng.standard_normal(n)
    wanted = np.linalg.solve(whole, right)
    assert np.linalg.eigvalsh(whole).min() > 0.1
    np.testing.assert_allclose(solve(right), wanted, atol=1e-12 * np.abs(wanted).max() * np.linalg.cond(whole))


def random_state(system: System, seed: int) -> State:
    """Return a stretched state with random velocities."""
    rng = np.random.default_rng(seed)
    centre = system.rest.mean(axis=0)
    x = centre + 1.05 * (system.rest - centre)
    return replace(State.at_rest(x), velocities=0.1 * rng.standard_normal(x.shape))


@pytest.mark.slow
def test_free_pieces_move_independently() -> None:
    """Twenty free pieces in one system move like twenty systems."""
    count, h = 20, 1.0 / 48.0
    one = free_boxes(1)
    (region,) = one.regions
    law = settle_law(0.5, 0.3, region.eigenvalue)
    together = free_boxes(count)
    assert len(together.regions) == count
    shift = [np.array([0.5 * k, 0.0, 0.0]) for k in range(count)]
    states = [random_state(one, k) for k in range(count)]
    joined = State.at_rest(np.concatenate([s.positions + d for s, d in zip(states, shift, strict=True)]))
    joined = replace(joined, velocities=np.concatenate([s.velocities for s in states]))
    many, single = Stepper(together), Stepper(one)
    laws = tuple(settle_law(0.5, 0.3, r.eigenvalue) for r in together.regions)
    for _ in range(10):
        joined, _ = many.step(joined, together.stationary_inputs(), h, Controls(laws, 1.0, 1e-13))
        states = [single.step(s, one.stationary_inputs(), h, Controls((law,), 1.0, 1e-13))[0] for s in states]
    wanted = np.concatenate([s.positions + d for s, d in zip(states, shift, strict=True)])
    assert np.abs(joined.positions - wanted).max() < 1e-10 * 0.3


@pytest.mark.parametrize("count", [1, 5, 20])
@pytest.mark.parametrize("painted", [False, True])
def test_low_rank_columns_per_region_count(count: int, painted: bool) -> None:
    """The number of stored columns does not depend on the number of regions."""
    system = free_boxes(count)
    laws = []
    for region in system.regions:
        law = settle_law(0.5, 0.3, region.eigenvalue)
        pace = np.linspace(0.3, 1.0, len(region.free)) if painted else None
        laws.append(WaveformLaw(law.decay, law.frequency, law.eigenvalue, pace))
    stepper = Stepper(system)
    problem = StepProblem(
        stepper, random_state(system, 0), system.stationary_inputs(), 0.01, Controls(tuple(laws), 1.0, 1e-3)
    )
    assert problem.low_rank.columns.shape == (3 * len(system.rest), 12 if painted else 6)


def cache_sizes(simulation: Simulation) -> Mapping[str, tuple[int, int]]:
    """Return the current and the largest size of each cache."""
    dials, statics = simulation.dials, simulation.statics
    return {
        "integrations": (len(simulation._integrations), 2),
        "controls": (len(dials._controls), 32),
        "hanging": (len(statics._hanging_cache), 16),
        "moduli": (len(statics._young_cache), 16),
        "factors": (max(len(one._factorisations) for one in statics.steppers), 8),
    }


def with_keyed_stiffness(body: Body) -> Body:
    def dials(frame: float) -> Settings:
        return replace(body.settings, stiffness=body.settings.stiffness * (1.0 + 0.01 * frame))

    return replace(body, settings_by_frame=dials)


@pytest.mark.slow
def test_caches_with_keyed_stiffness_are_bounded() -> None:
    surface = gridded_box("Bar", (0.0, 0.0, 0.0), (1.0, 0.25, 0.25), 0.125)
    pins = (surface.vertices[:, 0] < 1e-6).astype(float)
    for more in ({"damping_by": "RAYLEIGH", "damping_ratio": 0.3}, {}):
        body = with_keyed_stiffness(static_body(surface, pins, resolution=1500, stiffness=500.0, substeps=2, **more))
        simulation = Simulation(scene(body, last=60))
        assert len(simulation.islands[0].system.rest) > 250
        tracemalloc.start()
        try:
            used = {}
            for frame in simulation.frames():
                if frame.number in (20, 60):
                    gc.collect()
                    used[frame.number] = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert used[60] - used[20] < 5e6
        found = cache_sizes(simulation)
        assert all(count <= most for count, most in found.values())
        # Sixty frames fill the cache.
        assert found["integrations" if more else "controls"] == ((2, 2) if more else (32, 32))


@pytest.mark.slow
def test_memory_of_long_shot_is_constant() -> None:
    points = np.stack([np.linspace(0.0, 1.0, 4), np.zeros(4), np.zeros(4)], axis=1)
    body = with_keyed_stiffness(wire("Wire", points))
    simulation = Simulation(scene(body, last=1000))
    tracemalloc.start()
    try:
        used = {}
        for frame in simulation.frames():
            if frame.number in (100, 1000):
                gc.collect()
                used[frame.number] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # A frame of so few nodes takes about 1 kB, so that 1000 retained frames would show.
    assert used[1000] - used[100] < 3e5
    assert all(count <= most for count, most in cache_sizes(simulation).values())

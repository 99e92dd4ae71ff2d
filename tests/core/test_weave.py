"""Woven cloth: tracing of yarns, pull-out, dampings, dials, and frames in the cache."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from stored_history import history_bytes
from woven_damping import mean_kinetic_energy, patch, yarn_dials
from woven_scenes import SwatchStepper, swatch, woven_body

from builders import net, scene, static_body
from dampsim.core.base.errors import DampSimError, MeshError
from dampsim.core.bodies.weave import WeaveKind
from dampsim.core.frames.cache import FrameCache
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.measure.release import largest_distance
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Scene
from dampsim.core.settle.controls import Controls, YarnDials
from dampsim.core.settle.law import BackwardEulerLaw, DeformationLaw, TauKappaLaw
from dampsim.core.settle.step_report import StepReport
from dampsim.core.settle.work_meter import WorkMeter
from dampsim.core.simulation.bake import bake
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.factorisation import Solve
from dampsim.core.solvers.newton_cg import KeptFactors
from dampsim.core.steppers.static import relax_dynamically
from dampsim.core.system.inputs import Inputs
from dampsim.core.system.state import BlockHistory, History, State, YarnHistory
from dampsim.core.yarns.woven_cloth import over_under_pattern
from dampsim.core.yarns.yarns import trace_yarns

ROOT = Path(__file__).parents[2]
# Last frame of a bake that is killed at its ninth frame.
LAST = 14


def hanging_swatch(count: int, **more: object) -> Body:
    """Return 1 m² of woven cloth hung by its upper tails, with a strong grip of the yarns."""
    surface, edges = swatch(count, count, 1.0 / (count + 1))
    upright = surface.vertices[:, [1, 2, 0]] * np.array([1.0, 1.0, -1.0])
    pins = more.pop("pins", (upright[:, 2] > -1e-9).astype(float))
    dials = {"thickness": 100.0 / count, "density": 300.0, "bending": 0.05, "stiffness": 2000.0, "yarn_grip": 1000.0}
    return static_body(replace(surface, vertices=upright), pins, kind="WEAVE", edges=edges, **{**dials, **more})


def grid(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return vertices of a grid of quads, its edges, and its triangles."""
    k = np.arange(rows * columns).reshape(rows, columns)
    i, j = np.divmod(k.ravel(), columns)
    edges = np.concatenate(
        [np.stack([k[:-1].ravel(), k[1:].ravel()], 1), np.stack([k[:, :-1].ravel(), k[:, 1:].ravel()], 1)]
    )
    a, b, c, d = k[:-1, :-1].ravel(), k[1:, :-1].ravel(), k[1:, 1:].ravel(), k[:-1, 1:].ravel()
    triangles = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    return np.stack([i, j, 0 * i], 1).astype(float), edges, triangles


def test_grid_rows_and_columns_are_yarns() -> None:
    """Each row and column of a grid is a yarn, in a plane and on a curved surface."""
    flat, edges, triangles = grid(4, 6)
    bowl = np.column_stack([flat[:, 0], flat[:, 1] + 0.4 * flat[:, 0] ** 2, 0.2 * (flat[:, 0] - 1.5) ** 2])
    for points in (flat, bowl):
        found = {frozenset(yarn.nodes) for yarn in trace_yarns(points, edges, triangles)}
        k = np.arange(24).reshape(4, 6)
        assert found == {frozenset(row.tolist()) for row in k} | {frozenset(column.tolist()) for column in k.T}


def test_tube_rings_are_closed_yarns() -> None:
    flat, edges, triangles = grid(5, 12)
    turn = 2.0 * np.pi * flat[:, 1] / 12.0
    k = np.arange(60).reshape(5, 12)
    edges = np.concatenate([edges, np.stack([k[:, 11], k[:, 0]], 1)])
    last = np.concatenate(
        [np.stack([k[:-1, 11], k[1:, 11], k[1:, 0]], 1), np.stack([k[:-1, 11], k[1:, 0], k[:-1, 0]], 1)]
    )
    points = np.column_stack([np.cos(turn), np.sin(turn), 0.4 * flat[:, 0]])
    yarns = trace_yarns(points, edges, np.concatenate([triangles, last]))
    assert sorted((len(yarn.nodes), yarn.closed) for yarn in yarns) == [(5, False)] * 12 + [(12, True)] * 5
    surface = Surface("Tube", points, np.concatenate([triangles, last]))
    cloth = SwatchStepper(static_body(surface, kind="WEAVE", edges=edges, thickness=50.0)).cloth
    # The two border rings are hems and have no sliding crossings.
    assert len(cloth.crossings) == 3 * 12
    assert cloth.lengths(cloth.rest_arc_lengths + 0.1 * cloth.can_slide).min() > 0.0


def test_yarns_end_at_irregular_vertices() -> None:
    # Three quads meet at a vertex, as at a cube's corner.
    points = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1)], dtype=float)
    edges = np.array([(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (2, 5), (3, 5), (1, 6), (3, 6)])
    triangles = np.array([(0, 1, 4), (0, 4, 2), (0, 2, 5), (0, 5, 3), (0, 3, 6), (0, 6, 1)])
    assert all(
        0 in (yarn.nodes[0], yarn.nodes[-1]) for yarn in trace_yarns(points, edges, triangles) if 0 in yarn.nodes
    )
    with pytest.raises(MeshError, match="Corner: no two yarns cross"):
        WeaveKind.build(static_body(Surface("Corner", points, triangles), kind="WEAVE", edges=edges))


def pull_out(
    count: int, friction: float, h: float, way: float = 8e-4, drag: float = 1e-4
) -> tuple[float, np.ndarray, float]:
    """Return the final force in N, the sliding lengths at crossings, and the mean iterations of a yarn pull-out.

    Yarns are 2 mm apart with a grip of 0.2 mN, and one is pulled at 4 mm/s.
    """
    pitch, speed = 2e-3, 4e-3
    points = swatch(count, count, pitch)[0].vertices
    last = (count + 1) * pitch
    tails = (np.isclose(points[:, :2], 0.0) | np.isclose(points[:, :2], last)).any(axis=1)
    mine = np.isclose(points[:, 1], (count // 2 + 1) * pitch)
    end = int(np.flatnonzero(mine & np.isclose(points[:, 0], last))[0])
    pins = tails & ~(mine & np.isclose(points[:, 0], 0.0))
    loom = SwatchStepper(woven_body(count, count, pitch, pins.astype(float), thickness=0.6))
    dials = YarnDials(friction, 2e-4, drag, 3e-3, 0.016)
    pinned = loom.system.blocks[0].pinned
    places, iterations = loom.system.rest[pinned].copy(), []
    for _ in range(round(way / speed / h)):
        places[pinned == end, 0] += speed * h
        iterations.append(loom.step(h, dials, places, 1e-6))
    u, cloth = loom.yarns.positions, loom.cloth
    forces = loom.term.scaled_elastic(loom.factor).tensions(loom.state.positions, u)
    slid = np.abs(u - cloth.rest_arc_lengths)
    return float(np.linalg.norm(forces[(cloth.ends == end).any(axis=1)])), slid[slid > 1e-4], float(np.mean(iterations))


@pytest.mark.parametrize(
    ("count", "friction", "h"),
    [
        (6, 0.3, 2.5e-3),
        (6, 0.3, 5e-3),
        pytest.param(28, 0.3, 2.5e-3, marks=pytest.mark.slow),
        pytest.param(28, 0.6, 2.5e-3, marks=pytest.mark.slow),
    ],
)
def test_pull_out_force_with_friction(count: int, friction: float, h: float) -> None:
    """The pull-out force is Coulomb friction and drag, summed over the crossings, within 1%.

    Crossings lean, so that some of the force is not along the yarn.
    """
    force, slid, iterations = pull_out(count, friction, h)
    assert force == pytest.approx(count * (friction * 2e-4 + 1e-4 * 4e-3), rel=0.01)
    # The yarn slides at all of its own crossings and at no others.
    assert len(slid) == count
    assert iterations < 5.0


def test_pull_out_force_without_friction() -> None:
    force, _, _ = pull_out(6, 0.0, 2.5e-3, drag=2e-3)
    # Each crossing contributes its drag.
    assert force == pytest.approx(6 * 2e-3 * 4e-3, rel=0.01)


# For a step of 0.01 s: real inertia, and less and more inertia of the deformation.
LAWS = [BackwardEulerLaw(), TauKappaLaw(0.8, 0.004), TauKappaLaw(0.8, 0.02)]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_free_fall_along_yarns(law: DeformationLaw) -> None:
    """Cloth in free fall neither bends nor slides."""
    loom, pull, h = (
        SwatchStepper(woven_body(4, 4, 0.1, thickness=5.0), (4.0, 1.0, -9.0)),
        np.array([4.0, 1.0, -9.0]),
        0.01,
    )
    for _ in range(24):
        loom.step(h, YarnDials(0.3, 1e-4, 1e-3, 3e-4, 1e-3), law=law)
    # The prediction of a step includes gravity, so that only rounding remains.
    fallen_by = pull * h**2 * 24 * 25 / 2.0
    np.testing.assert_allclose(loom.state.positions, loom.system.rest + fallen_by, atol=1e-12)
    np.testing.assert_allclose(loom.yarns.positions, loom.cloth.rest_arc_lengths, atol=1e-12)


def state_with_yarns(positions: np.ndarray, yarns: YarnHistory) -> State:
    """Return the state of a swatch at rest at positions (n, 3) m, with yarns."""
    return State.at_rest(positions, history=History({"Swatch": BlockHistory(yarns=yarns)}))


def yarn_momenta(loom: SwatchStepper) -> np.ndarray:
    """Return the momentum in kg m/s and the angular momentum about the origin in kg m²/s of the yarns, (6,)."""
    cloth, x, u, v = loom.cloth, loom.state.positions, loom.yarns.positions, loom.state.velocities
    speeds = np.zeros(len(u)) if loom.yarns.speeds is None else loom.yarns.speeds
    total = np.zeros(6)
    for one, node in enumerate(cloth.node):
        lengths, directions = [], []
        for a, b in cloth.segments:
            if one in (a, b):
                lengths.append(u[b] - u[a])
                directions.append((x[cloth.node[b]] - x[cloth.node[a]]) / (u[b] - u[a]))
        mass = cloth.material.linear_density * sum(lengths) / 2.0
        push = mass * (v[node] - sum(directions) / len(directions) * speeds[one])
        total += np.concatenate([push, np.cross(x[node], push)])
    return total


@pytest.mark.parametrize("h", [1.0 / 24.0, 1.0 / 240.0])
@pytest.mark.parametrize("law", [BackwardEulerLaw(), TauKappaLaw(0.8, 0.02), TauKappaLaw(0.9, 0.3)], ids=str)
def test_thrown_yarns_keep_momenta(law: DeformationLaw, h: float) -> None:
    """A spinning, sliding and deforming cloth in free flight keeps its momentum and its angular momentum."""
    loom = SwatchStepper(woven_body(4, 4, 0.1, thickness=10.0))
    rng, rest = np.random.default_rng(0), loom.system.rest
    x = rest + 0.01 * rng.standard_normal(rest.shape)
    v = np.cross([0.0, 1.0, 3.0], x - x.mean(axis=0)) + [1.0, 0.0, 0.5] + 0.5 * np.sin(15.0 * x[:, [1, 2, 0]])
    yarns = YarnHistory.at_rest(loom.cloth.rest_arc_lengths)
    loom.state = replace(state_with_yarns(x, yarns), velocities=v)
    before, slid = yarn_momenta(loom), 0.0
    for _ in range(6):
        loom.step(h, YarnDials(0.3, 1e-3, 1e-3, 3e-3, 0.016), law=law)
        slid = max(slid, np.abs(loom.yarns.positions - yarns.positions).max())
    assert slid > 0.05
    np.testing.assert_allclose(yarn_momenta(loom), before, atol=1e-11 * np.abs(before).max())


def slid_loom() -> SwatchStepper:
    """Return a pinned, bent swatch whose yarns have slid from their woven positions."""
    points = swatch(4, 3, 0.01)[0].vertices
    loom = SwatchStepper(woven_body(4, 3, 0.01, (points[:, 0] < 1e-9).astype(float)))
    rng = np.random.default_rng(2)
    loose = ~loom.system.is_fixed
    x = loom.system.rest + np.where(loose[:, None], 1e-3 * rng.standard_normal(loom.system.rest.shape), 0.0)
    places = loom.cloth.rest_arc_lengths + np.where(
        loom.cloth.can_slide, rng.uniform(-2e-3, 2e-3, len(loom.cloth.node)), 0.0
    )
    loom.state = state_with_yarns(x, YarnHistory.at_rest(places))
    return loom


def test_backward_euler_ignores_reference_motion() -> None:
    """By backward Euler the reference motion cancels yarn by yarn, for any masses of the nodes."""
    one, other = slid_loom(), slid_loom()
    reference = np.where(other.system.is_fixed[:, None], 0.0, [0.3, -0.2, 0.5])
    other.state = replace(other.state, reference=reference)
    for loom in (one, other):
        loom.step(2e-3, YarnDials(0.3, 1e-5, 1e-4), tolerance=1e-10)
    # The error is the tolerance; the yarns slide by a thousand times as much.
    np.testing.assert_allclose(other.state.positions, one.state.positions, atol=1e-10)
    np.testing.assert_allclose(other.yarns.positions, one.yarns.positions, atol=1e-10)
    assert np.abs(one.yarns.speeds).max() * 2e-3 > 1e-7


def test_yarn_sliding_by_pin_acceleration() -> None:
    """Yarns slide under an acceleration of their pins as they do under equal gravity."""
    count, pitch, h = 6, 0.01, 2.5e-3
    points = swatch(count, count, pitch)[0].vertices
    pull, dials = np.array([9.81, 0.0, 0.0]), YarnDials(0.3, 1e-3, 1e-4, 3e-4, 1e-3)
    found = []
    for heavy in (True, False):
        body = woven_body(count, count, pitch, (points[:, 0] < 1e-9).astype(float))
        loom = SwatchStepper(body, tuple(pull) if heavy else (0.0, 0.0, 0.0))
        pins, way = loom.state.positions[loom.system.blocks[0].pinned].copy(), np.zeros(3)
        for step in range(1, 61):
            way = way if heavy else -pull * h**2 * step * (step + 1) / 2.0
            loom.step(h, dials, pins + way)
        found.append((loom.state.positions - way, loom.yarns.positions - loom.cloth.rest_arc_lengths))
    (x, slid), (carried, along) = found
    # Halfway through, the crosswise yarns have slid by three pitches.
    far = np.abs(slid).max()
    assert far > 2.0 * pitch
    # Gravity acts on yarn segments, inertia on nodes, which causes a difference of 0.07%.
    np.testing.assert_allclose(along, slid, atol=2e-3 * far)
    np.testing.assert_allclose(carried, x, atol=2e-3 * far)


def test_over_under_pattern_alternates() -> None:
    cloth = SwatchStepper(woven_body(4, 3, 0.01)).cloth
    found = over_under_pattern(cloth)
    w, f = cloth.crossings.T
    assert set(found[cloth.can_slide].tolist()) == {-1.0, 1.0}
    assert not found[~cloth.can_slide].any()
    np.testing.assert_array_equal(found[w], -found[f])
    a, b = cloth.segments[cloth.can_slide[cloth.segments].all(axis=1)].T
    np.testing.assert_array_equal(found[a], -found[b])


def test_relaxation_of_horizontal_swatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamic relaxation finds the hanging shape of a swatch that is modelled horizontally."""
    surface, _ = swatch(6, 6, 0.1)
    loom = SwatchStepper(woven_body(6, 6, 0.1, (surface.vertices[:, 0] < 1e-9).astype(float)), (0.0, 0.0, -9.81))
    step, steps = loom.stepper.step, list[float]()

    def counted(state: State, inputs: Inputs, h: float, controls: Controls, **more: object) -> tuple[State, StepReport]:
        steps.append(h)
        return step(state, inputs, h, controls, **more)

    monkeypatch.setattr(loom.stepper, "step", counted)
    found = relax_dynamically(
        loom.stepper, loom.state, loom.system.stationary_inputs(), Controls((), 0.0, 1e-3, loom.factor)
    ).positions
    # Without its damping it would swing for all 120 steps.
    assert len(steps) < 60
    # It hangs 0.7 m down with a slight stretch, and bends near the pins.
    assert found[:, 2].min() == pytest.approx(-0.7, rel=0.03)
    assert np.abs(found[:, 0]).max() < 0.07


def test_yarn_sticks_below_friction_limit() -> None:
    force, slid, _ = pull_out(6, 0.3, 2.5e-3, way=1e-5)
    # Crossings are springs until they slip, and 10 um is half of their elastic range.
    assert 0.0 < force < 0.8 * 6 * 0.3 * 2e-4
    assert not len(slid)


def test_normal_force_of_taut_yarns() -> None:
    """The tension of a bent crossing adds to its normal force, N = N0 + |(f_w - f_f) n|/2."""
    loom = SwatchStepper(woven_body(3, 3, 0.01, np.ones(21)))
    x = loom.system.rest.copy()
    centre = int(np.argmin(np.linalg.norm(x - x.mean(axis=0), axis=1)))
    x[centre, 2] = 0.005
    loom.state = State.at_rest(x)
    loom.step(1e-3, YarnDials(0.0, 0.0))
    cloth, pressed = loom.cloth, loom.yarns.normal_forces
    # Equal tensions of both yarns cause no normal force; opposite bends do.
    mine = cloth.node == centre
    assert pressed[mine] == pytest.approx(0.0, abs=1e-9 * cloth.material.stretch)
    along = np.flatnonzero(np.isclose(x[:, 1], x[centre, 1]) & (np.arange(len(x)) != centre))
    x[along, 2] = 0.01
    loom.state = State.at_rest(x)
    loom.step(1e-3, YarnDials(0.0, 0.0))
    tension = loom.term.scaled_elastic(loom.factor).tensions(x, loom.yarns.positions)
    sides = [
        tension[cloth.outgoing_segment[k]][2] - tension[cloth.incoming_segment[k]][2] for k in np.flatnonzero(mine)
    ]
    assert loom.yarns.normal_forces[mine] == pytest.approx(0.5 * abs(sides[0] - sides[1]), rel=1e-9)
    assert loom.yarns.normal_forces[mine].min() > 0.0


@pytest.mark.slow
def test_strain_rate_damping_spares_swinging_patch() -> None:
    """Strain-rate damping acts on a hanging patch like Rayleigh damping, and hardly on a swinging one: [SRD] figure 3.

    Swinging causes some stretch, because gravity changes its direction relative to the patch.
    """
    free = {motion: mean_kinetic_energy(motion, yarn_dials(0.0, 0.0)) for motion in ("hanging", "swinging")}
    rate = {motion: mean_kinetic_energy(motion, yarn_dials(0.03, 0.03)) / free[motion] for motion in free}
    rayleigh = {motion: mean_kinetic_energy(motion, yarn_dials(0.03, 0.03, True)) / free[motion] for motion in free}
    assert rate["hanging"] == pytest.approx(rayleigh["hanging"], rel=0.1)
    assert rate["hanging"] < 0.6
    assert rate["swinging"] > 0.9
    assert rayleigh["swinging"] < 0.8


def test_patches_of_any_resolution_are_alike() -> None:
    """The mass, stiffness, grip and drag of all yarns together do not depend on their number."""
    totals = []
    for count in (12, 36):
        loom, dials = SwatchStepper(patch(count)), yarn_dials(0.03, 0.016, count=count)
        material = loom.cloth.material
        totals.append(
            [
                float(loom.system.mass.sum()), count * loom.factor * material.stretch,
                count * loom.factor * material.bend, count**2 * dials.grip, count**2 * dials.drag,
                float(loom.system.rest[:, 0].max()), material.diameter / loom.cloth.pitch,
            ]
        )  # fmt: skip
    assert totals[1] == pytest.approx(totals[0], rel=1e-5)


@pytest.mark.slow
def test_stretch_and_bend_damping_are_separate() -> None:
    """Stretch damping dominates for a hanging patch and bend damping for a flapping one: [SRD] figure 3, right."""
    values = {
        (motion, stretch, bend): mean_kinetic_energy(motion, yarn_dials(stretch, bend))
        for motion in ("hanging", "flapping")
        for stretch, bend in ((3e-4, 0.016), (0.03, 0.016), (3e-4, 0.16))
    }
    by_stretch = values["hanging", 0.03, 0.016] / values["hanging", 3e-4, 0.016]
    by_bend = values["hanging", 3e-4, 0.16] / values["hanging", 3e-4, 0.016]
    assert by_stretch < 0.6
    assert by_bend > 0.8
    flapping = values["flapping", 3e-4, 0.16] / values["flapping", 3e-4, 0.016]
    assert flapping < 0.8
    assert flapping < values["flapping", 0.03, 0.016] / values["flapping", 3e-4, 0.016]


def run_release(
    count: int, thick: float, degrees: float, dial: float, corners: bool = False, **more: float
) -> tuple[int, int, float]:
    """Return the frames until 5% and 1% are left of a rotation about the upper border, and the final deviation.

    The patch is 1 m² of yarns with a thickness in mm. Distances are from its final shape, relative to the rotation. The
    deviation is that of the final shape from the initial rest shape.  corners: whether it hangs by its outermost two
    upper tails only.
    """
    body = hanging_swatch(count, thickness=thick, settle=dial, **more)
    if corners:
        held = np.flatnonzero(body.pins)
        along = body.surface.vertices[held, 0]
        pins = np.zeros_like(body.pins)
        pins[held[[np.argmin(along), np.argmax(along)]]] = 1.0
        body = replace(body, pins=pins)
    simulation = Simulation(scene(body, last=int(6 * dial) if corners else int(4 * dial)))
    first = simulation.first_frame()
    rest, turn = first.state.positions, np.radians(degrees)
    R = np.array([[1.0, 0.0, 0.0], [0.0, np.cos(turn), -np.sin(turn)], [0.0, np.sin(turn), np.cos(turn)]])
    start = replace(first, state=State.at_rest(rest @ R.T, first.state.time, first.state.history))
    whole = largest_distance(rest @ R.T, rest)
    shapes = [rest @ R.T, *(frame.state.positions for frame in simulation.frames(start))]
    far = np.array([largest_distance(one, shapes[-1]) for one in shapes]) / whole
    left = [int(np.flatnonzero(far > part)[-1]) + 1 for part in (0.05, 0.01)]
    return left[0], left[1], largest_distance(shapes[-1], rest) / whole


@pytest.mark.parametrize("degrees", [5.0, pytest.param(90.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dial", [48.0, pytest.param(96.0, marks=pytest.mark.slow)])
def test_settle_of_hanging_patch(dial: float, degrees: float) -> None:
    """The error is below Settle/8; docs/explanation/woven-cloth.md explains why corners that bend settle late."""
    _, settled, apart = run_release(8, 12.5, degrees, dial)
    assert abs(settled - dial) <= dial / 8.0
    assert apart < 0.01


def scene_with_pulled_yarn(last: int = 20) -> Scene:
    """Return a scene of a swinging patch from which one yarn is pulled down and out."""
    body = hanging_swatch(5, yarn_grip=30.0, thickness=15.0)
    points = body.surface.vertices
    column = np.isclose(points[:, 0], 0.5)
    lowest = int(np.argmin(np.where(column, points[:, 2], 1.0)))
    pins = body.pins.copy()
    pins[np.argmax(np.where(column, points[:, 2], -9.0))], pins[lowest] = 0.0, 1.0

    def motion(frame: float) -> np.ndarray:
        moved = points + np.array([0.0, 0.05 * np.sin(0.5 * (frame - 1.0)), 0.0])
        moved[lowest, 2] -= 0.006 * (frame - 1.0)
        return moved

    return scene(replace(body, pins=pins, motion=motion), last=last)


@pytest.mark.slow
def test_yarn_history_is_in_every_frame() -> None:
    frames = list(Simulation(scene_with_pulled_yarn(14)).frames())
    names = {name for _, name in history_bytes(frames[-1].state.history)}
    # It never comes to rest, so there are no still steps to count.
    assert names == {"yarn places", "yarn speeds", "yarn anchors", "yarn presses"}
    places = [frame.state.history.block("Swatch").yarns.positions for frame in frames[1:]]
    # The pulled yarn keeps sliding.
    assert np.abs(places[-1] - places[0]).max() > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("what", ["test_weave.scene_with_pulled_yarn", "test_weave_contact.scene_over_crate"])
def test_killed_bake_resumes_bit_identically(what: str, tmp_path: Path) -> None:
    """A killed bake of woven cloth resumes to the same bytes, which equal those of live frames."""
    module, name = what.split(".")
    made = getattr(importlib.import_module(module), name)
    for _ in bake(Simulation(made(LAST)), FrameCache(tmp_path / "whole", "Swatch")):
        pass
    script = (
        "import sys; sys.path[:0] = ['tests', 'tests/core']; import conftest, os\n"
        f"from pathlib import Path\nimport test_weave as t, {module}\n"
        f"for p in t.bake(t.Simulation({what}({LAST})), t.FrameCache(Path(sys.argv[1]), 'Swatch')):\n"
        "    if p.done == 9 and p.stage != 'Checking': os.kill(os.getpid(), 9)\n"
    )
    folder = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", script, str(folder)], cwd=ROOT, env=dict(os.environ), check=False)
    assert done.returncode == -9
    assert 5 <= len(FrameCache(folder, "Swatch").frame_numbers()) < LAST
    for _ in bake(Simulation(made(LAST)), FrameCache(folder, "Swatch")):
        pass
    live = list(Simulation(made(LAST)).frames())
    for frame in live:
        for at in (tmp_path / "whole", folder):
            kept = FrameCache(at, "Swatch").read(frame.number)
            assert kept.state.positions.tobytes() == frame.state.positions.tobytes()
            assert history_bytes(kept.state.history) == history_bytes(frame.state.history)


@pytest.mark.slow
def test_crossings_keep_order_when_shaken() -> None:
    body = hanging_swatch(5, yarn_friction=0.0, yarn_grip=0.0, yarn_drag=0.0, thickness=30.0)
    points = body.surface.vertices
    loom_, frames = SwatchStepper(body), []
    one = replace(body, motion=lambda frame: points + np.array([0.0, 0.0, 0.3 * np.sin(1.1 * (frame - 1.0))]))
    for frame in Simulation(scene(one, last=24)).frames():
        frames.append(frame)
        yarns = frame.state.history.block("Swatch").yarns
        u = loom_.cloth.rest_arc_lengths if yarns is None else yarns.positions
        assert (loom_.cloth.lengths(u) > loom_.cloth.min_lengths).all()
    assert np.isfinite(frames[-1].surface).all()


def test_unsupported_settings_are_refused() -> None:
    touching = {"touch_together": True, "damping_by": "STRAIN_RATE"}
    woven = hanging_swatch(4, **touching)
    other = replace(woven, surface=replace(woven.surface, name="Other"))
    by_rayleigh = replace(other, settings=replace(other.settings, damping_by="RAYLEIGH"))
    for refused, said in (
        (scene(hanging_swatch(4, damping_by="POINT")), "Swatch: yarns do not support"),
        (scene(woven, by_rayleigh), "Other: it is simulated together with woven cloth"),
        (scene(woven, net(name="Net", **touching)), "Net: it is simulated together with woven cloth"),
    ):
        with pytest.raises(DampSimError, match=said):
            Simulation(refused)
    # The same damping of both is supported.
    Simulation(scene(woven, other, last=1))


def test_steps_of_frame_share_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of a frame share factors, with the same result to the tolerance; other frames have no influence."""
    body, dials, made = woven_body(12, 12, 0.5 / 12.0), yarn_dials(3e-4, 1e-3), list[int]()
    speed = np.sin(9.0 * body.surface.vertices[:, :1]) * np.array([0.0, 0.3, 1.0])
    renew = KeptFactors.renew

    def counted(factors: KeptFactors, matrix: csr_matrix) -> Solve:
        made.append(1)
        return renew(factors, matrix)

    monkeypatch.setattr(KeptFactors, "renew", counted)

    def run(loom: SwatchStepper, meter: WorkMeter | None) -> tuple[State, int]:
        made.clear()
        loom.state = State(0.0, loom.system.rest, speed, np.zeros_like(speed))
        for _ in range(4):
            loom.step(2.5e-3, dials, tolerance=1e-6, meter=meter)
        return loom.state, len(made)

    loom = SwatchStepper(body)
    separate, separate_count = run(loom, None)
    shared, shared_count = run(loom, WorkMeter(steps_per_frame=4))
    again, _ = run(SwatchStepper(body), WorkMeter(steps_per_frame=4))
    assert separate_count >= 4 > shared_count
    change = np.abs(separate.positions - loom.system.rest).max()
    np.testing.assert_allclose(shared.positions, separate.positions, rtol=0, atol=1e-4 * change)
    assert shared.positions.tobytes() == again.positions.tobytes()


def test_gradients_are_preconditioned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No right-hand side is solved for twice, up to its sign."""
    loom, solved = SwatchStepper(woven_body(12, 12, 0.5 / 12.0)), list[bytes]()
    speed = np.sin(9.0 * loom.system.rest[:, :1]) * np.array([0.0, 0.3, 1.0])
    renew = KeptFactors.renew

    def recorded(factors: KeptFactors, matrix: csr_matrix) -> Solve:
        solve = renew(factors, matrix)

        def solve_recorded(right: np.ndarray) -> np.ndarray:
            # The columns of the low rank are solved for once per search.
            if right.ndim == 1:
                solved.append(np.abs(right).tobytes())
            return solve(right)

        factors.solve = solve_recorded
        return solve_recorded

    monkeypatch.setattr(KeptFactors, "renew", recorded)
    loom.state = State(0.0, loom.system.rest, speed, np.zeros_like(speed))
    meter = WorkMeter(steps_per_frame=4)
    for _ in range(4):
        loom.step(2.5e-3, yarn_dials(3e-4, 1e-3), tolerance=1e-6, meter=meter)
    assert len(solved) > 8
    assert len(set(solved)) == len(solved)


@pytest.mark.slow
def test_resumed_frames_of_large_weave() -> None:
    """Resumed frames are identical above 600 unknowns, where the multifrontal factorisation keeps its ordering."""
    body = hanging_swatch(11, yarn_grip=30.0, thickness=12.0)
    points = body.surface.vertices

    def made() -> Simulation:
        moved = replace(body, motion=lambda frame: points + np.array([0.0, 0.1 * np.sin(0.6 * (frame - 1.0)), 0.0]))
        return Simulation(scene(moved, last=7))

    whole = list(made().frames())
    for frame, again in zip(whole[4:], made().frames(whole[3]), strict=True):
        assert frame.state.positions.tobytes() == again.state.positions.tobytes()
        assert history_bytes(frame.state.history) == history_bytes(again.state.history)

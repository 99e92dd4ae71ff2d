"""Woven cloth: which edges are yarns, yarns that are pulled out, dampings, the dials, and frames that are kept."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from woven_scenes import Loom, swatch, woven_body

from builders import fixed_frame, scene, still
from dampsim.core.bodies.weave import WeaveKind
from dampsim.core.errors import DampSimError, MeshError
from dampsim.core.frames.cache import FrameCache
from dampsim.core.geometry.surface import Surface
from dampsim.core.measure.diagnostics import largest_distance
from dampsim.core.scene.body import Body
from dampsim.core.scene.collider import Collider
from dampsim.core.scene.link import Link, LinkPoint
from dampsim.core.scene.parameters import ColliderSettings
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.bake import bake
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.stepping.controls import Controls, StepReport, YarnDials
from dampsim.core.stepping.dynamic_relaxation import relax_dynamically
from dampsim.core.stepping.law import BackwardEulerLaw, DeformationLaw, TauKappaLaw
from dampsim.core.system.inputs import Inputs
from dampsim.core.system.state import State
from dampsim.core.weave.over_under import over_under_pattern
from dampsim.core.weave.yarns import trace_yarns

ROOT = Path(__file__).parents[2]
# Of a bake that is killed at its ninth frame.
LAST = 14


def hung(count: int, **more: object) -> Body:
    """A square metre, hung by its upper tails; its yarns hold where they are."""
    surface, edges = swatch(count, count, 1.0 / (count + 1))
    upright = surface.vertices[:, [1, 2, 0]] * np.array([1.0, 1.0, -1.0])
    pins = more.pop("pins", (upright[:, 2] > -1e-9).astype(float))
    dials = {"thickness": 100.0 / count, "density": 300.0, "bending": 0.05, "stiffness": 2000.0, "yarn_grip": 1000.0}
    return still(replace(surface, vertices=upright), pins, kind="WEAVE", edges=edges, **{**dials, **more})


def grid(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertices of a grid of quads, its edges, and its triangles."""
    k = np.arange(rows * columns).reshape(rows, columns)
    i, j = np.divmod(k.ravel(), columns)
    edges = np.concatenate(
        [np.stack([k[:-1].ravel(), k[1:].ravel()], 1), np.stack([k[:, :-1].ravel(), k[:, 1:].ravel()], 1)]
    )
    a, b, c, d = k[:-1, :-1].ravel(), k[1:, :-1].ravel(), k[1:, 1:].ravel(), k[:-1, 1:].ravel()
    triangles = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    return np.stack([i, j, 0 * i], 1).astype(float), edges, triangles


def test_every_row_and_column_of_a_grid_is_a_yarn_however_it_lies_in_space() -> None:
    flat, edges, triangles = grid(4, 6)
    bowl = np.column_stack([flat[:, 0], flat[:, 1] + 0.4 * flat[:, 0] ** 2, 0.2 * (flat[:, 0] - 1.5) ** 2])
    for points in (flat, bowl):
        found = {frozenset(yarn.nodes) for yarn in trace_yarns(points, edges, triangles)}
        k = np.arange(24).reshape(4, 6)
        assert found == {frozenset(row.tolist()) for row in k} | {frozenset(column.tolist()) for column in k.T}


def test_a_tubes_rings_are_closed_yarns_and_slide_round() -> None:
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
    cloth = Loom(still(surface, kind="WEAVE", edges=edges, thickness=50.0)).cloth
    # All that lie inside of the tube's two borders, which are hems.
    assert len(cloth.crossings) == 3 * 12
    assert cloth.lengths(cloth.rest_arc_lengths + 0.1 * cloth.can_slide).min() > 0.0


def test_yarns_end_where_no_four_edges_meet() -> None:
    # Three quads around a vertex, as at a cube's corner.
    points = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1)], dtype=float)
    edges = np.array([(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (2, 5), (3, 5), (1, 6), (3, 6)])
    triangles = np.array([(0, 1, 4), (0, 4, 2), (0, 2, 5), (0, 5, 3), (0, 3, 6), (0, 6, 1)])
    assert all(
        0 in (yarn.nodes[0], yarn.nodes[-1]) for yarn in trace_yarns(points, edges, triangles) if 0 in yarn.nodes
    )
    with pytest.raises(MeshError, match="Corner: no two yarns cross"):
        WeaveKind.build(still(Surface("Corner", points, triangles), kind="WEAVE", edges=edges))


def pulled_out(
    count: int, friction: float, h: float, way: float = 8e-4, drag: float = 1e-4
) -> tuple[float, np.ndarray, float]:
    """The force in N at the end of a pull at one yarn of a held swatch, how far it slid at its crossings, iterations.

    2 mm between yarns, 0.2 mN of grip, pulled at 4 mm/s.
    """
    pitch, speed = 2e-3, 4e-3
    points = swatch(count, count, pitch)[0].vertices
    last = (count + 1) * pitch
    tails = (np.isclose(points[:, :2], 0.0) | np.isclose(points[:, :2], last)).any(axis=1)
    mine = np.isclose(points[:, 1], (count // 2 + 1) * pitch)
    end = int(np.flatnonzero(mine & np.isclose(points[:, 0], last))[0])
    pins = tails & ~(mine & np.isclose(points[:, 0], 0.0))
    loom = Loom(woven_body(count, count, pitch, pins.astype(float), thickness=0.6))
    dials = YarnDials(friction, 2e-4, drag, 3e-3, 0.016)
    pinned = loom.system.blocks[0].pinned
    places, iterations = loom.system.rest[pinned].copy(), []
    for _ in range(round(way / speed / h)):
        places[pinned == end, 0] += speed * h
        iterations.append(loom.step(h, dials, places, 1e-6))
    u, cloth = loom.kept("yarn places"), loom.cloth
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
def test_pulling_a_yarn_out_takes_coulombs_force_and_drag_at_every_crossing(
    count: int, friction: float, h: float
) -> None:
    """Within 1%: crossings lean after the yarn, so that some of the pull is not along it."""
    force, slid, iterations = pulled_out(count, friction, h)
    assert force == pytest.approx(count * (friction * 2e-4 + 1e-4 * 4e-3), rel=0.01)
    # It slides at its own crossings and at no others, and at all of them.
    assert len(slid) == count
    assert iterations < 5.0


def test_without_friction_a_yarn_is_slowed_by_drag_alone() -> None:
    force, _, _ = pulled_out(6, 0.0, 2.5e-3, drag=2e-3)
    # As above.
    assert force == pytest.approx(6 * 2e-3 * 4e-3, rel=0.01)


# Of a step of a hundredth of a second: lighter and heavier than in nature where it deforms.
LAWS = [BackwardEulerLaw(), TauKappaLaw(0.8, 0.004), TauKappaLaw(0.8, 0.02)]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_what_falls_along_its_yarns_neither_bends_nor_slides(law: DeformationLaw) -> None:
    loom, pull, h = Loom(woven_body(4, 4, 0.1, thickness=5.0), (4.0, 1.0, -9.0)), np.array([4.0, 1.0, -9.0]), 0.01
    for _ in range(24):
        loom.step(h, YarnDials(0.3, 1e-4, 1e-3, 3e-4, 1e-3), law=law)
    # By rounding: under the weight alone all of it is where it should be when a step begins.
    fallen_by = pull * h**2 * 24 * 25 / 2.0
    np.testing.assert_allclose(loom.state.positions, loom.system.rest + fallen_by, atol=1e-12)
    np.testing.assert_allclose(loom.kept("yarn places"), loom.cloth.rest_arc_lengths, atol=1e-12)


@pytest.mark.parametrize("law", [BackwardEulerLaw(), TauKappaLaw(0.8, 4e-5), TauKappaLaw(0.8, 2e-4)], ids=str)
def test_what_slides_has_the_momentum_of_its_yarn(law: DeformationLaw) -> None:
    """A yarn that runs through a free swatch takes it along; together they keep their momentum."""
    loom = Loom(woven_body(4, 4, 0.01))
    cloth, rng = loom.cloth, np.random.default_rng(0)
    speeds = np.where(cloth.can_slide, 0.1 * rng.standard_normal(len(cloth.node)), 0.0)
    x = loom.system.rest + 2e-4 * rng.standard_normal(loom.system.rest.shape)
    loom.state = replace(State.at_rest(x), memory={"Swatch\x1fyarn speeds": speeds})
    masses, w = cloth.masses(cloth.rest_arc_lengths), cloth.directions(x, cloth.rest_arc_lengths)

    def momentum(v: np.ndarray, du: np.ndarray) -> np.ndarray:
        return np.asarray(masses @ (v[cloth.node] - w * du[:, None]))

    before = momentum(loom.state.velocities, speeds)
    loom.step(1e-4, YarnDials(0.3, 1e-3, 1e-3, 3e-3, 0.016), tolerance=1e-5, law=law)
    after = momentum(loom.state.velocities, loom.kept("yarn speeds"))
    assert np.abs(loom.kept("yarn speeds") - speeds).max() > 0.01
    # By the tolerance of the step; a longer one, that is halved, would see how yarns turn meanwhile, which is left out.
    np.testing.assert_allclose(after, before, atol=1e-5 * np.linalg.norm(before))


def slid_loom() -> Loom:
    """A held swatch whose yarns lie elsewhere than woven, and which is bent."""
    points = swatch(4, 3, 0.01)[0].vertices
    loom = Loom(woven_body(4, 3, 0.01, (points[:, 0] < 1e-9).astype(float)))
    rng = np.random.default_rng(2)
    loose = ~loom.system.is_fixed
    x = loom.system.rest + np.where(loose[:, None], 1e-3 * rng.standard_normal(loom.system.rest.shape), 0.0)
    places = loom.cloth.rest_arc_lengths + np.where(
        loom.cloth.can_slide, rng.uniform(-2e-3, 2e-3, len(loom.cloth.node)), 0.0
    )
    loom.state = replace(State.at_rest(x), memory={"Swatch\x1fyarn places": places})
    return loom


def test_by_backward_euler_yarns_feel_nothing_of_how_the_pins_moved() -> None:
    """Nor of how heavy a node was woven: the reference motion is taken out where it was put in, yarn by yarn."""
    one, other = slid_loom(), slid_loom()
    reference = np.where(other.system.is_fixed[:, None], 0.0, [0.3, -0.2, 0.5])
    other.state = replace(other.state, reference=reference)
    for loom in (one, other):
        loom.step(2e-3, YarnDials(0.3, 1e-5, 1e-4), tolerance=1e-10)
    # By the tolerance; what the yarns slide is a thousand times as much.
    np.testing.assert_allclose(other.state.positions, one.state.positions, atol=1e-10)
    np.testing.assert_allclose(other.kept("yarn places"), one.kept("yarn places"), atol=1e-10)
    assert np.abs(one.kept("yarn speeds")).max() * 2e-3 > 1e-7


def test_yarns_slide_when_their_pins_speed_up_as_they_do_under_as_much_weight() -> None:
    count, pitch, h = 6, 0.01, 2.5e-3
    points = swatch(count, count, pitch)[0].vertices
    pull, dials = np.array([9.81, 0.0, 0.0]), YarnDials(0.3, 1e-3, 1e-4, 3e-4, 1e-3)
    found = []
    for heavy in (True, False):
        body = woven_body(count, count, pitch, (points[:, 0] < 1e-9).astype(float))
        loom = Loom(body, tuple(pull) if heavy else (0.0, 0.0, 0.0))
        pins, way = loom.state.positions[loom.system.blocks[0].pinned].copy(), np.zeros(3)
        for step in range(1, 61):
            way = way if heavy else -pull * h**2 * step * (step + 1) / 2.0
            loom.step(h, dials, pins + way)
        found.append((loom.state.positions - way, loom.kept("yarn places") - loom.cloth.rest_arc_lengths))
    (x, slid), (carried, along) = found
    # In the middle of it: the lying yarns have slid by three times what is between them.
    far = np.abs(slid).max()
    assert far > 2.0 * pitch
    # Weight pulls at the pieces of yarn, inertia at the nodes: 0.07% of the way.
    np.testing.assert_allclose(along, slid, atol=2e-3 * far)
    np.testing.assert_allclose(carried, x, atol=2e-3 * far)


def test_yarns_go_over_and_under_by_turns() -> None:
    cloth = Loom(woven_body(4, 3, 0.01)).cloth
    found = over_under_pattern(cloth)
    w, f = cloth.crossings.T
    assert set(found[cloth.can_slide].tolist()) == {-1.0, 1.0}
    assert not found[~cloth.can_slide].any()
    np.testing.assert_array_equal(found[w], -found[f])
    a, b = cloth.segments[cloth.can_slide[cloth.segments].all(axis=1)].T
    np.testing.assert_array_equal(found[a], -found[b])


def test_what_was_modelled_lying_is_soon_let_down_to_where_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    surface, _ = swatch(6, 6, 0.1)
    loom = Loom(woven_body(6, 6, 0.1, (surface.vertices[:, 0] < 1e-9).astype(float)), (0.0, 0.0, -9.81))
    step, steps = loom.stepper.step, list[float]()

    def counted(state: State, inputs: Inputs, h: float, controls: Controls) -> tuple[State, StepReport]:
        steps.append(h)
        return step(state, inputs, h, controls)

    monkeypatch.setattr(loom.stepper, "step", counted)
    found = relax_dynamically(
        loom.stepper, loom.state, loom.system.stationary_inputs(), Controls((), 0.0, 1e-3, loom.factor)
    ).positions
    # Swinging on, it would take all 120.
    assert len(steps) < 60
    # 0.7 m down, and by a hair longer; bent a little where it is held.
    assert found[:, 2].min() == pytest.approx(-0.7, rel=0.03)
    assert np.abs(found[:, 0]).max() < 0.07


def test_a_yarn_sticks_until_the_pull_is_as_large_as_friction() -> None:
    force, slid, _ = pulled_out(6, 0.3, 2.5e-3, way=1e-5)
    # Crossings are springs until they slip, and 10 um is half of what they give way.
    assert 0.0 < force < 0.8 * 6 * 0.3 * 2e-4
    assert not len(slid)


def test_what_is_pulled_tight_grips_harder() -> None:
    """A crossing that is bent over by the pull is pressed by it, N = N0 + |(f_w - f_f) n|/2."""
    loom = Loom(woven_body(3, 3, 0.01, np.ones(21)))
    x = loom.system.rest.copy()
    centre = int(np.argmin(np.linalg.norm(x - x.mean(axis=0), axis=1)))
    x[centre, 2] = 0.005
    loom.state = State.at_rest(x)
    loom.step(1e-3, YarnDials(0.0, 0.0))
    cloth, pressed = loom.cloth, loom.kept("yarn presses")
    # Both yarns pull alike there, so that they do not press on each other; bent apart, they do.
    mine = cloth.node == centre
    assert pressed[mine] == pytest.approx(0.0, abs=1e-9 * cloth.material.stretch)
    along = np.flatnonzero(np.isclose(x[:, 1], x[centre, 1]) & (np.arange(len(x)) != centre))
    x[along, 2] = 0.01
    loom.state = State.at_rest(x)
    loom.step(1e-3, YarnDials(0.0, 0.0))
    tension = loom.term.scaled_elastic(loom.factor).tensions(x, loom.kept("yarn places"))
    sides = [
        tension[cloth.outgoing_segment[k]][2] - tension[cloth.incoming_segment[k]][2] for k in np.flatnonzero(mine)
    ]
    assert loom.kept("yarn presses")[mine] == pytest.approx(0.5 * abs(sides[0] - sides[1]), rel=1e-9)
    assert loom.kept("yarn presses")[mine].min() > 0.0


# Until what is damped is told from what is not: a hanging or flapping patch has swung to and fro by then.
SECONDS = {"hanging": 0.5, "flapping": 0.5, "swinging": 1.0}


def kinetic(motion: str, dials: YarnDials) -> float:
    """Mean kinetic energy in J of soft yarns, half a metre, in steps of 2.5 ms."""
    surface, _ = swatch(12, 12, 0.5 / 12.0)
    pins = (surface.vertices[:, 0] < 1e-9).astype(float)
    body = woven_body(12, 12, 0.5 / 12.0, pins, stiffness=30.0, bending=2.0)
    down = 9.81 * np.array([1.0, 0.0, 0.0])
    tilted = 9.81 * np.array([np.cos(np.radians(34.0)), 0.0, np.sin(np.radians(34.0))])
    loom = Loom(body, tuple((tilted if motion == "swinging" else down).tolist()))
    if motion != "hanging":
        still_ = Loom(body, tuple(down.tolist()))
        controls = Controls((), 0.0, 1e-6, loom.factor)
        rest = relax_dynamically(still_.stepper, still_.state, still_.system.stationary_inputs(), controls).positions
        speed = np.zeros_like(rest)
        if motion == "flapping":
            speed[:, 2] = 2.0 * np.sin(3.0 * np.pi * rest[:, 0] / rest[:, 0].max()) * (pins == 0.0)
        loom.state = State(0.0, rest, speed, np.zeros_like(rest), {})
    total = []
    for _ in range(round(SECONDS[motion] / 2.5e-3)):
        loom.step(2.5e-3, dials, tolerance=1e-4)
        total.append(loom.kinetic)
    return float(np.mean(total))


def yarn(stretch: float, bend: float, rayleigh: bool = False) -> YarnDials:
    return YarnDials(0.3, 0.5, 1e-3, stretch, bend, rayleigh)


@pytest.mark.slow
def test_rates_of_strain_damp_the_hanging_patch_as_rayleigh_does_and_leave_the_swinging_one_alone() -> None:
    """[SRD] figure 3, of its cloth. Swinging stretches too, by what the weight turns."""
    free = {motion: kinetic(motion, yarn(0.0, 0.0)) for motion in ("hanging", "swinging")}
    rate = {motion: kinetic(motion, yarn(0.03, 0.03)) / free[motion] for motion in free}
    rayleigh = {motion: kinetic(motion, yarn(0.03, 0.03, True)) / free[motion] for motion in free}
    assert rate["hanging"] == pytest.approx(rayleigh["hanging"], rel=0.1)
    assert rate["hanging"] < 0.6
    assert rate["swinging"] > 0.9
    assert rayleigh["swinging"] < 0.8


@pytest.mark.slow
def test_stretch_damping_rules_the_hanging_patch_and_bend_damping_the_flapping_one() -> None:
    """[SRD] figure 3, right: each changes its own motion by more than the other does."""
    values = {
        (motion, stretch, bend): kinetic(motion, yarn(stretch, bend))
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


def let_go(
    count: int, thick: float, degrees: float, dial: float, corners: bool = False, **more: float
) -> tuple[int, int, float]:
    """Frames until 5% and 1% is left of a turn about the upper border, of a square metre of yarns so many mm thick.

    Until it is so near to where it comes to rest; that shape's distance from the one that was turned comes last, of the
    turn.  corners: whether it hangs by the outermost two of its upper tails alone.
    """
    body = hung(count, thickness=thick, settle=dial, **more)
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
def test_a_hung_patch_that_is_let_go_rests_when_settle_says(dial: float, degrees: float) -> None:
    """Within an eighth of Settle; docs/explanation/woven-cloth.md explains why corners that bend settle late."""
    _, settled, apart = let_go(8, 12.5, degrees, dial)
    assert abs(settled - dial) <= dial / 8.0
    assert apart < 0.01


def pulled_flag(last: int = 20) -> Scene:
    """A hung patch of which one yarn is pulled down and out while the rest of it swings."""
    body = hung(5, yarn_grip=30.0, thickness=15.0)
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
def test_places_speeds_and_where_yarns_stick_are_in_every_frame() -> None:
    frames = list(Simulation(pulled_flag(14)).frames())
    names = {name.partition("\x1f")[2] for name in frames[-1].state.history}
    assert names == {"yarn places", "yarn speeds", "yarn anchors", "yarn presses", "yarns still"}
    places = [frame.state.history["Swatch\x1fyarn places"] for frame in frames[1:]]
    # The pulled yarn slides on and on.
    assert np.abs(places[-1] - places[0]).max() > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("what", ["test_weave.pulled_flag", "test_weave_contact.thrown_over"])
def test_a_killed_bake_of_woven_cloth_resumes_to_the_same_bytes_and_live_frames_are_the_same(
    what: str, tmp_path: Path
) -> None:
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
            assert {k: v.tobytes() for k, v in kept.state.history.items()} == {
                k: v.tobytes() for k, v in frame.state.history.items()
            }


@pytest.mark.slow
def test_crossings_never_pass_each_other_however_it_is_shaken() -> None:
    body = hung(5, yarn_friction=0.0, yarn_grip=0.0, yarn_drag=0.0, thickness=30.0)
    points = body.surface.vertices
    loom_, frames = Loom(body), []
    one = replace(body, motion=lambda frame: points + np.array([0.0, 0.0, 0.3 * np.sin(1.1 * (frame - 1.0))]))
    for frame in Simulation(scene(one, last=24)).frames():
        frames.append(frame)
        u = frame.state.history.get("Swatch\x1fyarn places", loom_.cloth.rest_arc_lengths)
        assert (loom_.cloth.lengths(u) > loom_.cloth.min_lengths).all()
    assert np.isfinite(frames[-1].surface).all()


def test_what_woven_cloth_cannot_do_is_refused_with_a_sentence() -> None:
    block = np.array([(-1, -1, -2), (2, -1, -2), (2, 2, -2)], dtype=float)
    floor = Collider("Floor", block, np.array([(0, 1, 2)]), lambda frame: block, lambda frame: ColliderSettings())
    other = fixed_frame("Post", block)
    link = Link("Knot", LinkPoint("Swatch", np.array([0.5, 0.0, -1.0])), LinkPoint("Post", block[0]), None)
    for refused, said in (
        (scene(hung(4, touch_together=True)), "Swatch: Weave can only touch colliders. Switch off Each Other"),
        (scene(hung(4, touch_self=True)), "Swatch: Weave can only touch colliders. Switch off Each Other"),
        (scene(hung(4), anchors=(other,), links=(link,)), "Swatch: Weave cannot be linked"),
        (scene(hung(4, damping_by="POINT")), "Swatch: yarns do not support"),
    ):
        with pytest.raises(DampSimError, match=said):
            Simulation(refused)
    # At colliders it stops.
    Simulation(scene(hung(4), colliders=(floor,), last=1))


@pytest.mark.slow
def test_going_on_from_a_kept_frame_gives_the_same_bytes_where_there_are_many_crossings() -> None:
    """Beyond 600 unknowns the Hessian is factorised in fronts, whose order is found once."""
    body = hung(9, yarn_grip=30.0, thickness=12.0)
    points = body.surface.vertices

    def made() -> Simulation:
        moved = replace(body, motion=lambda frame: points + np.array([0.0, 0.1 * np.sin(0.6 * (frame - 1.0)), 0.0]))
        return Simulation(scene(moved, last=7))

    whole = list(made().frames())
    for frame, again in zip(whole[4:], made().frames(whole[3]), strict=True):
        assert frame.state.positions.tobytes() == again.state.positions.tobytes()
        for name, value in frame.state.history.items():
            assert value.tobytes() == again.state.history[name].tobytes()

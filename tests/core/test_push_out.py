"""Push-out: bodies that end a violent frame deep in colliders, or in each other, leave them smoothly."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.spatial.distance import pdist
from scipy.spatial.transform import Rotation
from violent_scenes import random_hit, run_violent, violent_scene

from dampsim.core.contact_response.push_out import PushOut, find_overlaps
from dampsim.core.geometry.collision.intersections import penetration_depth
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.settle.work_meter import WorkCosts, WorkMeter
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.steppers.deep_overlaps import DeepOverlaps
from dampsim.core.steppers.step_task import StepTask
from dampsim.core.steppers.violence import Violence
from dampsim.core.system.state import State
from detection_cases import DetectionStep, DetectionSurface, collider_surface, plane_collider
from random_pairs import icosphere
from shapes import box

MAX_DEPTH = 0.03


def ball(name: str, radius: float, centre: tuple[float, float, float], subdivisions: int = 2) -> Surface:
    made = icosphere(subdivisions)
    return Surface(name, radius * made.vertices + np.array(centre), made.triangles)


def push_out(step: DetectionStep, bodies: list[Surface], is_pinned: np.ndarray) -> PushOut:
    """Return the push-out of bodies whose vertices are nodes. is_pinned: (n,) of all of them."""
    starts = np.cumsum([0, *(len(one.vertices) for one in bodies)])
    system: Any = SimpleNamespace(
        rest=np.concatenate([one.vertices for one in bodies]),
        mass=np.linspace(1.0, 2.0, int(starts[-1])),
        element_groups=[one.triangles + start for one, start in zip(bodies, starts, strict=False)],
        slices=tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(starts)),
        is_fixed=is_pinned,
        blocks=[SimpleNamespace(is_rigid=False, is_solid=True)] * len(bodies),
        hinges=csr_matrix((0, int(starts[-1]))),
    )
    return PushOut(system, np.flatnonzero(~is_pinned))


def pinned_ball_in(collider: DetectionSurface) -> tuple[DetectionStep, PushOut]:
    """Return a step of a ball of radius 0.5 m, pinned above 0.35 m, that a collider overlaps, and its push-out."""
    body = ball("Body", 0.5, (0.0, 0.0, 0.0))
    step = DetectionStep([DetectionSurface(body), collider])
    return step, push_out(step, [body], body.vertices[:, 2] > 0.35)


def moved(step: DetectionStep, push: PushOut, is_allowed: bool = True) -> np.ndarray:
    return push(step.moment, step.nodes, MAX_DEPTH, lambda _: is_allowed)


def box_across(height: float) -> Surface:
    """Return a plate of 2 m x 2 m x 0.2 m with its middle at a height in m."""
    made = box((2.0, 2.0, 0.2))
    middle = 0.5 * (made.vertices.max(axis=0) + made.vertices.min(axis=0))
    return replace(made, name="Plate", vertices=made.vertices - middle + np.array([0.0, 0.0, height]))


def free_push_out(step: DetectionStep, body: Surface) -> PushOut:
    return push_out(step, [body], np.zeros(len(body.vertices), dtype=bool))


def depth(step: DetectionStep, positions: np.ndarray) -> float:
    """Return the depth of the first surface in the second one, over the smaller size, by exact intersections."""
    first, second = step.things
    exact = penetration_depth(positions, first.surface.triangles, second.end_positions, second.surface.triangles)
    return exact / min(first.surface.size, second.surface.size)


@pytest.mark.parametrize("centre", [(0.45, 0.0, 0.0), (0.2, 0.3, -0.2), (0.0, 0.0, -0.3), (0.3, 0.1, 0.1)])
def test_pinned_body_leaves_collider(centre: tuple[float, float, float]) -> None:
    """The pins stay, the body ends outside, and its edges are hardly stretched."""
    step, push = pinned_ball_in(collider_surface(ball("Hammer", 0.2, centre, 1)))
    found = moved(step, push)
    assert depth(step, step.nodes) > 0.1
    assert depth(step, found) < MAX_DEPTH
    body = step.things[0].surface
    is_pinned = body.vertices[:, 2] > 0.35
    np.testing.assert_array_equal(found[is_pinned], body.vertices[is_pinned])
    a, b = body.triangles.ravel(), body.triangles[:, [1, 2, 0]].ravel()
    before, after = (np.linalg.norm(x[a] - x[b], axis=1) for x in (body.vertices, found))
    # Without ways that face the body, up to 14.
    assert (after / before).max() < 4.0


def test_push_out_turns_with_the_scene() -> None:
    """The displacement does not depend on the orientation of the scene."""
    turn = Rotation.from_rotvec([0.3, -1.1, 0.7]).as_matrix()
    body, hammer = ball("Body", 0.5, (0.0, 0.0, 0.0)), ball("Hammer", 0.2, (0.4, 0.1, -0.1), 1)
    is_pinned = body.vertices[:, 2] > 0.35
    found = []
    for matrix in (np.eye(3), turn):
        bodies = [replace(one, vertices=one.vertices @ matrix.T) for one in (body, hammer)]
        step = DetectionStep([DetectionSurface(bodies[0]), collider_surface(bodies[1])])
        found.append(moved(step, push_out(step, bodies[:1], is_pinned)))
    assert np.abs(found[0] - body.vertices).max() > 0.05
    np.testing.assert_allclose(found[1], found[0] @ turn.T, atol=1e-9)


def test_overlapping_bodies_keep_their_mean_position() -> None:
    """Two free bodies push each other apart; the mean position by mass stays."""
    bodies = [ball("One", 0.5, (0.0, 0.0, 0.0)), ball("Other", 0.3, (0.6, 0.1, 0.0))]
    step = DetectionStep([DetectionSurface(one) for one in bodies])
    push = push_out(step, bodies, np.zeros(sum(len(one.vertices) for one in bodies), dtype=bool))
    found, mass = moved(step, push), np.linspace(1.0, 2.0, len(step.nodes))
    count = len(bodies[0].vertices)
    exact = penetration_depth(found[:count], bodies[0].triangles, found[count:], bodies[1].triangles)
    assert exact < MAX_DEPTH * bodies[1].size
    assert np.abs(found - step.nodes).max() > 0.05
    np.testing.assert_allclose(mass @ found / mass.sum(), mass @ step.nodes / mass.sum(), atol=1e-12)


def test_body_leaves_plane() -> None:
    floor = np.array([[0.0, 0.0, -0.2], [1.0, 0.0, -0.2], [0.0, 1.0, -0.2]])
    step, push = pinned_ball_in(plane_collider(floor))
    assert moved(step, push)[:, 2].min() > -0.2 - MAX_DEPTH * step.things[0].surface.size


@pytest.mark.parametrize(
    ("radius", "centre", "is_allowed", "why"),
    [
        (0.2, (0.69, 0.0, 0.0), True, "shallow"),
        (0.2, (0.4, 0.0, 0.0), False, "not allowed"),
        (0.15, (0.0, 0.0, 0.5), True, "at the pins"),
    ],
)
def test_body_without_way_out_stays(
    radius: float, centre: tuple[float, float, float], is_allowed: bool, why: str
) -> None:
    """Overlaps that are shallow, or that pins hold, move nothing."""
    step, push = pinned_ball_in(collider_surface(ball("Hammer", radius, centre, 1)))
    assert depth(step, step.nodes) > 0.0, why
    assert moved(step, push, is_allowed) is step.nodes, why


@pytest.mark.parametrize("is_attached", [True, False])
def test_body_attached_in_head_stays(is_attached: bool) -> None:
    """An ear whose pinned root is inside a turning head keeps its shape.

    A collider that reaches the same pins during the step only is left.
    """
    ear = ball("Ear", 0.5, (0.0, 0.0, 0.0))
    head = ball("Head", 0.4, (0.0, 0.25, 0.4), 1)
    step = DetectionStep([DetectionSurface(ear), collider_surface(head)])
    push = push_out(step, [ear], ear.vertices[:, 2] > 0.35)
    state = step.moment
    if not is_attached:
        start = state.start.copy()
        start[len(ear.vertices) :] += 5.0
        state = replace(state, start=start)
    found = push(state, step.nodes, MAX_DEPTH, lambda _: True)
    assert depth(step, step.nodes) > 0.1
    assert (found is step.nodes) == is_attached


@pytest.mark.parametrize("is_attached", [True, False])
def test_stuck_nodes(is_attached: bool) -> None:
    """A body is stuck if a collider holds its pins before and after the step, and if it is deep in that."""
    body = ball("Body", 0.5, (0.0, 0.0, 0.0))
    step = DetectionStep([DetectionSurface(body), collider_surface(box_across(0.4))])
    is_pinned = body.vertices[:, 2] > 0.35
    push, state = push_out(step, [body], is_pinned), step.moment
    if not is_attached:
        start = state.start.copy()
        start[len(body.vertices) :] += 5.0
        state = replace(state, start=start)
    np.testing.assert_array_equal(push.stuck_nodes(state, step.nodes, 0.01), ~is_pinned & is_attached)
    assert not push.stuck_nodes(state, step.nodes, 1.0).any()


def test_rigid_body_keeps_its_shape() -> None:
    """A rigid body is pushed out as a whole. Any other displacement had too much elastic energy to be allowed."""
    body = ball("Body", 0.5, (0.0, 0.0, 0.0))
    step = DetectionStep([DetectionSurface(body), collider_surface(ball("Rock", 0.4, (0.0, 0.2, 0.7), 1))])
    push = push_out(step, [body], np.zeros(len(body.vertices), dtype=bool))
    push._system.blocks[0].is_rigid = True
    found = moved(step, push)
    np.testing.assert_allclose(pdist(found), pdist(step.nodes), atol=1e-9)
    assert depth(step, found) < 0.2 * depth(step, step.nodes)


@pytest.mark.parametrize("count", [1, 2])
def test_hinged_body_stays_on_its_hinge(count: int) -> None:
    """A rigid body turns about its hinge when it is pushed out. It was torn off by up to 0.2 m."""
    body = ball("Body", 0.5, (0.0, 0.0, 0.0))
    step = DetectionStep([DetectionSurface(body), collider_surface(ball("Rock", 0.4, (0.6, 0.1, -0.3), 1))])
    push = push_out(step, [body], np.zeros(len(body.vertices), dtype=bool))
    push._system.blocks[0].is_rigid = True
    held = np.argsort(body.vertices[:, 2])[-count:]
    push._system.hinges = csr_matrix((np.ones(count), (np.arange(count), held)), shape=(count, len(body.vertices)))
    found = moved(step, push)
    np.testing.assert_allclose(pdist(found), pdist(step.nodes), atol=1e-9)
    np.testing.assert_allclose(found[held], step.nodes[held], atol=2e-3)
    assert depth(step, found) < 0.5 * depth(step, step.nodes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hammer", "plates"])
def test_hinge_holds_in_violent_scene(name: str) -> None:
    """A rigid door on two pinned vertices was up to 0.22 m away from them."""
    made = random_hit(name, "RIGID", 500)
    vertices = made.bodies[0].surface.vertices
    pins = np.zeros(len(vertices))
    pins[np.flatnonzero((vertices[:, 2] > 0.1) & (vertices[:, 0] > 0.1))[:2]] = 1.0
    assert pins.sum() == 2.0
    door = replace(made.bodies[0], pins=pins)
    frames = Simulation(replace(made, bodies=(door,), last=12)).frames()
    gaps = [np.linalg.norm(one.shapes["Body"][pins > 0.0] - vertices[pins > 0.0], axis=1).max() for one in frames]
    assert max(gaps) < 0.03


def test_only_attached_piece_stays() -> None:
    """The piece of an object with its root in a head stays, and the other one leaves the head.

    One strand of hair with its root in a hammer left all others 22% deep.
    """
    ear, drop = ball("Ear", 0.5, (0.0, 0.0, 0.0)), ball("Drop", 0.2, (0.0, 0.75, 0.4))
    count = len(ear.vertices)
    both = Surface(
        "Both", np.concatenate([ear.vertices, drop.vertices]), np.concatenate([ear.triangles, drop.triangles + count])
    )
    step = DetectionStep([DetectionSurface(both), collider_surface(ball("Head", 0.4, (0.0, 0.25, 0.4), 1))])
    is_pinned = both.vertices[:, 2] > 0.35
    is_pinned[count:] = drop.vertices[:, 1] > 0.85
    push = push_out(step, [both], is_pinned)
    found = push(step.moment, step.nodes, MAX_DEPTH, lambda _: True)
    way = np.linalg.norm(found - step.nodes, axis=1)
    assert way[:count].max() == 0.0
    assert way[count:].max() > 0.05


def test_ways_lead_out_of_surface() -> None:
    """Each overlap ends outside if its point moves along its way."""
    step, _ = pinned_ball_in(collider_surface(ball("Hammer", 0.2, (0.4, 0.0, 0.0), 1)))
    points = step.moment.points_at(step.nodes)
    for is_common in (False, True):
        overlaps = find_overlaps(step.moment, points, is_common)
        assert overlaps.is_common == is_common
        # The row is the vector from the surface to the point; the way brings it to the outer side.
        offsets = overlaps.rows @ points + overlaps.displacements
        assert np.linalg.norm(offsets, axis=1).max() < 0.02


@pytest.mark.parametrize(("name", "kind", "before"), [("through", "SOLID", 0.14), ("hammer", "SPRINGS", 0.25)])
def test_violent_frames_end_outside(name: str, kind: str, before: float) -> None:
    """Bodies used to end frames as deep as 'before' in colliders that passed through them."""
    frames = list(run_violent(violent_scene(name, kind)))
    assert any("DEEP_OVERLAPS" in one.guards for one in frames)
    assert max(one.depth for one in frames) < 0.05 < before


def test_cut_body_is_flattened() -> None:
    """A plate that appears across a pinned solid stayed 20% deep in it, and stretched it to 1.33 times its size."""
    frames = list(run_violent(violent_scene("teleport", "SOLID")))
    assert max(one.depth for one in frames) < 0.05
    assert max(one.size for one in frames) < 1.2
    # Calm: slower than a fall from its own height.
    assert frames[-1].speed < 1.0


@pytest.mark.parametrize(("name", "kind", "before"), [("teleport", "HAIR", 0.080), ("plates", "ROPE", 0.022)])
def test_threads_leave_colliders_after_hit(name: str, kind: str, before: float) -> None:
    """Once the collider had stopped, any push-out had too much energy compared with its speed."""
    assert list(run_violent(violent_scene(name, kind)))[-1].depth < 0.002 < before


@pytest.mark.parametrize(
    ("kind", "before"), [pytest.param("SHELL", 12, marks=pytest.mark.slow), ("SPRINGS", 12), ("HAIR", 9)]
)
def test_bodies_fold_at_passing_plates(kind: str, before: int) -> None:
    """Sheets, nets and threads hung through plates that had passed each other, for 'before' frames."""
    frames = list(run_violent(violent_scene("plates", kind)))
    assert sum(one.depth > 0.05 for one in frames) <= 3 < before
    assert frames[-1].depth < 0.03


def test_slowly_pressed_net_leaves_plates() -> None:
    """Plates that close by less than a tenth of its size per step are no hit. It stayed deep in them for 17 frames."""
    frames = list(run_violent(random_hit("plates", "SPRINGS", 8)))
    assert sum(one.depth > 0.05 for one in frames) < 9
    assert frames[-1].depth < 0.01


@pytest.mark.parametrize(
    ("depth", "initial", "is_crushed"), [(0.08, 0.02, True), (0.08, 0.09, False), (0.04, 0.02, False)]
)
def test_modelled_overlap_is_left_alone(depth: float, initial: float, is_crushed: bool) -> None:
    """A pressed body is pushed out if it ends deep, and deeper than it began: contacts move others out slowly."""
    meter = WorkMeter(10, 100.0, 1)
    meter.begin_step(100.0, WorkCosts())
    touched: Any = SimpleNamespace(contact=SimpleNamespace())
    state, controls = State.at_rest(np.zeros((1, 3))), touched
    task = StepTask(touched, state, (touched,), 0.04, controls, None, None, meter, Violence(pressed_steps=9))
    task.__dict__["collisions"] = None
    push: Any = SimpleNamespace(depths=lambda *_: (depth, depth), initial_depth=lambda _: initial)
    result: Any = SimpleNamespace(is_calmed=False, report=SimpleNamespace(is_rough=False))
    assert DeepOverlaps().judge(task, result, state, push, 1.0).violence.is_crushing == is_crushed


def test_flattened_body_keeps_its_pins() -> None:
    """It lies between its pins and the collider. Without pins, it can leave as a whole instead."""
    step, push = pinned_ball_in(collider_surface(box_across(0.0)))
    found, is_flat = push.flatten(step.moment, step.nodes, 0.05, lambda *_: True)
    body = step.things[0].surface
    is_pinned = body.vertices[:, 2] > 0.35
    assert depth(step, step.nodes) > 0.1
    assert depth(step, found) < 0.001
    np.testing.assert_array_equal(found[is_pinned], body.vertices[is_pinned])
    np.testing.assert_array_equal(is_flat, ~is_pinned)
    assert found[:, 2].min() > 0.1
    for push_out_, is_allowed in ((push, False), (free_push_out(step, body), True)):
        same, is_flat = push_out_.flatten(step.moment, step.nodes, 0.05, lambda *_, allowed=is_allowed: allowed)
        assert same is step.nodes
        assert not is_flat.any()


@pytest.mark.parametrize("cut", [(0,), (0, 1)])
def test_uncut_pieces_are_not_flattened(cut: tuple[int, ...]) -> None:
    """Pieces of one object, such as strands of hair, are flattened one by one, towards their own pins.

    Each piece has its pins at another height, and the condition on the shape refers to the flattened pieces.
    """
    parts = [ball("Body", 0.5, (3.0 * k, 0.0, 0.3 * k)) for k in range(3)]
    count = len(parts[0].vertices)
    triangles = np.concatenate([one.triangles + count * k for k, one in enumerate(parts)])
    body = Surface("Body", np.concatenate([one.vertices for one in parts]), triangles)
    plate, longer = box_across(0.0), np.array([3.0 * max(cut), 0.0, 0.0])
    plate = replace(plate, vertices=plate.vertices + (plate.vertices[:, [0]] > 0.0) * longer)
    step = DetectionStep([DetectionSurface(body), collider_surface(plate)])
    is_pinned = body.vertices[:, 2] > np.repeat([0.35, 0.65, 0.95], count)
    masks: list[np.ndarray] = []
    found, is_flat = push_out(step, [body], is_pinned).flatten(
        step.moment, step.nodes, 0.01, lambda _, is_hit: not masks.append(is_hit)
    )
    is_cut = np.repeat(np.isin(np.arange(3), cut), count)
    np.testing.assert_array_equal(is_flat, is_cut & ~is_pinned)
    np.testing.assert_array_equal(found[~is_flat], body.vertices[~is_flat])
    assert found[is_cut, 2].min() > 0.1
    # Each condition adds a piece.
    assert [int(mask.sum()) for mask in masks] == [int(is_flat[: count * (k + 1)].sum()) for k in cut]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "before"), [("SOLID", 0.016), ("SPRINGS", 0.025)])
def test_body_is_clean_after_hit(kind: str, before: float) -> None:
    """Overlaps of less than 3% used to stay for good."""
    assert list(run_violent(violent_scene("bar", kind)))[-1].depth < 0.002 < before

"""Coefficients of contacts: stiffness, distance, friction and history (docs/explanation/physics/07-contact.md)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from builders import gridded_box
from dampsim.core.contact.collision_state import ColliderMotion, CollisionState, ContactInputs, KinematicMotion
from dampsim.core.contact.contact_history import POINT, ContactHistory
from dampsim.core.geometry.mesh.surface import Surface
from detection_cases import (
    DetectionStep,
    DetectionSurface,
    E,
    H,
    R,
    collider_surface,
    plane_collider,
    point_cloud,
    translate,
)
from references import contact
from shapes import sheet

FLAT = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def test_contact_coefficients_match_formulas() -> None:
    """Stiffness, distance, easing and friction of contacts."""
    body, other = (
        gridded_box("Body", (0, 0, 0), (0.2, 0.2, 0.2), 0.05),
        gridded_box("Other", (-0.2, -0.2, -0.3), (0.4, 0.4, 0.0), 0.1),
    )
    start = translate(body, 0.0, 0.0, -0.4 * R)
    things = [
        DetectionSurface(start, translate(start, 0.01, 0.0, 0.0).vertices, friction=0.6, backward=0.6),
        DetectionSurface(other, distance=3.0 * R, friction=0.15, backward=0.15, young=0.3 * E),
    ]
    step = DetectionStep(things)
    rows = step.detect()
    r = 2.0 * R
    np.testing.assert_allclose(rows.distance, r)
    size = max(start.size, other.size)
    np.testing.assert_allclose(rows.friction, np.sqrt(0.6 * 0.15), rtol=1e-12)
    areas = step.moment.model.surfaces[0].areas, step.moment.model.surfaces[1].areas
    near = (rows.key[:, 1] == POINT) & (rows.key[:, 0] == 0) & (step.heights(rows) < r)
    down = np.flatnonzero(near)
    assert len(down) == 25
    for k in down:
        assert rows.stiffness[k] == pytest.approx(contact.stiffness([E, 0.3 * E], areas[0][rows.key[k, 2]], r, True))
        assert rows.target_gap[k] == pytest.approx(contact.eased_distance(r, -0.4 * R, H, size))
    # On the collider's side a point has at most the area that it touches, and one body's modulus counts.
    things[1] = collider_surface(other, friction=0.15, backward=0.15)
    step = DetectionStep(things)
    rows = step.detect()
    np.testing.assert_allclose(rows.friction, 0.6 * 0.15, rtol=1e-12)
    back = np.flatnonzero((rows.key[:, 1] == POINT) & (rows.key[:, 0] == 1))
    for k in np.flatnonzero((rows.key[:, 1] == POINT) & (rows.key[:, 0] == 0)):
        assert rows.stiffness[k] == pytest.approx(contact.stiffness([E], areas[0][rows.key[k, 2]], R, False))
    most = contact.stiffness([E], 3.0 * areas[0].max(), R, False)
    assert (rows.stiffness[back] <= most * (1.0 + 1e-12)).all()


def test_friction_history_relative_to_collider() -> None:
    """The friction spring keeps its elongation while the contact presses, relative to the collider's motion."""
    body, way = point_cloud(np.array([[0.3, 0.2, 0.5 * R]])), np.array([0.04, 0.01, 0.0])
    stretch = np.array([[1e-3, -2e-3, 0.0]])
    memory = ContactHistory.of(np.array([[0, POINT, 0, 1]]), stretch, np.array([7.0]), np.array([-0.5 * R]))
    step = DetectionStep(
        [DetectionSurface(body, body.vertices + way), plane_collider(FLAT, FLAT + np.array([0.03, 0.0, 0.0]))],
        history=memory,
    )
    rows = step.detect().select(np.array([0]))
    assert tuple(rows.key[0]) == (0, POINT, 0, 1)
    d = np.asarray(rows.weights @ step.nodes + rows.base_offset)
    # The point's motion relative to the plane, plus the previous elongation.
    np.testing.assert_allclose(d - rows.stick_anchor, [way - [0.03, 0.0, 0.0] + stretch[0]], atol=1e-9)


@pytest.mark.parametrize("angle", [0.0, 0.4, 1.3])
def test_friction_depends_on_sliding_direction(angle: float) -> None:
    body = gridded_box("Block", (0, 0, 0), (0.2, 0.2, 0.2), 0.05)
    turn = Rotation.from_euler("z", 0.7)
    body = translate(Surface("Block", turn.apply(body.vertices), body.triangles), 0.0, 0.0, 0.5 * R)
    front = turn.apply([1.0, 0.0, 0.0])
    slide = 0.02 * Rotation.from_euler("z", angle).apply(front)
    thing = DetectionSurface(
        body,
        body.vertices + slide,
        friction=0.1,
        backward=0.8,
        surface_options={"front_direction": np.tile(front, (len(body.vertices), 1))},
    )
    rows = DetectionStep([thing, plane_collider(FLAT)]).detect()
    wanted = contact.directional_friction(1.0, 0.1, 0.8, front, slide)
    np.testing.assert_allclose(rows.friction, wanted, rtol=1e-6)


@pytest.mark.parametrize("stretch", [1.0, 1.6], ids=["moved", "deformed"])
def test_painted_roughness_at_contact_point(stretch: float) -> None:
    """Weights are interpolated in the touched triangle, also where the collider has turned and stretched."""
    ground, turn = sheet(5), Rotation.from_rotvec([0.3, 0.5, 0.1])
    painted = 0.2 + 0.5 * ground.vertices[:, 0] + 0.3 * ground.vertices[:, 1]
    places = np.random.default_rng(3).uniform(0.1, 0.9, (40, 2))
    scale = np.array([stretch, 1.0, 1.0])
    body = point_cloud(turn.apply(np.column_stack([places, np.full(40, 0.5 * R)]) * scale))
    shape = turn.apply(ground.vertices * scale)
    floor = collider_surface(
        Surface("Ground", shape, ground.triangles), friction=2.0, backward=2.0, rest=ground.vertices,
        surface_options={"friction_scale": painted},
    )  # fmt: skip
    rows = DetectionStep([DetectionSurface(body, friction=0.4, backward=0.4), floor]).detect()
    rows = rows.select(np.flatnonzero((rows.key[:, 0] == 0) & (rows.key[:, 1] == POINT)))
    # Each place has three points, a ten-millionth of a metre apart.
    touched = rows.key[:, 2] // 3
    assert set(touched.tolist()) == set(range(40))
    np.testing.assert_allclose(rows.friction, 0.8 * (0.2 + places[touched] @ [0.5, 0.3]), atol=1e-7)


def test_collision_state_positions_and_settings() -> None:
    body, ground = gridded_box("Body", (0, 0, 0), (0.2, 0.2, 0.2), 0.1), sheet(3)
    step = DetectionStep([DetectionSurface(body), collider_surface(ground)])
    nodes = len(body.vertices)
    there, way = KinematicMotion(body.vertices + 1.0, body.vertices + 1.5), np.array([0.1, 0.0, 0.2])
    around = ColliderMotion(KinematicMotion(ground.vertices, ground.vertices + way), 0.7, 0.03)
    surfaces = step.moment.model.surfaces
    held = replace(surfaces[0], pin_weight=np.full(nodes, 0.25), operator=0.75 * surfaces[0].operator)
    model = replace(step.moment.model, surfaces=(held, surfaces[1]), collider_indices=(-1, 0))
    touching = ContactInputs(there, 0.0, 0.4, 0.9, (around,))
    found = CollisionState.of(model, body.vertices + 0.01, [touching], np.array([3.0]), H)
    # A quarter of each point follows the animation.
    start = 0.75 * (body.vertices + 0.01) + 0.25 * (body.vertices + 1.0)
    np.testing.assert_allclose(found.start[:nodes], start, atol=1e-12)
    np.testing.assert_allclose(found.points_at(body.vertices)[:nodes], body.vertices + 0.25 * 1.5, atol=1e-12)
    np.testing.assert_allclose(found.kinematic_drift[:nodes], 0.25 * 0.5, atol=1e-12)
    np.testing.assert_allclose(found.start[nodes:], ground.vertices)
    np.testing.assert_allclose(found.points_at(body.vertices)[nodes:], ground.vertices + way)
    np.testing.assert_allclose(found.kinematic_drift[nodes:], np.tile(way, (9, 1)), atol=1e-12)
    assert found.contact_distance == pytest.approx([0.005 * body.size, 0.03])
    assert list(found.friction) == [0.4, 0.7]
    assert list(found.backward_friction) == [0.9, 0.7]
    assert list(found.young) == [3.0 * E, 0.0]


def test_depths_of_last_step() -> None:
    """A contact keeps its depth behind the surface; in front, and for new contacts, it is 0."""
    keys = np.array([[0, 0, 1, 1], [0, 0, 2, 1], [0, 0, 4, 1]])
    history = ContactHistory(keys, np.zeros((3, 3)), np.ones(3), np.array([0.02, -0.01, 0.03]))
    asked = np.array([[0, 0, 4, 1], [0, 0, 3, 1], [0, 0, 2, 1], [0, 0, 1, 1]])
    assert history.depths_of(asked).tolist() == [0.03, 0.0, 0.0, 0.02]
    assert ContactHistory().depths_of(asked).tolist() == [0.0] * 4

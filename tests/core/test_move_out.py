"""Starts outside colliders: ways out of one side, for vertices that the animation puts inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builders import scene, static_body
from dampsim.core.geometry.collision.intersections import first_exits, points_inside
from dampsim.core.geometry.collision.proximity import Triangles
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.fingerprint import cache_inputs, describe_changes
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.simulation.start import moved_sample, start_offsets
from shapes import box, ring, sheet, sphere
from supports import collider, plane

R = 0.005


def ball(radius: float = 0.3, place: tuple[float, float, float] = (0.5, 0.5, -0.25)) -> Surface:
    one = sphere(1500)
    return Surface("Ball", radius * one.vertices + np.array(place), one.triangles)


def cape(count: int = 21, pinned: bool = True, **more: Any) -> Any:
    """Return a horizontal sheet of 1 m, pinned at one side."""
    surface = sheet(count)
    pins = (surface.vertices[:, 0] < 1e-6).astype(float) if pinned else None
    settings = {"kind": "CLOTH", "settle": 24.0, "contact_distance": R, "start_settled": False, "move_out": True}
    return static_body(surface, pins, **{**settings, **more})


def stretch(surface: Surface, now: np.ndarray) -> float:
    a, b = surface.triangles.ravel(), np.roll(surface.triangles, 1, axis=1).ravel()
    lengths = [np.linalg.norm(x[a] - x[b], axis=1) for x in (now, surface.vertices)]
    return float((lengths[0] / lengths[1]).max()) - 1.0


def inside(points: np.ndarray, surface: Surface) -> np.ndarray:
    return points_inside(points, Triangles(surface.vertices, surface.triangles))


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_sheet_leaves_on_shorter_side(side: float) -> None:
    """All vertices leave on the side where the ball sticks out less, and end outside the contact distance."""
    body, there = cape(), ball(place=(0.5, 0.5, -0.25 * side))
    one = scene(body, colliders=(collider(there),))
    start = one.sample(1.0)
    before = inside(body.surface.vertices, there)
    assert before.sum() > 20
    offsets = start_offsets(one, start, 0)
    now = body.surface.vertices + offsets
    assert not inside(now, there).any()
    assert (side * offsets[:, 2] >= -1e-12).all()
    assert not offsets[body.pins > 0.0].any()
    # Heights of the ball's own polyhedron, which is a little smaller than a sphere.
    centre = np.array([0.5, 0.5, -0.25 * side])
    assert (np.linalg.norm(now[before] - centre, axis=1) > 0.3 - 1e-3).all()
    assert stretch(body.surface, now) < 0.04


def test_sheet_around_limb_is_not_torn() -> None:
    """A limb across the middle of a sheet moves the whole patch to one side."""
    limb = box((0.04, 2.0, 0.1))
    there = Surface("Limb", limb.vertices + np.array([0.503, -0.5, -0.053]), limb.triangles)
    body = cape(41)
    one = scene(body, colliders=(collider(there),))
    offsets = start_offsets(one, one.sample(1.0), 0)
    assert inside(body.surface.vertices, there).any()
    assert not inside(body.surface.vertices + offsets, there).any()
    assert offsets[:, 2].max() == pytest.approx(0.047 + R, rel=0.01)
    assert offsets[:, 2].min() >= -1e-12
    assert np.abs(offsets[:, :2]).max() < 1e-3


def test_inner_pins_keep_their_neighbours() -> None:
    """Next to pins inside the collider, edges are stretched little, and some vertices stay inside."""
    body, there = cape(), ball(place=(0.0, 0.5, -0.2))
    one = scene(body, colliders=(collider(there),))
    now = body.surface.vertices + start_offsets(one, one.sample(1.0), 0)
    left, before = inside(now, there), inside(body.surface.vertices, there)
    assert left[body.pins > 0.0].sum() == before[body.pins > 0.0].sum() > 0
    assert left.sum() < 0.7 * before.sum()
    assert stretch(body.surface, now) < 0.35


def test_sheet_below_plane_rises() -> None:
    body = cape(pinned=False)
    one = scene(body, colliders=(plane(0.1),))
    offsets = start_offsets(one, one.sample(1.0), 0)
    np.testing.assert_allclose(offsets, np.broadcast_to([0.0, 0.0, 0.1 + R], offsets.shape), atol=1e-12)


def test_open_collider_has_no_inside() -> None:
    open_ball = Surface("Ball", ball().vertices, ball().triangles[1:])
    one = scene(cape(), colliders=(collider(open_ball),))
    assert not start_offsets(one, one.sample(1.0), 0).any()


def test_moved_sample_only_with_move_out() -> None:
    """Without Move Out, and for solids, the sample stays as it is."""
    for body in (cape(move_out=False), static_body(box(), kind="SOLID", move_out=True, settle=24.0)):
        one = scene(body, colliders=(collider(ball()),))
        start = one.sample(1.0)
        assert moved_sample(one, start) is start
    one = scene(cape(), colliders=(collider(ball()),))
    assert moved_sample(one, one.sample(1.0)) is not one.sample(1.0)


@pytest.mark.parametrize("dials", [{}, {"start_settled": True}, {"preroll": 3}], ids=["modelled", "settled", "preroll"])
def test_first_frame_is_outside(dials: dict[str, Any]) -> None:
    there = ball()
    counts = {}
    for is_on in (False, True):
        body = cape(stiffness=3000.0, move_out=is_on, **dials)
        frame = Simulation(scene(body, colliders=(collider(there),))).first_frame()
        counts[is_on] = inside(frame.shapes[body.name], there).sum()
    assert counts[True] == 0
    assert counts[False] > 0 or "preroll" in dials


def test_change_of_move_out_is_named() -> None:
    before, now = (cache_inputs(scene(cape(move_out=one), colliders=(collider(ball()),))) for one in (False, True))
    assert describe_changes(before, now) == ["Move Out (False, now True)"]


def test_first_exits_of_nested_surfaces() -> None:
    """A ray leaves two overlapping boxes where the outer one ends, and enters a ring again behind its exit."""
    one = box((1.0, 1.0, 1.0))
    both = np.concatenate([one.vertices, one.vertices + np.array([0.6, 0.05, 0.05])])
    surface = Triangles(both, np.concatenate([one.triangles, one.triangles + len(one.vertices)]))
    points = np.array([[0.2, 0.5, 0.5], [0.8, 0.5, 0.5], [1.5, 0.5, 0.5], [-0.5, 0.5, 0.5], [0.2, 0.5, 0.02]])
    exits = first_exits(points, np.array([1.0, 0.0, 0.0]), surface)
    np.testing.assert_allclose(exits, [1.4, 0.8, 0.1, 0.0, 0.8], atol=1e-3)
    around = ring(48, 16)
    exits = first_exits(
        np.array([[1.0, 0.0, 0.0]]), np.array([-1.0, 0.0, 0.0]), Triangles(around.vertices, around.triangles)
    )
    np.testing.assert_allclose(exits, [0.3], atol=5e-3)

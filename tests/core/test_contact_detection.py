"""Collision detection of a step (docs/explanation/physics/07-contact.md, "Detection")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from builders import gridded_box
from dampsim.core.contact.contact_history import CORNER_KINDS, EDGE, POINT, ContactHistory
from dampsim.core.contact.penalty_and_friction import ContactSet
from dampsim.core.geometry.mesh.surface import Surface
from detection_cases import (
    DetectionStep,
    DetectionSurface,
    H,
    R,
    collider_surface,
    plane_collider,
    point_cloud,
    translate,
)
from shapes import _hull, box, sheet

FLAT = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def point_indices(rows: ContactSet) -> np.ndarray:
    """Return the index of a cloud's point for each contact of points."""
    return rows.key[:, 2] // 3


def test_plane_contacts_near_and_below() -> None:
    """A plane touches points within reach above it and all points below it."""
    rng = np.random.default_rng(0)
    turn = Rotation.from_rotvec([0.3, -0.5, 0.2])
    heights = np.array([-5.0, -0.5, -R, 0.0, 0.99 * R, 1.9 * R, 2.1 * R, 1.0])
    local = np.column_stack([rng.uniform(-3.0, 3.0, (len(heights), 2)), heights])
    ground = turn.apply(FLAT * [0.5, 2.0, 1.0] + [0.2, 0.1, 0.0])
    way = np.array([0.01, -0.02, 0.03])
    step = DetectionStep([DetectionSurface(point_cloud(turn.apply(local))), plane_collider(ground - way, ground)])
    rows = step.detect()
    assert set(point_indices(rows)) == {0, 1, 2, 3, 4, 5}
    np.testing.assert_allclose(rows.normal, np.tile(turn.apply([0.0, 0.0, 1.0]), (len(rows), 1)), atol=1e-12)
    np.testing.assert_allclose(step.heights(rows), heights[point_indices(rows)], atol=1e-6)
    np.testing.assert_allclose(rows.kinematic_drift, np.tile(-way, (len(rows), 1)), atol=1e-12)


def test_closest_point_near_closed_surface() -> None:
    """Points outside, or slightly inside, touch the closest place of the surface."""
    rng = np.random.default_rng(1)
    # Around a corner of the unit cube, where faces, edges and the corner itself are nearest.
    points = 1.0 + rng.uniform(-0.03, 0.03, (400, 3))
    closest = np.clip(points, None, 1.0)
    inside = (points < 1.0).all(axis=1)
    depth = (1.0 - points).min(axis=1)
    deepest = points.copy()
    deepest[np.arange(400), points.argmax(axis=1)] = 1.0
    closest[inside] = deepest[inside]
    distance = np.linalg.norm(points - closest, axis=1)
    outside = points + 0.05
    step = DetectionStep(
        [
            DetectionSurface(point_cloud(outside), point_cloud(points).vertices),
            collider_surface(gridded_box("Cube", (0, 0, 0), (1, 1, 1), 0.25)),
        ]
    )
    rows = step.detect()
    points_only = rows.select((rows.key[:, 1] == POINT) & (rows.key[:, 0] == 0))
    which = point_indices(points_only)
    wanted = np.flatnonzero((~inside & (distance < 1.99 * R)) | (inside & (depth < 1.99 * R)))
    assert set(wanted) <= set(which)
    some = np.isin(which, wanted) & (points_only.key[:, 2] % 3 == 0)
    which, height = which[some], step.heights(points_only)[some]
    np.testing.assert_allclose(height, np.where(inside, -depth, distance)[which], atol=1e-6)
    sign = np.where(inside, -1.0, 1.0)[which, None]
    normals = sign * (points - closest)[which] / distance[which, None]
    np.testing.assert_allclose(points_only.normal[some], normals, atol=1e-3)


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("closed", [True, False])
def test_ccd_body_through_plate(side: float, closed: bool) -> None:
    """A body that tunnels through a plate within a step touches the side that it came from."""
    body = gridded_box("Cube", (-0.1, -0.1, 0.05), (0.1, 0.1, 0.25), 0.05)
    body = Surface("Cube", body.vertices * [1.0, 1.0, side], body.triangles if side > 0.0 else body.triangles[:, ::-1])
    # 40 m/s, through a plate of 2 cm or through a sheet without thickness.
    end = body.vertices - [0.0, 0.0, side * 40.0 * H]
    if closed:
        plate = gridded_box("Plate", (-1.0, -1.0, -0.01), (1.0, 1.0, 0.01), 0.2)
    else:
        plate = sheet(9)
        plate = Surface("Sheet", 2.0 * plate.vertices - [1.0, 1.0, 0.0], plate.triangles)
    step = DetectionStep([DetectionSurface(body, end), collider_surface(plate)])
    rows = step.detect()
    rows = rows.select((rows.key[:, 1] == POINT) & (rows.key[:, 0] == 0))
    # For a closed plate, the points on the front of the body.
    front = np.flatnonzero(np.abs(body.vertices[:, 2]) < 0.05 + 1e-9) if closed else np.arange(len(body.vertices))
    assert set(rows.key[:, 2]) == step.points(0) & set(front.tolist())
    np.testing.assert_allclose(rows.normal, np.tile([0.0, 0.0, side], (len(rows), 1)), atol=1e-9)
    top = 0.01 if closed else 0.0
    np.testing.assert_allclose(step.heights(rows), side * end[rows.key[:, 2], 2] - top, atol=1e-9)


def test_ccd_plate_through_body() -> None:
    body, plate = gridded_box("Cube", (-0.1, -0.1, 0.0), (0.1, 0.1, 0.2), 0.05), sheet(9)
    start = 2.0 * plate.vertices - [1.0, 1.0, 0.05]
    step = DetectionStep(
        [
            DetectionSurface(body),
            collider_surface(Surface("Sheet", start, plate.triangles), start + np.array([0.0, 0.0, 1.5])),
        ]
    )
    rows = step.detect()
    rows = rows.select((rows.key[:, 1] == POINT) & (rows.key[:, 0] == 0))
    assert set(rows.key[:, 2]) == step.points(0)
    np.testing.assert_allclose(rows.normal, np.tile([0.0, 0.0, 1.0], (len(rows), 1)), atol=1e-9)
    np.testing.assert_allclose(rows.kinematic_drift, np.tile([0.0, 0.0, -1.5], (len(rows), 1)), atol=1e-9)


@pytest.mark.parametrize("speed", [0.0, 1.0])
def test_reach_by_relative_motion(speed: float) -> None:
    """A sheet moves along with the half of another one below it, the other half of which stands still.

    Only over the standing half, points and edges three contact distances away may have been met, unless nothing moves.
    """
    plate, way = sheet(9), np.array([2.0 * speed * R, 0.0, 0.0])
    # One border is bent up, so the boxes of the sheets are always near each other.
    low = Surface("Low", plate.vertices * [2.0, 2.0, 0.0], plate.triangles)
    low.vertices[low.vertices[:, 0] == 0.0, 2] = 2.5 * R
    high = Surface("High", plate.vertices * [2.0, 2.0, 0.0] + [0.0, 0.1, 3.0 * R], plate.triangles[:, ::-1])
    does_move = (low.vertices[:, 0] > 1.1)[:, None]
    step = DetectionStep(
        [DetectionSurface(high, high.vertices + way), collider_surface(low, low.vertices + does_move * way)]
    )
    rows = step.detect()
    for is_edge in (False, True):
        some = rows.select((rows.key[:, 1] == EDGE) == is_edge)
        x = high.vertices[some.weights.indices, 0]
        assert ((x > 0.6).sum() > 5) == (speed > 0.0)
        assert (x < 1.6).all()


def test_open_sheet_both_sides_and_border() -> None:
    """An open sheet is touched from both sides, and its border is rounded."""
    plate = sheet(5)
    points = np.array(
        [[0.5, 0.4, 0.5 * R], [0.5, 0.4, -0.5 * R], [1.0 + R, 0.4, 0.0], [0.5, -R, R], [0.5, 0.5, 3.0 * R]]
    )
    step = DetectionStep([DetectionSurface(point_cloud(points)), collider_surface(plate)])
    rows = step.detect()
    rows = rows.select((rows.key[:, 0] == 0) & (rows.key[:, 1] == POINT) & (rows.key[:, 2] % 3 == 0))
    assert list(point_indices(rows)) == [0, 1, 2, 3]
    slant = np.sqrt(0.5)
    wanted = [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0], [0.0, -slant, slant]]
    np.testing.assert_allclose(rows.normal, wanted, atol=1e-4)
    np.testing.assert_allclose(step.heights(rows), [0.5 * R, 0.5 * R, R, R / slant], atol=1e-6)


def crumpled_sheet(rng: np.random.Generator) -> tuple[Surface, Callable[[np.ndarray], np.ndarray]]:
    """Return a sheet of random heights on a square grid, and its height (k,) m at places (k, 2) m."""
    count, step = 14, 4.0 * R
    x, y = step * np.mgrid[:count, :count]
    z = rng.uniform(-2.0 * R, 2.0 * R, (count, count))
    k = np.arange(count * count).reshape(count, count)
    a, b, c, d = (part.ravel() for part in (k[:-1, :-1], k[1:, :-1], k[1:, 1:], k[:-1, 1:]))
    triangles = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])

    def height(places: np.ndarray) -> np.ndarray:
        (i, j), (s, t) = np.floor(places / step).astype(int).T, (places / step % 1.0).T
        near = z[i + (s >= t), j + (s < t)]
        more, less = np.maximum(s, t), np.minimum(s, t)
        return z[i, j] + more * (near - z[i, j]) + less * (z[i + 1, j + 1] - near)

    return Surface("Sheet", np.stack([x, y, z], axis=2).reshape(-1, 3), triangles), height


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("end", [1.0, -0.5])
def test_points_keep_side_of_crumple(seed: int, end: float) -> None:
    """Points above a sheet that slide over its folds, or are pressed through them, are pushed up. end: height, in R."""
    rng = np.random.default_rng(seed)
    crumpled, height = crumpled_sheet(rng)
    crumpled = Surface(crumpled.name, crumpled.vertices, crumpled.triangles[:, :: 1 - 2 * (seed % 2)])
    places = rng.uniform(10.0 * R, 40.0 * R, (200, 2))
    moved = places + rng.uniform(-2.0 * R, 2.0 * R, (200, 2))
    above, left = rng.uniform(0.02 * R, R, (2, 200))
    cloud = point_cloud(np.column_stack([places, height(places) + above]))
    finish = point_cloud(np.column_stack([moved, height(moved) + end * left])).vertices
    step = DetectionStep([DetectionSurface(cloud, finish), collider_surface(crumpled)])
    rows = step.detect()
    rows = rows.select((rows.key[:, 0] == 0) & (rows.key[:, 1] == POINT))
    assert len(np.unique(point_indices(rows))) > 190
    assert rows.normal[:, 2].min() > 0.0
    assert (end * step.heights(rows)).min() > 0.0


def slide_along(sheet: Surface, start: np.ndarray, finish: np.ndarray) -> ContactSet:
    """Return the contacts of points that move from start to finish, (k, 3) m, with a sheet."""
    step = DetectionStep([DetectionSurface(point_cloud(start), point_cloud(finish).vertices), collider_surface(sheet)])
    rows = step.detect()
    rows = rows.select((rows.key[:, 0] == 0) & (rows.key[:, 1] == POINT))
    assert len(np.unique(point_indices(rows))) > 0.95 * len(start)
    return rows


@pytest.mark.parametrize("turned", ["left", "right"])
def test_points_keep_side_of_junction(turned: str) -> None:
    """Points above a flat sheet with a wall below its middle line are pushed up, whichever part is turned over."""
    rng, middle = np.random.default_rng(0), 28.0 * R
    plate = sheet(15)
    plate = Surface("Sheet", plate.vertices * [2.0 * middle, 2.0 * middle, 0.0], plate.triangles)
    top = np.flatnonzero(np.abs(plate.vertices[:, 0] - middle) < 1e-9)
    assert len(top) == 15
    low = len(plate.vertices) + np.arange(len(top))
    wall = [
        np.column_stack([top[:-1], low[:-1], low[1:]]),
        np.column_stack([top[:-1], low[1:], top[1:]]),
    ]
    triangles = np.concatenate([plate.triangles, *wall])
    vertices = np.concatenate([plate.vertices, plate.vertices[top] - [0.0, 0.0, 4.0 * R]])
    centres = vertices[triangles].mean(axis=1)
    is_turned = (centres[:, 2] == 0.0) & ((centres[:, 0] < middle) == (turned == "left"))
    triangles[is_turned] = triangles[is_turned][:, ::-1]
    places = np.column_stack([middle + rng.uniform(-5.0 * R, 5.0 * R, 400), rng.uniform(10.0 * R, 40.0 * R, 400)])
    above, left = rng.uniform(0.02 * R, R, (2, 400))
    moved = places + rng.uniform(-2.0 * R, 2.0 * R, (400, 2))
    rows = slide_along(
        Surface("Tee", vertices, triangles), np.column_stack([places, above]), np.column_stack([moved, left])
    )
    assert rows.normal[:, 2].min() > 0.0


@pytest.mark.parametrize("turned", [1, -1])
@pytest.mark.parametrize("angle", [20.0, 80.0])
def test_points_slide_over_branched_ridge(angle: float, turned: int) -> None:
    """Points that slide around a ridge with a wall inside are pushed away from it. angle: of its sides, degrees."""
    rng, count, half = np.random.default_rng(0), 14, np.radians(0.5 * angle)
    ridge = np.column_stack([np.zeros(count), 4.0 * R * np.arange(count), np.zeros(count)])
    down = 20.0 * R * np.array([[np.sin(half), 0.0, -np.cos(half)], [-np.sin(half), 0.0, -np.cos(half)], [0, 0, -1]])
    k = np.arange(count - 1)
    strips = []
    for place in count * np.arange(1, 4):
        strips += [np.column_stack([k, place + k, place + k + 1]), np.column_stack([k, place + k + 1, k + 1])]
    strips[2:4] = [strip[:, ::-turned] for strip in strips[2:4]]
    vertices = np.concatenate([ridge, *(ridge + way for way in down)])

    def place(around: np.ndarray, along: np.ndarray) -> np.ndarray:
        above = rng.uniform(0.1 * R, R, len(around))
        return np.column_stack([above * np.cos(around), along, above * np.sin(around)])

    # Directions in which the ridge itself is nearest.
    begin = rng.uniform(half, np.pi - half, 400)
    end = np.clip(begin + rng.uniform(-0.7, 0.7, 400), half + 0.01, np.pi - half - 0.01)
    along = rng.uniform(10.0 * R, 40.0 * R, 400)
    finish = place(end, along)
    rows = slide_along(Surface("Ridge", vertices, np.concatenate(strips)), place(begin, along), finish)
    outward = (finish * [1.0, 0.0, 1.0])[point_indices(rows)]
    assert np.einsum("ki,ki->k", rows.normal, outward).min() > 0.0


def test_points_keep_side_of_moebius() -> None:
    """Points beside the place where the faces of a Möbius strip turn over stay on their side."""
    rng, count = np.random.default_rng(0), 96

    def place(angle: np.ndarray, side: np.ndarray) -> np.ndarray:
        ring = 1.0 + side * np.cos(0.5 * angle)
        return np.stack([ring * np.cos(angle), ring * np.sin(angle), side * np.sin(0.5 * angle)], axis=1)

    quads = np.add.outer(2 * np.arange(count), np.arange(4))
    quads[-1, 2:] = 1, 0
    triangles = np.concatenate([quads[:, [0, 1, 2]], quads[:, [2, 1, 3]]])
    angle = np.repeat(np.linspace(0.0, 2.0 * np.pi, count, endpoint=False), 2)
    strip = Surface("Strip", place(angle, np.tile([-0.05, 0.05], count)), triangles)

    def normals(angle: np.ndarray, side: np.ndarray) -> np.ndarray:
        along = place(angle + 1e-4, side) - place(angle - 1e-4, side)
        normal = np.cross(along, place(angle, side + 0.1) - place(angle, side))
        return np.asarray(normal / np.linalg.norm(normal, axis=1)[:, None])

    for front in (-1.0, 1.0):
        angle, side = rng.uniform(-0.06, 0.06, 400), rng.uniform(-0.04, 0.04, 400)
        moved = angle + rng.uniform(-2.0 * R, 2.0 * R, 400)
        above, left = front * rng.uniform(0.3 * R, R, (2, 400, 1))
        finish = place(moved, side) + left * normals(moved, side)
        rows = slide_along(strip, place(angle, side) + above * normals(angle, side), finish)
        outward = front * normals(moved, side)[point_indices(rows)]
        assert np.einsum("ki,ki->k", rows.normal, outward).min() > 0.0


@pytest.mark.parametrize("pressed", [True, False])
def test_contact_history_restores_sheet_side(pressed: bool) -> None:
    """A point that was pressed slightly through an open sheet is pushed back to its side."""
    point = point_cloud(np.array([[0.5, 0.4, -0.3 * R]]))
    memory = ContactHistory.of(np.array([[0, POINT, 0, 1]]), np.zeros((1, 3)), np.ones(1), np.array([0.3 * R]))
    rows = DetectionStep(
        [DetectionSurface(point), collider_surface(sheet(5))], history=memory if pressed else ContactHistory()
    ).detect()
    (up,) = rows.normal[(rows.key[:, 0] == 0) & (rows.key[:, 2] == 0), 2]
    assert up == pytest.approx(1.0 if pressed else -1.0)


def bar(name: str, axis: int, low: float) -> Surface:
    """Return a square bar of 2 m along an axis, standing on an edge at height low; its top is 0.2 m higher."""
    shape = box((2.0, 0.2 * np.sqrt(0.5), 0.2 * np.sqrt(0.5)))
    points = shape.vertices - 0.5 * np.ptp(shape.vertices, axis=0)
    points = Rotation.from_euler("x", 45, degrees=True).apply(points)
    return Surface(
        name, points[:, [axis, 1 - axis, 2]] * [1.0, 1.0 - 2.0 * axis, 1.0] + [0.0, 0.0, low + 0.1], shape.triangles
    )


@pytest.mark.parametrize(("before", "after", "met"), [
    (0.5 * R, 0.5 * R, True), (1.5 * R, -0.8 * R, True), (5.0 * R, -8.0 * R, True), (30.0 * R, -30.0 * R, True),
    (3.0 * R, 2.5 * R, False), (-8.0 * R, -9.0 * R, False),
])  # fmt: skip
def test_crossing_edges_make_contact(before: float, after: float, met: bool) -> None:
    """Crossing edges touch where no vertex is near."""
    upper, lower = bar("Upper", 0, before), bar("Lower", 1, -0.2)
    step = DetectionStep(
        [DetectionSurface(upper, translate(upper, 0.0, 0.0, after - before).vertices), DetectionSurface(lower)]
    )
    rows = step.detect()
    assert len(rows) == met
    if met:
        assert rows.key[0, 1] == EDGE
        np.testing.assert_allclose(rows.normal, [[0.0, 0.0, 1.0]], atol=1e-9)
        np.testing.assert_allclose(step.heights(rows), [after], atol=1e-9)


def test_passing_edges_make_no_contact() -> None:
    # Side by side, 5 cm apart, then down by more than their height.
    upper, lower = bar("Upper", 0, 5.0 * R), bar("Lower", 1, -0.2)
    aside = translate(upper, 1.15, 0.0, 0.0)
    step = DetectionStep(
        [DetectionSurface(aside, translate(aside, 0.0, 0.0, -30.0 * R).vertices), DetectionSurface(lower)]
    )
    assert not (step.detect().key[:, 1] == EDGE).any()
    # Or from farther away to a place below the other one: it was lower before it arrived there.
    rows = DetectionStep(
        [
            DetectionSurface(translate(upper, 2.0, 0.0, 0.0), translate(upper, 0.0, 0.0, -14.0 * R).vertices),
            DetectionSurface(lower),
        ]
    ).detect()
    assert not ((rows.key[:, 1] == EDGE) & (rows.normal[:, 2] > 0.99)).any()


def test_ccd_oblique_path_past_border() -> None:
    """A point on an oblique path past the border touches the face that its path went through."""
    plate = gridded_box("Plate", (-1.0, -1.0, -0.02), (1.0, 1.0, 0.0), 0.2)
    points = np.array([[0.2, 0.1, 0.3], [0.5, -0.3, 0.1], [-0.4, 0.7, 0.2]])
    way = np.array([1.5, 0.1, -1.0])
    step = DetectionStep(
        [DetectionSurface(point_cloud(points), point_cloud(points + way).vertices), collider_surface(plate)]
    )
    rows = step.detect()
    rows = rows.select((rows.key[:, 0] == 0) & (rows.key[:, 1] == POINT) & (rows.key[:, 2] % 3 == 0))
    # The last point passes the border above the plate.
    through = points[:, 0] + points[:, 2] / 1.0 * 1.5 < 1.0
    assert list(point_indices(rows)) == list(np.flatnonzero(through))
    np.testing.assert_allclose(rows.normal, np.tile([0.0, 0.0, 1.0], (len(rows), 1)), atol=1e-9)
    np.testing.assert_allclose(step.heights(rows), (points + way)[through, 2], atol=1e-6)


def test_self_contact_of_facing_parts() -> None:
    """Parts of a surface touch if they face each other and were not close in the rest shape."""
    one = gridded_box("Both", (0.0, 0.0, 0.0), (0.2, 0.2, 0.1), 0.05)
    apart = translate(one, 0.0, 0.0, 0.2)
    count = len(one.vertices)
    both = Surface(
        "Both", np.concatenate([one.vertices, apart.vertices]), np.concatenate([one.triangles, one.triangles + count])
    )
    end = both.vertices.copy()
    end[count:, 2] -= 0.1 - 0.5 * R
    step = DetectionStep([DetectionSurface(both, end)], pairs=(), self_colliding=(0,))
    rows = step.detect()
    # The top of the lower part and the bottom of the upper one, with their rims, but no sides.
    z = both.vertices[rows.key[:, 2], 2]
    assert set(np.round(z, 6)) == {0.1, 0.2}
    assert len(np.unique(rows.key[:, 2])) >= 2 * 25
    np.testing.assert_allclose(np.abs(rows.normal[:, 2]), 1.0, atol=1e-9)
    np.testing.assert_allclose(step.heights(rows), 0.5 * R, atol=1e-9)
    # Parts that are as close in the rest shape do not touch.
    near = Surface("Both", end, both.triangles)
    assert len(DetectionStep([DetectionSurface(near)], pairs=(), self_colliding=(0,)).detect()) == 0


def test_initial_penetration_exits_nearest_way() -> None:
    """In the first step points inside leave by the nearest way; later only those still recorded as inside do."""
    body = gridded_box("Small", (0.4, 0.4, 0.7), (0.6, 0.6, 0.9), 0.1)
    cube = gridded_box("Cube", (0, 0, 0), (1, 1, 1), 0.25)
    step = DetectionStep([DetectionSurface(body), collider_surface(cube)], history=None)
    rows = step.detect()
    mine = rows.select((rows.key[:, 0] == 0) & (rows.key[:, 1] == POINT))
    assert set(mine.key[:, 2]) == step.points(0)
    top = body.vertices[mine.key[:, 2], 2] > 0.75
    np.testing.assert_allclose(mine.normal[top], np.tile([0.0, 0.0, 1.0], (int(top.sum()), 1)), atol=1e-9)
    again = DetectionStep([DetectionSurface(body), collider_surface(cube)]).detect()
    assert not ((again.key[:, 0] == 0) & (again.key[:, 1] == POINT)).any()
    forces, depths = np.ones(len(mine)), np.full(len(mine), 0.1)
    depths[5:] = -0.1
    memory = ContactHistory.of(mine.key, np.zeros((len(mine), 3)), forces, depths)
    left = DetectionStep([DetectionSurface(body), collider_surface(cube)], history=memory).detect()
    assert len(left.key[(left.key[:, 0] == 0) & (left.key[:, 1] == POINT)]) == 5


@pytest.mark.parametrize("consistent", [True, False])
def test_deep_initial_penetration_common_exit(consistent: bool) -> None:
    """A body more than half inside a slab leaves it on one side only."""
    slab, body = (
        gridded_box("Slab", (-0.5, -0.5, -0.1), (0.5, 0.5, 0.0), 0.1),
        gridded_box("Body", (-0.1, -0.1, -0.06), (0.1, 0.1, 0.14), 0.05),
    )
    rows = DetectionStep([DetectionSurface(body, consistent=consistent), collider_surface(slab)], history=None).detect()
    rows = rows.select((rows.key[:, 0] == 0) & (rows.key[:, 1] == POINT))
    below = body.vertices[rows.key[:, 2], 2] < 0.0
    # All of it leaves upwards, although the lower half is closer to the bottom.
    assert below.sum() >= 25
    np.testing.assert_allclose(rows.normal[below], np.tile([0.0, 0.0, 1.0], (int(below.sum()), 1)), atol=1e-6)


def thread_body(*points: tuple[float, float, float]) -> DetectionSurface:
    """Return a body of edges from each point to the next, which touch along their whole length."""
    k = np.arange(len(points))
    wires = np.stack([k[:-1], k[1:]], 1)
    shares = np.full(len(points), 1e-4)
    surface = Surface("Thread", np.array(points), np.zeros((0, 3), dtype=np.int64))
    return DetectionSurface(surface, surface_options={"wires": wires, "is_thread": True, "area_shares": shares})


@pytest.mark.parametrize("turned", [False, True])
def test_thread_across_sharp_edge(turned: bool) -> None:
    high = 0.5 * R / np.sqrt(2.0)
    ends = [(-0.1 - high, 0.47, 0.9 + high), (0.1 - high, 0.5, 1.1 + high)]
    step = DetectionStep([thread_body(*ends[:: -1 if turned else 1]), collider_surface(box((1.0, 1.0, 1.0)))])
    rows = step.detect()
    rows = rows.select(rows.key[:, 1] == EDGE)
    # It is parallel to no face, and its ends are far from all faces.
    assert len(rows) == 1
    across = np.cross([0.2, 0.03, 0.2], [0.0, 1.0, 0.0])
    np.testing.assert_allclose(rows.normal[0], across / np.linalg.norm(across), atol=1e-9)
    np.testing.assert_allclose(step.heights(rows), 0.5 * R, atol=1e-9)


def test_edge_stiffness_by_smaller_area() -> None:
    """The stiffness of touching edges is that of the smaller area: doubled with it, and the same on any collider."""
    high = 0.5 * R / np.sqrt(2.0)
    ends = [(-0.1 - high, 0.47, 0.9 + high), (0.1 - high, 0.5, 1.1 + high)]
    stiffness = []
    for share, wide in ((1e-4, 1.0), (2e-4, 1.0), (1e-4, 3.0)):
        thread = thread_body(*ends)
        thread.surface_options["area_shares"] = np.full(2, share)
        rows = DetectionStep([thread, collider_surface(box((wide, 1.0, 1.0)))]).detect()
        rows = rows.select(rows.key[:, 1] == EDGE)
        assert len(rows) == 1
        stiffness.append(float(rows.stiffness[0]))
    assert stiffness == pytest.approx([stiffness[0], 2.0 * stiffness[0], stiffness[0]], rel=1e-9)


@pytest.mark.parametrize("turned", [False, True])
def test_thread_across_smooth_edge(turned: bool) -> None:
    """The diagonal of a box's face, shared by two coplanar triangles, stops a thread too."""
    ends = [(0.3, 0.3, 1.0 + 0.4 * R), (0.7, 0.71, 1.0 + 0.4 * R)]
    other = [(0.3, 0.7, 1.0 + 0.4 * R), (0.71, 0.3, 1.0 + 0.4 * R)]
    found = []
    for points in (ends, other):
        rows = DetectionStep(
            [thread_body(*points[:: -1 if turned else 1]), collider_surface(box((1.0, 1.0, 1.0)))]
        ).detect()
        found += [rows.select(rows.key[:, 1] == EDGE)]
    # Only one of the two crosses the diagonal of that face.
    assert sorted(len(rows) for rows in found) == [0, 1]
    np.testing.assert_allclose(np.concatenate([rows.normal for rows in found]), [[0.0, 0.0, 1.0]], atol=1e-9)


def test_thread_beside_corner_edge() -> None:
    """The thread misses the edge by 1.5 contact distances on the inner side, just above the face."""
    step = DetectionStep(
        [
            thread_body((1.0 - 1.5 * R, 0.5, 1.0002), (1.0 - 1.5 * R + 0.006, 0.5, 1.2)),
            collider_surface(box((1.0, 1.0, 1.0))),
        ]
    )
    assert not (step.detect().key[:, 1] == EDGE).any()


def _roof(name: str, turned: bool) -> Surface:
    """Return a slab of 0.4 x 0.2 m with a ridge of 11 degrees along x on top; turned: along y and below."""
    eaves = [(x, y, z) for x in (-0.2, 0.2) for y in (-0.1, 0.1) for z in (-0.1, -0.01)]
    points = np.array([*eaves, (-0.2, 0.0, 0.0), (0.2, 0.0, 0.0)])
    return _hull(name, points[:, [1, 0, 2]] * [1.0, 1.0, -1.0] if turned else points)


@pytest.mark.parametrize("depth", [0.004, 0.03])
def test_shallow_edges_in_thorough_detection(depth: float) -> None:
    """Edges of small dihedral angle touch in thorough detection where no vertex is near."""
    lower, upper = _roof("A", False), translate(_roof("B", True), 0.0, 0.0, 0.02)
    step = DetectionStep([DetectionSurface(lower), DetectionSurface(upper, upper.vertices - [0.0, 0.0, 0.02 + depth])])
    # The tips are far from the other slab; only the edges cross.
    assert len(step.detect()) == 0
    rows = step.detect(thorough=True)
    heights = step.heights(rows)
    assert (rows.key[:, 1] == EDGE).all()
    # Diagonals of the slopes touch too, but less deep than the ridges.
    deepest = heights.argmin()
    np.testing.assert_allclose(np.abs(rows.normal[deepest]), [0.0, 0.0, 1.0], atol=1e-12)
    assert heights[deepest] == pytest.approx(-depth)


def test_sides_of_corner_are_merged() -> None:
    """A point in a corner is one contact for detection, with the sum of its slips and forces; others stay."""
    first, second = CORNER_KINDS
    keys = np.array([[0, POINT, 4, 1], [0, first, 4, 1], [0, second, 4, 1], [0, POINT, 7, 1], [0, EDGE, 4, 1]])
    rng = np.random.default_rng(1)
    slips, forces = rng.standard_normal((5, 3)), rng.uniform(1.0, 2.0, 5)
    plain = ContactHistory.of(keys[[0, 3, 4]], slips[[0, 3, 4]], forces[[0, 3, 4]], np.zeros(3))
    assert plain.merged_by_point() is plain
    merged = ContactHistory.of(keys, slips, forces, np.zeros(5)).merged_by_point()
    wanted = keys[[0, 3, 4]]
    assert len(merged.keys) == 3
    found = merged.indices_of(wanted)
    assert merged.forces[found] == pytest.approx([forces[:3].sum(), forces[3], forces[4]], rel=1e-12)
    assert merged.slips[found] == pytest.approx(np.array([slips[:3].sum(axis=0), slips[3], slips[4]]), rel=1e-12)

"""Nearest triangles, compared with all pairs, and the side of a surface, compared with the winding number."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.geometry.collision.proximity import nearest_triangles, side_of_surface
from dampsim.core.geometry.mesh.triangles import Topology, Triangles, is_closed
from dampsim.core.geometry.tetmesh.winding_number import WindingNumber
from shapes import SHAPES, box, ring, sheet, sphere, tube

# Rounding error of a sum of a dozen products of numbers near 1.
ROUNDING = 1e-12


def distance_to_triangle(p: np.ndarray, corners: np.ndarray) -> float:
    """Return the distance of a point to a triangle (3, 3): to its plane if the foot is inside, else to its sides."""
    a, b, c = corners
    system = np.stack([b - a, c - a], axis=1)
    part, *_ = np.linalg.lstsq(system, p - a, rcond=None)
    best = np.inf
    if part.min() >= 0.0 and part.sum() <= 1.0:
        best = float(np.linalg.norm(a + system @ part - p))
    for start, end in ((a, b), (b, c), (c, a)):
        way = end - start
        along = float(np.clip((p - start) @ way / max(way @ way, 1e-300), 0.0, 1.0))
        best = min(best, float(np.linalg.norm(start + along * way - p)))
    return best


def all_distances(points: np.ndarray, vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    return np.array([[distance_to_triangle(p, vertices[t]) for t in triangles] for p in points]).reshape(
        len(points), len(triangles)
    )


def random_triangles(seed: int, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Return random triangles of all sizes, including degenerate ones and one that is a thousand times larger."""
    rng = np.random.default_rng(seed)
    corners = rng.normal(size=(count, 1, 3)) + 0.3 * rng.random((count, 1, 1)) ** 4 * rng.normal(size=(count, 3, 3))
    corners[3, 2] = 0.5 * (corners[3, 0] + corners[3, 1])
    corners[4, 1:] = corners[4, 0]
    corners[5] = [[-500.0, -400.0, -0.2], [500.0, -450.0, -0.1], [30.0, 700.0, 0.2]]
    return corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3)


def assert_nearest(points, vertices, triangles, reach, allowed, **asked):
    found = nearest_triangles(Triangles(vertices, triangles), points, reach, **asked)
    expected = np.where(allowed, all_distances(points, vertices, triangles), np.inf)
    best = expected.min(axis=1, initial=np.inf)
    assert np.array_equal(found.point, np.flatnonzero(best <= reach))
    assert found.distance == pytest.approx(best[found.point], abs=ROUNDING * 1000.0)
    assert allowed[found.point, found.triangle].all()
    assert found.weights.min(initial=0.0) >= 0.0
    assert found.weights.sum(axis=1) == pytest.approx(1.0, abs=ROUNDING)
    places = np.einsum("kc,kci->ki", found.weights, vertices[triangles[found.triangle]])
    assert points[found.point] - places == pytest.approx(found.offset, abs=ROUNDING * 1000.0)
    assert np.linalg.norm(found.offset, axis=1) == pytest.approx(found.distance, abs=ROUNDING)
    return found


@pytest.mark.parametrize("reach", [0.05, 0.4, np.inf])
@pytest.mark.parametrize("seed", [0, 1])
def test_nearest_triangle_of_any_size(seed: int, reach: float) -> None:
    vertices, triangles = random_triangles(seed)
    points = np.random.default_rng(seed + 10).normal(size=(120, 3))
    found = assert_nearest(points, vertices, triangles, reach, np.ones((120, 60), dtype=bool))
    assert 0 < len(found.point) <= 120


def test_nearest_with_reach_per_point() -> None:
    vertices, triangles = random_triangles(2)
    rng = np.random.default_rng(3)
    points, reach = rng.normal(size=(120, 3)), rng.random(120)
    assert_nearest(points, vertices, triangles, reach, np.ones((120, 60), dtype=bool))


@pytest.mark.slow
def test_nearest_opposing_and_allowed_triangle() -> None:
    surface = sphere(150)
    vertices, triangles = surface.vertices, surface.triangles
    rng = np.random.default_rng(4)
    points = 1.3 * rng.normal(size=(150, 3))
    normals = rng.normal(size=(150, 3))
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    corners = vertices[triangles]
    faces = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    faces /= np.linalg.norm(faces, axis=1)[:, None]
    barred = rng.random((150, len(triangles))) < 0.4
    allowed = (normals @ faces.T < -0.2) & ~barred
    found = assert_nearest(
        points,
        vertices,
        triangles,
        1.5,
        allowed,
        normals=normals,
        max_normal_cosine=-0.2,
        is_excluded=lambda p, t: barred[p, t],
    )
    assert 40 < len(found.point) < 150


def test_nearest_on_fine_ground_and_floor() -> None:
    ground = sheet(30)
    floor = np.array([[-50.0, -50, -0.01], [50, -50, -0.01], [50, 50, -0.01], [-50, 50, -0.01]])
    vertices = np.concatenate([ground.vertices, floor])
    triangles = np.concatenate([ground.triangles, np.array([[0, 1, 2], [0, 2, 3]]) + len(ground.vertices)])
    rng = np.random.default_rng(5)
    points = rng.random((4000, 3)) * [3.0, 3.0, 0.1] - [1.0, 1.0, 0.05]
    found = nearest_triangles(Triangles(vertices, triangles), points, 0.03)
    x, y, z = points.T
    over = np.hypot(np.maximum(np.abs(x - 0.5) - 0.5, 0.0), np.maximum(np.abs(y - 0.5) - 0.5, 0.0))
    expected = np.minimum(np.hypot(over, z), np.abs(z + 0.01))
    assert np.array_equal(found.point, np.flatnonzero(expected <= 0.03))
    assert found.distance == pytest.approx(expected[found.point], abs=1e-10)


@pytest.mark.slow
def test_nearest_among_slivers() -> None:
    surface = tube(1.0, 0.5, 1, 300)
    angle, height, radius = np.random.default_rng(6).random((3, 3000))
    points = np.stack([np.cos(7 * angle), np.sin(7 * angle), height], axis=1)
    points[:, :2] *= (0.5 + 0.05 * (radius - 0.5))[:, None]
    found = nearest_triangles(Triangles(surface.vertices, surface.triangles), points, 0.3)
    corners = surface.vertices[surface.triangles]
    some = np.arange(0, 3000, 150)
    expected = [min(distance_to_triangle(points[k], c) for c in corners) for k in some]
    assert found.distance[some] == pytest.approx(np.array(expected), abs=ROUNDING)


def test_nearest_tie_takes_first_triangle() -> None:
    """Among equally near triangles the first one is returned, whichever other points are queried."""
    surface = sphere(600)
    # Points above the vertices of a convex shape are equally near to about six triangles.
    normals = Triangles(surface.vertices, surface.triangles).vertex_normals
    points = surface.vertices + 0.02 * normals
    found = nearest_triangles(Triangles(surface.vertices, surface.triangles), points, 0.1)
    first = np.full(len(points), len(surface.triangles))
    np.minimum.at(first, surface.triangles, np.arange(len(surface.triangles))[:, None])
    assert np.array_equal(found.triangle, first)
    for k in (0, 100, 500):
        alone = nearest_triangles(Triangles(surface.vertices, surface.triangles), points[k : k + 1], 5.0)
        assert alone.triangle[0] == first[k]
        assert alone.offset.tobytes() == found.offset[k : k + 1].tobytes()


@pytest.mark.parametrize("name", SHAPES)
def test_side_matches_winding_number(name: str) -> None:
    shape = SHAPES[name]
    surface = Triangles(shape.vertices, shape.triangles)
    low, high = shape.vertices.min(axis=0), shape.vertices.max(axis=0)
    rng = np.random.default_rng(7)
    points = low + (high - low) * (1.4 * rng.random((2000, 3)) - 0.2)
    # Include points near edges and vertices, where a face normal gives the wrong side.
    points = np.concatenate([points, shape.vertices * 1.01, shape.vertices[shape.triangles[:, :2]].mean(axis=1) * 1.01])
    found = nearest_triangles(surface, points, np.inf)
    sign, normal = side_of_surface(surface, found)
    clear = found.distance > 1e-6
    inside = WindingNumber(shape.vertices, shape.triangles)(points) > 0.5
    assert np.array_equal(sign[clear] < 0.0, inside[clear])
    assert np.linalg.norm(normal, axis=1) == pytest.approx(1.0, abs=ROUNDING)
    assert (normal * sign[:, None] * found.distance[:, None])[clear] == pytest.approx(found.offset[clear], abs=1e-9)


def test_normal_of_point_on_surface() -> None:
    shape = box((1.0, 1.0, 1.0))
    surface = Triangles(shape.vertices, shape.triangles)
    points = np.array([[0.3, 0.4, 1.0], [1.0, 0.3, 1.0], [1.0, 1.0, 1.0]])
    _, normal = side_of_surface(surface, nearest_triangles(surface, points, 0.1))
    expected = np.array([[0.0, 0, 1], [np.sqrt(0.5), 0, np.sqrt(0.5)], [np.sqrt(1 / 3)] * 3])
    assert normal == pytest.approx(expected, abs=ROUNDING)


def test_vertex_normal_ignores_triangulation() -> None:
    """A vertex normal does not depend on the number of triangles that a face is split into."""
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
    surface = Triangles(points, np.array([[0, 1, 4], [0, 4, 2], [0, 2, 3], [0, 3, 1]]))
    assert surface.vertex_normals[0] == pytest.approx(np.full(3, np.sqrt(1 / 3)), abs=ROUNDING)


def test_side_near_degenerate_triangles() -> None:
    shape = box((1.0, 1.0, 1.0))
    # Shearing makes some edges sharp; there, a single face normal may give the wrong side.
    shear = np.array([[1.0, 0, 0], [0, 1, 0], [3, 0, 1]])
    for k, side in np.ndindex(len(shape.triangles), 3):
        a, b, c = np.roll(shape.triangles[k], side)
        vertices = np.concatenate([shape.vertices, 0.5 * (shape.vertices[[a]] + shape.vertices[[b]])])
        middle = len(shape.vertices)
        # Split side ab at its middle in one of its triangles only, and close the gap by a degenerate triangle.
        others = np.delete(shape.triangles, k, axis=0)
        triangles = np.concatenate([others, [[a, middle, c], [middle, b, c], [a, b, middle]]])
        assert is_closed(triangles)
        points = np.random.default_rng(8).random((400, 3)) * 1.4 - 0.2
        surface = Triangles(vertices @ shear, triangles)
        found = nearest_triangles(surface, points @ shear, np.inf)
        sign, normal = side_of_surface(surface, found)
        inside = (np.abs(points - 0.5) < 0.5).all(axis=1)
        assert np.array_equal(sign < 0.0, inside)
        assert np.isfinite(normal).all()


def test_closed_needs_opposite_edge_pairs() -> None:
    """A mesh is closed if each edge belongs to triangles in both directions."""
    assert is_closed(ring().triangles)
    assert not is_closed(sheet().triangles)
    turned = ring().triangles.copy()
    turned[5] = turned[5][::-1]
    assert not is_closed(turned)
    assert not is_closed(np.zeros((0, 3), dtype=np.int64))


def test_topology_reused_for_moved_vertices() -> None:
    shape = ring()
    before = Triangles(shape.vertices, shape.triangles)
    moved = shape.vertices @ np.diag([1.0, 2.0, 0.5])
    after = Triangles(moved, shape.triangles, before.topology)
    assert after.topology is before.topology
    assert np.array_equal(after.edge_normals, Triangles(moved, shape.triangles).edge_normals)
    assert np.array_equal(
        np.sort(Topology.from_triangles(shape.triangles).edges[0]), Topology.from_triangles(shape.triangles).edges[0]
    )


def test_nearest_with_empty_input() -> None:
    none, no_triangle = np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64)
    shape = box()
    for surface, points in (
        (Triangles(none, no_triangle), np.zeros((4, 3))),
        (Triangles(shape.vertices, shape.triangles), none),
        (Triangles(shape.vertices, shape.triangles), np.full((4, 3), np.nan)),
        (Triangles(shape.vertices, shape.triangles), np.full((4, 3), 100.0)),
    ):
        found = nearest_triangles(surface, points, 0.1)
        assert found.weights.shape == found.offset.shape == (0, 3)
        sign, normal = side_of_surface(surface, found)
        assert sign.shape == (0,)
        assert normal.shape == (0, 3)

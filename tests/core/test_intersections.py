"""Intersections against brute force, and penetration depths of boxes and spheres."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.geometry.collision import intersections
from dampsim.core.geometry.collision.intersections import (
    _candidate_pairs,
    depth_inside,
    intersecting_edges,
    penetration_depth,
    penetration_depth_of_closed,
    points_inside,
    segment_triangle_hits,
)
from dampsim.core.geometry.collision.proximity import Triangles
from dampsim.core.geometry.tetmesh.winding_number import WindingNumber
from shapes import box, ring, sheet, sphere, tube


def brute_force_intersections(vertices_a, triangles_a, vertices_b, triangles_b) -> set[tuple[int, int, int]]:
    """Return all intersections of edges and triangles by solving p + t (q - p) = a + u (b - a) + v (c - a)."""
    found = set()
    edges = {tuple(sorted((int(t[i]), int(t[i - 1])))) for t in triangles_a for i in range(3)}
    for i, j in edges:
        p, q = vertices_a[i], vertices_a[j]
        for k, (a, b, c) in enumerate(vertices_b[triangles_b]):
            system = np.stack([p - q, b - a, c - a], axis=1)
            if abs(np.linalg.det(system)) < 1e-14:
                continue
            t, u, v = np.linalg.solve(system, p - a)
            if 0 < t < 1 and u >= 0 and v >= 0 and u + v <= 1:
                found.add((i, j, k))
    return found


def as_set(found: tuple[np.ndarray, np.ndarray]) -> set[tuple[int, int, int]]:
    return {(int(i), int(j), int(k)) for (i, j), k in zip(*found, strict=True)}


@pytest.mark.parametrize("seed", range(3))
def test_intersecting_edges_match_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = sphere(60), ring(12, 8)
    vertices = a.vertices + 0.5 * rng.normal(size=3)
    expected = brute_force_intersections(vertices, a.triangles, b.vertices, b.triangles)
    assert expected
    assert as_set(intersecting_edges(vertices, a.triangles, b.vertices, b.triangles)) == expected


def test_intersecting_edges_with_mixed_sizes() -> None:
    rng = np.random.default_rng(5)
    needles = np.concatenate(
        [rng.normal(size=(40, 1, 3)) + 0.05 * rng.normal(size=(40, 3, 3)), 20 * rng.normal(size=(20, 3, 3))]
    )
    a = needles.reshape(-1, 3)
    other = np.concatenate(
        [rng.normal(size=(40, 1, 3)) + 0.3 * rng.normal(size=(40, 3, 3)), 20 * rng.normal(size=(10, 3, 3))]
    )
    b = other.reshape(-1, 3)
    triangles_a, triangles_b = np.arange(len(a)).reshape(-1, 3), np.arange(len(b)).reshape(-1, 3)
    expected = brute_force_intersections(a, triangles_a, b, triangles_b)
    assert len(expected) > 50
    assert as_set(intersecting_edges(a, triangles_a, b, triangles_b, tolerance=0.0)) == expected


def test_segment_hits_on_triangle_borders() -> None:
    shape = sphere(200)
    surface = Triangles(shape.vertices, shape.triangles)
    middles = shape.vertices[surface.topology.edges].mean(axis=1)
    aims = np.concatenate([middles, 0.3 * middles + 0.7 * shape.vertices[surface.topology.edges[:, 0]], shape.vertices])
    found = segment_triangle_hits(0.1 * np.ones_like(aims), 0.1 + 3.0 * (aims - 0.1), surface)
    assert np.array_equal(np.unique(found.segment), np.arange(len(aims)))
    places = np.einsum("kc,kci->ki", found.weights, shape.vertices[shape.triangles[found.triangle]])
    along = 0.1 + found.parameter[:, None] * 3.0 * (aims[found.segment] - 0.1)
    assert places == pytest.approx(along, abs=1e-12)


def test_touching_surfaces_do_not_intersect() -> None:
    a, b = box((1.0, 1.0, 1.0)), box((3.0, 3.0, 1.0))
    resting = a.vertices + np.array([1.0, 1.0, 1.0])
    assert len(intersecting_edges(resting, a.triangles, b.vertices, b.triangles)[0]) == 0
    assert len(intersecting_edges(resting - [0, 0, 1e-12], a.triangles, b.vertices, b.triangles)[0]) == 0
    assert len(intersecting_edges(resting - [0, 0, 1e-6], a.triangles, b.vertices, b.triangles)[0]) > 0


def test_self_intersection_of_bent_tube() -> None:
    rod = tube(2.0, 0.1, 20, 8)
    assert len(intersecting_edges(rod.vertices, rod.triangles, rod.vertices, rod.triangles)[0]) == 0
    bent = rod.vertices.copy()
    # Bent into 1.2 turns, so that its end passes through its beginning.
    angle = 1.2 * 2 * np.pi * rod.vertices[:, 2] / 2.0
    radius = 0.4 + rod.vertices[:, 0]
    bent[:, 0], bent[:, 2] = radius * np.cos(angle), radius * np.sin(angle)
    found = intersecting_edges(bent, rod.triangles, bent, rod.triangles)
    assert len(found[0]) > 0

    def barred(edges: np.ndarray, triangles: np.ndarray) -> np.ndarray:
        return np.ones(len(triangles), dtype=bool)

    assert len(intersecting_edges(bent, rod.triangles, bent, rod.triangles, is_excluded=barred)[0]) == 0


@pytest.mark.parametrize("kernel", [True, False])
def test_points_inside_match_winding_number(monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
    if not kernel:
        monkeypatch.setattr(Triangles, "box_tree", None)
    rng = np.random.default_rng(2)
    # Two balls that overlap, and a ring with reversed faces.
    a, b = sphere(200), ring(12, 8)
    parts = [(a.vertices, a.triangles), (a.vertices + np.array([0.7, 0.1, 0.0]), a.triangles)]
    parts += [(b.vertices + np.array([5.0, 0.0, 0.0]), b.triangles[:, ::-1])]
    shifts = np.cumsum([0, *(len(vertices) for vertices, _ in parts)])
    vertices = np.concatenate([vertices for vertices, _ in parts])
    triangles = np.concatenate([faces + shift for (_, faces), shift in zip(parts, shifts, strict=False)])
    points = rng.uniform(vertices.min(axis=0) - 0.2, vertices.max(axis=0) + 0.2, (3000, 3))
    expected = np.abs(WindingNumber(vertices, triangles)(points)) > 0.5
    assert 100 < expected.sum() < 2900
    np.testing.assert_array_equal(points_inside(points, Triangles(vertices, triangles)), expected)


def test_points_inside_on_grid() -> None:
    """Rays from points in line with the vertices and edges of a box count each crossing once."""
    mesh = box((1.0, 1.0, 1.0))
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    steps = (np.arange(-1, 6) / 4.0)[:, None] * (high - low) + low
    points = np.stack(np.meshgrid(*steps.T), axis=-1).reshape(-1, 3)
    strictly = ((points > low + 1e-9) & (points < high - 1e-9)).all(axis=1)
    outside = ((points < low - 1e-9) | (points > high + 1e-9)).any(axis=1)
    found = points_inside(points, Triangles(mesh.vertices, mesh.triangles))
    assert found[strictly].all()
    assert not found[outside].any()


def test_depth_inside_box() -> None:
    shape = box((2.0, 1.0, 1.0))
    points = np.random.default_rng(0).random((500, 3)) * [3.0, 2.0, 2.0] - 0.5
    to_faces = np.minimum(points, np.array([2.0, 1.0, 1.0]) - points).min(axis=1)
    depth = depth_inside(points, Triangles(shape.vertices, shape.triangles))
    assert depth == pytest.approx(np.maximum(to_faces, 0.0), abs=1e-12)


def test_depths_of_balls_without_winding_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rays tell which points are inside. A tree for each pair and step took half of the time of a pile."""
    monkeypatch.setattr(intersections, "WindingNumber", None)
    ball, offset = sphere(500), np.array([1.2, 0.1, 0.2])
    one, other, apart = (Triangles(ball.vertices + k * offset, ball.triangles) for k in (0.0, 1.0, 2.0))
    assert penetration_depth_of_closed(one, other) == pytest.approx(2.0 - np.linalg.norm(offset), rel=0.03)
    assert penetration_depth_of_closed(one, apart) == 0.0


def test_penetration_depth_of_deepest_vertex() -> None:
    small, large = box((0.5, 0.5, 0.5)), box((2.0, 2.0, 2.0))
    vertices = small.vertices + np.array([0.7, 0.7, 1.8])
    for a, b in (
        ((vertices, small.triangles), (large.vertices, large.triangles)),
        ((large.vertices, large.triangles), (vertices, small.triangles)),
    ):
        assert penetration_depth(*a, *b) == pytest.approx(0.2, abs=1e-12)
    apart = vertices + np.array([0.0, 0.0, 0.3])
    assert penetration_depth(apart, small.triangles, large.vertices, large.triangles) == 0.0


def test_penetration_depth_of_piercing_edge() -> None:
    slab = box((2.0, 2.0, 0.1))
    needle = box((0.02, 0.02, 3.0))
    vertices = needle.vertices + np.array([1.0, 1.0, -1.4])
    # Half the thickness, at the middle one of nine sampled places.
    depth = penetration_depth(vertices, needle.triangles, slab.vertices, slab.triangles)
    assert depth == pytest.approx(0.05, abs=1e-9)


def test_penetration_depth_open_or_empty() -> None:
    shape, open_one = box(), sheet()
    none, no_triangle = np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64)
    assert penetration_depth(shape.vertices - 0.1, shape.triangles, none, no_triangle) == 0.0
    assert penetration_depth(none, no_triangle, shape.vertices, shape.triangles) == 0.0
    assert penetration_depth(open_one.vertices + 5.0, open_one.triangles, shape.vertices, shape.triangles) == 0.0
    assert len(intersecting_edges(none, no_triangle, none, no_triangle)[0]) == 0
    assert depth_inside(none, Triangles(shape.vertices, shape.triangles)).shape == (0,)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("has_tree", [True, False])
def test_candidate_pairs_at_any_scale(has_tree: bool, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pairs of segments and triangles whose boxes overlap are those of a comparison of all."""
    if not has_tree:
        monkeypatch.setattr(Triangles, "box_tree", None)
    rng = np.random.default_rng(8)
    corners = scale * (rng.standard_normal((60, 1, 3)) + 0.3 * rng.standard_normal((60, 3, 3)))
    starts = scale * rng.standard_normal((80, 3))
    ends = starts + 0.5 * scale * rng.standard_normal((80, 3))
    found = _candidate_pairs(starts, ends, Triangles(corners.reshape(-1, 3), np.arange(180).reshape(-1, 3)))
    low, high = np.minimum(starts, ends)[:, None], np.maximum(starts, ends)[:, None]
    meets = ((low <= corners.max(axis=1)) & (high >= corners.min(axis=1))).all(axis=2)
    assert meets.sum() > 40
    assert set(zip(*(one.tolist() for one in found), strict=True)) == set(zip(*np.nonzero(meets), strict=True))

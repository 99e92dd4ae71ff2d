"""Consistent penetration depths: exact behind a flat face at any depth, smooth, with unreached points marked."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.geometry.collision.penetration import consistent_penetration_depths
from dampsim.core.geometry.collision.proximity import Triangles, nearest_triangles, side_of_surface
from dampsim.core.geometry.tetmesh.winding_number import WindingNumber
from shapes import box, sphere


def lattice(count: int, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of a grid in a box, and its edges along the axes and one diagonal of each square."""
    axes = [np.linspace(a, b, count) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    number = np.arange(count**3).reshape(count, count, count)
    edges = []
    for step in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1)):
        i, j, k = (count - s for s in step)
        start = number[:i, :j, :k]
        x, y, z = step
        edges.append(np.stack([start.ravel(), number[x:, y:, z:].ravel()], axis=1))
    return points, np.concatenate(edges)


def gridded_box(size: float, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a closed box around the origin whose faces are grids, so inner vertices have the face's normal."""
    grid = np.linspace(-0.5 * size, 0.5 * size, cells + 1)
    u, v = (x.ravel() for x in np.meshgrid(grid, grid, indexing="ij"))
    i, j = (x.ravel() for x in np.meshgrid(np.arange(cells), np.arange(cells), indexing="ij"))
    k, n = i * (cells + 1) + j, cells + 1
    quads = np.concatenate([np.stack([k, k + n, k + n + 1], axis=1), np.stack([k, k + n + 1, k + 1], axis=1)])
    vertices, triangles = [], []
    for axis in range(3):
        for side in (-1.0, 1.0):
            points = np.empty((len(u), 3))
            points[:, axis], points[:, (axis + 1) % 3], points[:, (axis + 2) % 3] = 0.5 * side * size, u, v
            triangles.append((quads if side > 0 else quads[:, ::-1]) + sum(len(p) for p in vertices))
            vertices.append(points)
    every = np.concatenate(vertices)
    _, first, label = np.unique(np.round(every, 9), axis=0, return_index=True, return_inverse=True)
    return every[first], label.reshape(-1)[np.concatenate(triangles)]


def pointwise_depths(points, edges, inside, crossings):
    """Return depths and exit directions by the formulas, point by point. crossings: edge -> (position, normal)."""
    depth, way_out = {}, {}
    for p in np.flatnonzero(inside):
        here = [crossings[e] for e, (i, j) in enumerate(edges) if p in (i, j) and inside[i] != inside[j]]
        if here:
            weights = [1.0 / max(float((x - points[p]) @ (x - points[p])), 1e-18) for x, _ in here]
            depth[p] = sum(w * float((x - points[p]) @ n) for w, (x, n) in zip(weights, here, strict=True)) / sum(
                weights
            )
            total = sum(w * n for w, (_, n) in zip(weights, here, strict=True))
            way_out[p] = total / np.linalg.norm(total)
    neighbours = {p: set() for p in range(len(points))}
    for i, j in edges:
        neighbours[i].add(j)
        neighbours[j].add(i)
    while True:
        layer = {
            p: neighbours[p] & set(depth)
            for p in np.flatnonzero(inside)
            if p not in depth and neighbours[p] & set(depth)
        }
        if not layer:
            return depth, way_out
        found = {}
        for p, some in layer.items():
            weights = {q: 1.0 / max(float((points[q] - points[p]) @ (points[q] - points[p])), 1e-18) for q in some}
            mean = sum(w * (float((points[q] - points[p]) @ way_out[q]) + depth[q]) for q, w in weights.items())
            total = sum(w * way_out[q] for q, w in weights.items())
            found[p] = (mean / sum(weights.values()), total / np.linalg.norm(total))
        for p, (d, r) in found.items():
            depth[p], way_out[p] = d, r


@pytest.mark.parametrize("part", [0.05, 0.25, 0.55])
def test_depth_behind_flat_face_is_exact(part: float) -> None:
    vertices, triangles = gridded_box(2.0, 16)
    points, edges = lattice(9, np.array([-0.3, -0.3, 1.0 - part]), np.array([0.3, 0.3, 2.0 - part]))
    # A small offset keeps every edge away from the edges of the face.
    points += np.array([0.013, 0.029, 1e-3])
    inside = points[:, 2] < 1.0
    found = consistent_penetration_depths(points, edges, inside, Triangles(vertices, triangles))
    assert found.is_propagated[inside].all()
    assert found.depth[inside] == pytest.approx(1.0 - points[inside, 2], abs=1e-12)
    assert found.direction[inside] == pytest.approx(np.broadcast_to([0.0, 0.0, 1.0], (inside.sum(), 3)), abs=1e-12)
    assert (found.depth[~inside] == 0.0).all()
    assert (found.direction[~inside] == 0.0).all()
    assert not found.is_propagated[~inside].any()


@pytest.mark.slow
def test_depths_match_pointwise_formulas() -> None:
    shape = sphere(400)
    points, edges = lattice(7, np.array([-0.7, -0.6, -0.1]), np.array([0.5, 0.6, 1.7]))
    inside = np.abs(WindingNumber(shape.vertices, shape.triangles)(points)) > 0.5
    surface = Triangles(shape.vertices, shape.triangles)
    normals = surface.vertex_normals
    crossings = {}
    for e, (i, j) in enumerate(edges):
        if inside[i] == inside[j]:
            continue
        p, q = (points[i], points[j]) if inside[i] else (points[j], points[i])
        best = np.inf
        for triangle in shape.triangles:
            a, b, c = shape.vertices[triangle]
            t, u, v = np.linalg.solve(np.stack([p - q, b - a, c - a], axis=1), p - a)
            if 0.0 < t < min(best, 1.0) and u >= -1e-12 and v >= -1e-12 and u + v <= 1.0 + 1e-12:
                best = t
                mean = np.array([1.0 - u - v, u, v]) @ normals[triangle]
                crossings[e] = (p + t * (q - p), mean / np.linalg.norm(mean))
    depth, way_out = pointwise_depths(points, edges, inside, crossings)
    found = consistent_penetration_depths(points, edges, inside, surface)
    assert np.array_equal(np.flatnonzero(found.is_propagated), sorted(depth))
    for p in depth:
        assert found.depth[p] == pytest.approx(depth[p], abs=1e-10)
        assert found.direction[p] == pytest.approx(way_out[p], abs=1e-9)


@pytest.mark.parametrize("is_reversed", [False, True])
def test_repeated_crossing_uses_inner_end(is_reversed: bool) -> None:
    """An edge that leaves one box and passes through another counts with the crossing nearest to its inner end."""
    vertices, triangles = gridded_box(1.0, 4)
    shift = np.array([2.0, 0.0, 0.0])
    surface = Triangles(
        np.concatenate([vertices, vertices + shift]), np.concatenate([triangles, triangles + len(vertices)])
    )
    points, edges = np.array([[0.1, 0.02, 0.03], [4.0, 0.02, 0.03]]), np.array([[0, 1]])
    found = consistent_penetration_depths(
        points, edges[:, ::-1] if is_reversed else edges, np.array([True, False]), surface
    )
    assert found.is_propagated.tolist() == [True, False]
    assert found.depth[0] == pytest.approx(0.4, abs=1e-12)
    assert found.direction[0] == pytest.approx([1.0, 0.0, 0.0], abs=1e-12)


def test_crossings_weigh_by_inverse_square() -> None:
    """A point near two faces weighs their depths and normals by the inverse squares of its distances to them."""
    surface = Triangles(*gridded_box(1.0, 10))
    points = np.array([[0.2, 0.1, 0.03], [0.9, 0.1, 0.03], [0.2, 0.8, 0.03]])
    found = consistent_penetration_depths(points, np.array([[0, 1], [0, 2]]), np.array([True, False, False]), surface)
    near, far = 0.3, 0.4
    weights = np.array([near**-2, far**-2])
    assert found.depth[0] == pytest.approx(weights @ [near, far] / weights.sum(), rel=1e-12)
    direction = np.append(weights, 0.0) / np.linalg.norm(weights)
    np.testing.assert_allclose(found.direction[0], direction, atol=1e-12)


def test_exit_directions_agree_at_deep_penetration() -> None:
    """When more than half of a body is inside, its points agree on an exit direction; closest points do not."""
    vertices, triangles = gridded_box(2.0, 16)
    surface = Triangles(vertices, triangles)
    points, edges = lattice(9, np.array([-0.6, -0.6, -0.7]), np.array([0.6, 0.6, 1.2]))
    points += np.array([0.013, 0.029, 1e-3])
    inside = points[:, 2] < 1.0
    found = consistent_penetration_depths(points, edges, inside, surface)
    inner = edges[inside[edges].all(axis=1)]
    closest = side_of_surface(surface, nearest_triangles(surface, points, np.inf))[1]

    def turn(directions: np.ndarray) -> float:
        cosines = (directions[inner[:, 0]] * directions[inner[:, 1]]).sum(axis=1)
        return float(np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0)).max()))

    assert turn(closest) > 80.0
    assert turn(found.direction) < 1.0


def test_unreached_points_use_closest_point() -> None:
    """Points that no intersected edge reaches use the closest surface point and are marked."""
    shape = box((1.0, 1.0, 1.0))
    points, edges = lattice(3, np.array([0.1, 0.4, 0.4]), np.array([0.3, 0.6, 0.6]))
    outside = points + np.array([3.0, 0.0, 0.0])
    both = np.concatenate([points, outside])
    every = np.concatenate([edges, edges + len(points)])
    inside = np.arange(len(both)) < len(points)
    found = consistent_penetration_depths(both, every, inside, Triangles(shape.vertices, shape.triangles))
    assert not found.is_propagated.any()
    assert found.depth[inside] == pytest.approx(points[:, 0], abs=1e-12)
    assert found.direction[inside] == pytest.approx(np.broadcast_to([-1.0, 0.0, 0.0], points.shape), abs=1e-12)
    assert (found.depth[~inside] == 0.0).all()


def test_opposite_exit_directions_cancel() -> None:
    """Opposite exit directions cancel; the point counts as not reached, and the propagation ends."""
    vertices, triangles = gridded_box(1.0, 8)
    # A line through the centre of the box: the middle point's neighbours exit up and down.
    points = np.array([[0.013, 0.029, z] for z in (-0.75, -0.25, 0.0, 0.25, 0.75)])
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])
    inside = np.array([False, True, True, True, False])
    found = consistent_penetration_depths(points, edges, inside, Triangles(vertices, triangles))
    assert found.is_propagated.tolist() == [False, True, False, True, False]
    assert found.depth[2] == pytest.approx(0.471)


def test_depth_without_inside_points() -> None:
    shape = box()
    surface = Triangles(shape.vertices, shape.triangles)
    points, edges = lattice(3, np.zeros(3) + 5.0, np.ones(3) + 5.0)
    found = consistent_penetration_depths(points, edges, np.zeros(len(points), dtype=bool), surface)
    assert (found.depth == 0.0).all()
    none = consistent_penetration_depths(np.zeros((0, 3)), np.zeros((0, 2), np.int64), np.zeros(0, dtype=bool), surface)
    assert none.direction.shape == (0, 3)
    # Points marked as inside of an empty surface.
    nothing = Triangles(np.zeros((0, 3)), np.zeros((0, 3), np.int64))
    assert not consistent_penetration_depths(points, edges, points[:, 0] > 5.5, nothing).is_propagated.any()

"""Near pairs of edges against brute force; sharp edges are ridges and borders, not creases."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.contact.contact_model import front_operator
from dampsim.core.contact.edge_contacts import _met_on_the_way
from dampsim.core.geometry.collision import edge_pairs
from dampsim.core.geometry.collision.edge_pairs import meeting_edge_pairs, near_edge_pairs, sharp_edges
from dampsim.core.geometry.mesh.primitives import outcodes
from dampsim.core.geometry.mesh.triangles import Topology
from shapes import box, ring, sheet, sphere


def brute_force_pairs(points_a, edges_a, points_b, edges_b, reach) -> dict[tuple[int, int], tuple[float, float, float]]:
    """Return s, t and the distance of edges whose lines' closest points lie within both, by brute force.

    Pairs at small angles are left out.
    """
    found = {}
    for i, (p, q) in enumerate(points_a[edges_a]):
        for j, (a, b) in enumerate(points_b[edges_b]):
            (s, t), *_ = np.linalg.lstsq(np.stack([q - p, a - b], axis=1), a - p, rcond=None)
            cosine = (q - p) @ (b - a) / np.linalg.norm(q - p) / np.linalg.norm(b - a)
            distance = float(np.linalg.norm(p + s * (q - p) - a - t * (b - a)))
            if 0 < s < 1 and 0 < t < 1 and distance < reach and 1.0 - cosine**2 > 0.05**2:
                found[i, j] = (s, t, distance)
    return found


@pytest.mark.parametrize("reach", [0.05, 0.3])
def test_near_edge_pairs_match_brute_force(reach: float) -> None:
    rng = np.random.default_rng(0)
    # Short edges, and some fifty times longer.
    lengths = np.where(np.arange(90) % 15 == 0, 10.0, 0.2)[:, None, None]
    a, b = ((rng.normal(size=(90, 1, 3)) + lengths * rng.normal(size=(90, 2, 3))).reshape(-1, 3) for _ in range(2))
    edges = np.arange(180).reshape(-1, 2)
    expected = brute_force_pairs(a, edges, b, edges, reach)
    found = near_edge_pairs(a, edges, b, edges, reach)
    assert len(expected) > 5
    assert [(int(i), int(j)) for i, j in zip(found.first, found.second, strict=True)] == sorted(expected)
    values = np.array([expected[key] for key in sorted(expected)])
    assert np.stack([found.s, found.t, found.distance], axis=1) == pytest.approx(values, abs=1e-9)
    ends_a, ends_b = a[edges[found.first]], b[edges[found.second]]
    place_a = ends_a[:, 0] + found.s[:, None] * (ends_a[:, 1] - ends_a[:, 0])
    place_b = ends_b[:, 0] + found.t[:, None] * (ends_b[:, 1] - ends_b[:, 0])
    assert found.offset == pytest.approx(place_a - place_b, abs=1e-12)
    barred = near_edge_pairs(a, edges, b, edges, reach, lambda i, j: i % 2 == 0)
    assert np.array_equal(barred.first, found.first[found.first % 2 == 1])


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("compiled", [True, False])
def test_meeting_edges_match_brute_force(monkeypatch: pytest.MonkeyPatch, compiled: bool, seed: int) -> None:
    """The reach of each pair grows with its own motion, but not with that of the whole surface."""
    rng = np.random.default_rng(seed)
    start = rng.uniform(size=(120, 3))
    end = start + 0.05 * rng.normal(size=(120, 3)) * (rng.random((120, 1)) < 0.3) + [3.0, 0.0, 0.0]
    edges = np.array([(i, i + 1) for i in range(119)])
    if not compiled:
        monkeypatch.setattr(edge_pairs, "load_library", lambda: None)
    found = meeting_edge_pairs(start, end, edges, 0.02)
    expected = {}
    for (i, j), values in brute_force_pairs(end, edges, end, edges, 1.0).items():
        one, other = edges[i], edges[j]
        way = max(np.linalg.norm(end[a] - start[a] - end[b] + start[b]) for a in one for b in other)
        if i < j and not set(one) & set(other) and values[2] < 0.02 + way:
            expected[i, j] = values
    assert [(int(i), int(j)) for i, j in zip(found.first, found.second, strict=True)] == sorted(expected)
    assert len(expected) > 100
    values = np.array([expected[key] for key in sorted(expected)])
    assert np.stack([found.s, found.t, found.distance], axis=1) == pytest.approx(values, abs=1e-9)


def test_parallel_edges_are_excluded() -> None:
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 0, 0.01], [1, 0.01, 0.01]])
    assert len(near_edge_pairs(points, np.array([[0, 1]]), points, np.array([[2, 3]]), 0.1).first) == 0


def test_sharp_edges_of_box() -> None:
    shape = box((1.0, 2.0, 3.0))
    edges, normals, faces = sharp_edges(shape.vertices, shape.triangles, 0.5)
    assert len(edges) == 12
    lengths = np.linalg.norm(shape.vertices[edges[:, 0]] - shape.vertices[edges[:, 1]], axis=1)
    assert np.sort(lengths) == pytest.approx([1.0] * 4 + [2.0] * 4 + [3.0] * 4)
    assert np.linalg.norm(normals, axis=1) == pytest.approx(1.0)
    away = shape.vertices[edges].mean(axis=1) - np.array([0.5, 1.0, 1.5])
    assert ((normals * away).sum(axis=1) > 0.0).all()
    for (i, j), two in zip(edges, faces, strict=True):
        assert all({i, j} <= set(shape.triangles[face]) for face in two)
    inverted, _, _ = sharp_edges(shape.vertices, shape.triangles[:, ::-1], 0.5)
    assert len(inverted) == 0


def test_sharp_edges_by_angle_without_creases() -> None:
    """Edges count above the angle; concave creases never do."""
    shape = sphere(400)
    assert len(sharp_edges(shape.vertices, shape.triangles, 1.0)[0]) == 0
    assert len(sharp_edges(shape.vertices, shape.triangles, 0.0)[0]) == len(
        Topology.from_triangles(shape.triangles).edges
    )
    # The inner side of a ring is concave along its circles.
    torus = ring()
    edges, _, _ = sharp_edges(torus.vertices, torus.triangles, 0.02)
    assert 0 < len(edges) < len(Topology.from_triangles(torus.triangles).edges)


def test_sharp_edges_of_sheet_and_fold() -> None:
    flat = sheet(4)
    edges, normals, faces = sharp_edges(flat.vertices, flat.triangles, 0.3)
    assert len(edges) == 12
    assert (faces[:, 1] == -1).all()
    assert np.abs(normals[:, 2]) == pytest.approx(1.0)
    points = np.array([[0.0, 0, 0], [0, 1, 0], [1, 0.5, 0], [1, 0.4, 0]])
    edges, normals, faces = sharp_edges(points, np.array([[0, 1, 2], [1, 0, 3]]), 0.3)
    fold = np.flatnonzero(faces[:, 1] >= 0)
    assert edges[fold].tolist() == [[0, 1]]
    assert normals[fold[0]] == pytest.approx([-1.0, 0.0, 0.0])


def test_edge_pairs_of_empty_input() -> None:
    none, no_edge, no_triangle = np.zeros((0, 3)), np.zeros((0, 2), np.int64), np.zeros((0, 3), np.int64)
    points = np.zeros((2, 3))
    for a, b in ((no_edge, np.array([[0, 1]])), (np.array([[0, 1]]), no_edge)):
        assert near_edge_pairs(points, a, points, b, 1.0).offset.shape == (0, 3)
    # Edges without length.
    assert len(near_edge_pairs(points, np.array([[0, 1]]), points, np.array([[0, 1]]), 1.0).first) == 0
    assert sharp_edges(none, no_triangle, 0.3)[1].shape == (0, 3)
    assert np.isfinite(sharp_edges(points, np.array([[0, 1, 1]]), 0.3)[1]).all()


def test_outcodes_match_box_separation() -> None:
    """Corners beyond the same side of a box share a bit; others share none."""
    rng = np.random.default_rng(3)
    low, high = np.array([-0.5, -0.2, -0.1]), np.array([0.4, 0.3, 0.6])
    triangles = rng.normal(size=(400, 3, 3))
    bits = outcodes(triangles.reshape(-1, 3), low, high).reshape(-1, 3)
    apart = (triangles.min(axis=1) > high) | (triangles.max(axis=1) < low)
    assert np.array_equal(bits[:, 0] & bits[:, 1] & bits[:, 2] != 0, apart.any(axis=1))
    assert 40 < apart.any(axis=1).sum() < 360


def test_edges_that_meet_on_the_way() -> None:
    """Edges that pass through each other meet only within both of them, at the time at which their gap closes."""
    rng = np.random.default_rng(5)
    # Within the edges, or beyond either end by more than the tolerance.
    s, t = rng.choice([-0.4, -0.1, 0.05, 0.3, 0.7, 0.95, 1.1, 1.4], (2, 400))
    way = np.stack([rng.uniform(0.5, 1.0, 400)[:, None] * np.eye(3)[rng.permutation(np.arange(400) % 3)]] * 2, axis=1)
    way += 0.3 * rng.standard_normal((400, 2, 3))
    way[:, 1] = np.roll(way[:, 1], 1, axis=1)
    middle = rng.standard_normal((400, 3))
    ends = np.stack(
        [middle - s[:, None] * way[:, 0], middle + (1 - s)[:, None] * way[:, 0],
         middle - t[:, None] * way[:, 1], middle + (1 - t)[:, None] * way[:, 1]], axis=1,
    )  # fmt: skip
    normal = np.cross(way[:, 0], way[:, 1])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    gaps = rng.uniform(0.1, 0.5, (2, 400))
    lift = np.zeros_like(ends)
    lift[:, :2] = normal[:, None]
    start, end = ends + gaps[0][:, None, None] * lift, ends - gaps[1][:, None, None] * lift
    other = np.full((400, 4), 7.0)
    is_met, weights = _met_on_the_way(start, end, (gaps[0], -gaps[1]), other)
    wanted = (s > 0.0) & (s < 1.0) & (t > 0.0) & (t < 1.0)
    assert np.array_equal(is_met, wanted)
    assert 50 < wanted.sum() < 200
    np.testing.assert_allclose(weights[is_met], np.stack([1.0 - s, s, t - 1.0, -t], axis=1)[is_met], atol=1e-9)
    assert (weights[~is_met] == 7.0).all()


def test_front_follows_edges_of_vertex() -> None:
    """A vertex takes its front from its own edges only, and its front turns with them."""
    shape = sphere(80)
    edges = Topology.from_triangles(shape.triangles).edges
    normals = shape.vertices / np.linalg.norm(shape.vertices, axis=1, keepdims=True)
    front = np.cross(normals, [0.0, 0.0, 1.0])
    operator = front_operator(edges, shape.vertices, front)
    rows, columns = operator.nonzero()
    neighbours = {(int(a), int(b)) for a, b in edges} | {(int(b), int(a)) for a, b in edges}
    assert {(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if i != j} <= neighbours
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(operator @ (shape.vertices @ turn.T), (operator @ shape.vertices) @ turn.T, atol=1e-12)

"""Continuous collision detection (CCD) against independent and brute-force references."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.geometry.collision import ccd
from dampsim.core.geometry.collision.ccd import (
    CoplanarityPolynomial,
    SweptTriangles,
    edge_edge_ccd,
    edge_pair_crossings,
    point_triangle_ccd,
)
from dampsim.core.geometry.mesh.triangles import Topology, Triangles
from shapes import box, sheet, sphere


def volumes(start: np.ndarray, end: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return six times the volume of four points (4, 3) that move linearly, at each time."""
    places = start + times[:, None, None] * (end - start)
    return np.linalg.det(places[:, 1:] - places[:, :1])


def coplanarity_times(start: np.ndarray, end: np.ndarray) -> list[float]:
    """Return the coplanarity times by numpy's roots of the polynomial through four values."""
    nodes = np.array([0.0, 1 / 3, 2 / 3, 1.0])
    powers = np.linalg.solve(np.vander(nodes, increasing=True), volumes(start, end, nodes))
    roots = np.roots(powers[::-1])
    real = np.sort(roots[np.abs(roots.imag) < 1e-9].real)
    return [float(t) for t in real if 0.0 < t < 1.0]


def first_hit_time(point0, point1, corners0, corners1) -> float:
    for t in coplanarity_times(np.vstack([corners0, point0]), np.vstack([corners1, point1])):
        a, b, c = corners0 + t * (corners1 - corners0)
        place = point0 + t * (point1 - point0)
        (u, v), *_ = np.linalg.lstsq(np.stack([b - a, c - a], axis=1), place - a, rcond=None)
        if u >= 0.0 and v >= 0.0 and u + v <= 1.0:
            return t
    return np.inf


@pytest.mark.parametrize("seed", range(3))
def test_point_triangle_ccd_matches_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.where(np.arange(30) % 10 == 0, 5.0, 0.9)[:, None, None]
    corners0 = rng.normal(size=(30, 1, 3)) + sizes * rng.normal(size=(30, 3, 3))
    corners1 = corners0 + 0.5 * rng.normal(size=(30, 3, 3)) + np.array([3.0, 0.0, 0.0])
    points0 = 1.5 * rng.normal(size=(60, 3))
    points1 = points0 + rng.normal(size=(60, 3)) + np.array([3.0, 0.0, 0.0])
    triangles = np.arange(90).reshape(-1, 3)
    times = np.array(
        [
            [first_hit_time(p, q, a, b) for a, b in zip(corners0, corners1, strict=True)]
            for p, q in zip(points0, points1, strict=True)
        ]
    )
    found = point_triangle_ccd(points0, points1, corners0.reshape(-1, 3), corners1.reshape(-1, 3), triangles)
    assert np.array_equal(found.point, np.flatnonzero(np.isfinite(times.min(axis=1))))
    assert len(found.point) > 10
    assert np.array_equal(found.triangle, times[found.point].argmin(axis=1))
    assert found.time == pytest.approx(times[found.point].min(axis=1), abs=1e-7)
    now = found.time[:, None, None]
    corners = corners0[found.triangle] + now * (corners1 - corners0)[found.triangle]
    places = points0[found.point] + now[:, 0] * (points1 - points0)[found.point]
    assert np.einsum("kc,kci->ki", found.weights, corners) == pytest.approx(places, abs=1e-6)
    for k, (point, triangle, time) in enumerate(zip(found.point, found.triangle, found.time, strict=True)):
        start, end = (np.vstack([c[triangle], p[point]]) for c, p in ((corners0, points0), (corners1, points1)))
        assert np.sign(volumes(start, end, np.array([time - 1e-6]))) == found.side[k]


@pytest.mark.parametrize("speed", [0.05, 1.0, 40.0])
def test_points_never_pass_between_triangles(speed: float) -> None:
    """No point passes through a closed surface at an edge or vertex."""
    shape = sphere(300)
    ends = Topology.from_triangles(shape.triangles).edges
    rng = np.random.default_rng(1)
    part = rng.random((len(ends), 1))
    on_edges = part * shape.vertices[ends[:, 0]] + (1.0 - part) * shape.vertices[ends[:, 1]]
    aims = np.concatenate([shape.vertices, on_edges])
    ways = -aims + 0.3 * rng.normal(size=aims.shape)
    ways *= speed / np.linalg.norm(ways, axis=1)[:, None]
    drift = np.array([7.0, -3.0, 2.0])
    for when in (0.3, 0.999999):
        start, end = aims - when * ways, aims + (1.0 - when) * ways + drift
        found = point_triangle_ccd(start, end, shape.vertices, shape.vertices + drift, shape.triangles)
        assert np.array_equal(found.point, np.arange(len(aims)))
        # Fast points come from the far side of the sphere and hit it there first.
        assert (found.time <= when + 1e-9).all()
        back = point_triangle_ccd(end, start, shape.vertices + drift, shape.vertices, shape.triangles)
        assert np.array_equal(back.point, np.arange(len(aims)))


def test_hit_side_is_starting_side() -> None:
    plate = sheet(5)
    rng = np.random.default_rng(2)
    above = np.concatenate([rng.random((40, 2)), 0.2 + rng.random((40, 1))], axis=1)
    below = above * [1.0, 1.0, -1.0]
    normal = np.sign(np.cross(*(plate.vertices[plate.triangles[0, 1:]] - plate.vertices[plate.triangles[0, 0]]))[2])
    down = point_triangle_ccd(above, below, plate.vertices, plate.vertices, plate.triangles)
    up = point_triangle_ccd(below, above, plate.vertices, plate.vertices, plate.triangles)
    assert len(down.point) == len(up.point) == 40
    assert (down.side == normal).all()
    assert (up.side == -normal).all()
    assert down.time == pytest.approx(0.5)
    turned = plate.triangles[:, ::-1]
    assert (point_triangle_ccd(above, below, plate.vertices, plate.vertices, turned).side == -normal).all()


def test_step_ending_on_triangle_hits_once() -> None:
    """A point that ends a step on a triangle and crosses it in the next step hits it exactly once."""
    corners = np.array([[0.1, 0.2, 0.3], [1.3, 0.1, 0.7], [0.2, 1.7, 0.9]])
    triangle = np.array([[0, 1, 2]])
    rng = np.random.default_rng(3)
    weights = rng.dirichlet(np.ones(3), size=300)
    on = weights @ corners
    way = rng.normal(size=on.shape)
    first = point_triangle_ccd(on - way, on, corners, corners, triangle)
    second = point_triangle_ccd(on, on + way, corners, corners, triangle)
    hits = np.bincount(np.concatenate([first.point, second.point]), minlength=300)
    assert (hits == 1).all()


def test_ccd_margin_catches_near_misses() -> None:
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    start = np.array([[0.5, -0.01, 1.0], [0.5, -0.03, 1.0], [0.51, 0.51, 1.0]])
    end = start * [1.0, 1.0, -1.0]
    triangle = np.array([[0, 1, 2]])
    assert len(point_triangle_ccd(start, end, corners, corners, triangle).point) == 0
    assert point_triangle_ccd(start, end, corners, corners, triangle, margin=0.02).point.tolist() == [0, 2]


@pytest.mark.parametrize("seed", range(2))
def test_edge_edge_ccd_matches_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a0, b0 = (rng.normal(size=(40, 1, 3)) + 0.7 * rng.normal(size=(40, 2, 3)) for _ in range(2))
    a1, b1 = (x + 0.4 * rng.normal(size=x.shape) + np.array([5.0, 0.0, 0.0]) for x in (a0, b0))
    expected = {}
    for i in range(40):
        for j in range(40):
            for t in coplanarity_times(np.concatenate([a0[i], b0[j]]), np.concatenate([a1[i], b1[j]])):
                (p, q), (r, u) = a0[i] + t * (a1[i] - a0[i]), b0[j] + t * (b1[j] - b0[j])
                (x, y), *_ = np.linalg.lstsq(np.stack([q - p, r - u], axis=1), r - p, rcond=None)
                if 0.0 <= x <= 1.0 and 0.0 <= y <= 1.0:
                    expected[i, j] = (t, x, y)
                    break
    edges = np.arange(80).reshape(-1, 2)
    found = edge_edge_ccd(*(x.reshape(-1, 3) for x in (a0, a1)), edges, *(x.reshape(-1, 3) for x in (b0, b1)), edges)
    assert [(int(i), int(j)) for i, j in zip(found.first, found.second, strict=True)] == sorted(expected)
    assert len(expected) > 10
    values = np.array([expected[key] for key in sorted(expected)])
    assert np.stack([found.time, found.s, found.t], axis=1) == pytest.approx(values, abs=1e-6)
    assert set(found.side) == {-1.0, 1.0}
    # Given pairs of edges of one mesh have the same crossings.
    start, end = np.concatenate([a0, b0]).reshape(-1, 3), np.concatenate([a1, b1]).reshape(-1, 3)
    first, second = (each.ravel() for each in np.meshgrid(np.arange(40), np.arange(40), indexing="ij"))
    pairs = edge_pair_crossings(start, end, np.arange(160).reshape(-1, 2), first, second + 40)
    assert np.array_equal(first[pairs.pair], found.first)
    assert np.array_equal(second[pairs.pair], found.second)
    for name in ("time", "s", "t", "side"):
        assert np.array_equal(getattr(pairs, name), getattr(found, name)), name


def test_three_coplanarity_times_are_ordered() -> None:
    # Vectors along the axes whose triple product is (1 - 4t)(3 - 4t)(1 - 2t).
    axes = np.eye(3)[:, :, None]
    found, signs = CoplanarityPolynomial(
        *((1.0 * axis, end * axis) for axis, end in zip(axes, (-3.0, -1.0 / 3.0, -1.0), strict=True))
    ).sign_changes()
    assert found[:, 0] == pytest.approx([0.25, 0.5, 0.75], abs=1e-12)
    assert signs[:, 0].tolist() == [1.0, -1.0, 1.0]


def test_ccd_of_distant_or_degenerate_input() -> None:
    """Distant, degenerate, empty and non-finite input causes no hits."""
    shape = box()
    none, no_triangle, no_edge = np.zeros((0, 3)), np.zeros((0, 3), np.int64), np.zeros((0, 2), np.int64)
    far = shape.vertices + 10.0
    still = (shape.vertices, shape.vertices)
    assert len(point_triangle_ccd(far, far + 1.0, *still, shape.triangles).point) == 0
    assert len(point_triangle_ccd(none, none, *still, shape.triangles).point) == 0
    assert len(point_triangle_ccd(far, far, none, none, no_triangle).point) == 0
    points = np.array([[0.0, 0, 1.0], [0.5, 0, 1.0]])
    line = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]])
    assert len(point_triangle_ccd(points, -points, line, line, np.array([[0, 1, 2], [0, 0, 0]])).point) == 0
    lost = np.array([[np.nan, 0.0, 1.0]])
    assert len(point_triangle_ccd(lost, -lost, *still, shape.triangles).point) == 0
    assert edge_edge_ccd(*still, no_edge, *still, np.array([[0, 1]])).s.shape == (0,)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_swept_triangles_suffice(monkeypatch: pytest.MonkeyPatch, seed: int, compiled: bool) -> None:
    """Only triangles near the paths are tested, and the crossings are the same."""
    rng = np.random.default_rng(seed)
    ball = sphere(300)
    began = Triangles(ball.vertices, ball.triangles)
    ended = Triangles(
        ball.vertices + 0.2 * rng.normal(size=3) + 0.02 * rng.normal(size=ball.vertices.shape), ball.triangles
    )
    start = np.array([0.9, 0.0, 0.0]) + 0.2 * rng.normal(size=(60, 3))
    end = start + 0.3 * rng.normal(size=start.shape)
    with monkeypatch.context() as patch:
        patch.setattr(ccd, "load_library", lambda: None)
        wanted = point_triangle_ccd(start, end, began.vertices, ended.vertices, ball.triangles)
    if not compiled:
        monkeypatch.setattr(ccd, "load_library", lambda: None)
    found = SweptTriangles(began, ended).first_hits(start, end)
    assert len(wanted.point) > 5
    for name in ("point", "triangle", "time", "weights", "side"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_few_roots_equal_many() -> None:
    """Roots that are found one by one are equal to the last bit to those found at once."""
    random = np.random.default_rng(8)
    coefficients = np.concatenate([random.normal(size=(3, 400)), 10.0 ** random.uniform(-12, 3, (1, 400))])
    low, high = np.sort(random.random((2, 400)), axis=0)
    sign = ccd._horner(coefficients, low) >= 0.0
    given = coefficients, low, high, sign
    found = ccd._bisected_each(*given)
    np.testing.assert_array_equal(found, ccd._bisected(*given))
    assert ((found > low) & (found < high)).any()

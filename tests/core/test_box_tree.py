"""Collision searches with compiled box trees give numpy's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_bake import swaying_bar
from test_proximity import random_triangles

from dampsim.core.base.errors import CrowdedError
from dampsim.core.geometry.collision import ccd, edge_pairs, proximity
from dampsim.core.geometry.collision.edge_pairs import near_edge_pairs
from dampsim.core.geometry.collision.intersections import segment_triangle_hits
from dampsim.core.geometry.collision.pair_rules import FacingRule, OwnRule, PairRules, StartRule
from dampsim.core.geometry.collision.proximity import (
    NearestTriangles,
    Triangles,
    heights_above_sheet,
    nearest_triangles,
    plane_heights,
)
from dampsim.core.geometry.mesh import triangles as mesh
from dampsim.core.geometry.mesh.surface import CornerFans
from dampsim.core.native import box_tree
from dampsim.core.native import library as native
from dampsim.core.native.box_tree import BoxTree, EdgeTree, MovingEdgeTree, RuleArrays, SweptTree, TriangleTree
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.steppers.implicit import Stepper
from shapes import sheet, sphere

pytestmark = pytest.mark.kernel


def without_kernel(found: Callable[[], Any]) -> Any:
    """Return the result of a call without the kernel."""
    with pytest.MonkeyPatch.context() as patch:
        for user in (mesh, edge_pairs, ccd, proximity):
            patch.setattr(user, "load_library", lambda: None)
        return found()


def assert_same(found: NearestTriangles, wanted: NearestTriangles) -> None:
    for name in ("point", "triangle", "weights", "offset", "distance"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)


def crumpled(seed: int = 0) -> tuple[Triangles, Triangles]:
    """Return a sheet of 12 x 12 vertices before and after it was crumpled."""
    flat, rng = sheet(12), np.random.default_rng(seed)
    x = flat.vertices + 0.15 * rng.standard_normal(flat.vertices.shape)
    return Triangles(flat.vertices, flat.triangles), Triangles(x, flat.triangles)


def rules_of(name: str) -> tuple[PairRules, Triangles, np.ndarray, np.ndarray | None]:
    """Return the rules of a name, the surface that is searched, its points and their normals."""
    flat, x = crumpled()
    rng, count = np.random.default_rng(1), len(x.vertices)
    middles = flat.vertices[flat.triangles].mean(axis=1)
    radii = np.linalg.norm(flat.vertices[flat.triangles] - middles[:, None], axis=2).max(axis=1)
    seam = rng.permutation(count), rng.uniform(0.0, 0.3, count)
    is_dynamic, every = rng.random(count) < 0.6, np.arange(count)
    ball = Triangles(sphere(120).vertices + np.array([0.4, 0.4, -0.9]), sphere(120).triangles)
    at_vertex = [np.flatnonzero((ball.triangles == k).any(axis=1)) for k in range(len(ball.vertices))]
    degree = max(len(one) for one in at_vertex)
    padded = np.array([np.resize(one, degree) for one in at_vertex])
    own = OwnRule(every, x.triangles, is_dynamic, flat.vertices, (middles, radii), None, 0.2)
    sewn = OwnRule(every, x.triangles, is_dynamic, flat.vertices, (middles, radii), seam, 0.2)
    started = StartRule(flat.vertices + np.array([0.0, 0.0, 0.05]), x, -0.02)
    facing = FacingRule(ball, padded, np.arange(len(ball.vertices)), x)
    return {
        "none": (PairRules(), x, x.vertices, None),
        "own": (PairRules(neighbours=own), x, x.vertices, None),
        "a seam": (PairRules(neighbours=sewn), x, x.vertices, None),
        "start": (PairRules(started), x, x.vertices, None),
        "facing": (PairRules(None, facing), x, ball.vertices, None),
        "all": (PairRules(started, None, own), x, x.vertices, x.vertex_normals),
    }[name]


def test_edges_beyond_margins_left_out(kernel: native.KernelLibrary) -> None:
    """All pairs within the sum of both margins are found, and far ones are not, whose boxes do not meet."""
    _, x = crumpled()
    edges, rng = x.topology.edges, np.random.default_rng(4)
    moved = x.vertices + 0.05 * rng.standard_normal(x.vertices.shape)
    margins, own = 0.08 * rng.random((2, len(edges)))
    every = near_edge_pairs(moved, edges, x.vertices, edges, 0.3)
    is_within = every.distance <= margins[every.first] + own[every.second]
    tree = EdgeTree(kernel, x.vertices, edges, own)
    found = {*zip(*(one.tolist() for one in tree.near(moved, edges, 0.3, 0.05**2, margins)), strict=True)}
    assert found >= {*zip(every.first[is_within].tolist(), every.second[is_within].tolist(), strict=True)}
    assert found <= {*zip(every.first.tolist(), every.second.tolist(), strict=True)}
    assert is_within.sum() <= len(found) < 0.9 * len(every)


def test_normals_match_numpy(kernel: native.KernelLibrary) -> None:
    """Normals, areas and degenerate triangles are equal to the last bit, also with vertices that are not finite."""
    _, x = crumpled()
    vertices, triangles = x.vertices.copy(), np.concatenate([x.triangles, [[3, 3, 4], [5, 6, 5]]])
    vertices[7], vertices[8, 1] = vertices[9] + 1e-13, np.nan
    for name in ("normals", "normal_rows", "areas", "is_degenerate", "edge_normals", "vertex_normals"):
        found = getattr(Triangles(vertices, triangles), name)
        wanted = without_kernel(lambda name=name: getattr(Triangles(vertices, triangles), name))
        np.testing.assert_array_equal(found, wanted, err_msg=name)
    assert Triangles(vertices, triangles).is_degenerate.sum() >= 2


def test_heights_above_sheet_match_numpy(kernel: native.KernelLibrary) -> None:
    """Heights are equal to the last bit, in the middle of triangles and where those around disagree."""
    _, x = crumpled()
    triangles = np.concatenate([x.triangles, [[3, 3, 4]]])
    surface, rng = Triangles(x.vertices, triangles), np.random.default_rng(3)
    fans = CornerFans.of(triangles, surface.topology.triangle_edges)
    near = rng.integers(len(triangles), size=2000)
    points = x.vertices[triangles[near, 0]] + 0.2 * rng.standard_normal((2000, 3))
    found = heights_above_sheet(surface, fans, near, points)
    wanted = without_kernel(lambda: heights_above_sheet(Triangles(x.vertices, triangles), fans, near, points))
    np.testing.assert_array_equal(found, wanted)
    of_planes = plane_heights(surface, near[:, None], points)[:, 0]
    assert 100 < (found != of_planes).sum() < 1900


@pytest.mark.parametrize("reach", [0.15, 0.4])
@pytest.mark.parametrize("name", ["none", "own", "a seam", "start", "facing", "all"])
def test_nearest_triangles_match_numpy(kernel: native.KernelLibrary, name: str, reach: float) -> None:
    """Points, triangles, weights and distances are equal to the last bit for each rule."""
    rules, surface, points, normals = rules_of(name)

    def search(excluded: Any) -> NearestTriangles:
        asked = Triangles(surface.vertices, surface.triangles)
        return nearest_triangles(asked, points, reach, normals=normals, is_excluded=excluded)

    wanted = without_kernel(lambda: search(rules))
    assert len(wanted.point)
    assert_same(search(rules), wanted)
    # A function is applied to all triangles in reach.
    assert_same(search(rules.__call__), wanted)


@pytest.mark.parametrize("seed", [0, 1])
def test_nearest_of_any_size_matches_numpy(kernel: native.KernelLibrary, seed: int) -> None:
    """Slivers, points, a huge triangle, and points that are not finite give the same results."""
    vertices, corners = random_triangles(seed)
    points = np.random.default_rng(seed + 10).normal(size=(120, 3))
    points[5], points[6, 1] = np.nan, np.inf
    reach = np.random.default_rng(seed).uniform(-0.1, 1.0, 120)
    assert_same(
        nearest_triangles(Triangles(vertices, corners), points, reach),
        without_kernel(lambda: nearest_triangles(Triangles(vertices, corners), points, reach)),
    )


@pytest.mark.parametrize("count", [15, 16, 17, 40])
def test_ties_of_fan_match_numpy(kernel: native.KernelLibrary, count: int) -> None:
    """A search stores up to 16 triangles that may be the nearest; all of a fan are, from above its apex."""
    rng, angle = np.random.default_rng(count), 2.0 * np.pi * np.arange(count) / count
    rim = np.column_stack([np.cos(angle), np.sin(angle), np.full(count, -0.5)])
    fan = np.stack([np.zeros(count, dtype=int), 1 + np.arange(count), 1 + (np.arange(count) + 1) % count], axis=1)
    vertices, triangles = np.concatenate([np.zeros((1, 3)), rim]), rng.permutation(fan)
    points = np.array([[0.0, 0.0, 0.1], [0.0, 0.0, 2.0], [0.3, 0.1, 0.5]])

    def found() -> NearestTriangles:
        return nearest_triangles(Triangles(vertices, triangles), points, np.inf)

    assert found().triangle[:2].tolist() == [0, 0]
    assert_same(found(), without_kernel(found))


def test_labels_match_numpy(kernel: native.KernelLibrary) -> None:
    """Edges and triangles of a crumpled sheet with a common label are left out, also where labels are shared."""
    cloth = crumpled()[1]
    edges, counts = cloth.topology.edges, []
    for label in (np.arange(144), np.arange(144) // 2):
        labels = label[edges], label[cloth.triangles]

        def hits(given: Any = labels) -> Any:
            surface = Triangles(cloth.vertices, cloth.triangles)
            return segment_triangle_hits(*cloth.vertices[edges.T], surface, labels=given)

        found, wanted = hits(), without_kernel(hits)
        for name in ("segment", "triangle", "parameter", "weights"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
        assert not (labels[0][found.segment][:, :, None] == labels[1][found.triangle][:, None]).any()
        counts.append(len(found.segment))
    assert counts[0] > counts[1] > 0


@pytest.mark.parametrize("count", [0, 1, 4, 5, 33, 700])
def test_overlaps_match_all_pairs(kernel: native.KernelLibrary, count: int) -> None:
    rng = np.random.default_rng(count)
    low, size = rng.normal(size=(count, 3)), rng.exponential(0.2, (count, 3))
    boxes, asked = np.hstack([low, low + size]), rng.normal(size=(50, 3))
    boxes[count // 2 : count // 2 + 1, 2] = np.nan
    asked = np.hstack([asked, asked + 0.5])
    found = BoxTree(kernel, boxes).overlaps(asked)
    meets = (asked[:, None, :3] <= boxes[None, :, 3:]) & (boxes[None, :, :3] <= asked[:, None, 3:])
    np.testing.assert_array_equal(np.stack(found), np.stack(np.nonzero(meets.all(axis=2))))


def test_edges_match_numpy(kernel: native.KernelLibrary) -> None:
    """Near pairs of edges are equal to the last bit, between parts of a sheet and of random triangles."""
    rng = np.random.default_rng(3)
    for points in (crumpled()[1].vertices, random_triangles(2)[0]):
        edges = rng.choice(len(points), (150, 2))
        for reach in (0.05, 0.4):
            found = edge_pairs.near_edge_pairs(points, edges, points, edges, reach)
            wanted = without_kernel(lambda p=points, e=edges, r=reach: edge_pairs.near_edge_pairs(p, e, p, e, r))
            for name in ("first", "second", "s", "t", "offset", "distance"):
                np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
            assert len(found.first)


@pytest.mark.parametrize("far", [0.0, 1000.0])
def test_meeting_edges_match_numpy(kernel: native.KernelLibrary, far: float) -> None:
    """Edges of a crumpled sheet that meet while it moves are equal to the last bit."""
    flat, x = crumpled(2)
    start, end, edges = flat.vertices + far, x.vertices + far, mesh.Topology.from_triangles(flat.triangles).edges
    found = edge_pairs.meeting_edge_pairs(start, end, edges, 0.01)
    wanted = without_kernel(lambda: edge_pairs.meeting_edge_pairs(start, end, edges, 0.01))
    for name in ("first", "second", "s", "t", "offset", "distance"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert len(found.first)
    tree = MovingEdgeTree(kernel, start, end, edges)
    assert len(tree.meeting(0.01, 0.0)[0]) >= len(found.first)
    with pytest.raises(ValueError, match="points at the start"):
        MovingEdgeTree(kernel, start[1:], end, edges)


@pytest.mark.parametrize("far", [0.0, 1000.0])
@pytest.mark.parametrize("seed", range(5))
def test_crossings_match_numpy(kernel: native.KernelLibrary, seed: int, far: float) -> None:
    """Crossings of fast points with moving triangles, some degenerate or not finite, are those of numpy."""
    rng = np.random.default_rng(seed)
    vertices, corners = random_triangles(seed)
    begin = np.concatenate([crumpled(seed)[0].vertices, vertices]) + far
    triangles = np.concatenate([crumpled()[0].triangles, corners + 144])
    # A common motion, and another one of each vertex.
    end = begin + [0.5, 0.0, 1.0] + 0.2 * rng.standard_normal(begin.shape)
    begin[150], end[155, 1] = np.nan, np.nan
    points = rng.uniform(-0.5, 1.5, (300, 3)) + far
    # Half of the points start in a vertex of a triangle.
    points[::2] = begin[rng.choice(144, 150)]
    paths = points, points + rng.standard_normal(points.shape)
    paths[1][5], paths[0][7, 2] = np.nan, np.nan
    found, wanted = (
        way(lambda: ccd.point_triangle_ccd(*paths, begin, end, triangles))
        for way in (lambda one: one(), without_kernel)
    )
    assert len(found.point) > 40
    for name in ("point", "triangle", "time", "weights", "side"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)


def test_segment_hits_match_numpy(kernel: native.KernelLibrary) -> None:
    end = crumpled()[1]
    rng = np.random.default_rng(5)
    points = rng.uniform(-0.5, 0.5, (200, 3))
    paths = points, points + rng.standard_normal((200, 3)) * [0.1, 0.1, 1.0]
    hits, expected = (
        way(lambda: segment_triangle_hits(*paths, Triangles(end.vertices, end.triangles)))
        for way in (lambda one: one(), without_kernel)
    )
    assert len(hits.segment)
    np.testing.assert_array_equal(hits.triangle, expected.triangle)


def test_wrong_arrays_are_refused(kernel: native.KernelLibrary) -> None:
    """Arrays that do not match are refused before the kernel reads memory."""
    flat = sheet(4)
    surface = Triangles(flat.vertices, flat.triangles)
    tree = TriangleTree(kernel, surface.vertices, surface.triangles)
    points, far, degenerate = np.zeros((2, 3)), np.ones(2), surface.is_degenerate
    with pytest.raises(ValueError, match="boxes have shape"):
        BoxTree(kernel, np.zeros((3, 5)))
    with pytest.raises(ValueError, match="triangles refer to a row beyond"):
        TriangleTree(kernel, surface.vertices[:-1], surface.triangles)
    with pytest.raises(ValueError, match="triangles refer to a row beyond"):
        TriangleTree(kernel, surface.vertices, -1 - surface.triangles)
    with pytest.raises(ValueError, match="vertices have shape"):
        TriangleTree(kernel, surface.vertices[:, :2], surface.triangles)
    with pytest.raises(ValueError, match="triangles have shape"):
        TriangleTree(kernel, surface.vertices, surface.triangles[:, :2])
    with pytest.raises(ValueError, match="triangles have shape"):
        TriangleTree(kernel, surface.vertices, surface.triangles.astype(float))
    with pytest.raises(ValueError, match="vertices have shape"):
        SweptTree(kernel, surface.vertices, surface.vertices[:-1], surface.triangles)
    with pytest.raises(ValueError, match="triangles refer to a row beyond"):
        SweptTree(kernel, surface.vertices, surface.vertices, surface.triangles + 1)
    swept = SweptTree(kernel, surface.vertices, surface.vertices, surface.triangles)
    for wrong_points in (points[:1], points[:, :2], points.astype(complex)):
        with pytest.raises(ValueError, match="points have shape"):
            swept.crossings(points, wrong_points, 0.0)
    with pytest.raises(ValueError, match="degenerate triangles have shape"):
        tree.nearest(points, far, (far, 0.0), degenerate[1:], RuleArrays())
    with pytest.raises(ValueError, match="asked boxes have shape"):
        tree.overlaps(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="spheres have shape"):
        tree.overlaps(np.zeros((2, 6)), (np.zeros((1, 7)), np.zeros((2, 7))))
    with pytest.raises(ValueError, match="labels"):
        tree.overlaps(np.zeros((2, 6)), labels=(np.zeros((2, 2)), np.zeros((1, 2))))
    for wrong in ((points[:1], far, far), (points, far[:1], far), (points, far, far[:1])):
        with pytest.raises(ValueError, match="have shape"):
            tree.near(*wrong, RuleArrays())
        with pytest.raises(ValueError, match="have shape"):
            tree.nearest(*wrong[:2], (wrong[2], 0.0), degenerate, RuleArrays())
    one, three = np.zeros(1), np.zeros((1, 3))
    faces = np.zeros((2, 1), dtype=np.int64)
    every = np.zeros((len(surface), 3))
    for rules in (
        RuleArrays(vertices=np.zeros(1, dtype=np.int64)),
        RuleArrays(can_move=(np.ones(1, dtype=bool), np.ones(2, dtype=bool))),
        RuleArrays(rest=(points, three, one)),
        RuleArrays(rest=(points, every, np.zeros(len(surface))), seam=(three, one)),
        RuleArrays(seam=(points, far)),
        RuleArrays(start=(points, three, three)),
        RuleArrays(opposing=(points, three)),
        RuleArrays(facing=(points, faces + 1, three, every)),
        RuleArrays(facing=(points, faces[:, 0], three, every)),
    ):
        with pytest.raises(ValueError, match=r"have shape|refer to|not an array|needs"):
            tree.near(points, far, far, rules)
        with pytest.raises(ValueError, match=r"have shape|refer to|not an array|needs"):
            tree.nearest(points, far, (far, 0.0), degenerate, rules)
    edges = np.array([[0, 1]])
    with pytest.raises(ValueError, match="edges refer to a row beyond"):
        EdgeTree(kernel, points, edges).near(points, edges + 1, 1.0, 0.0)
    with pytest.raises(ValueError, match="edges refer to a row beyond"):
        EdgeTree(kernel, points, edges - 1)
    with pytest.raises(ValueError, match="points have shape"):
        EdgeTree(kernel, points[:, :2], edges)


def test_crowded_pairs_are_refused(kernel: native.KernelLibrary) -> None:
    """Searches whose boxes or edges all overlap end before they fill the memory."""
    points = np.random.default_rng(0).normal(size=(1200, 3))
    boxes, edges = np.concatenate([points - 9.0, points + 9.0], axis=1), np.arange(1200).reshape(600, 2)
    searches: list[Callable[[], Any]] = [
        lambda: BoxTree(kernel, boxes).overlaps(boxes),
        lambda: EdgeTree(kernel, points, edges).near(points, edges, 9.0, 1e-6),
        lambda: MovingEdgeTree(kernel, points, points[::-1], edges).meeting(9.0, 1e-6),
    ]
    for search in searches:
        found = len(search()[0])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(box_tree, "_MAX_PAIRS", found - 1)
            with pytest.raises(CrowdedError, match="too many pairs"):
                search()
            patch.setattr(box_tree, "_MAX_PAIRS", found)
            assert len(search()[0]) == found


def test_crowds_name_their_objects(kernel: native.KernelLibrary) -> None:
    """A bake that meets a crowd of pairs ends in one sentence with its objects."""

    def crowded(*_: Any, **__: Any) -> Any:
        raise CrowdedError("too many pairs of edges and triangles overlap")

    simulation = Simulation(swaying_bar(last=3, resolution=60, settle=6.0))
    frame = simulation.first_frame()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "step", crowded)
        with pytest.raises(CrowdedError, match=r"^Box: too many pairs .+; move .+\.$"):
            next(simulation.frames(frame))

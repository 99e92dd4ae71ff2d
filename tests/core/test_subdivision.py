"""Subdivision of surfaces to a maximum edge length: same shape, no long edges, no gaps."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.geometry.collision.proximity import nearest_triangles
from dampsim.core.geometry.mesh.surface import Surface, triangle_areas
from dampsim.core.geometry.mesh.triangles import Topology, Triangles, is_closed
from dampsim.core.simulation.contact_setup import subdivide_to_length
from shapes import SHAPES, sheet, sphere, tube

SURFACES = [*SHAPES.values(), tube(1.0, 0.1, 6, 8), sheet(4), sphere(40)]


def edge_lengths(vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    ends = Topology.from_triangles(triangles).edges
    return np.linalg.norm(vertices[ends[:, 0]] - vertices[ends[:, 1]], axis=1)


@pytest.mark.parametrize("part", [0.9, 0.45, 0.2])
@pytest.mark.parametrize("surface", SURFACES, ids=lambda one: f"{one.name}{len(one.vertices)}")
def test_subdivision_keeps_shape_and_limits_edges(surface: Surface, part: float) -> None:
    """No edge of a subdivided surface exceeds the length, and the shape does not change."""
    v, t = surface.vertices, surface.triangles
    length = part * float(edge_lengths(v, t).max())
    fine = subdivide_to_length(v, t, length)
    points = fine.operator @ v
    # The original vertices come first and stay; all others are averages of them.
    assert np.array_equal(fine.operator[: len(v)].toarray(), np.eye(len(v)))
    np.testing.assert_allclose(np.asarray(fine.operator.sum(axis=1)).ravel(), 1.0, atol=1e-12)
    assert fine.operator.data.min() > 0.0
    assert edge_lengths(points, fine.triangles).max() <= length
    assert (is_closed(fine.triangles), len(np.unique(fine.triangles))) == (is_closed(t), len(points))
    # Closed and open surfaces stay so, and no edge has more than two triangles.
    for triangles in (t, fine.triangles):
        assert (np.bincount(Topology.from_triangles(triangles).triangle_edges.ravel()) <= 2).all()
    before, after = triangle_areas(v, t), triangle_areas(points, fine.triangles)
    assert after.sum() == pytest.approx(before.sum(), rel=1e-12)
    # Each new triangle lies in an old one and has its normal.
    middles = points[fine.triangles].mean(axis=1)
    found = nearest_triangles(Triangles(v, t), middles, 1e-6 * surface.size)
    assert len(found.point) == len(middles)
    out = (Triangles(points, fine.triangles).normals * Triangles(v, t).normals[found.triangle]).sum(axis=1)
    np.testing.assert_allclose(out, 1.0, atol=1e-9)


def test_fine_surface_is_unchanged() -> None:
    surface = sphere(40)
    fine = subdivide_to_length(surface.vertices, surface.triangles, 10.0)
    assert np.array_equal(fine.triangles, surface.triangles)
    assert fine.operator.shape == (40, 40)


def test_subdivided_triangles_stay_round() -> None:
    """The least roundness falls by less than a factor of four."""
    surface = sphere(60)
    fine = subdivide_to_length(surface.vertices, surface.triangles, 0.05)

    def roundness(vertices: np.ndarray, triangles: np.ndarray) -> float:
        corners = vertices[triangles]
        sides = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
        return float((triangle_areas(vertices, triangles) / (sides**2).sum(axis=1)).min())

    assert roundness(fine.operator @ surface.vertices, fine.triangles) > 0.25 * roundness(
        surface.vertices, surface.triangles
    )


def test_subdivision_limits_vertex_count() -> None:
    surface = sphere(40)
    fine = subdivide_to_length(surface.vertices, surface.triangles, 1e-4)
    assert len(surface.vertices) < fine.operator.shape[0] <= 30_000

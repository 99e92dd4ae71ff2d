"""Geometry equals brute-force references over all triangles, tetrahedra and vertices."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.geometry.mesh.primitives import box_tets
from dampsim.core.geometry.mesh.rigid_motion import rigid_body_modes, rigid_mode_basis
from dampsim.core.geometry.mesh.surface import Surface, clean_triangles, match_vertices, sample_triangles
from dampsim.core.geometry.tetmesh.embedding import adjacent_tets, embed
from dampsim.core.geometry.tetmesh.winding_number import WindingNumber
from shapes import ring


def solid_angles(corners: np.ndarray, eye: np.ndarray) -> np.ndarray:
    """Return the solid angles of triangles (t, 3, 3) by their dihedral angles (Girard), independent of both papers."""
    ways = corners - eye
    a, b, c = (ways[:, k] / np.linalg.norm(ways[:, k], axis=1)[:, None] for k in range(3))
    sides = [np.cross(p, q) for p, q in ((a, b), (b, c), (c, a))]
    normals = [side / np.linalg.norm(side, axis=1)[:, None] for side in sides]
    angles = [np.arccos(np.clip(-(normals[k] * normals[k - 1]).sum(axis=1), -1.0, 1.0)) for k in range(3)]
    return (sum(angles) - np.pi) * np.sign((a * sides[1]).sum(axis=1))


def test_winding_numbers_match_solid_angles() -> None:
    """Winding numbers match sums of solid angles; the error of far groups stays well below 1/2."""
    surface = ring()
    rng = np.random.default_rng(3)
    points = rng.uniform(-0.75, 0.75, (200, 3)) * np.ptp(surface.vertices, axis=0) + surface.vertices.mean(axis=0)
    corners = surface.vertices[surface.triangles]
    # A surface with a hole has winding numbers that are not integers.
    for some in (surface.triangles, surface.triangles[: len(corners) * 3 // 4]):
        exact = np.array([solid_angles(surface.vertices[some], p).sum() for p in points]) / (4.0 * np.pi)
        off = np.abs(WindingNumber(surface.vertices, some)(points) - exact)
        # Each dipole has an error of 1%; the total error stays far below the threshold of 1/2.
        assert off.max() < 0.1
        assert off.mean() < 0.03
    # A few triangles are one group; points nearer than two radii of it use each triangle.
    middle = corners[:6].mean(axis=(0, 1))
    ways = rng.standard_normal((20, 3))
    near = (
        middle + 1.5 * np.linalg.norm(corners[:6] - middle, axis=2).max() * ways / np.linalg.norm(ways, axis=1)[:, None]
    )
    exact = np.array([solid_angles(corners[:6], p).sum() for p in near]) / (4.0 * np.pi)
    found = WindingNumber(surface.vertices, surface.triangles[:6])(near)
    np.testing.assert_allclose(found, exact, atol=1e-9)


def test_embedding_from_any_start_element() -> None:
    """Points are embedded in the tetrahedron that contains them, for any start of the search."""
    nodes, tets = box_tets((1.0, 0.8, 0.6), (3, 3, 2))
    rng = np.random.default_rng(4)
    inside = rng.uniform(0.05, 0.95, (50, 3)) * [1.0, 0.8, 0.6]
    outside = np.array([1.0, 0.8, 0.6]) * rng.uniform(-0.03, 1.03, (50, 3))
    points = np.concatenate([inside, outside])
    found = embed(points, nodes, tets, rng.integers(0, len(tets), len(points)))
    # Barycentric coordinates reproduce linear maps of the nodes, also outside of the mesh.
    M, t = rng.standard_normal((3, 3)), rng.standard_normal(3)
    np.testing.assert_allclose(found(nodes @ M.T + t), points @ M.T + t, atol=1e-12)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, atol=1e-12)
    every = np.stack([np.linalg.inv(np.vstack([nodes[tet].T, np.ones(4)])) for tet in tets])
    depths = (every @ np.column_stack([points, np.ones(100)]).T).min(axis=1)
    assert found.weights[:50].min() > -1e-9
    deepest = depths.max(axis=0)
    # Outside of the mesh a near tetrahedron is used, not necessarily the nearest one at corners.
    assert (found.weights.min(axis=1)[50:] > deepest[50:] - 0.2).all()


def test_adjacent_tets_share_a_face() -> None:
    _, tets = box_tets((1.0, 1.0, 1.0), (3, 4, 3))
    # Node numbers are random, because keys of faces must distinguish them.
    tets = np.random.default_rng(5).permutation(int(tets.max()) + 1)[tets]
    sets = [set(map(int, tet)) for tet in tets]
    across = adjacent_tets(tets)
    for m, tet in enumerate(tets):
        for k in range(4):
            face = sets[m] - {int(tet[k])}
            behind = [other for other in range(len(tets)) if other != m and face <= sets[other]]
            assert across[m, k] == (behind[0] if behind else -1)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_welding_tolerance_at_any_size(size: float) -> None:
    """Vertices within a millionth of the size are welded, at any size."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float) * size
    faces = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    split = corners[faces].reshape(-1, 3) + 1e-8 * size * np.sign(np.random.default_rng(1).standard_normal((12, 3)))
    vertices, triangles = clean_triangles(Surface("Tet", split, np.arange(12).reshape(4, 3)))
    assert (len(vertices), len(triangles)) == (4, 4)
    apart = corners[faces].reshape(-1, 3) + 1e-3 * size * np.random.default_rng(1).standard_normal((12, 3))
    assert len(clean_triangles(Surface("Tet", apart, np.arange(12).reshape(4, 3)))[0]) == 12


@pytest.mark.slow
def test_surface_samples_cover_without_duplicates() -> None:
    """Samples leave no gap on a surface, and no cell has two of them."""
    surface, spacing = ring(), 0.05
    found = sample_triangles(surface.vertices, surface.triangles, spacing)
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), 2000)
    picked = surface.vertices[surface.triangles[rng.integers(0, len(surface.triangles), 2000)]]
    points = (weights[:, :, None] * picked).sum(axis=1)
    nearest = np.array([np.linalg.norm(found - p, axis=1).min() for p in points])
    assert nearest.max() < spacing
    cells = np.round(found / (0.5 * spacing)).astype(int)
    assert len(np.unique(cells, axis=0)) == len(cells)


def test_vertex_matching_of_reordered_copy() -> None:
    """Vertices of a reordered copy with split vertices are matched by their trajectories."""
    rng = np.random.default_rng(2)
    source = rng.standard_normal((30, 8, 3)).astype(np.float32)
    order = np.array([3, 1, 1, 0, 7, 5, 2, 6, 4, 4])
    found = match_vertices(source, source[:, order])
    assert found.indices.tolist() == order.tolist()
    assert found.error == 0.0
    # Frames that are not used for the matching count in the error, too.
    off = source[:, order].copy()
    off[4, 5] += [0.0, 0.03, 0.04]
    assert match_vertices(source, off).error == pytest.approx(0.05, rel=1e-5)
    # A missing vertex counts with the distance to the nearest one, which is far away.
    assert match_vertices(source, source[:, order[1:-2]][:, 1:]).error > 1.0


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_rigid_modes_with_pins_any_scale(scale: float, size: float) -> None:
    """Rigid-body modes vanish at the pins and are orthonormal, at any mass and size."""
    rng = np.random.default_rng(0)
    free, mass = size * rng.standard_normal((5, 3)), scale * rng.uniform(0.5, 2.0, 5)
    line = size * np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 0.5], [2.0, 4.0, 1.0]])
    for held, count in ((np.zeros((0, 3)), 6), (line[:1], 3), (line, 1), (size * rng.standard_normal((3, 3)), 0)):
        R = rigid_mode_basis(free, held, mass)
        assert R.shape == (5, 3, count)
        flat = R.reshape(15, count)
        np.testing.assert_allclose(flat.T @ (mass.repeat(3)[:, None] * flat), np.eye(count), atol=1e-9)
        for k in range(count):
            # The rigid velocity field that fits the nodes must vanish at the pins.
            fields = np.concatenate(
                [np.tile(np.eye(3), (5, 1)), np.stack([np.cross(a, free / size).ravel() for a in np.eye(3)], 1)], axis=1
            )
            motion = np.linalg.lstsq(fields, flat[:, k], rcond=None)[0]
            speed = motion[:3] + np.cross(motion[3:], held / size)
            assert np.abs(speed).max(initial=0.0) < 1e-8 * np.abs(motion).max()
    # A single node has no rotations.
    assert rigid_mode_basis(free[:1], np.zeros((0, 3)), mass[:1]).shape == (1, 3, 3)


def test_rotation_modes_are_cross_products() -> None:
    """A rotational mode moves a point by the cross product of its axis and the offset."""
    offset = np.random.default_rng(5).standard_normal((30, 3))
    shift, turn = np.random.default_rng(6).standard_normal((2, 3))
    moved = rigid_body_modes(offset) @ np.concatenate([shift, turn])
    # Rounding of six products and three sums of numbers near 1.
    assert np.abs(moved - (shift + np.cross(turn, offset))).max() < 1e-14

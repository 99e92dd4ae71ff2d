"""Tetrahedral meshes around surfaces."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from dampsim.core.base.errors import MeshError
from dampsim.core.geometry.mesh.surface import Surface, clean_triangles, open_area_ratio
from dampsim.core.geometry.tetmesh.embedding import adjacent_tets, barycentric_coordinates
from dampsim.core.geometry.tetmesh.tetrahedralise import (
    _MIN_DIHEDRAL,
    _min_dihedral_angles,
    tet_corners,
    tetrahedralise,
    tets_containing_points,
)
from dampsim.core.geometry.tetmesh.winding_number import WindingNumber
from shapes import SHAPES, box, sheet, sphere, tube


def test_lattice_tet_contains_its_point() -> None:
    points = np.random.default_rng(0).uniform(-5.0, 5.0, (5000, 3))
    centre, index = tets_containing_points(points)
    weights = barycentric_coordinates(points, 0.5 * tet_corners(centre, index))
    assert weights.min() > -1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("count", [800, pytest.param(4000, marks=pytest.mark.slow)])
def test_cover_embeds_vertices_in_good_tets(name: str, count: int) -> None:
    surface = SHAPES[name]
    cover = tetrahedralise(surface, count)
    assert len(cover.tets) == pytest.approx(count, rel=0.25)
    assert _min_dihedral_angles(cover.nodes, cover.tets).min() >= _MIN_DIHEDRAL
    # Inside its tet or within 1% of the size, and reproduced exactly.
    assert cover.embedding.weights.min() * cover.spacing > -0.01 * surface.size
    np.testing.assert_allclose(cover.embedding(cover.nodes), surface.vertices, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_fill_fractions_sum_to_volume(name: str) -> None:
    surface = SHAPES[name]
    cover = tetrahedralise(surface, 4000)
    corners = cover.nodes[cover.tets]
    volumes = np.linalg.det(corners[:, 1:] - corners[:, :1]) / 6.0
    solid = np.linalg.det(surface.vertices[surface.triangles]).sum() / 6.0
    # Eleven probes per cut tet; thin parts also keep the minimum fill.
    assert volumes @ cover.fill_fractions == pytest.approx(abs(solid), rel=0.25)


def test_winding_number_inside_and_outside() -> None:
    surface = sphere(2000)
    winding = WindingNumber(surface.vertices, surface.triangles)
    points = np.random.default_rng(2).uniform(-1.5, 1.5, (4000, 3))
    distance = np.linalg.norm(points, axis=1)
    clear = np.abs(distance - 1.0) > 0.02
    np.testing.assert_array_equal(winding(points[clear]) > 0.5, distance[clear] < 1.0)


def test_cleanup_of_inverted_and_duplicate_triangles() -> None:
    surface = box()
    flipped = surface.triangles[:, ::-1]
    messy = Surface("Box", surface.vertices, np.concatenate([flipped, flipped[:3]]))
    vertices, triangles = clean_triangles(messy)
    assert len(triangles) == len(surface.triangles)
    assert np.linalg.det(vertices[triangles]).sum() > 0.0


@pytest.mark.parametrize(
    ("surface", "words"),
    [
        (Surface("Nothing", np.zeros((0, 3)), np.zeros((0, 3), dtype=int)), "Nothing: the mesh has no faces"),
        (Surface("Wire", np.eye(3), np.zeros((0, 3), dtype=int)), "Wire: the mesh has no faces"),
        (Surface("Dot", np.ones((4, 3)), np.array([[0, 1, 2]])), "Dot: all vertices lie in one point"),
        (Surface("Bad", np.full((4, 3), np.nan), np.array([[0, 1, 2]])), "Bad: the position is NaN at 4"),
        (sheet(), "Sheet: the mesh is open and encloses no volume"),
    ],
)
def test_surface_without_volume_is_refused(surface: Surface, words: str) -> None:
    with pytest.raises(MeshError, match=words):
        tetrahedralise(surface, 500)


def test_thin_open_tube_error_and_fix() -> None:
    """The error distinguishes a thin open tube from a sheet, and a higher Resolution fixes it."""
    closed = tube(4.0, 0.04, 20, 8)
    foot = (closed.vertices[:, 2] == 0.0)[closed.triangles].all(axis=1)
    surface = Surface("Straw", closed.vertices, closed.triangles[~foot])
    with pytest.raises(MeshError, match="open and thinner than its tetrahedra; raise Resolution"):
        tetrahedralise(surface, 300)
    assert len(tetrahedralise(surface, 2500).tets) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.0, 0.05, 0.3])
def test_cover_parts_share_faces_only(gap: float) -> None:
    """No two parts of a cover are connected only by an edge or a node."""
    one = sphere(300)
    other = one.vertices + np.array([2.0 + gap, 0.0, 0.0])
    surface = Surface(
        "Pair",
        np.concatenate([one.vertices, other]),
        np.concatenate([one.triangles, one.triangles + len(one.vertices)]),
    )
    for count in (150, 400, 1500):
        tets = tetrahedralise(surface, count).tets
        across = adjacent_tets(tets)
        tet, side = np.nonzero(across >= 0)
        faces = coo_matrix((np.ones(len(tet)), (tet, across[tet, side])), shape=(len(tets), len(tets)))
        pieces, piece = connected_components(faces, directed=False)
        used = [set(tets[piece == k].ravel()) for k in range(pieces)]
        assert sum(map(len, used)) == len(set().union(*used))


def test_open_fraction_of_tubes() -> None:
    """A tube without caps: 2 pi r^2 of 2 pi r L, for prisms with 40 sides; a closed tube has none."""
    closed = tube(3.0, 0.3, 30, 40)
    assert open_area_ratio(closed.vertices, closed.triangles) == 0.0
    caps = np.ptp(closed.vertices[closed.triangles][:, :, 2], axis=1) < 1e-9
    assert open_area_ratio(closed.vertices, closed.triangles[~caps]) == pytest.approx(0.3 / 3.0, rel=0.01)
    # Every face has separate vertices, as some programs export meshes.
    split = np.arange(3 * len(closed.triangles)).reshape(-1, 3)
    assert open_area_ratio(closed.vertices[closed.triangles.ravel()], split) == 0.0

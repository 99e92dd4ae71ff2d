"""Tetrahedralisation of any surface: a body-centred cubic lattice, shrunk onto the surface.

The lattice tets that contain surface samples or lie inside are selected, so every surface point is in some tet, even
for open or self-intersecting meshes. The outer nodes are then moved towards the surface, as far as the tets stay well
shaped and every sample stays inside a tet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..arrays import Array, Index, Mask
from ..errors import MeshError
from . import lattice
from .embedding import Embedding, embed, locate, neighbours
from .surface import Surface, check_surface, clean_triangles, open_edges, sample_triangles
from .winding import WindingNumber

# Spacing of the surface samples, in lattice edges.
_SPACING = 1.0 / 6.0
# Distance outside the surface to which the outer nodes are moved, in lattice edges.
_MARGIN = 0.2
_LEAST_ANGLE = np.radians(15.0)
# Smallest fill fraction of a tet, so that every node has some mass and stiffness.
_LEAST_FILL = 0.05
# An open surface encloses a volume if its winding number exceeds this somewhere (a flat sheet reaches 0.5).
_FILLABLE = 0.6
# Distance from a face at which the winding number is evaluated, relative to the size of the face.
_BESIDE = 1e-3
_LARGEST_GRID = 4_000_000


@dataclass(frozen=True)
class Cover:
    """Tetrahedral lattice mesh around a surface, with the embedding of the surface's vertices.

    nodes: (n, 3) m.  tets: (m, 4).  fill_fractions: (m,) part of each tet inside the surface.
    spacing: lattice edge, m.
    """

    nodes: Array
    tets: Index
    fill: Array
    spacing: float
    embedding: Embedding


def cover_surface(surface: Surface, count: int) -> Cover:
    """Tetrahedralise the surface with about tet_count tets and embed its vertices. Raises MeshError."""
    check_surface(surface)
    vertices, triangles = clean_triangles(surface)
    winding = WindingNumber(vertices, triangles)
    spacing = _first_spacing(vertices, count)
    best: tuple[float, float, _Choice] | None = None
    for _ in range(5):
        choice = _choose(surface.name, vertices, triangles, winding, spacing)
        miss = abs(np.log(len(choice.index) / count))
        if best is None or miss < best[0]:
            best = (miss, spacing, choice)
        if miss < 0.1:
            break
        # The count grows with resolution to a power between surface (2) and volume (3).
        spacing *= float((len(choice.index) / count) ** (1.0 / 2.6))
    assert best is not None
    _, spacing, choice = best
    if open_edges(triangles) and choice.deepest < _FILLABLE:
        raise MeshError(f"{surface.name}: {_hollow(surface, vertices, triangles, winding)}.")

    keys = lattice.node_keys(choice.corners)
    _, first, label = np.unique(keys, return_index=True, return_inverse=True)
    nodes = choice.corners.reshape(-1, 3)[first] * (0.5 * spacing) + choice.origin
    tets = label.reshape(-1, 4).astype(np.int64)
    samples, home = choice.samples, choice.home
    nodes = _shrink(nodes, tets, samples, home, spacing)
    guess = home[cKDTree(samples).query(surface.vertices)[1]]
    embedding = embed(surface.vertices, nodes, tets, guess)
    return Cover(nodes, tets, _fill(nodes, tets, winding, choice.inner), spacing, embedding)


def _hollow(surface: Surface, vertices: Array, triangles: Index, winding: WindingNumber) -> str:
    """Return the problem of an open surface without any inner lattice tet, and its fix, as the end of a message."""
    corners = vertices[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1)
    # The winding number is 0.5 next to a sheet; next to the wall of a tube, the opposite wall adds to it.
    beside = _BESIDE * normals / np.sqrt(np.maximum(areas, np.finfo(float).tiny))[:, None]
    deepest = max(float(np.abs(winding(corners.mean(axis=1) + side * beside)).max()) for side in (-1.0, 1.0))
    if deepest > _FILLABLE:
        return (
            "the mesh is open and thinner than its tetrahedra; raise Resolution, close its holes or give it thickness"
        )
    mend = (
        f"apply {surface.thickener}, or choose Springs" if surface.thickener else "close its holes or give it thickness"
    )
    return f"the mesh is open and encloses no volume; {mend}"


def _first_spacing(vertices: Array, count: int) -> float:
    extent = np.maximum(np.ptp(vertices, axis=0), 1e-3 * np.ptp(vertices, axis=0).max())
    return float((12.0 * extent.prod() / count) ** (1.0 / 3.0))


@dataclass(frozen=True)
class _Choice:
    """Selected lattice tets.

    sample_tets: (s,) the tet of each sample.  inner: (m,) whether a tet is inside and contains no sample.
    max_winding: largest absolute winding number at tet centres.
    """

    origin: Array
    index: Index
    corners: Index
    samples: Array
    home: Index
    inner: Mask
    deepest: float


def _choose(name: str, vertices: Array, triangles: Index, winding: WindingNumber, spacing: float) -> _Choice:
    low = vertices.min(axis=0)
    # An irregular offset keeps faces that were modelled at round coordinates out of the lattice planes.
    origin = low - spacing * np.array([0.31, 0.37, 0.43])
    cells = np.ceil((vertices.max(axis=0) - origin) / spacing).astype(np.int64)
    if cells.prod() * 12 > _LARGEST_GRID:
        raise MeshError(f"{name}: the mesh is too thin for its length at this resolution; lower Resolution.")
    samples = sample_triangles(vertices, triangles, _SPACING * spacing)
    centre, index = lattice.tets_of_points((samples - origin) / spacing)
    keys = lattice.tet_keys(centre, index)
    _, first = np.unique(keys, return_index=True)

    all_centre, all_index = lattice.tets_in_box(np.full(3, -1), cells)
    all_keys = lattice.tet_keys(all_centre, all_index)
    corners = lattice.tet_corners(all_centre, all_index)
    in_band = np.isin(all_keys, keys[first])
    middles = corners.mean(axis=1) * (0.5 * spacing) + origin
    inside_box = ((middles > low) & (middles < vertices.max(axis=0))).all(axis=1)
    asked = np.flatnonzero(inside_box)
    depth = np.abs(winding(middles[asked])) if len(asked) else np.zeros(0)
    inner = np.zeros(len(all_index), dtype=bool)
    inner[asked[depth > 0.5]] = True
    inner &= ~in_band
    chosen = in_band | inner
    chosen = np.flatnonzero(_without_hinges(chosen, lattice.node_keys(corners)))
    order = np.argsort(all_keys[chosen])
    home = order[np.searchsorted(all_keys[chosen][order], keys)]
    return _Choice(
        origin, all_index[chosen], corners[chosen], samples, home, inner[chosen], float(depth.max(initial=0.0))
    )


def _without_hinges(chosen: Mask, node_keys: Index) -> Mask:
    """Return the selection (m,) with tets added, so that no two pieces are connected by a node or an edge alone.

    node_keys: (m, 4) of all lattice tets.
    """
    chosen = chosen.copy()
    for _ in range(4):
        chosen |= np.isin(node_keys, np.unique(node_keys[chosen])).all(axis=1)
        nodes, tets = np.unique(node_keys[chosen], return_inverse=True)
        tets = tets.reshape(-1, 4)
        tet, side = np.nonzero(neighbours(tets) >= 0)
        faces = coo_matrix((np.ones(len(tet)), (tet, neighbours(tets)[tet, side])), shape=(len(tets), len(tets)))
        count, piece = connected_components(faces, directed=False)
        if count == 1:
            break
        owner = np.full(len(nodes), -1)
        owner[tets.ravel()] = piece.repeat(4)
        shared = np.unique(tets[owner[tets] != piece[:, None]])
        if len(shared) == 0:
            break
        chosen |= np.isin(node_keys, nodes[shared]).any(axis=1)
    return chosen


def _shrink(nodes: Array, tets: Index, samples: Array, home: Index, spacing: float) -> Array:
    """Return the nodes with the outer ones moved towards the surface, as far as their tets and samples allow."""
    outer = _boundary_nodes(tets)
    distance, nearest = cKDTree(samples).query(nodes[outer])
    direction = (nodes[outer] - samples[nearest]) / np.maximum(distance, 1e-12)[:, None]
    goal = samples[nearest] + _MARGIN * spacing * direction
    way = np.zeros_like(nodes)
    # Nodes within the margin stay where they are.
    way[outer] = np.where((distance > _MARGIN * spacing)[:, None], goal - nodes[outer], 0.0)
    length = np.ones(len(nodes))
    # Only samples in moving tets can leave their tet.
    watched = np.flatnonzero(np.abs(way[tets[home]]).sum(axis=(1, 2)) > 0.0)
    now = home.copy()
    for _ in range(16):
        moved = nodes + length[:, None] * way
        bad = _least_dihedral(moved, tets) < _LEAST_ANGLE
        failing = np.zeros(len(nodes), dtype=bool)
        failing[tets[bad].ravel()] = True
        if not bad.any():
            now[watched], weights = locate(samples[watched], moved, tets, now[watched])
            lost = watched[weights.min(axis=1) < -1e-9]
            if len(lost) == 0:
                return moved
            failing[tets[home[lost]].ravel()] = True
            failing[tets[now[lost]].ravel()] = True
        length[failing] = np.where(length[failing] > 0.2, 0.5 * length[failing], 0.0)
    return nodes


def _boundary_nodes(tets: Index) -> Index:
    tet, corner = np.nonzero(neighbours(tets) < 0)
    others = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
    outer: Index = np.unique(tets[tet[:, None], others[corner]])
    return outer


def _least_dihedral(nodes: Array, tets: Index) -> Array:
    """Return the smallest dihedral angle (m,) of each tet in rad; negative for an inverted tet."""
    corners = nodes[tets]
    a, b, c, d = (corners[:, k] for k in range(4))
    normals = np.stack(
        [np.cross(c - b, d - b), np.cross(d - a, c - a), np.cross(b - a, d - a), np.cross(c - a, b - a)], axis=1
    )
    normals /= np.maximum(np.linalg.norm(normals, axis=2), np.finfo(float).tiny)[:, :, None]
    cosines = -np.einsum("mik,mjk->mij", normals, normals)
    i, j = np.triu_indices(4, 1)
    least: Array = np.arccos(np.clip(cosines[:, i, j].max(axis=1), -1.0, 1.0))
    inverted = np.einsum("mk,mk->m", np.cross(b - a, c - a), d - a) <= 0.0
    return np.where(inverted, -1.0, least)


# Barycentric coordinates of probe points in a tet, and the volume fraction of each: one probe in each of the four
# corner tets cut off at the edge midpoints, six in the octahedron between them.
_PROBES = np.array(
    [[0.625 if k == corner else 0.125 for k in range(4)] for corner in range(4)]
    + [[0.375 if k in pair else 0.125 for k in range(4)] for pair in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))]
)
_PARTS = np.array([1.0 / 8.0] * 4 + [1.0 / 12.0] * 6)


def _fill(nodes: Array, tets: Index, winding: WindingNumber, inner: Mask) -> Array:
    """Return the fraction (m,) of each tet inside the surface, estimated at probe points."""
    fill = np.ones(len(tets))
    partial = np.flatnonzero(~inner)
    probes = np.einsum("pk,mki->mpi", _PROBES, nodes[tets[partial]])
    inside = np.abs(winding(probes.reshape(-1, 3))) > 0.5
    fill[partial] = np.maximum(inside.reshape(len(partial), -1) @ _PARTS, _LEAST_FILL)
    return fill

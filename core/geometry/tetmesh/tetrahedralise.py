"""Tetrahedralisation of the volume around any surface: a body-centred cubic (BCC) lattice, shrunk onto the surface.

Lattice tets that are inside the surface or contain surface samples are selected. Every surface point is then in a tet,
even for open or self-intersecting meshes. The outer nodes are moved towards the surface while the tets stay well shaped
and every sample stays inside a tet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ...base.arrays import Array, Index, Mask
from ...base.errors import ResolutionError, WrongKindError
from ..mesh.surface import (
    Surface,
    check_surface,
    clean_triangles,
    count_open_edges,
    doubled_area_normals,
    label_connected,
    sample_triangles,
)
from .embedding import FACES, Embedding, adjacent_tets, embed, locate_in_tets
from .winding_number import WindingNumber

# Nodes have integer coordinates in half edges: even for cube corners, odd for cube centres. A tet is identified by its
# lower centre and an index 0..11: 4 * (axis towards the other centre) + (edge of the common face).


def tets_containing_points(points: Array) -> tuple[Index, Index]:
    """Return lower centre (p, 3), in half edges, and index (p,) of the tet around each point (p, 3), in cube edges."""
    cell = np.floor(points)
    offset = points - cell - 0.5
    size = np.abs(offset)
    row = np.arange(len(points))
    axis = size.argmax(axis=1)
    u, v = (axis + 1) % 3, (axis + 2) % 3
    along_u = size[row, u] >= size[row, v]
    side = np.where(along_u, offset[row, u], offset[row, v]) > 0.0
    index = 4 * axis + 2 * along_u + side
    centre = (2 * cell + 1).astype(np.int64)
    centre[row, axis] -= 2 * (offset[row, axis] < 0.0)
    return centre, index.astype(np.int64)


def _corner_table() -> Index:
    """Return the offsets (12, 4, 3), in half edges, from the lower centre to the corners of the 12 tets."""
    table = np.zeros((12, 4, 3), dtype=np.int64)
    for axis in range(3):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        for along_u in (0, 1):
            for side in (0, 1):
                near, run = (u, v) if along_u else (v, u)
                corners = np.zeros((4, 3), dtype=np.int64)
                corners[1, axis] = 2
                corners[2:, axis] = 1
                corners[2:, near] = 1 if side else -1
                corners[2, run], corners[3, run] = -1, 1
                if np.linalg.det((corners[1:] - corners[0]).astype(float)) < 0.0:
                    corners[[2, 3]] = corners[[3, 2]]
                table[4 * axis + 2 * along_u + side] = corners
    return table


TET_CORNER_OFFSETS = _corner_table()


def tet_corners(centre: Index, index: Index) -> Index:
    """Return the corners (m, 4, 3) of tets in half edges."""
    return np.asarray(centre[:, None] + TET_CORNER_OFFSETS[index])


def tet_keys(centre: Index, index: Index) -> Index:
    """Return a unique integer key per tet."""
    return node_keys(centre) * 12 + index


def node_keys(half: Index) -> Index:
    """Return a unique integer key per lattice point (…, 3) within ±2^18 half edges."""
    shifted = half + (1 << 18)
    return np.asarray((shifted[..., 0] << 38) + (shifted[..., 1] << 19) + shifted[..., 2])


# Spacing of the surface samples, in lattice edges.
_SAMPLE_SPACING = 1.0 / 6.0
# Distance outside the surface to which the outer nodes are moved, in lattice edges.
_SURFACE_MARGIN = 0.2
# Smallest dihedral angle of a tet after the outer nodes have moved, rad.
_MIN_DIHEDRAL = np.radians(15.0)
# Smallest fill fraction of a tet, so that every node has some mass and stiffness.
_MIN_FILL = 0.05
# An open surface encloses a volume if its winding number exceeds this somewhere (a flat sheet reaches 0.5).
_ENCLOSING_WINDING = 0.6
# Distance from a face at which the winding number is evaluated, relative to the size of the face.
_WINDING_OFFSET = 1e-3
# Number of faces that are tried first.
_FEW_FACES = 200
# Largest number of lattice tets in the bounding box.
_MAX_GRID_TETS = 4_000_000


@dataclass(frozen=True)
class LatticeMesh:
    """Tetrahedral lattice mesh around a surface, with the embedding of the surface's vertices.

    nodes: (n, 3) m.  tets: (m, 4).  fill_fractions: (m,) part of each tet inside the surface.
    spacing: lattice edge, m.
    """

    nodes: Array
    tets: Index
    fill_fractions: Array
    spacing: float
    embedding: Embedding


def tetrahedralise(surface: Surface, tet_count: int) -> LatticeMesh:
    """Tetrahedralise a surface with about tet_count tets and embed its vertices. Raises MeshError."""
    check_surface(surface)
    vertices, triangles = clean_triangles(surface)
    winding = WindingNumber(vertices, triangles)
    spacing = _initial_spacing(vertices, tet_count)
    best: tuple[float, float, _LatticeSelection] | None = None
    for _ in range(5):
        selection = _select_tets(surface.name, vertices, triangles, winding, spacing)
        deviation = abs(np.log(len(selection.index) / tet_count))
        if best is None or deviation < best[0]:
            best = (deviation, spacing, selection)
        if deviation < 0.1:
            break
        # The tet count grows with a power of the resolution between that of a surface (2) and of a volume (3).
        spacing *= float((len(selection.index) / tet_count) ** (1.0 / 2.6))
    assert best is not None
    _, spacing, selection = best
    if count_open_edges(triangles) and selection.max_winding < _ENCLOSING_WINDING:
        problem = _open_surface_problem(surface, vertices, triangles, winding)
        raise WrongKindError(f"{surface.name}: {problem}.", "CLOTH")

    keys = node_keys(selection.corners)
    _, first, label = np.unique(keys, return_index=True, return_inverse=True)
    nodes = selection.corners.reshape(-1, 3)[first] * (0.5 * spacing) + selection.origin
    tets = label.reshape(-1, 4).astype(np.int64)
    samples, sample_tets = selection.samples, selection.sample_tets
    nodes = _shrink_to_surface(nodes, tets, samples, sample_tets, spacing)
    nearest = cKDTree(samples).query(surface.vertices)[1]
    has_face = np.zeros(len(surface.vertices), dtype=bool)
    has_face[surface.triangles] = True
    # A vertex without a face may be far outside, where barycentric coordinates are large.
    points = np.where(has_face[:, None], surface.vertices, samples[nearest])
    embedding = embed(points, nodes, tets, sample_tets[nearest])
    return LatticeMesh(nodes, tets, _fill_fractions(nodes, tets, winding, selection.inner), spacing, embedding)


def check_enclosing(surface: Surface) -> None:
    """Raise MeshError if tetrahedralise() certainly refuses a surface; fast, except for open ones without volume.

    It also refuses surfaces that are too thin for its tetrahedra, which only these show.
    """
    check_surface(surface)
    vertices, triangles = clean_triangles(surface)
    if not count_open_edges(triangles):
        return
    winding = WindingNumber(vertices, triangles)
    # Most faces of a body with holes enclose it.
    sample = triangles[:: max(len(triangles) // _FEW_FACES, 1)]
    if all(_max_face_winding(vertices, some, winding) <= _ENCLOSING_WINDING for some in (sample, triangles)):
        problem = _open_surface_problem(surface, vertices, triangles, winding)
        raise WrongKindError(f"{surface.name}: {problem}.", "CLOTH")


def _max_face_winding(vertices: Array, triangles: Index, winding: WindingNumber) -> float:
    """Return the largest absolute winding number directly beside the centres of triangles."""
    normals, centres = doubled_area_normals(vertices, triangles), vertices[triangles].mean(axis=1)
    areas = np.linalg.norm(normals, axis=1)
    # The winding number is 0.5 beside a sheet. Beside the wall of a tube, the opposite wall adds to it.
    face_offsets = _WINDING_OFFSET * normals / np.sqrt(np.maximum(areas, np.finfo(float).tiny))[:, None]
    return max(float(np.abs(winding(centres + side * face_offsets)).max()) for side in (-1.0, 1.0))


def _open_surface_problem(surface: Surface, vertices: Array, triangles: Index, winding: WindingNumber) -> str:
    """Return the end of an error message: the problem of an open surface that encloses no lattice tet, and the fix."""
    if _max_face_winding(vertices, triangles, winding) > _ENCLOSING_WINDING:
        return (
            "the mesh is open and thinner than its tetrahedra; raise Resolution, close its holes or give it thickness"
        )
    fix = (
        f"apply {surface.thickness_modifier}, or choose Springs"
        if surface.thickness_modifier
        else "close its holes, give it thickness, or choose Cloth as its Kind"
    )
    return f"the mesh is open and encloses no volume; {fix}"


def _initial_spacing(vertices: Array, tet_count: int) -> float:
    extent = np.maximum(np.ptp(vertices, axis=0), 1e-3 * np.ptp(vertices, axis=0).max())
    return float((12.0 * extent.prod() / tet_count) ** (1.0 / 3.0))


@dataclass(frozen=True)
class _LatticeSelection:
    """Selected lattice tets.

    index: (m,) number of each selected tet in its lattice cell.  corners: (m, 4, 3), in half lattice edges.
    samples: (s, 3) m, points on the surface.  sample_tets: (s,) tet of each sample.
    inner: (m,) whether a tet is inside the surface and contains no sample.
    max_winding: largest absolute winding number at tet centres.
    """

    origin: Array
    index: Index
    corners: Index
    samples: Array
    sample_tets: Index
    inner: Mask
    max_winding: float


def _select_tets(
    name: str, vertices: Array, triangles: Index, winding: WindingNumber, spacing: float
) -> _LatticeSelection:
    low = vertices.min(axis=0)
    # An irregular offset keeps faces that were modelled at round coordinates out of the lattice planes.
    origin = low - spacing * np.array([0.31, 0.37, 0.43])
    cells = np.ceil((vertices.max(axis=0) - origin) / spacing).astype(np.int64)
    grid_tets = 12 * int(cells.prod())
    if grid_tets > _MAX_GRID_TETS:
        message = f"{name}: the mesh is too thin for its length at this resolution; lower Resolution."
        # The tets in the box grow faster with Resolution than those at the surface.
        raise ResolutionError(message, 0.5 * _MAX_GRID_TETS / grid_tets)
    samples = sample_triangles(vertices, triangles, _SAMPLE_SPACING * spacing)
    centre, index = tets_containing_points((samples - origin) / spacing)
    keys = tet_keys(centre, index)
    _, first = np.unique(keys, return_index=True)

    # All tets whose lower centre is in the box, or in a cube beside it.
    cubes = np.stack(np.meshgrid(*(np.arange(-1, count + 1) for count in cells), indexing="ij"), axis=-1).reshape(-1, 3)
    all_centre, all_index = (2 * cubes + 1).repeat(12, axis=0), np.tile(np.arange(12), len(cubes))
    all_keys = tet_keys(all_centre, all_index)
    corners = tet_corners(all_centre, all_index)
    in_band = np.isin(all_keys, keys[first])
    tet_centres = corners.mean(axis=1) * (0.5 * spacing) + origin
    inside_box = ((tet_centres > low) & (tet_centres < vertices.max(axis=0))).all(axis=1)
    queried = np.flatnonzero(inside_box)
    winding_numbers = np.abs(winding(tet_centres[queried])) if len(queried) else np.zeros(0)
    inner = np.zeros(len(all_index), dtype=bool)
    inner[queried[winding_numbers > 0.5]] = True
    inner &= ~in_band
    selected = in_band | inner
    selected = np.flatnonzero(_make_face_connected(selected, node_keys(corners)))
    order = np.argsort(all_keys[selected])
    sample_tets = order[np.searchsorted(all_keys[selected][order], keys)]
    parts = all_index[selected], corners[selected], samples, sample_tets, inner[selected]
    return _LatticeSelection(origin, *parts, float(winding_numbers.max(initial=0.0)))


def _make_face_connected(is_selected: Mask, node_keys: Index) -> Mask:
    """Return the selection (m,) with tets added, so that no two pieces are connected only by a node or an edge.

    node_keys: (m, 4) of all lattice tets.
    """
    is_selected = is_selected.copy()
    for _ in range(4):
        is_selected |= np.isin(node_keys, np.unique(node_keys[is_selected])).all(axis=1)
        nodes, tets = np.unique(node_keys[is_selected], return_inverse=True)
        tets = tets.reshape(-1, 4)
        adjacent = adjacent_tets(tets)
        tet, side = np.nonzero(adjacent >= 0)
        piece = label_connected(len(tets), np.column_stack([tet, adjacent[tet, side]]))
        if not piece.any():
            break
        owner = np.full(len(nodes), -1)
        owner[tets.ravel()] = piece.repeat(4)
        shared = np.unique(tets[owner[tets] != piece[:, None]])
        if len(shared) == 0:
            break
        is_selected |= np.isin(node_keys, nodes[shared]).any(axis=1)
    return is_selected


def _shrink_to_surface(nodes: Array, tets: Index, samples: Array, initial_tets: Index, spacing: float) -> Array:
    """Return the nodes, with outer ones moved towards the surface while their tets and samples stay valid."""
    outer = _boundary_nodes(tets)
    distance, nearest = cKDTree(samples).query(nodes[outer])
    direction = (nodes[outer] - samples[nearest]) / np.maximum(distance, 1e-12)[:, None]
    goal = samples[nearest] + _SURFACE_MARGIN * spacing * direction
    displacement = np.zeros_like(nodes)
    # Nodes within the margin stay where they are.
    displacement[outer] = np.where((distance > _SURFACE_MARGIN * spacing)[:, None], goal - nodes[outer], 0.0)
    step_scale = np.ones(len(nodes))
    # Only samples in moving tets can leave their tet.
    tracked = np.flatnonzero(np.abs(displacement[tets[initial_tets]]).sum(axis=(1, 2)) > 0.0)
    current_tets = initial_tets.copy()
    for _ in range(16):
        moved = nodes + step_scale[:, None] * displacement
        is_bad = _min_dihedral_angles(moved, tets) < _MIN_DIHEDRAL
        is_failing = np.zeros(len(nodes), dtype=bool)
        is_failing[tets[is_bad].ravel()] = True
        if not is_bad.any():
            current_tets[tracked], weights = locate_in_tets(samples[tracked], moved, tets, current_tets[tracked])
            lost = tracked[weights.min(axis=1) < -1e-9]
            if len(lost) == 0:
                return moved
            is_failing[tets[initial_tets[lost]].ravel()] = True
            is_failing[tets[current_tets[lost]].ravel()] = True
        step_scale[is_failing] = np.where(step_scale[is_failing] > 0.2, 0.5 * step_scale[is_failing], 0.0)
    return nodes


def _boundary_nodes(tets: Index) -> Index:
    tet, corner = np.nonzero(adjacent_tets(tets) < 0)
    return np.asarray(np.unique(tets[tet[:, None], FACES[corner]]))


def _min_dihedral_angles(nodes: Array, tets: Index) -> Array:
    """Return the smallest dihedral angle (m,) of each tet in rad; negative for an inverted tet."""
    corners = nodes[tets]
    a, b, c, d = (corners[:, k] for k in range(4))
    normals = np.stack(
        [np.cross(c - b, d - b), np.cross(d - a, c - a), np.cross(b - a, d - a), np.cross(c - a, b - a)], axis=1
    )
    normals /= np.maximum(np.linalg.norm(normals, axis=2), np.finfo(float).tiny)[:, :, None]
    cosines = -np.einsum("mik,mjk->mij", normals, normals)
    i, j = np.triu_indices(4, 1)
    min_angles: Array = np.arccos(np.clip(cosines[:, i, j].max(axis=1), -1.0, 1.0))
    inverted = np.einsum("mk,mk->m", np.cross(b - a, c - a), d - a) <= 0.0
    return np.where(inverted, -1.0, min_angles)


# Barycentric coordinates of probe points in a tet, and the volume fraction of each: one probe in each of the four
# corner tets cut off at the edge midpoints, six in the octahedron between them.
_PROBES = np.array(
    [[0.625 if k == corner else 0.125 for k in range(4)] for corner in range(4)]
    + [[0.375 if k in pair else 0.125 for k in range(4)] for pair in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))]
)
_PROBE_VOLUMES = np.array([1.0 / 8.0] * 4 + [1.0 / 12.0] * 6)


def _fill_fractions(nodes: Array, tets: Index, winding: WindingNumber, inner: Mask) -> Array:
    """Return the fraction (m,) of each tet inside the surface, estimated at probe points."""
    fill = np.ones(len(tets))
    partial = np.flatnonzero(~inner)
    probes = np.einsum("pk,mki->mpi", _PROBES, nodes[tets[partial]])
    inside = np.abs(winding(probes.reshape(-1, 3))) > 0.5
    fill[partial] = np.maximum(inside.reshape(len(partial), -1) @ _PROBE_VOLUMES, _MIN_FILL)
    return fill

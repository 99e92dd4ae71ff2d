"""Triangulated surface: checks, outward orientation, clean-up, measures and samples; matching of moved copies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ...base.arrays import Array, Index, Mask, SinglePrecisionArray
from ...base.errors import MeshError, WrongKindError

# Vertices closer than this, relative to the size of the surface, are welded.
_WELD_TOLERANCE = 1e-6
# Ratio of the area of a closed surface to its squared thickness, from which on it can be simulated as a shell, and from
# which on it has to be: tetrahedra of half the thickness would number more than 20,000.
SHELL_AREA_RATIO, MAX_SOLID_AREA_RATIO = 300.0, 6700.0
# Number of frames by which vertices are compared.
_SAMPLE_FRAMES = 12


@dataclass(frozen=True)
class Surface:
    """Triangulated rest surface of an object. Simulation raises MeshError if it does not suit the kind of the body.

    name: of the object, for messages.  vertices: (v, 3) m, at rest.  triangles: (t, 3).
    thickness_modifier: modifier after the simulation that gives an open surface its thickness; for messages.
    """

    name: str
    vertices: Array
    triangles: Index
    thickness_modifier: str = ""

    @property
    def size(self) -> float:
        """Diagonal of the bounding box, m."""
        return float(np.linalg.norm(np.ptp(self.vertices, axis=0)))


def check_surface(surface: Surface) -> None:
    """Raise MeshError if the surface has no faces or no usable vertices."""
    if len(surface.vertices) == 0 or len(surface.triangles) == 0:
        raise MeshError(f"{surface.name}: the mesh has no faces; add faces, or choose Rope or Springs as its Kind.")
    check_vertices(surface)


def triangle_areas(vertices: Array, triangles: Index) -> Array:
    """Return the areas (t,) of triangles in m^2."""
    return np.asarray(0.5 * np.linalg.norm(doubled_area_normals(vertices, triangles), axis=1))


def doubled_area_normals(vertices: Array, triangles: Index) -> Array:
    """Return normals (t, 3) of triangles with the length of twice the area, m^2."""
    corners = vertices[triangles]
    return np.asarray(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))


def check_vertices(surface: Surface) -> None:
    """Raise MeshError if there are no vertices, or invalid ones, or all are at one point."""
    name = surface.name
    if len(surface.vertices) == 0:
        raise MeshError(f"{name}: the mesh has no vertices; choose another object.")
    broken = int((~np.isfinite(surface.vertices).all(axis=1)).sum())
    if broken:
        raise MeshError(f"{name}: the position is NaN at {broken} of its vertices; delete or move them.")
    extent = np.ptp(surface.vertices, axis=0)
    if not extent.max() > 0.0:
        raise MeshError(f"{name}: all vertices lie in one point; choose an object with a shape.")


def weld_vertices(vertices: Array) -> tuple[Index, Index]:
    """Weld vertices (v, 3) at the same position: return the first vertex (w,) of each group, and each one's group (v,).

    Imported meshes and Blender's text objects have duplicate vertices along seams and creases.
    """
    step = _WELD_TOLERANCE * max(float(np.linalg.norm(np.ptp(vertices, axis=0))), 1e-30)
    _, first, label = np.unique(np.round(vertices / step), axis=0, return_index=True, return_inverse=True)
    return first, label.reshape(-1)


def clean_triangles(surface: Surface) -> tuple[Array, Index]:
    """Return welded vertices of triangles, and these without duplicates and degenerate ones, pieces oriented outward.

    A piece of negative volume inside another piece is left unchanged: it is a cavity. Raises MeshError if none remains.
    """
    first, label = weld_vertices(surface.vertices)
    vertices, triangles = surface.vertices[first], label[surface.triangles]
    a, b, c = triangles.T
    triangles = triangles[(a != b) & (b != c) & (c != a)]
    _, keep = np.unique(np.sort(triangles, axis=1), axis=0, return_index=True)
    triangles = triangles[np.sort(keep)]
    if len(triangles) == 0:
        raise WrongKindError(
            f"{surface.name}: all faces are thinner than a hair; choose Springs as its Kind.", "SPRINGS"
        )
    used, corners = np.unique(triangles, return_inverse=True)
    if len(used) < len(vertices):
        vertices, triangles = vertices[used], corners.reshape(-1, 3).astype(np.int64)

    piece = label_connected(len(vertices), np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]]]))
    piece = piece[triangles[:, 0]]
    volumes = np.bincount(piece, np.linalg.det(vertices[triangles] - vertices.mean(axis=0)) / 6.0).astype(float)
    _turn_pieces(vertices, triangles, piece, volumes, np.flatnonzero(volumes < 0.0))
    return vertices, triangles


def _turn_pieces(vertices: Array, triangles: Index, piece: Index, volumes: Array, negative: Index) -> None:
    """Turn those of the pieces of negative volume over that are not cavities in the box of a larger piece."""
    for k in negative:
        low, high = _piece_box(vertices, triangles[piece == k])
        larger = np.flatnonzero(volumes > -volumes[k])
        boxes = [_piece_box(vertices, triangles[piece == other]) for other in larger]
        if not any((a < low).all() and (b > high).all() for a, b in boxes):
            triangles[piece == k] = triangles[piece == k][:, [0, 2, 1]]


def count_open_edges(triangles: Index) -> int:
    """Return the number of edges that belong to an odd number of triangles."""
    return len(border_edges(triangles))


def open_area_ratio(vertices: Array, triangles: Index) -> float:
    """Return the relative area of holes, each estimated as a fan around its centre. Seams are welded first."""
    if not len(vertices):
        return 0.0
    first, label = weld_vertices(vertices)
    vertices, triangles = vertices[first], label[triangles]
    ends = border_edges(triangles)
    if not len(ends):
        return 0.0
    _, hole = np.unique(label_connected(len(vertices), ends)[ends[:, 0]], return_inverse=True)
    sums = np.stack([np.bincount(hole, part) for part in vertices[ends].mean(axis=1).T], axis=1)
    middle = sums / np.bincount(hole)[:, None]
    a, b = (vertices[ends[:, k]] - middle[hole] for k in (0, 1))
    fans = 0.5 * float(np.linalg.norm(np.cross(a, b), axis=1).sum())
    return fans / max(float(triangle_areas(vertices, triangles).sum()), 1e-30)


def mean_thickness(vertices: Array, triangles: Index) -> float:
    """Return the mean thickness of a closed surface in m: twice its volume over its area, as of a thin plate."""
    if not len(triangles):
        return 0.0
    corners = vertices[triangles] - vertices.mean(axis=0)
    area = float(triangle_areas(vertices, triangles).sum())
    return 2.0 * abs(float(np.linalg.det(corners).sum())) / 6.0 / max(area, 1e-300)


def is_shell(vertices: Array, triangles: Index, area_ratio: float = SHELL_AREA_RATIO) -> bool:
    """Return whether the area of a closed surface exceeds area_ratio times its squared thickness."""
    area = float(triangle_areas(vertices, triangles).sum()) if len(triangles) else 0.0
    thickness = mean_thickness(vertices, triangles)
    return 0.0 < area_ratio * thickness**2 < area


def label_components(welded: Index, edges: Index, seams: Index) -> tuple[Mask, Index]:
    """Return whether vertices have an element (v,), and their piece (v,), -1 without an element.

    welded: (v,) group of vertices at the same position.  edges: (e, 2) of elements.
    seams: (s, 2) vertices that also connect pieces if both have an element.
    """
    count = int(welded.max(initial=-1)) + 1
    is_used = np.zeros(count, dtype=bool)
    is_used[welded[edges]] = True
    joined = welded[np.concatenate([edges, seams[is_used[welded[seams]].all(axis=1)]])]
    return is_used[welded], renumber_labels(label_connected(count, joined)[welded], is_used[welded])


def label_connected(count: int, edges: Index) -> Index:
    """Return the connected piece (n,) of each of n = count vertices, numbered from 0. edges: (e, 2)."""
    graph = coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1])


@dataclass(frozen=True)
class CornerFans:
    """Fans of triangles around the vertices of a mesh, on each of which the orientation is consistent.

    A fan ends at borders, at edges of more than two triangles and where two triangles have opposite orientations. A
    vertex may have several fans.

    fan: (3 t,) the fan of each corner of each triangle.  first: (f,) the place of its first triangle in `members`.
    count: (f,) its number of triangles.  members: (3 t,) the triangles of all fans, ascending in each.
    is_end: (e,) whether fans end at an edge.
    """

    fan: Index
    first: Index
    count: Index
    members: Index
    is_end: Mask

    @staticmethod
    def of(triangles: Index, triangle_edges: Index) -> CornerFans:
        """Return the fans of triangles (t, 3). triangle_edges: (t, 3) the edge from each corner to the next."""
        start, end, edge = triangles.ravel(), triangles[:, [1, 2, 0]].ravel(), triangle_edges.ravel()
        corner = np.arange(len(start))
        end_corner = corner.reshape(-1, 3)[:, [1, 2, 0]].ravel()
        # Triangles that welding collapsed are no obstacle between their neighbours.
        sides = np.flatnonzero((start != end).reshape(-1, 3).all(axis=1).repeat(3))
        sides = sides[np.argsort(edge[sides], kind="stable")]
        use_counts = np.bincount(edge[sides], minlength=int(edge.max(initial=-1)) + 1)
        a, b = sides[use_counts[edge[sides]] == 2].reshape(-1, 2).T
        a, b = (one[start[a] == end[b]] for one in (a, b))
        is_end = use_counts > 0
        is_end[edge[a]] = False
        joined = np.column_stack([np.concatenate([a, end_corner[a]]), np.concatenate([end_corner[b], b])])
        fan = label_connected(len(corner), joined)
        count = np.bincount(fan)
        return CornerFans(fan, np.cumsum(count) - count, count, np.argsort(fan, kind="stable") // 3, is_end)

    def triangles_of_fans(self, triangles: Index) -> tuple[Index, Index]:
        """Return the triangles (m,) of the fans at the corners of triangles (k,), and the place (m,) in k of each."""
        fan = self.fan[3 * triangles[:, None] + np.arange(3)].ravel()
        count = self.count[fan]
        offset = np.arange(int(count.sum())) - (np.cumsum(count) - count).repeat(count)
        return self.members[self.first[fan].repeat(count) + offset], (np.arange(len(fan)) // 3).repeat(count)


def renumber_labels(labels: Index, is_used: Mask) -> Index:
    """Return labels (v,) numbered from 0 without gaps; -1 where they are not used."""
    found = np.full(len(labels), -1)
    found[is_used] = np.unique(labels[is_used], return_inverse=True)[1].reshape(-1)
    return found


def border_edges(triangles: Index) -> Index:
    """Return the edges (k, 2) that belong to an odd number of triangles."""
    edges = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
    found, counts = np.unique(edges, axis=0, return_counts=True)
    return np.asarray(found[counts % 2 == 1])


def sample_triangles(vertices: Array, triangles: Index, spacing: float) -> Array:
    """Return points (s, 3) on the triangles, at most about spacing (m) apart.

    Triangles are bisected at their longest edge, which keeps slivers cheap; one point is kept per small cell.
    """
    corners = vertices[triangles]
    points = [vertices[np.unique(triangles)]]
    while len(corners):
        sides = np.linalg.norm(corners - np.roll(corners, -1, axis=1), axis=2)
        large = sides.max(axis=1) > spacing
        points.append(corners[~large].mean(axis=1))
        corners, longest = corners[large], sides[large].argmax(axis=1)
        row = np.arange(len(corners))
        a, b, c = (corners[row, (longest + k) % 3] for k in range(3))
        middle = 0.5 * (a + b)
        points.append(middle)
        corners = np.concatenate([np.stack([a, middle, c], axis=1), np.stack([middle, b, c], axis=1)])
    every = np.concatenate(points)
    _, first = np.unique(np.round(every / (0.5 * spacing)) @ np.array([1.0, 2.0**20, 2.0**40]), return_index=True)
    return np.asarray(every[np.sort(first)])


def orient_outward(vertices: Array, triangles: Index) -> Index:
    """Return triangles (t, 3), each connected piece oriented consistently, and outward where it is closed.

    vertices: (v, 3).  A closed piece inside another one that is oriented inward stays so: it is a cavity. A
    non-orientable piece, such as a Möbius strip, is left unchanged.
    """
    if not len(triangles):
        return triangles
    oriented, piece = _orient_consistently(triangles)
    volumes = np.bincount(piece, _tet_volumes_to_centroid(vertices, oriented)).astype(float)
    negative = np.flatnonzero((volumes < 0.0) & _closed_pieces(oriented, piece))
    _turn_pieces(vertices, oriented, piece, volumes, negative)
    return oriented


def _orient_consistently(triangles: Index) -> tuple[Index, Index]:
    """Return consistently oriented triangles, flipping the minority of each piece, and the piece (t,) of each one."""
    count = len(triangles)
    sides = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    forward = sides[:, 0] < sides[:, 1]
    _, edge, use_counts = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True, return_counts=True)
    edge = edge.reshape(-1)
    order = np.argsort(edge, kind="stable")
    # Edges of more than two triangles do not connect: their pairing is ambiguous.
    order = order[use_counts[edge[order]] == 2].reshape(-1, 2)
    a, b = order.T // 3
    is_opposed = forward[order[:, 0]] == forward[order[:, 1]]
    # Graph of two nodes per triangle, as given and flipped, whose edges connect consistent orientations.
    rows = np.concatenate([a, a + count])
    columns = np.concatenate([np.where(is_opposed, b + count, b), np.where(is_opposed, b, b + count)])
    label = label_connected(2 * count, np.column_stack([rows, columns]))
    label_as_given, label_flipped = label[:count], label[count:]
    first = np.minimum(label_as_given, label_flipped)
    _, piece = np.unique(first, return_inverse=True)
    piece = piece.reshape(-1)
    is_flipped = label_as_given != first
    is_majority = np.bincount(piece, is_flipped) > 0.5 * np.bincount(piece)
    is_flipped = np.where(is_majority[piece], ~is_flipped, is_flipped) & (label_as_given != label_flipped)
    oriented = triangles.copy()
    oriented[is_flipped] = oriented[is_flipped][:, [0, 2, 1]]
    return oriented, piece


def _closed_pieces(triangles: Index, piece: Index) -> Index:
    """Return a mask of the pieces in which every side has an opposite one."""
    sides = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    _, edge = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True)
    direction = np.where(sides[:, 0] < sides[:, 1], 1.0, -1.0)
    is_unmatched = np.bincount(edge.reshape(-1), direction) != 0.0
    return np.asarray(np.bincount(piece, is_unmatched[edge.reshape(-1)].reshape(-1, 3).any(axis=1)) == 0.0)


def _tet_volumes_to_centroid(vertices: Array, triangles: Index) -> Array:
    """Return signed volumes (t,) of the tetrahedra from the centroid to each triangle."""
    corners = vertices[triangles] - vertices[triangles].reshape(-1, 3).mean(axis=0)
    return np.asarray(np.einsum("ti,ti->t", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6.0)


def _piece_box(vertices: Array, triangles: Index) -> tuple[Array, Array]:
    places = vertices[triangles].reshape(-1, 3)
    return places.min(axis=0), places.max(axis=0)


@dataclass(frozen=True)
class VertexMatch:
    """Correspondence between the vertices of a copy and those of the source.

    indices: (w,) source vertex of each vertex of the copy.
    error: m, largest distance of corresponding vertices at any frame. A source vertex that is missing in the copy
        counts with the distance to the nearest vertex of the copy.
    """

    indices: Index
    error: float


def match_vertices(source: SinglePrecisionArray, copy: SinglePrecisionArray) -> VertexMatch:
    """Match the vertices of a copy to those of the source by their motion.

    source: (f, v, 3) m.  copy: (f, w, 3) m, at the same frames, w >= v, with split vertices repeated.
    """
    chosen = np.unique(np.linspace(0, len(source) - 1, _SAMPLE_FRAMES).round().astype(int))
    indices = cKDTree(_trajectories(source[chosen])).query(_trajectories(copy[chosen]))[1]
    error = 0.0
    for moved, copied in zip(source, copy, strict=True):
        error = max(error, float(np.linalg.norm(moved[indices] - copied, axis=1).max(initial=0.0)))
    # Vertices that coincide at all frames are interchangeable, so only count those without a coincident match.
    missing = np.setdiff1d(np.arange(source.shape[1]), indices)
    if len(missing) and len(indices):
        nearest = cKDTree(_trajectories(copy[chosen])).query(_trajectories(source[chosen][:, missing]))[0]
        error = max(error, float(nearest.max()))
    return VertexMatch(indices, error if len(indices) else np.inf)


def _trajectories(motion: SinglePrecisionArray) -> Array:
    return np.asarray(motion.transpose(1, 0, 2).reshape(motion.shape[1], -1), dtype=float)

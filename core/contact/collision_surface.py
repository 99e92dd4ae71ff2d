"""Collision surface of a body or a collider: the data that motion does not change. Several can be combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index, Mask
from ..geometry.collision.edge_pairs import sharp_edges
from ..geometry.mesh.primitives import closest_points_on_triangles
from ..geometry.mesh.surface import CornerFans, label_connected, triangle_areas
from ..geometry.mesh.triangles import Topology, Triangles, is_closed

# Default contact distance, as a fraction of a body's size.
CONTACT_DISTANCE_RATIO = 0.005
# Neighbours at rest whose contact distance would be a smaller fraction of the usual one do not touch.
MIN_DISTANCE_SCALE = 0.02
# Points farther from a triangle at rest than this fraction of its longest side do not touch it as neighbours.
_MAX_NEIGHBOUR_GAP = 0.6
# Neighbours that face each other at rest are layers: their offset is within an angle of this cosine of both normals.
_LAYER_COSINE = 0.7
# The contact distance of layers is larger than that of other neighbours by this factor, and 0.9 of that at rest.
_LAYER_FACTOR = 2.25
# Number of triangles whose neighbours are listed at once.
_LISTED_TRIANGLES = 1024
# Dihedral angle in rad above which an edge is sharp.
_SHARP_ANGLE = 0.35


@dataclass(frozen=True)
class CollisionSurface:
    """A surface that can touch others.

    name: for messages.
    rest: (v, 3) m.  triangles: (t, 3).
    operator: (v, n) interpolates the vertices from the system's nodes, without the pinned part; None for colliders.
    pin_weight: (v,) fraction of each vertex that follows the animation; 1 for colliders.
    animation_operator: (v, a) interpolates the vertices from the animated ones; None if they are the same.
    block: index of its block in the system; -1 for colliders.
    young: Young's modulus in Pa of the material behind the surface, at a stiffness factor of 1; unused for colliders.
    is_plane: whether the surface is an infinite plane, given by one triangle of it.
    friction_scale: (v,) painted factors on friction; None if not painted.
    front_direction: (v, 3) unit vectors at rest along which it slides more easily; None if friction is isotropic.
    area_shares: (v,) m^2 of each vertex; None for a third of its triangles' areas.
    fold_length: m, edges longer than this may become sharp when the surface deforms.
    wires: (w, 2) edges without triangles; their ends touch, and have the width of the usual contact distance.
    is_thread: whether the wires touch along their length, not only with their ends.
    min_distance: m, lower bound of the default contact distance.
    seam: (v,) the vertex sewn to the nearest seam vertex of each vertex, and (v,) m the distance to that seam vertex at
        rest; None if nothing is sewn.
    """

    name: str
    rest: Array
    triangles: Index
    operator: csr_matrix | None
    pin_weight: Array
    animation_operator: csr_matrix | None = None
    block: int = -1
    young: float = 0.0
    is_plane: bool = False
    friction_scale: Array | None = None
    front_direction: Array | None = None
    area_shares: Array | None = None
    fold_length: float = np.inf
    wires: Index = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    is_thread: bool = False
    min_distance: float = 0.0
    seam: tuple[Index, Array] | None = None

    @property
    def is_collider(self) -> bool:
        return self.block < 0

    @cached_property
    def size(self) -> float:
        """Diagonal of the bounding box, m."""
        return float(np.linalg.norm(np.ptp(self.rest, axis=0)))

    @property
    def default_distance(self) -> float:
        """Default contact distance, m."""
        return max(CONTACT_DISTANCE_RATIO * self.size, self.min_distance)

    @cached_property
    def used_vertices(self) -> Index:
        """Vertices of triangles and wires; merged duplicates are left out."""
        return np.asarray(np.unique(np.concatenate([self.triangles.ravel(), self.wires.ravel()])))

    @cached_property
    def areas(self) -> Array:
        """Area (v,) of each vertex, m^2."""
        if self.area_shares is not None:
            return self.area_shares
        thirds = triangle_areas(self.rest, self.triangles).repeat(3) / 3.0
        areas = np.bincount(self.triangles.ravel(), thirds, minlength=len(self.rest)).astype(float)
        lengths = np.linalg.norm(self.rest[self.wires[:, 0]] - self.rest[self.wires[:, 1]], axis=1)
        halves = (0.5 * CONTACT_DISTANCE_RATIO * self.size * lengths).repeat(2)
        return np.asarray(areas + np.bincount(self.wires.ravel(), halves, minlength=len(self.rest)))

    @cached_property
    def is_closed(self) -> bool:
        return not self.is_plane and is_closed(self.triangles)

    @cached_property
    def thickness(self) -> float:
        """Half of the mean thickness of a closed surface, m: its volume divided by its area."""
        a, b, c = (self.rest[self.triangles[:, k]] - self.rest.mean(axis=0) for k in range(3))
        area = float(triangle_areas(self.rest, self.triangles).sum())
        return abs(float(np.einsum("ti,ti->", a, np.cross(b, c)))) / 6.0 / max(area, 1e-300)

    @cached_property
    def vertex_triangles(self) -> Index:
        """Triangles (v, d) at each vertex, padded with repetitions; arbitrary for a vertex without triangles."""
        flat = self.triangles.ravel()
        order, count = np.argsort(flat, kind="stable"), np.bincount(flat, minlength=len(self.rest))
        first = np.cumsum(count) - count
        place = first[:, None] + np.minimum(np.arange(max(int(count.max()), 1)), np.maximum(count - 1, 0)[:, None])
        return np.asarray(order[np.minimum(place, len(order) - 1)] // 3)

    @cached_property
    def sharp_edge_indices(self) -> Index:
        """Indices of edges that are sharp or may become sharp: convex edges, borders and the wires of threads."""
        found, _, _ = sharp_edges(self.rest, self.triangles, _SHARP_ANGLE, self.topology)
        count = len(self.rest)
        ends = self.edges_and_faces[0]
        is_sharp = np.isin(ends @ np.array([count, 1]), np.sort(found, axis=1) @ np.array([count, 1]))
        is_long = np.linalg.norm(self.rest[ends[:, 0]] - self.rest[ends[:, 1]], axis=1) > self.fold_length
        is_wire = np.arange(len(ends)) >= len(ends) - (len(self.wires) if self.is_thread else 0)
        return np.flatnonzero(is_sharp | is_long | is_wire)

    @cached_property
    def topology(self) -> Topology:
        return Topology.from_triangles(self.triangles)

    @cached_property
    def edges_and_faces(self) -> tuple[Index, Index]:
        """All edges (e, 2), the lower vertex first, and their triangles (e, 2), -1 where there is only one.

        The wires of a thread come last, without triangles.
        """
        topology = self.topology
        faces = np.full((len(topology.edges), 2), -1)
        flat = topology.triangle_edges.ravel()
        order, counts = np.argsort(flat, kind="stable"), np.bincount(flat, minlength=len(faces))
        first, has_second = np.cumsum(counts) - counts, counts > 1
        faces[:, 0] = order[first] // 3
        faces[has_second, 1] = order[first[has_second] + 1] // 3
        if self.is_thread:
            return self.touching_edges, np.concatenate([faces, np.full((len(self.wires), 2), -1)])
        return topology.edges, faces

    @cached_property
    def touching_edges(self) -> Index:
        """Edges (e, 2) with which the surface may touch itself: those of triangles, and wires."""
        return np.concatenate([self.topology.edges, np.sort(self.wires, axis=1)])

    @cached_property
    def seam_vertices(self) -> Index:
        """One vertex (v,) for all those that are sewn together; the vertex itself elsewhere."""
        count = len(self.rest)
        if self.seam is None:
            return np.arange(count)
        partner, along = self.seam
        sewn = np.flatnonzero(along == 0.0)
        return label_connected(count, np.column_stack([sewn, partner[sewn]]))

    @cached_property
    def all_edge_indices(self) -> Index:
        """Indices of all edges."""
        return np.arange(len(self.edges_and_faces[0]))

    @cached_property
    def smooth_edge_indices(self) -> Index:
        """Indices of edges that are not sharp."""
        return np.setdiff1d(self.all_edge_indices, self.sharp_edge_indices, assume_unique=True)

    @cached_property
    def smooth_edge_vertices(self) -> Index:
        """Vertices of edges that are not sharp."""
        return np.asarray(np.unique(self.edges_and_faces[0][self.smooth_edge_indices]))

    @cached_property
    def edge_faces(self) -> Index:
        """Triangles (e, 2) at each edge; a border's triangle twice, -1 for wires."""
        faces = self.edges_and_faces[1]
        return np.where(faces < 0, faces[:, ::-1], faces)

    @cached_property
    def fans(self) -> CornerFans:
        """Consistently oriented fans of triangles around the vertices."""
        return CornerFans.of(self.triangles, self.topology.triangle_edges)

    @cached_property
    def border(self) -> tuple[Mask, Mask]:
        """Masks of the edges (e,) of triangles at which a fan ends, and of their vertices (v,)."""
        is_vertex, is_edge = np.zeros(len(self.rest), dtype=bool), self.fans.is_end
        is_vertex[self.topology.edges[is_edge]] = True
        return is_edge, is_vertex

    @cached_property
    def bounding_spheres(self) -> tuple[Array, Array]:
        """Bounding spheres of the triangles at rest: centres (t, 3) m and radii (t,) m."""
        corners = self.rest[self.triangles]
        centres = corners.mean(axis=1)
        return centres, np.linalg.norm(corners - centres[:, None], axis=2).max(axis=1)

    @cached_property
    def longest_sides(self) -> Array:
        """Longest side (t,) of each triangle at rest, m."""
        corners = self.rest[self.triangles]
        return np.asarray(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1))

    @cached_property
    def rest_surface(self) -> Triangles:
        """The surface at rest."""
        return Triangles(self.rest, self.triangles, self.topology)

    @cached_property
    def neighbours(self) -> NeighbourPairs:
        """Points and triangles next to each other at rest."""
        return NeighbourPairs.of(self)

    def prepare(self) -> None:
        """Compute cached properties now, so that the first frame with contact is not slow."""
        if self.is_plane or not len(self.triangles):
            return
        names = ["edge_faces", "smooth_edge_vertices", "sharp_edge_vertices", "used_vertices", "areas"]
        names += ["median_edge_length", *(("thickness", "vertex_triangles") if self.is_closed else ("border",))]
        for name in names:
            getattr(self, name)

    @cached_property
    def sharp_edge_vertices(self) -> Index:
        """Vertices of sharp edges."""
        return np.asarray(np.unique(self.edges_and_faces[0][self.sharp_edge_indices]))

    @cached_property
    def median_edge_length(self) -> float:
        """Median edge length, m."""
        corners = self.rest[self.triangles]
        return float(np.median(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2))) if len(corners) else 0.0


# A surface whose points touch, and the surface whose triangles are touched.
DirectedPair = tuple[int, int]


@dataclass(frozen=True)
class SurfaceBatch:
    """Surfaces of several pairs combined into one: the touching points and touched triangles of each pair.

    points: (p,) indices of points.  point_pair: (p,) the pair of each, ascending.
    triangles: (t, 3) point indices of all surfaces' triangles.  topology: of the combined triangles.
    target_triangles: (u,) touched triangles, pair by pair.  target_counts: (pairs,) their number in each pair.
    vertex_triangles: (n, d) triangles at each point of a closed surface, see CollisionSurface.vertex_triangles.
    point_end: n, one more than the largest point index.
    """

    points: Index
    point_pair: Index
    triangles: Index
    topology: Topology
    target_triangles: Index
    target_counts: Index
    vertex_triangles: Index
    point_end: int

    @staticmethod
    def of(surfaces: Sequence[CollisionSurface], starts: Index, pairs: Sequence[DirectedPair]) -> SurfaceBatch:
        """Return the combined surfaces of pairs.

        starts: (s + 1,) first point of each surface in the stack of all points, and its end.
        """
        used = sorted({place for pair in pairs for place in pair})
        first_triangle, triangles, ends, sides, triangle_count, edge_count = {}, [], [], [], 0, 0
        point_end = int(starts[used[-1] + 1])
        closed_surfaces = [place for place in used if surfaces[place].is_closed]
        vertex_triangles = np.zeros(
            (point_end, max(surfaces[place].vertex_triangles.shape[1] for place in closed_surfaces)), dtype=np.int64
        )
        for place in used:
            one, start = surfaces[place], starts[place]
            first_triangle[place] = triangle_count
            triangles.append(one.triangles + start)
            ends.append(one.topology.edges + start)
            sides.append(one.topology.triangle_edges + edge_count)
            if one.is_closed:
                # Rows are padded with their first triangle.
                vertex_triangles[start : starts[place + 1]] = one.vertex_triangles[:, :1] + triangle_count
                vertex_triangles[start : starts[place + 1], : one.vertex_triangles.shape[1]] = (
                    one.vertex_triangles + triangle_count
                )
            triangle_count, edge_count = triangle_count + len(one.triangles), edge_count + len(one.topology.edges)
        points = [surfaces[a].used_vertices + starts[a] for a, _ in pairs]
        target_triangles = [first_triangle[b] + np.arange(len(surfaces[b].triangles)) for _, b in pairs]
        return SurfaceBatch(
            np.concatenate(points),
            np.repeat(np.arange(len(pairs)), [len(one) for one in points]),
            np.concatenate(triangles),
            Topology(np.concatenate(ends), np.concatenate(sides)),
            np.concatenate(target_triangles),
            np.array([len(one) for one in target_triangles]),
            vertex_triangles,
            point_end,
        )  # fmt: skip


@dataclass(frozen=True)
class NeighbourPairs:
    """Points next to triangles of a surface at rest, without those with a common vertex.

    Points that are far from a triangle for its size are left out: the edges around such a point meet those of the
    triangle. Without this bound, the number of pairs would grow with the square of the resolution where edges are
    shorter than the contact distance. The list holds for all contact distances, which may be animated.

    point, triangle: (k,) in ascending order.  gap: (k,) m between them.  sphere_gap: (k,) m between the point and the
        triangle's bounding sphere.  seam_gap: (k,) m, the same across a seam; inf without.
    layer_factor: (k,) see layer_factors().
    """

    point: Index
    triangle: Index
    gap: Array
    sphere_gap: Array
    seam_gap: Array
    layer_factor: Array

    @staticmethod
    def of(surface: CollisionSurface) -> NeighbourPairs:
        """Return the neighbours in a surface."""
        point_normals, normals = surface.rest_surface.vertex_normals, surface.rest_surface.normals
        (middle, radius), used = surface.bounding_spheres, surface.used_vertices
        max_gap, tree = _MAX_NEIGHBOUR_GAP * surface.longest_sides, cKDTree(surface.rest[used])
        found = [NeighbourPairs(*np.zeros((2, 0), dtype=np.int64), *np.zeros((4, 0)))]
        for first in range(0, len(middle), _LISTED_TRIANGLES):
            block = slice(first, first + _LISTED_TRIANGLES)
            near = tree.query_ball_point(middle[block], radius[block] + max_gap[block])
            triangle = first + np.arange(len(near)).repeat([len(one) for one in near])
            point = used[np.concatenate([np.array(one, dtype=np.int64) for one in near])]
            is_apart = (surface.triangles[triangle] != point[:, None]).all(axis=1)
            point, triangle = point[is_apart], triangle[is_apart]
            corners = surface.rest[surface.triangles[triangle]].transpose(1, 2, 0)
            _, offset, square = closest_points_on_triangles(np.ascontiguousarray(surface.rest[point].T), corners)
            gap, factor = np.sqrt(square), layer_factors(offset.T, point_normals[point], normals[triangle])
            sphere_gap = np.linalg.norm(surface.rest[point] - middle[triangle], axis=1) - radius[triangle]
            seam_gap = np.full(len(point), np.inf)
            if surface.seam is not None:
                sewn, along = (part[point] for part in surface.seam)
                seam_gap = along + np.linalg.norm(surface.rest[sewn] - middle[triangle], axis=1) - radius[triangle]
            listed = NeighbourPairs(point, triangle, gap, sphere_gap, seam_gap, factor)
            found.append(listed.select(gap <= max_gap[triangle]))
        columns = (np.concatenate([getattr(one, part.name) for one in found]) for part in fields(NeighbourPairs))
        pairs = NeighbourPairs(*columns)
        return pairs.select(np.lexsort((pairs.triangle, pairs.point)))

    def select(self, which: Index | Mask) -> NeighbourPairs:
        """Return some of the pairs."""
        return NeighbourPairs(*(getattr(self, part.name)[which] for part in fields(self)))

    def within(self, limit: float) -> tuple[NeighbourPairs, Array]:
        """Return the pairs whose spheres are closer than a limit in m, and their factors (k,) on the contact distance.

        Neighbours across a seam are left out. A factor is the distance at rest over the limit, times that of layers, 1
        at most.
        """
        is_near = (self.sphere_gap <= limit) & (self.seam_gap >= limit)
        is_near &= self.layer_factor * self.gap >= MIN_DISTANCE_SCALE * limit
        pairs = self.select(np.flatnonzero(is_near))
        return pairs, np.minimum(pairs.layer_factor * pairs.gap / limit, 1.0)


def layer_factors(offset: Array, normal: Array, other_normal: Array) -> Array:
    """Return factors (k,) on the contact distance of neighbours: larger than 1 for layers, which face each other.

    offset: (k, 3) m between them at rest.  normal, other_normal: (k, 3) unit normals at rest, of any sign.

    Neighbours beside each other approach when the sheet bends or is compressed. Layers only approach in contact.
    """
    length = _LAYER_COSINE * np.linalg.norm(offset, axis=1)
    is_layer = np.ones(len(offset), dtype=bool)
    for each in (normal, other_normal):
        is_layer &= np.abs(np.einsum("ki,ki->k", offset, each)) > length
    return np.where(is_layer, _LAYER_FACTOR, 1.0)

"""Contact model of a system: surfaces carried by nodes, and colliders that follow their animation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import block_diag, coo_matrix, csr_matrix, vstack

from ..base.arrays import Array, Index, Mask
from .collision_surface import CollisionSurface, DirectedPair, SurfaceBatch
from .contact_history import EDGE, NEIGHBOUR

# Edges at a vertex count as coplanar if they leave a plane by less than this fraction of the others.
_FLAT = 0.2


def front_operator(ends: Index, rest: Array, front: Array) -> csr_matrix:
    """Return a matrix (v, v) that yields the front (v, 3) in each vertex's tangent plane as a sum of edges.

    ends: (e, 2) of the edges.  rest: (v, 3) m.  front: at rest.
    """
    first_vertex, second_vertex = np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]])
    order = np.argsort(first_vertex, kind="stable")
    first_vertex, second_vertex = first_vertex[order], second_vertex[order]
    first, count = np.searchsorted(first_vertex, np.arange(len(front))), np.bincount(first_vertex, minlength=len(front))
    rows, columns, values = [], [], []
    for degree in np.unique(count[count > 0]):
        vertices = np.flatnonzero(count == degree)
        neighbours = second_vertex[first[vertices][:, None] + np.arange(degree)]
        edges = rest[neighbours] - rest[vertices][:, None]
        # A nearly flat vertex has no edges along its normal.
        coefficients = np.einsum("kij,ki->kj", np.linalg.pinv(edges, rcond=_FLAT), front[vertices])
        rows += [vertices.repeat(degree), vertices]
        columns += [neighbours.ravel(), vertices]
        values += [coefficients.ravel(), -coefficients.sum(axis=1)]
    if not rows:
        return csr_matrix((len(front), len(front)))
    found = coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (len(front),) * 2)
    return found.tocsr()


@dataclass(frozen=True)
class ContactModel:
    """All surfaces of a system that can touch.

    surfaces: those of bodies, then of colliders, then proxies: finer surfaces that replace a body's coarse faces.
    obstacle_indices: index of each surface among the colliders of the step's inputs; -1 for bodies.
    colliding_pairs: (a, b) indices of surfaces that are tested against each other, points of either one against
        triangles of the other; b may be a collider.
    self_colliding: indices of surfaces that may touch themselves.
    proxy_surfaces: (proxy, body) indices; edge contacts use the body's surface.
    """

    surfaces: tuple[CollisionSurface, ...]
    collider_indices: tuple[int, ...]
    colliding_pairs: tuple[tuple[int, int], ...]
    self_colliding: tuple[int, ...] = ()
    proxy_surfaces: tuple[tuple[int, int], ...] = ()

    @cached_property
    def threads(self) -> frozenset[int]:
        """Indices of surfaces that are threads."""
        return frozenset(place for place, one in enumerate(self.surfaces) if one.is_thread)

    @cached_property
    def is_thread(self) -> Mask:
        """Mask (s,) of the surfaces that are threads."""
        return np.array([one.is_thread for one in self.surfaces], dtype=bool)

    @cached_property
    def is_wire(self) -> Mask:
        """Mask (s,) of the surfaces of ropes: wires without faces that are no threads."""
        return np.array([not one.is_thread and not len(one.triangles) for one in self.surfaces], dtype=bool)

    @cached_property
    def visible_surface(self) -> Index:
        """Indices (s,) of the visible surface of each one: the body's for a proxy, else its own."""
        visible = np.arange(len(self.surfaces))
        for place, body in self.proxy_surfaces:
            visible[place] = body
        return visible

    @cached_property
    def point_starts(self) -> Index:
        """Indices (s + 1,) of each surface's first point in the stack of all points, and the number of points."""
        return np.cumsum([0, *(len(one.rest) for one in self.surfaces)])

    @cached_property
    def point_count(self) -> int:
        """Number of points of all surfaces."""
        return int(self.point_starts[-1])

    @cached_property
    def operator(self) -> csr_matrix:
        """Matrix (N, n) that interpolates all points from the system's nodes."""
        nodes = next(one.operator.shape[1] for one in self.surfaces if one.operator is not None)
        found = vstack(
            [csr_matrix((len(one.rest), nodes)) if one.operator is None else one.operator for one in self.surfaces],
            format="csr",
        )
        found.sum_duplicates()
        return found

    @cached_property
    def is_collider(self) -> Mask:
        """Mask (s,) of the surfaces that only their animation moves."""
        return np.array([one.is_collider for one in self.surfaces], dtype=bool)

    @cached_property
    def batches(self) -> dict[tuple[DirectedPair, ...], SurfaceBatch]:
        """Cache of the surface batches for sets of pairs."""
        return {}

    @cached_property
    def sizes(self) -> Array:
        """Size (s,) of each body in m; 0 for colliders."""
        return np.array([0.0 if one.is_collider else one.size for one in self.surfaces])

    @cached_property
    def thicknesses(self) -> Array:
        """Thickness (s,) in m, see CollisionSurface.thickness; infinite for open surfaces."""
        return np.array([one.thickness if one.is_closed else np.inf for one in self.surfaces])

    @cached_property
    def areas(self) -> Array:
        """Area (N,) of each point in m^2."""
        return np.concatenate([one.areas for one in self.surfaces])

    @cached_property
    def friction_scale(self) -> Array:
        """Painted factors (N,) on friction."""
        return np.concatenate(
            [np.ones(len(one.rest)) if one.friction_scale is None else one.friction_scale for one in self.surfaces]
        )

    @cached_property
    def front_matrix(self) -> csr_matrix | None:
        """Matrix (N, N) that yields each point's front direction from all points; None if no surface has a front.

        Each row is a combination of edges at a point that gives the front at rest, as the forward and backward masses
        of [Ctl] do. The front thus turns and shears with the surface.
        """
        if all(one.front_direction is None for one in self.surfaces):
            return None
        parts = [
            front_operator(
                one.edges_and_faces[0] if one.is_thread else np.concatenate([one.edges_and_faces[0], one.wires]),
                one.rest,
                one.front_direction,
            )
            if one.front_direction is not None
            else coo_matrix((len(one.rest),) * 2)
            for one in self.surfaces
        ]
        return block_diag(parts, format="csr")

    @cached_property
    def is_dynamic(self) -> Mask:
        """Mask (N,) of the points that depend on at least one node."""
        return np.asarray(np.diff(self.operator.indptr) > 0)

    @cached_property
    def surface_nodes(self) -> Index:
        """Nodes on which points depend."""
        return np.asarray(np.unique(self.operator.indices))

    @cached_property
    def owner(self) -> Index:
        """Index (N,) of each point's surface."""
        return np.repeat(np.arange(len(self.surfaces)), np.diff(self.point_starts))

    def are_visible(self, *surfaces: int) -> bool:
        """Return whether none of the given surfaces is replaced by another one."""
        return all(self.visible_surface[k] == k for k in surfaces)

    def are_sheets(self, *surfaces: int) -> bool:
        """Return whether edges of the given surfaces touch on either side.

        They do if all are open surfaces of bodies, with triangles or threads; wires touch threads alone.
        """
        given = [self.surfaces[k] for k in surfaces]
        if any(one.is_collider or one.is_closed for one in given):
            return False
        has_thread = any(one.is_thread for one in given)
        return has_thread or all(len(one.triangles) > 0 for one in given)

    def edge_areas(self, stencil: Index) -> Array:
        """Return the area (k, 2) m^2 of both edges of pairs with ends stencil (k, 4), among all points."""
        areas = self.areas[stencil]
        return np.asarray(0.5 * (areas[:, ::2] + areas[:, 1::2]))

    def are_unlike(self, surfaces: Index) -> Mask:
        """Return whether edges of pairs (k, 2) of surfaces belong to a thread and to another open body.

        A thread's Young's modulus refers to its own area: that of a yarn is low, and its area wide. Points of threads
        also touch closed surfaces, so their edges need not carry all of the weight there.
        """
        is_open = np.array([not one.is_collider and not one.is_closed for one in self.surfaces], dtype=bool)
        is_other = (surfaces[:, 0] != surfaces[:, 1]) & is_open[surfaces].all(axis=1)
        return np.asarray(self.is_thread[surfaces].any(axis=1) & is_other)

    def points_of(self, surface: int) -> slice:
        """Return the slice of a surface's points in the stack of all points."""
        return slice(int(self.point_starts[surface]), int(self.point_starts[surface + 1]))

    def touching_vertices(self, keys: Index) -> Index:
        """Return the touching vertices (k,) of contacts of points with keys (k, 4)."""
        counts = np.array([max(len(one.triangles), 1) for one in self.surfaces])
        return np.where(keys[:, 1] == NEIGHBOUR, keys[:, 2] // counts[keys[:, 0]], keys[:, 2])

    def touched_points(self, keys: Index) -> Index:
        """Return the points on which contacts with keys (k, 4) may act, among all points; see ContactSet for keys.

        A key does not name the face that a point touches, so all points of the touched surface are returned.
        """
        is_touched = np.zeros(self.point_count, dtype=bool)
        is_edge = keys[:, 1] == EDGE
        is_touched[self.point_starts[keys[~is_edge, 0]] + self.touching_vertices(keys[~is_edge])] = True
        for touched in np.unique(keys[~is_edge, 3]):
            is_touched[self.points_of(int(touched))] = True
        for first, second in np.unique(keys[is_edge][:, [0, 3]], axis=0):
            features = keys[is_edge & (keys[:, 0] == first) & (keys[:, 3] == second), 2]
            for place, edges in zip((first, second), self.edge_pairs(first, second, features), strict=True):
                is_touched[self.point_starts[place] + edges] = True
        return np.flatnonzero(is_touched)

    def edge_pairs(self, first: int, second: int, features: Index) -> tuple[Index, Index]:
        """Return the vertices (k, 2) of both edges of EDGE contacts of two surfaces.

        first, second: indices of the surfaces.  features: (k,), see ContactSet for keys.
        """
        # A surface also touches itself with its wires, and a thread touches those of others.
        has_wires = first == second or self.are_sheets(int(first), int(second))
        surfaces = self.surfaces[first], self.surfaces[second]
        one, other = (side.touching_edges if has_wires else side.edges_and_faces[0] for side in surfaces)
        return one[features // len(other)], other[features % len(other)]

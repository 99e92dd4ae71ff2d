"""Detection of collisions between points and triangles, with CCD where it is needed.

Detection finds the nearest triangle of each point. In a fold of a sheet the nearest side alternates, so that a step
that started with one side would tunnel through the other, and a crumpled sheet would never converge. Every step
therefore starts with all sides of a fold, found from the positions of the points.

See docs/explanation/physics/07-contact.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..base.arrays import Array, Index, Mask
from ..geometry.collision.ccd import SweptTriangles
from ..geometry.collision.pair_rules import FacingRule, OwnRule, PairRules, StartRule
from ..geometry.collision.penetration import consistent_penetration_depths
from ..geometry.collision.proximity import (
    NearestTriangles,
    PairExclusion,
    heights_above_sheet,
    nearest_triangles,
    plane_heights,
    side_of_surface,
)
from ..geometry.mesh.primitives import bounding_box, outcodes
from ..geometry.mesh.triangles import Triangles, cross_rows
from .batched_detection import BatchedDetection, can_batch
from .collision_state import CollisionState
from .collision_surface import CollisionSurface
from .collisions import (
    MAX_START_DEPTH,
    SEARCH_FACTOR,
    TUNNELLING_DEPTH,
    Collisions,
    build_contacts,
    no_collisions,
    point_collisions,
    relative_motion,
)
from .contact_history import CORNER_KINDS, POINT, ContactHistory
from .contact_hysteresis import HOLLOW_TOLERANCE, NEAR_FACTOR, SAME_NORMAL_TOLERANCE
from .contact_model import ContactModel
from .edge_contacts import edge_edge_contacts
from .neighbour_contacts import neighbour_contacts
from .penalty_and_friction import ContactSet
from .sheet_edge_contacts import sheet_edge_contacts


def plane_contacts(state: CollisionState, pairs: Sequence[tuple[int, int]], points: Array) -> list[Collisions]:
    """Return the contacts of points near infinite planes.

    pairs: of surfaces and planes.  points: (N, 3) m at the step's end.
    """
    model, found = state.model, []
    for b in sorted({b for _, b in pairs}):
        plane = model.points_of(b)
        candidates = np.concatenate(
            [model.surfaces[a].used_vertices + model.point_starts[a] for a, other in pairs if other == b]
        )
        # Fully animated points cannot react to a plane.
        candidates = candidates[model.is_dynamic[candidates]]
        origin, one, other = points[plane]
        axes = np.stack([one - origin, other - origin])
        normal = cross_rows(*axes)
        normal /= np.sqrt(normal @ normal)
        offset = points[candidates] - origin
        is_near = offset @ normal < SEARCH_FACTOR * state.pair_distances[model.owner[candidates], b]
        candidates, offset = candidates[is_near], offset[is_near]
        along = offset @ np.linalg.pinv(axes)
        weights = np.column_stack([np.ones(len(candidates)), along.sum(axis=1) - 1.0, -along])
        corners = np.broadcast_to(np.arange(plane.start, plane.stop), (len(candidates), 3))
        owner = model.owner[candidates]
        surfaces = np.stack([owner, np.full(len(candidates), b)], axis=1)
        feature, normals = candidates - model.point_starts[owner], np.broadcast_to(normal, (len(candidates), 3))
        stack = np.column_stack([candidates, corners])
        found.append(Collisions(surfaces, stack, weights, normals, feature, POINT, model.areas[candidates]))
    return found


# Points that start deeper than this fraction of the other body's size leave it in a common direction.
_DEEP_START = 0.3
# The same applies if the mean of the nearest exit directions is shorter than this: they would tear the body apart.
_MIN_MEAN_EXIT = 0.5
# Parts of a surface closer at rest than this many contact distances do not touch each other.
_NEIGHBOUR_DISTANCES = 2.5
# Safety factor against rounding of a bound.
_ROUNDING_MARGIN = 1.0 + 1e-9
# A point that was behind a sheet is still behind a triangle only if its depth is at most this many times as large.
_SAME_DEPTH = 2.0
# A point is beyond the border of an open surface if the cosine between its offset and the normal is below this.
_MAX_COSINE = 0.99


_PointTriangles = tuple[Index, Index, Array, Array]
# Points, their triangles, barycentric weights in these, and outward normals.


class CollisionDetection:
    """Collision detection of one step.

    history: contacts of the last step; None at the start of a shot, where bodies may overlap.
    thorough: whether edges between nearly coplanar triangles are tested too.
    """

    def __init__(self, state: CollisionState, history: ContactHistory | None, is_thorough: bool = False) -> None:
        self.state, self.model, self._is_thorough = state, state.model, is_thorough
        self._history = history or ContactHistory()
        self._is_first_step = history is None
        self._collider_surfaces: dict[int, Triangles] = {}
        self._start_surfaces: dict[int, Triangles] = {}
        self._swept_colliders: dict[int, SweptTriangles] = {}
        self._batched = BatchedDetection(state, self._history)
        self._first_result: tuple[Array, ContactSet] | None = None

    def __call__(self, positions: Array) -> ContactSet:
        """Return the contacts at the step's end with nodes at positions (n, 3) m.

        The first result is kept: a guard detects at the predicted positions, and then the solve does.
        """
        if self._first_result is None:
            self._first_result = positions.copy(), self._detect(positions)
        elif not np.array_equal(self._first_result[0], positions):
            return self._detect(positions)
        return self._first_result[1]

    def _detect(self, positions: Array) -> ContactSet:
        model, points = self.model, self.state.points_at(positions)
        end_surfaces = {
            k: self._end_surface(k, points)
            for k in {k for pair in model.colliding_pairs for k in pair} | {*model.self_colliding}
        }
        near_pairs = self._nearby_pairs(points)
        collisions = plane_contacts(
            self.state, [pair for pair in near_pairs if model.surfaces[pair[1]].is_plane], points
        )
        near_pairs = [pair for pair in near_pairs if not model.surfaces[pair[1]].is_plane]
        if not near_pairs and not model.self_colliding:
            return build_contacts(self.state, collisions, self._history, points)
        bounds = self.state.displacement_bounds(points)
        pairs = [pair for a, b in near_pairs for pair in ((a, b), (b, a))]
        batched = [pair for pair in pairs if can_batch(model, *pair)]
        if self._is_first_step or len(batched) < 2:
            batched = []
        single = sorted(set(pairs) - set(batched))
        if batched:
            batch, needs_single = self._batched(batched, points, bounds)
            collisions.append(batch)
            single += [pair for pair, one in zip(batched, needs_single, strict=True) if one]
        collisions += [self._pair_collisions(a, b, points, bounds, end_surfaces) for a, b in single]
        visible = [pair for pair in near_pairs if model.are_visible(*pair)]
        sheets = [pair for pair in visible if model.are_sheets(*pair)]
        others = [pair for pair in visible if pair not in sheets]
        collisions += edge_edge_contacts(self.state, others, points, bounds, self._is_thorough)
        collisions += [sheet_edge_contacts(self.state, a, b, points, self._history, 0.0) for a, b in sheets]
        for a in model.self_colliding:
            collisions += self._self_collisions(a, points, bounds, end_surfaces)
        return build_contacts(self.state, collisions, self._history, points)

    def _nearby_pairs(self, points: Array) -> list[tuple[int, int]]:
        """Return the surface pairs whose swept boxes are within the search radius, and all pairs with planes."""
        low, high = self.state.swept_boxes(points)
        a, b = np.array(self.model.colliding_pairs, dtype=np.int64).reshape(-1, 2).T
        radius = SEARCH_FACTOR * self.state.pair_distances[a, b]
        is_near = ((low[:, a] < high[:, b] + radius) & (low[:, b] < high[:, a] + radius)).all(axis=0)
        is_plane = np.array([one.is_plane for one in self.model.surfaces])[b]
        return [self.model.colliding_pairs[k] for k in np.flatnonzero(is_near | is_plane)]

    def _surface_at(self, place: int, points: Array) -> Triangles:
        """Return a surface with all points at given positions (N, 3) m."""
        surface = self.model.surfaces[place]
        return Triangles(points[self.model.points_of(place)], surface.triangles, surface.topology)

    def _end_surface(self, place: int, points: Array) -> Triangles:
        """Return a surface at the step's end; those of colliders are cached."""
        if not self.model.surfaces[place].is_collider:
            return self._surface_at(place, points)
        if place not in self._collider_surfaces:
            self._collider_surfaces[place] = self._surface_at(place, points)
        return self._collider_surfaces[place]

    def _start_surface(self, place: int) -> Triangles:
        """Return a surface at the step's start."""
        if place not in self._start_surfaces:
            self._start_surfaces[place] = self._surface_at(place, self.state.start)
        return self._start_surfaces[place]

    def _swept_surface(self, place: int, end_surface: Triangles) -> SweptTriangles:
        """Return a surface with its motion during the step. Those of colliders are cached."""
        if not self.model.surfaces[place].is_collider:
            return SweptTriangles(self._start_surface(place), end_surface)
        if place not in self._swept_colliders:
            self._swept_colliders[place] = SweptTriangles(self._start_surface(place), end_surface)
        return self._swept_colliders[place]

    def _pair_collisions(
        self, a: int, b: int, points: Array, bounds: tuple[Array, Array], end_surfaces: dict[int, Triangles]
    ) -> Collisions:
        """Return the collisions of points of surface a with triangles of surface b."""
        first, second = self.model.surfaces[a], self.model.surfaces[b]
        first_slice = self.model.points_of(a)
        distance = self.state.pair_distances[a, b]
        candidates = self._candidate_points(first, second, first_slice)
        if a != b:
            if len(candidates) and len(second.triangles):
                candidates = candidates[self._is_near_box(points[first_slice.start + candidates], a, b, points, bounds)]
            if not len(candidates) or not len(second.triangles):
                return no_collisions()
        end_points, start = points[first_slice][candidates], self.state.start[first_slice][candidates]
        path = np.linalg.norm(end_points - start - bounds[0][b], axis=1) + bounds[1][b]
        radius = SEARCH_FACTOR * distance + path
        end_surface = end_surfaces[b]
        # Sheets collide with themselves on both sides, and with their edges.
        normals = end_surfaces[a].vertex_normals[candidates] if a == b and second.is_closed else None
        forbidden = self._pair_filter(a, b, candidates, end_surfaces)
        near = nearest_triangles(end_surface, end_points, radius, normals=normals, is_excluded=forbidden)
        if second.is_closed:
            sign, normal = side_of_surface(end_surface, near)
        else:
            sign, normal = self._open_surface_sides(a, b, candidates, near, end_surface)
        is_deep = sign * near.distance < -TUNNELLING_DEPTH * distance
        is_kept = ~is_deep
        if not (first.is_closed and second.is_closed):
            # The search radius allows for the fastest part of the surface, but most parts move along with the point.
            # Crushed solids need contacts beyond this bound, because the next search may reach them.
            stencil = self._stencil(a, b, candidates[near.point], near.triangle)
            reach = SEARCH_FACTOR * distance + relative_motion(self.state, stencil, points, 1)
            is_kept &= (sign < 0.0) | (near.distance <= reach)
        found: list[_PointTriangles] = []
        # Deep points must have tunnelled. Fast points may have passed through the whole surface.
        needs_ccd = near.point[is_deep]
        if second.is_closed:
            needs_ccd = np.union1d(needs_ccd, np.flatnonzero(path > second.thickness))
        if len(needs_ccd):
            hits = self._swept_surface(b, end_surface).first_hits(start[needs_ccd], end_points[needs_ccd])
            if len(hits.point):
                hit_points, hit_triangles = needs_ccd[hits.point], hits.triangle
                is_kept &= ~np.isin(near.point, hit_points)
                side = hits.side
                if not second.is_closed:
                    side = np.where(np.isin(candidates[hit_points], self._history.points_behind(a, b)), -side, side)
                outward = side[:, None] * end_surface.normals[hit_triangles]
                is_allowed = np.ones(len(hit_points), dtype=bool)
                if forbidden is not None:
                    is_allowed = ~forbidden(hit_points, hit_triangles)
                found.append(
                    (hit_points[is_allowed], hit_triangles[is_allowed], hits.weights[is_allowed], outward[is_allowed])
                )
        found.insert(0, (near.point[is_kept], near.triangle[is_kept], near.weights[is_kept], normal[is_kept]))
        exits = self._exits(a, b, candidates, end_points, end_surface, found)
        if exits is not None:
            found.append(exits)
        point, triangle, weights, normal = (np.concatenate(parts) for parts in zip(*found, strict=True))
        point = candidates[point]
        area = first.areas[point]
        if first.is_collider:
            area = np.minimum(area, 3.0 * second.areas[second.triangles[triangle]].mean(axis=1))
        stencil, weights = self._stencil(a, b, point, triangle), np.column_stack([np.ones(len(point)), -weights])
        return Collisions(np.tile([a, b], (len(point), 1)), stencil, weights, normal, point, POINT, area)

    def _stencil(self, a: int, b: int, vertex: Index, triangle: Index) -> Index:
        """Return the points (k, 4) of vertices (k,) of surface a and triangles (k,) of surface b."""
        starts = self.model.point_starts
        return np.column_stack([vertex + starts[a], self.model.surfaces[b].triangles[triangle] + starts[b]])

    def _self_collisions(
        self, a: int, points: Array, bounds: tuple[Array, Array], end_surfaces: dict[int, Triangles]
    ) -> list[Collisions]:
        """Return the self-collisions of a surface; for a sheet with all sides of its folds."""
        nearest_contacts = self._pair_collisions(a, a, points, bounds, end_surfaces)
        surface = self.model.surfaces[a]
        if surface.is_closed:
            return [nearest_contacts]
        distance = self.state.pair_distances[a, a]
        limit = _NEIGHBOUR_DISTANCES * distance
        edge_contacts = sheet_edge_contacts(self.state, a, a, points, self._history, limit)
        own_contacts = [edge_contacts, neighbour_contacts(self.state, a, points, self._history, limit)]
        if not len(nearest_contacts):
            return own_contacts
        pair_filter = self._pair_filter(a, a, np.arange(len(surface.rest)), end_surfaces)
        assert pair_filter is not None

        def sided(which: Index, near: NearestTriangles) -> tuple[Array, Array]:
            return self._open_surface_sides(a, a, which, near, end_surfaces[a])

        return [
            *own_contacts,
            nearest_contacts,
            *secondary_self_contacts(nearest_contacts, end_surfaces[a], self.model, distance, pair_filter, sided),
        ]

    def _is_near_box(self, candidates: Array, a: int, b: int, points: Array, bounds: tuple[Array, Array]) -> Mask:
        """Return which candidates (p, 3) m of surface a are near enough to the box of surface b to touch b in the step.

        A point that passes through b in the step ends no farther from b than the largest relative displacement.
        """
        relative_motion = bounds[0][a] - bounds[0][b]
        max_motion = float(np.sqrt(relative_motion @ relative_motion) + bounds[1][a] + bounds[1][b])
        radius = (SEARCH_FACTOR * self.state.pair_distances[a, b] + max_motion) * _ROUNDING_MARGIN
        low, high = bounding_box(points[self.model.points_of(b)])
        return np.asarray(outcodes(candidates, low - radius, high + radius) == 0)

    def _candidate_points(self, first: CollisionSurface, second: CollisionSurface, points_slice: slice) -> Index:
        """Return the points of a surface that may touch triangles of another one."""
        if not first.is_collider:
            # Points that only the animation moves can touch another body, but not a collider.
            if second.is_collider:
                return np.asarray(first.used_vertices[self.model.is_dynamic[points_slice][first.used_vertices]])
            return first.used_vertices
        if first.median_edge_length < second.median_edge_length:
            return first.used_vertices
        return first.sharp_edge_vertices

    def _pair_filter(self, a: int, b: int, candidates: Index, end_surfaces: dict[int, Triangles]) -> PairRules | None:
        """Return the rules for point-triangle pairs to ignore; None if no pair is ignored."""
        first, second = self.model.surfaces[a], self.model.surfaces[b]
        start, distance = self.state.start[self.model.points_of(a)][candidates], self.state.pair_distances[a, b]
        own = facing = None
        if a != b and not second.is_closed:
            return None
        if a == b:
            is_dynamic, limit = self.model.is_dynamic[self.model.points_of(b)], _NEIGHBOUR_DISTANCES * distance
            own = OwnRule(
                candidates, second.triangles, is_dynamic, second.rest, second.bounding_spheres, second.seam, limit
            )
        if first.is_closed:
            facing = FacingRule(end_surfaces[a], first.vertex_triangles, candidates, end_surfaces[b])
        began = StartRule(start, self._start_surface(b), -MAX_START_DEPTH * distance) if second.is_closed else None
        return PairRules(began, facing, own)

    def _open_surface_sides(
        self, a: int, b: int, candidates: Index, near: NearestTriangles, end_surface: Triangles
    ) -> tuple[Array, Array]:
        """Return the sign (k,) and the normal (k, 3) of an open surface at points.

        The front is the side on which a point began the step. The sign is 1 in front and -1 behind.
        """
        surface, is_own = self.model.surfaces[b], a == b

        def heights(mesh: Triangles, points: Array) -> Array:
            # The triangles around may contain a point of the same sheet.
            if is_own:
                return plane_heights(mesh, near.triangle[:, None], points)[:, 0]
            return heights_above_sheet(mesh, surface.fans, near.triangle, points)

        start = self.state.start[self.model.points_of(a)][candidates[near.point]]
        start_height = heights(self._start_surface(b), start)
        # Points that ended the last step slightly behind a triangle came from its other side. Other triangles of a fold
        # may be nearest now.
        depth = self._history.depths_behind(a, b, candidates[near.point])
        max_depth = np.minimum(_SAME_DEPTH * depth, MAX_START_DEPTH * self.state.pair_distances[a, b])
        is_behind = (depth > 0.0) & (np.abs(start_height) <= max_depth)
        side = np.where((start_height < 0.0) != is_behind, -1.0, 1.0)
        normal = side[:, None] * end_surface.normals[near.triangle]
        places = np.einsum("kj,kji->ki", near.weights, end_surface.vertices[surface.triangles[near.triangle]])
        height = side * heights(end_surface, places + near.offset)
        direction = near.offset / np.maximum(near.distance, 1e-30)[:, None]
        # Beyond its border and on folds the surface counts as rounded: the normal points along the offset.
        is_separate = near.distance > 1e-9 * end_surface.size
        along_normal = np.abs(np.einsum("ki,ki->k", near.offset, normal))
        is_beside = is_separate & (along_normal < _MAX_COSINE * near.distance)
        has_no_back = np.ones(len(side), dtype=bool) if is_own else _is_on_border(surface, near)
        sign = np.where((is_beside & has_no_back) | (height >= 0.0), 1.0, -1.0)
        is_rounded = is_beside | (is_separate & (height > 0.0))
        return sign, np.where(is_rounded[:, None], sign[:, None] * direction, normal)

    def _exits(
        self, a: int, b: int, candidates: Index, end_points: Array, end_surface: Triangles, found: list[_PointTriangles]
    ) -> _PointTriangles | None:
        """Return the nearest exits of points that started inside a closed surface."""
        if a == b or not self.model.surfaces[b].is_closed:
            return None
        inside_points = np.arange(len(candidates))
        if not self._is_first_step:
            inside_points = np.flatnonzero(np.isin(candidates, self._history.points_behind(a, b)))
        inside_points = np.setdiff1d(inside_points, np.concatenate([one[0] for one in found]))
        if not len(inside_points):
            return None
        near = nearest_triangles(end_surface, end_points[inside_points], 0.5 * end_surface.size)
        sign, normal = side_of_surface(end_surface, near)
        is_inside = sign < 0.0
        is_torn = is_inside.any() and float(np.linalg.norm(normal[is_inside].mean(axis=0))) < _MIN_MEAN_EXIT
        is_deep = near.distance[is_inside].max(initial=0.0) > _DEEP_START * end_surface.size
        if is_torn or is_deep or self.state.common_exit[[a, b]].any():
            return self._common_exits(a, b, candidates, inside_points)
        return (
            inside_points[near.point[is_inside]],
            near.triangle[is_inside],
            near.weights[is_inside],
            normal[is_inside],
        )

    def _common_exits(self, a: int, b: int, candidates: Index, inside_points: Index) -> _PointTriangles:
        """Return exits with consistent directions for points that started inside a closed surface.

        They depend only on the positions at the step's start ([MSS]).
        """
        first, start = self.model.surfaces[a], self.state.start[self.model.points_of(a)]
        start_surface = self._start_surface(b)
        is_inside = np.zeros(len(start), dtype=bool)
        near = nearest_triangles(start_surface, start[candidates[inside_points]], np.inf)
        is_inside[candidates[inside_points[near.point[side_of_surface(start_surface, near)[0] < 0.0]]]] = True
        edges = np.concatenate([first.edges_and_faces[0], first.wires])
        exits = consistent_penetration_depths(start, edges, is_inside, start_surface)
        exiting = inside_points[exits.depth[candidates[inside_points]] > 0.0]
        direction = exits.direction[candidates[exiting]]
        hits = nearest_triangles(
            start_surface, start[candidates[exiting]] + exits.depth[candidates[exiting]][:, None] * direction, np.inf
        )
        return exiting[hits.point], hits.triangle, hits.weights, direction[hits.point]


def _is_on_border(surface: CollisionSurface, near: NearestTriangles) -> Mask:
    """Return whether the closest places (k,) of a surface lie on its border, or where sheets of it meet."""
    is_edge, is_vertex = surface.border
    is_zero = near.weights == 0.0
    # The side from a corner to the next one is opposite the previous corner.
    sides = surface.topology.triangle_edges[near.triangle][:, [1, 2, 0]]
    count = is_zero.sum(axis=1)
    on_edge = (count == 1) & is_edge[np.take_along_axis(sides, is_zero.argmax(axis=1)[:, None], 1)[:, 0]]
    corners = np.take_along_axis(surface.triangles[near.triangle], near.weights.argmax(axis=1)[:, None], 1)[:, 0]
    return np.asarray(on_edge | ((count >= 2) & is_vertex[corners]))


# Function of point indices (k,) and their nearest triangles that returns the side of each triangle, and its normal.
SideFunction = Callable[[Index, NearestTriangles], tuple[Array, Array]]


def secondary_self_contacts(
    nearest_contacts: Collisions,
    surface: Triangles,
    model: ContactModel,
    distance: float,
    forbidden: PairExclusion,
    side_function: SideFunction,
) -> list[Collisions]:
    """Return the further contacts of points that touch their own sheet, nearest side first.

    nearest_contacts: the first contact of each point; not empty.  distance: m.
    forbidden: pairs of points and triangles of the sheet to ignore.  side_function: see SideFunction.

    A triangle counts as another side if its normal differs. It is in a fold with the known sides if each touched place
    lies in front of the other sides' planes.
    """
    points = surface.vertices
    first_point = int(nearest_contacts.stencil[0, 0] - nearest_contacts.feature[0])
    sides, touched_places, contact_normals = (np.zeros((len(points), 1 + len(CORNER_KINDS), 3)) for _ in range(3))
    active = nearest_contacts.feature
    corner_places = points[nearest_contacts.stencil[:, 1:] - first_point]
    face_normals = np.cross(corner_places[:, 1] - corner_places[:, 0], corner_places[:, 2] - corner_places[:, 0])
    sides[active, 0] = face_normals / np.maximum(np.linalg.norm(face_normals, axis=1), 1e-300)[:, None]
    touched_places[active, 0] = np.einsum("kj,kji->ki", -nearest_contacts.weights[:, 1:], corner_places)
    contact_normals[active, 0] = nearest_contacts.normal
    found = []
    for count, kind in enumerate(CORNER_KINDS, 1):
        if not len(active):
            break
        candidates = active

        def alike(point: Index, other: Index, asked: Index = candidates) -> Mask:
            which = asked[point]
            along = np.abs(np.einsum("ki,kji->kj", surface.normals[other], sides[which]))
            return np.asarray(forbidden(which, other) | (along > 1.0 - 0.5 * SAME_NORMAL_TOLERANCE**2).any(axis=1))

        hits = nearest_triangles(surface, points[candidates], NEAR_FACTOR * distance, is_excluded=alike)
        normal = side_function(candidates, hits)[1]
        corners = surface.triangles[hits.triangle]
        touch_points = np.einsum("kj,kji->ki", hits.weights, points[corners])
        active = candidates[hits.point]
        separation = touched_places[active, :count] - touch_points[:, None]
        heights = (
            np.einsum("ki,kji->kj", normal, separation),
            np.einsum("kji,kji->kj", contact_normals[active, :count], -separation),
        )
        accepted = np.flatnonzero((np.minimum(*heights) >= -HOLLOW_TOLERANCE * distance).all(axis=1))
        active = active[accepted]
        sides[active, count] = surface.normals[hits.triangle[accepted]]
        touched_places[active, count], contact_normals[active, count] = touch_points[accepted], normal[accepted]
        stencil, surfaces = np.column_stack([active, corners[accepted]]) + first_point, nearest_contacts.surfaces
        weights, normal = hits.weights[accepted], normal[accepted]
        found.append(point_collisions(model, surfaces[: len(accepted)], stencil, weights, normal, kind))
    return found

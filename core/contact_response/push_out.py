"""Last resort after a violent step: bodies that end deep in colliders, or in each other, are pushed out.

A search that spends its work may leave a body deep in a collider, where contacts act in opposite directions.
Geometry alone then gives the way out (docs/decisions/0102-push-crushed-bodies-out.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix, diags, vstack
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index, Mask, take_rows
from ..contact.collision_state import CollisionState
from ..contact.collision_surface import CollisionSurface
from ..geometry.collision.intersections import first_exits, points_inside
from ..geometry.collision.proximity import nearest_triangles
from ..geometry.mesh.rigid_motion import fit_rigid_motion
from ..geometry.mesh.triangles import Triangles, cross_rows, unit_vectors
from ..system.region import connected_parts, node_adjacency
from ..system.system import System

# Rounds of moving out and measuring again, and sweeps over the overlaps in each.
_MAX_ROUNDS, _SWEEPS = 6, 60
# Depth at which the rounds end, relative to the largest allowed one: contacts move the rest out.
_SHALLOW = 0.2
# Largest depth that may remain, relative to that before, if the body cannot leave completely.
_MAX_REMAINING_RATIO = 0.7
# Largest number of overlaps in a round: the deepest ones.
_MAX_OVERLAPS = 150
# Points along each edge that are tested, besides its ends.
_SAMPLES = (0.25, 0.5, 0.75)
# Overlaps whose nearest ways out cancel each other to less than this fraction leave in a common direction.
_MIN_MEAN_WAY = 0.5
# Distance in front of the surface at which they end, in contact distances.
_MARGIN = 0.25
# Weight of unpinned nodes below which an overlap is left alone, and longest way out relative to its distance from the
# pins, from which it would be torn off.
_MIN_FREE_WEIGHT, _MAX_SLOPE = 0.1, 0.7
# Weight of the masses relative to the springs: small, so that free bodies move as a whole.
_MASS_WEIGHT = 1e-3
# Weight of hinges relative to the springs, and to all nodes of a piece in its rigid motion.
_HINGE_WEIGHT, _HINGE_COPIES = 1e4, 1000


@dataclass(frozen=True)
class Overlaps:
    """Points of one surface that are inside another one.

    rows: (k, N) weights of all points, whose sum is the vector from a place on the surface to the point inside.
    displacements: (k, 3) m, changes of these vectors that move the points out.
    depths: (k,) distances to the surface, relative to the size of the smaller one.
    is_common: whether a pair of surfaces leaves each other in a common direction.
    """

    rows: csr_matrix
    displacements: Array
    depths: Array
    is_common: bool = False

    def without_points(self, is_left_out: Mask) -> Overlaps:
        """Return the overlaps in which no point of a mask (N,) takes part."""
        kept = np.flatnonzero(abs(self.rows) @ is_left_out.astype(float) == 0.0)
        return Overlaps(self.rows[kept], self.displacements[kept], self.depths[kept], self.is_common)

    @property
    def deepest(self) -> float:
        """Largest depth; 0 without overlaps."""
        return float(self.depths.max(initial=0.0))


AttachedPoints = Mapping[tuple[int, int], Mask]
"""Masks (N,) of points by the pair of surfaces in which they are attached, see attached_points()."""


class PushOut:
    """Displacement of unpinned nodes out of overlaps, smooth over a network of springs along the elements.

    It is the smallest one in the energy norm of the network, with pins at rest. The mean position of bodies that only
    overlap each other does not move.

    free: (f,) nodes that are unknowns.
    """

    def __init__(self, system: System, free: Index) -> None:
        self._system, self._free = system, free

    def __call__(self, state: CollisionState, x: Array, max_depth: float, is_allowed: Callable[[Array], bool]) -> Array:
        """Return positions (n, 3) m whose overlaps are at most max_depth, or 0.7 times as deep as those of x (n, 3) m.

        x itself is returned if nothing is deeper, or if no allowed shape is found. max_depth: relative to the smaller
        surface's size.  is_allowed: whether a shape may be returned.
        """
        if _overlaps_at(state, x).deepest <= max_depth:
            return x
        overlaps, deepest = self._movable_overlaps(state, x)
        if overlaps.deepest <= max_depth:
            return x
        # The root of an ear belongs inside the head.
        attached = attached_points(state, state.points_at(x), self._free, self._piece_of_node)
        if attached:
            overlaps, deepest = self._movable_overlaps(state, x, attached=attached)
            if overlaps.deepest <= max_depth:
                return x
        best, least, y, is_common = x, max(max_depth, _MAX_REMAINING_RATIO * overlaps.deepest), x, None
        for _ in range(_MAX_ROUNDS):
            before, y = overlaps, self._displace(overlaps, y)
            overlaps, depth = self._movable_overlaps(state, y, is_common, attached)
            if overlaps.deepest <= least and depth <= deepest and is_allowed(y):
                best, least = y, overlaps.deepest
            if overlaps.deepest <= _SHALLOW * max_depth:
                break
            if overlaps.deepest > _MAX_REMAINING_RATIO * before.deepest:
                # These ways lead back and forth.
                is_common = not overlaps.is_common
                overlaps, _ = self._movable_overlaps(state, y, is_common, attached)
        return best

    def depths(self, state: CollisionState, x: Array) -> tuple[float, float]:
        """Return the largest depth of all pieces, and of those that are not attached, at x (n, 3) m, see Overlaps."""
        deepest = _overlaps_at(state, x).deepest
        if deepest == 0.0:
            return 0.0, 0.0
        attached = attached_points(state, state.points_at(x), self._free, self._piece_of_node)
        return deepest, find_overlaps(state, state.points_at(x), attached=attached).deepest if attached else deepest

    def initial_depth(self, state: CollisionState) -> float:
        """Return the largest depth of all pieces at the start of the step."""
        return find_overlaps(state, state.start).deepest

    def flatten(
        self, state: CollisionState, x: Array, max_depth: float, is_allowed: Callable[[Array, Mask], bool]
    ) -> tuple[Array, Mask]:
        """Return positions (n, 3) m with pinned pieces flattened beyond colliders, and the mask (n,) of their nodes.

        A piece that surrounds a collider, or that a collider cuts, has no way out that keeps its shape. It is folded or
        compressed towards its pins in the direction in which that is least. Other pieces of the object stay.
        max_depth: see __call__().  is_allowed: whether a shape may be returned in which the nodes of a mask (n,) are
        flattened.
        """
        model, is_flat = state.model, np.zeros(len(x), dtype=bool)
        overlaps, points = _overlaps_at(state, x), state.points_at(x)
        if overlaps.deepest <= max_depth:
            return x, is_flat
        attached: AttachedPoints | None = None
        for a, b in model.colliding_pairs:
            collider = model.surfaces[b]
            if model.surfaces[a].is_collider or not collider.is_collider or collider.is_plane:
                continue
            deep_pieces = np.flatnonzero(self._piece_depths(state, overlaps, b) > max_depth)
            if not len(deep_pieces):
                continue
            if attached is None:
                attached = attached_points(state, points, self._free, self._piece_of_node)
            is_attached_node = _nodes_of_points(state, attached.get((a, b), np.zeros(len(points), dtype=bool)))
            part = self._system.slices[model.surfaces[a].block]
            for k in deep_pieces:
                free, pins = self._pieces[k]
                if not part.start <= free[0] < part.stop or is_attached_node[free].any():
                    continue
                is_flat_then = is_flat.copy()
                is_flat_then[free] = True
                for y in self._flattened(state, x, free, pins, b):
                    found = find_overlaps(state, state.points_at(y))
                    if self._piece_depths(state, found, b)[k] > max_depth or found.deepest > overlaps.deepest:
                        continue
                    if is_allowed(y, is_flat_then):
                        x, overlaps, is_flat = y, found, is_flat_then
                        break
        return x, is_flat

    def stuck_nodes(self, state: CollisionState, x: Array, max_depth: float) -> Mask:
        """Return the mask (n,) of the free nodes of pieces whose pins are inside a collider that they are deep in.

        They have no way out. max_depth: see __call__().
        """
        model, is_stuck = state.model, np.zeros(len(x), dtype=bool)
        attached = attached_points(state, state.points_at(x), self._free, self._piece_of_node)
        if not any(model.surfaces[b].is_collider for _, b in attached):
            return is_stuck
        overlaps = _overlaps_at(state, x)
        for (_, b), is_attached in attached.items():
            if model.surfaces[b].is_collider:
                is_attached_node = _nodes_of_points(state, is_attached)
                for k in np.flatnonzero(self._piece_depths(state, overlaps, b) > max_depth):
                    free, _ = self._pieces[k]
                    is_stuck[free] |= bool(is_attached_node[free].any())
        return is_stuck

    def carried_by_pins(self, is_carried: Mask, velocities: Array, motion: Array) -> Array:
        """Return velocities (n, 3) m/s in which pieces with nodes of a mask (n,) have the mean velocity of their pins.

        motion: velocities (n, 3) m/s of the step, of which those of pins are used.
        """
        velocities = velocities.copy()
        for free, pins in self._pieces:
            if is_carried[free].any():
                velocities[free] = motion[pins].mean(axis=0) if len(pins) else 0.0
        return velocities

    def _flattened(self, state: CollisionState, x: Array, free: Index, pins: Index, collider: int) -> Iterator[Array]:
        """Yield x (n, 3) m with the free nodes of a piece on the side of a collider on which its pins are.

        Sheets, nets and threads are folded at the collider, once or several times, which hardly stretches them; the
        last shape is compressed. There is none without pins that all are beyond the collider in some direction.
        free, pins: see _pieces.  collider: index of its surface.
        """
        if not len(pins):
            return
        obstacle = state.points_at(x)[state.model.points_of(collider)]
        axes = np.linalg.svd(obstacle - obstacle.mean(axis=0), full_matrices=False)[2]
        margin, best, direction, limit = _MARGIN * float(state.contact_distance.max()), 0.0, axes[0], 0.0
        for one in np.concatenate([axes, -axes]):
            height, end = x @ one, float((obstacle @ one).max()) + margin
            lowest_pin, lowest = float(height[pins].min()), float(height[free].min())
            if lowest_pin > end > lowest:
                ratio = (lowest_pin - end) / (lowest_pin - lowest)
                if ratio > best:
                    best, direction, limit = ratio, one, end
        if best == 0.0:
            return
        height = x[free] @ direction
        room, beyond = float((x[pins] @ direction).min()) - limit, np.maximum(limit - height, 0.0)
        lifts = [(1.0 - best) * np.maximum(limit + room - height, 0.0)]
        if self._bends_freely(free):
            # Mirrored at the collider, and in folds between it and the pins.
            lifts = [2.0 * beyond, beyond + room - np.abs(room - beyond % (2.0 * room)), *lifts]
        for lift in lifts:
            found = x.copy()
            found[free] += np.outer(lift, direction)
            yield found

    def _bends_freely(self, nodes: Index) -> bool:
        """Return whether nodes (k,) of a block belong to a sheet, a net or a thread."""
        for block, part in zip(self._system.blocks, self._system.slices, strict=True):
            if part.start <= nodes[0] < part.stop:
                return not (block.is_solid or block.is_rigid)
        return False

    def _piece_depths(self, state: CollisionState, overlaps: Overlaps, collider: int) -> Array:
        """Return the depth (p,) of each piece in a collider with a given surface, see Overlaps.depths."""
        pieces, labels = self._pieces, np.full(len(self._system.rest), len(self._pieces))
        for k, (free, _) in enumerate(pieces):
            labels[free] = k
        is_in = np.asarray(abs(overlaps.rows[:, state.model.points_of(collider)]).sum(axis=1)).ravel() > 0.0
        nodes = (overlaps.rows @ state.model.operator).tocoo()
        moved, found = nodes.data != 0.0, np.zeros(len(pieces) + 1)
        np.maximum.at(found, labels[nodes.col[moved]], np.where(is_in, overlaps.depths, 0.0)[nodes.row[moved]])
        return found[:-1]

    @cached_property
    def _pieces(self) -> list[tuple[Index, Index]]:
        """Free nodes (f,) of each connected piece of a block, and the pins (p,) at their border."""
        adjacency, is_free = self._adjacency, np.zeros(len(self._system.rest), dtype=bool)
        is_free[self._free] = True
        found = []
        for part in self._system.slices:
            for free in connected_parts(adjacency, part.start + np.flatnonzero(is_free[part])):
                border = np.unique(adjacency[free].indices)
                is_pin = ~is_free[border] & (border >= part.start) & (border < part.stop)
                found.append((free, border[is_pin].astype(np.int64)))
        return found

    @cached_property
    def _rigid_pieces(self) -> list[tuple[Index, csr_matrix]]:
        """Free nodes of each rigid piece, which keeps its shape, and its hinges (c, n), see System.hinges."""
        system, is_rigid = self._system, np.zeros(len(self._system.rest), dtype=bool)
        for block, part in zip(system.blocks, system.slices, strict=True):
            is_rigid[part] = block.is_rigid
        found = []
        for nodes in connected_parts(self._adjacency, self._free[is_rigid[self._free]]):
            is_own = np.zeros(len(system.rest))
            is_own[nodes] = 1.0
            found.append((nodes, system.hinges[np.flatnonzero(abs(system.hinges) @ is_own)]))
        return found

    @cached_property
    def _piece_of_node(self) -> Index:
        """Number (n,) of the connected piece of each node, with its pins: strands of hair are pieces of one object."""
        return np.asarray(connected_components(self._adjacency, directed=False)[1])

    @cached_property
    def _adjacency(self) -> csr_matrix:
        return node_adjacency(self._system.element_groups, len(self._system.rest))

    @cached_property
    def _solve(self) -> Callable[[Array], Array]:
        system, free = self._system, self._free
        adjacency = self._adjacency.tocoo()
        lengths = np.linalg.norm(system.rest[adjacency.row] - system.rest[adjacency.col], axis=1)
        springs = csr_matrix((1.0 / np.maximum(lengths, 1e-9), (adjacency.row, adjacency.col)), shape=adjacency.shape)
        sums = np.asarray(springs.sum(axis=1)).ravel()
        weight = _MASS_WEIGHT * sums.mean() / system.mass.mean()
        held = _HINGE_WEIGHT * sums.max() * (system.hinges.T @ system.hinges)
        matrix = (diags(sums + weight * system.mass) - springs + held).tocsr()
        factors = splu(matrix[free][:, free].tocsc())
        return lambda columns: np.asarray(factors.solve(columns))

    @cached_property
    def _pin_distances(self) -> Array:
        """Distance (n,) m of each node at rest to the nearest hard pin of its block; infinite without pins."""
        system, found = self._system, np.full(len(self._system.rest), np.inf)
        for part in system.slices:
            pins = np.flatnonzero(system.is_fixed[part])
            if len(pins):
                found[part] = cKDTree(system.rest[part][pins]).query(system.rest[part])[0]
        return found

    def _movable_overlaps(
        self,
        state: CollisionState,
        x: Array,
        is_common: bool | None = None,
        attached: AttachedPoints | None = None,
    ) -> tuple[Overlaps, float]:
        """Return the overlaps that free nodes can leave without being torn off their pins, and the depth of all.

        The matrix of their rows has the shape (k, f).  is_common, attached: see find_overlaps().
        """
        is_plain = is_common is None and not attached
        found = _overlaps_at(state, x) if is_plain else find_overlaps(state, state.points_at(x), is_common, attached)
        rows = (found.rows @ state.model.operator).tocsr()[:, self._free]
        weights = abs(rows)
        total = np.asarray(weights.sum(axis=1)).ravel()
        reach = np.full(len(total), np.inf)
        distances = self._pin_distances[self._free]
        if np.isfinite(distances).any():
            reach = np.asarray(weights @ np.minimum(distances, 1e9)) / np.maximum(total, 1e-30)
        is_kept = (total > _MIN_FREE_WEIGHT) & (np.linalg.norm(found.displacements, axis=1) <= _MAX_SLOPE * reach)
        kept = np.flatnonzero(is_kept)
        if len(kept) > _MAX_OVERLAPS:
            kept = np.sort(kept[np.argsort(-found.depths[kept], kind="stable")[:_MAX_OVERLAPS]])
        return Overlaps(rows[kept], found.displacements[kept], found.depths[kept], found.is_common), found.deepest

    def _displace(self, overlaps: Overlaps, x: Array) -> Array:
        """Return x (n, 3) m moved by the smallest displacement that changes each overlap by at least its own."""
        lengths = np.linalg.norm(overlaps.displacements, axis=1)
        directions = overlaps.displacements / lengths[:, None]
        columns = self._solve(np.ascontiguousarray(overlaps.rows.T.toarray()))
        compliance = (overlaps.rows @ columns) * (directions @ directions.T)
        forces = np.zeros(len(lengths))
        # Projected Gauss-Seidel: forces only push.
        for _ in range(_SWEEPS):
            for k in range(len(lengths)):
                forces[k] = max(forces[k] + (lengths[k] - compliance[k] @ forces) / compliance[k, k], 0.0)
        moved = x.copy()
        moved[self._free] += columns @ (forces[:, None] * directions)
        for nodes, hinges in self._rigid_pieces:
            # The piece turns about its hinges, which count more than its nodes.
            places = hinges @ x
            held = np.repeat(places, max(_HINGE_COPIES * len(nodes) // max(len(places), 1), 1), axis=0)
            rotation, shift = fit_rigid_motion(np.concatenate([x[nodes], held]), np.concatenate([moved[nodes], held]))
            if len(places):
                shift = places.mean(axis=0) - rotation @ places.mean(axis=0)
            moved[nodes] = x[nodes] @ rotation.T + shift
        return moved


def attached_points(state: CollisionState, points: Array, free: Index, piece_of_node: Index) -> AttachedPoints:
    """Return the points of pieces with pinned points inside the other surface of a pair, before and after the step.

    Such a piece is attached there, so its overlaps are no errors. Other pieces, such as strands of hair whose roots are
    outside, are not.

    points: (N, 3) m after the step.  free: (f,) nodes.  piece_of_node: (n,) number of the piece of each node.
    """
    model, found = state.model, dict[tuple[int, int], Mask]()
    weights = np.asarray(abs(model.operator.tocsc()[:, free]).sum(axis=1)).ravel()
    is_pinned = (weights == 0.0) & ~model.is_collider[model.owner]

    def pinned_inside(a: int, b: int) -> Index:
        surface, pinned = model.surfaces[b], np.flatnonzero(is_pinned & (model.owner == a))
        if not len(pinned) or not surface.is_closed:
            return pinned[:0]
        for places in (state.start, points):
            other = Triangles(places[model.points_of(b)], surface.triangles, surface.topology)
            pinned = pinned[points_inside(places[pinned], other)]
        return pinned

    operator = model.operator.tocsr()
    for a, b in model.colliding_pairs:
        inside = np.concatenate([pinned_inside(a, b), pinned_inside(b, a)])
        if len(inside):
            rows = operator[inside]
            pieces = np.unique(piece_of_node[rows.indices])
            is_attached = abs(operator) @ np.isin(piece_of_node, pieces).astype(float) > 0.0
            # Pinned points of a solid's surface are animated without any node, so its piece is unknown.
            is_unknown = np.diff(rows.indptr) == 0
            found[a, b] = is_attached | np.isin(model.owner, model.owner[inside[is_unknown]])
    return found


def _nodes_of_points(state: CollisionState, is_chosen: Mask) -> Mask:
    """Return the mask (n,) of the nodes that move points of a mask (N,)."""
    return np.asarray(is_chosen.astype(float) @ abs(state.model.operator) > 0.0)


def _overlaps_at(state: CollisionState, x: Array) -> Overlaps:
    """Return find_overlaps() with nodes at x (n, 3) m, by the nearest ways. That of the last x is cached."""
    known = state.cache.get("overlaps")
    if not (isinstance(known, tuple) and known[0] is x):
        known = state.cache["overlaps"] = x, find_overlaps(state, state.points_at(x))
    found = known[1]
    assert isinstance(found, Overlaps)
    return found


def find_overlaps(
    state: CollisionState,
    points: Array,
    is_common: bool | None = None,
    attached: AttachedPoints | None = None,
) -> Overlaps:
    """Return all overlaps of different surfaces at points (N, 3) m, and of surfaces with planes.

    is_common: whether all points of a pair leave in a common direction. By default, they take the nearest ways out,
        unless these cancel each other.
    attached: points that are left out.
    """
    model, found = state.model, [Overlaps(csr_matrix((0, state.model.point_count)), np.zeros((0, 3)), np.zeros(0))]
    for a, b in model.colliding_pairs:
        if model.visible_surface[a] != a or model.visible_surface[b] != b:
            continue
        overlaps, is_left_out = _pair_overlaps(state, points, a, b, is_common), (attached or {}).get((a, b))
        found += overlaps if is_left_out is None else [one.without_points(is_left_out) for one in overlaps]
    return Overlaps(
        vstack([one.rows for one in found]).tocsr(),
        np.concatenate([one.displacements for one in found]),
        np.concatenate([one.depths for one in found]),
        any(one.is_common for one in found),
    )


def _pair_overlaps(state: CollisionState, points: Array, a: int, b: int, is_common: bool | None) -> list[Overlaps]:
    """Return the overlaps of two surfaces: of points of a in b, and the reverse."""
    surfaces = [state.model.surfaces[k] for k in (a, b)]
    parts = [points[state.model.points_of(k)] for k in (a, b)]
    margin = _MARGIN * float(state.pair_distances[a, b])
    if surfaces[1].is_plane:
        return _plane_overlaps(state, parts, a, b, margin)
    if (parts[0].max(axis=0) < parts[1].min(axis=0)).any() or (parts[1].max(axis=0) < parts[0].min(axis=0)).any():
        return []
    sides = [
        one
        for one in (_Side.of(state, surfaces, parts, (a, b)), _Side.of(state, surfaces[::-1], parts[::-1], (b, a)))
        if one is not None and len(one.places)
    ]
    if not sides:
        return []
    # All ways are motions of a relative to b.
    signs = [1.0 if one.surfaces[0] == a else -1.0 for one in sides]
    nearest = [sign * one.nearest_ways(one.normals) for one, sign in zip(sides, signs, strict=True)]
    ways = np.concatenate(nearest)
    lengths = np.linalg.norm(ways, axis=1)
    direction = None
    if is_common is None:
        is_common = bool(np.linalg.norm(ways.sum(axis=0)) < _MIN_MEAN_WAY * lengths.sum())
    if is_common:
        axes = np.linalg.svd(parts[1] - parts[1].mean(axis=0), full_matrices=False)[2]
        apart = np.stack([parts[0].mean(axis=0) - parts[1].mean(axis=0), ways.sum(axis=0)])
        candidates = np.concatenate([axes, -axes, unit_vectors(apart)])
        candidates = candidates[np.linalg.norm(candidates, axis=1) > 0.5]
        longest = [
            max(float(one.exits(sign * d).max()) for one, sign in zip(sides, signs, strict=True)) for d in candidates
        ]
        direction = candidates[int(np.argmin(longest))]
    smaller = max(min(one.size for one in surfaces), 1e-12)
    return [one.overlaps(sign, direction, margin, smaller) for one, sign in zip(sides, signs, strict=True)]


def _plane_overlaps(state: CollisionState, parts: list[Array], a: int, b: int, margin: float) -> list[Overlaps]:
    """Return the overlaps of points of a surface below a plane."""
    surface, (origin, one, other) = state.model.surfaces[a], parts[1]
    normal = cross_rows(one - origin, other - origin)
    normal = normal / np.linalg.norm(normal)
    below = surface.used_vertices
    height = (take_rows(parts[0], below) - origin) @ normal
    below, height = below[height < 0.0], height[height < 0.0]
    rows = _rows((below + state.model.point_starts[a])[:, None], np.ones((len(below), 1)), state.model.point_count)
    return [Overlaps(rows, (margin - height)[:, None] * normal, (margin - height) / surface.size)]


@dataclass(frozen=True)
class _Side:
    """Points of a surface that are inside another one.

    surfaces: indices of both.  rows: (k, N) weights of all points.  places: (k, 3) m.
    normals: (k, 3) of a closed surface, not normalised; None for an open one.  other: the closed surface around them.
    """

    state: CollisionState
    surfaces: tuple[int, int]
    rows: csr_matrix
    places: Array
    normals: Array | None
    other: Triangles

    @staticmethod
    def of(
        state: CollisionState, surfaces: list[CollisionSurface], parts: list[Array], indices: tuple[int, int]
    ) -> _Side | None:
        """Return the points of the first surface in the second one; None if that is open."""
        first, second = surfaces
        if not second.is_closed:
            return None
        other = Triangles(parts[1], second.triangles, second.topology)
        # Threads and sheets only need their vertices outside.
        edges = first.edges_and_faces[0] if first.is_closed else np.zeros((0, 2), dtype=np.int64)
        vertices, start = first.used_vertices, state.model.point_starts[indices[0]]
        columns = np.concatenate([vertices[:, None].repeat(2, axis=1), np.tile(edges, (len(_SAMPLES), 1))])
        along = np.concatenate([np.zeros(len(vertices)), np.repeat(_SAMPLES, len(edges))])
        weights = np.stack([1.0 - along, along], axis=1)
        places = (weights[:, :, None] * parts[0][columns]).sum(axis=1)
        inside = np.flatnonzero(points_inside(places, other))
        rows = _rows(columns[inside] + start, weights[inside], state.model.point_count)
        normals = None
        if first.is_closed and len(inside):
            of_vertices = Triangles(parts[0], first.triangles, first.topology).vertex_normals
            normals = (weights[inside][:, :, None] * of_vertices[columns[inside]]).sum(axis=1)
        return _Side(state, indices, rows, places[inside], normals, other)

    def nearest_ways(self, normals: Array | None = None) -> Array:
        """Return the ways (k, 3) m to the nearest places on the other surface; with normals, to those that face them.

        A closed surface that is dented by another one would be torn by ways to its far side.
        """
        ways = np.zeros_like(self.places)
        for facing in (None, normals):
            near = nearest_triangles(self.other, self.places, np.inf, normals=facing)
            ways[near.point] = -near.offset
        return ways

    def exits(self, direction: Array) -> Array:
        """Return the distances (k,) m to the outside along a unit direction (3,)."""
        return first_exits(self.places, direction, self.other)

    def overlaps(self, sign: float, direction: Array | None, margin: float, smaller: float) -> Overlaps:
        """Return the overlaps, with ways to the nearest places, or in a common direction.

        sign: -1 if ways are motions of the other surface.  margin: m by which they are longer.
        smaller: size of the smaller surface, m.
        """
        depths = np.linalg.norm(self.nearest_ways(), axis=1)
        if direction is None:
            ways = sign * self.nearest_ways(self.normals)
            lengths = np.linalg.norm(ways, axis=1)
            ways = ways * ((lengths + margin) / np.maximum(lengths, 1e-300))[:, None]
        else:
            lengths = self.exits(sign * direction)
            ways = (lengths + margin)[:, None] * direction
        is_kept = np.flatnonzero(lengths > 0.0)
        ways, depths = ways[is_kept], depths[is_kept]
        targets = self.places[is_kept] + sign * ways
        near = nearest_triangles(self.other, targets, np.inf)
        start = self.state.model.point_starts[self.surfaces[1]]
        touched = _rows(self.other.triangles[near.triangle] + start, near.weights, self.state.model.point_count)
        kept = is_kept[near.point]
        rows = sign * (self.rows[kept] - touched)
        return Overlaps(rows.tocsr(), ways[near.point], depths[near.point] / smaller, direction is not None)


def _rows(columns: Index, weights: Array, count: int) -> csr_matrix:
    """Return a matrix (k, count) with weights (k, m) in columns (k, m)."""
    starts = np.arange(0, columns.size + 1, columns.shape[1])
    return csr_matrix((weights.ravel(), columns.ravel(), starts), shape=(len(columns), count))

"""Contacts between edges of two surfaces, at least one of each pair being sharp.

Points and triangles alone would miss edges that cross between vertices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array, Index, Mask
from ..geometry.collision.edge_pairs import edge_pair_candidates, edge_tree, near_edge_pairs
from ..geometry.mesh.primitives import bounding_box, closest_points_of_lines, outcodes
from ..geometry.mesh.triangles import Triangles, cross_rows
from ..native.box_tree import EdgeTree
from .collision_state import CollisionState
from .collision_surface import CollisionSurface
from .collisions import Collisions, relative_motion, weighted_sum
from .contact_history import EDGE
from .contact_model import ContactModel

# Search radius in contact distances, in addition to the motion; largest depth at the start in contact distances.
_SEARCH_FACTOR, _MAX_START_DEPTH = 2.0, 2.0
# A pair deeper than this many contact distances may have tunnelled, and counts only if the edges met during the step.
_TUNNELLING_DEPTH = 4.0
# An edge touches in directions between its two faces' normals, up to this tolerance of the cosine.
_CONE_TOLERANCE = 0.05
# A sheet folds over edges with a smaller cosine between their faces, if they are longer than this many sheet edges.
_FOLD_COSINE, _LONG_EDGE = 0.5, 2.0
# Safety factor against rounding of a bound.
_ROUNDING_MARGIN = 1.0 + 1e-6
# Edges count as crossing if they met up to this fraction of their lengths beyond their ends.
_END_TOLERANCE = 0.02


@dataclass(frozen=True)
class _EdgePairBatch:
    """Candidate edges of two surfaces a and b.

    first_edges, second_edges: indices of edges of a and b.  radius: m, search radius.
    tree: of the edges of b, if b is a collider and there is a kernel.
    margins: (k,) m of the edges of a in it, see EdgeTree.near().
    """

    a: int
    b: int
    first_edges: Index
    second_edges: Index
    radius: float
    tree: EdgeTree | None = None
    margins: Array | None = None


def _edges_near_box(points: Array, edges: Index, others: Array, radius: float) -> Index:
    """Return indices (k,) of edges (e, 2) within radius (m) of the box around others (p, 3) m."""
    if not len(others):
        return np.zeros(0, dtype=np.int64)
    low, high = bounding_box(others)
    codes = outcodes(points, low - radius, high + radius)
    return np.flatnonzero(codes[edges[:, 0]] & codes[edges[:, 1]] == 0)


def _edge_candidates(
    state: CollisionState,
    points: Array,
    a: int,
    b: int,
    selection: int,
    radius: float,
    motions: Array,
    mean_motion: Array,
) -> _EdgePairBatch | None:
    """Return the candidate edges of two surfaces, or None.

    selection: 0 for sharp edges of a with smooth ones of b, 1 for all edges of a with sharp ones of b, 2 for all edges.
    mean_motion: (3,) m, of the points of b.  motions: (v,) m, lengths of those of a's points relative to it.
    """
    model = state.model
    first_surface, second_surface = model.surfaces[a], model.surfaces[b]
    first_edges, second_edges, vertices = (
        (first_surface.sharp_edge_indices, second_surface.smooth_edge_indices, second_surface.smooth_edge_vertices),
        (first_surface.all_edge_indices, second_surface.sharp_edge_indices, second_surface.sharp_edge_vertices),
        (first_surface.all_edge_indices, second_surface.all_edge_indices, second_surface.used_vertices),
    )[selection]
    if not len(first_edges) or not len(second_edges):
        return None
    first_points, second_points = points[model.points_of(a)], points[model.points_of(b)]
    first_ends, second_ends = first_surface.edges_and_faces[0], second_surface.edges_and_faces[0]
    first_edges = first_edges[_edges_near_box(first_points, first_ends[first_edges], second_points[vertices], radius)]
    if not len(first_edges):
        return None
    tree = None
    if second_surface.is_collider:
        tree = _collider_tree(state, points, b, second_edges, selection, mean_motion)
    if tree is not None:
        margins = None
        if not (first_surface.is_closed and second_surface.is_closed):
            # Other pairs than these are left out at the end, see _contacts_of_batches().
            ends = first_ends[first_edges]
            margins = np.maximum(motions[ends[:, 0]], motions[ends[:, 1]])
            margins += _ROUNDING_MARGIN * _SEARCH_FACTOR * state.pair_distances[a, b]
            # Fast motion would enlarge them beyond the radius, outside of which nothing touches.
            margins = np.minimum(margins, radius)
        return _EdgePairBatch(a, b, first_edges, second_edges, radius, tree, margins)
    near = first_points[first_ends[first_edges].ravel()]
    second_edges = second_edges[_edges_near_box(second_points, second_ends[second_edges], near, radius)]
    return _EdgePairBatch(a, b, first_edges, second_edges, radius) if len(second_edges) else None


def _collider_tree(
    state: CollisionState, points: Array, place: int, edges: Index, selection: int, mean_motion: Array
) -> EdgeTree | None:
    """Return the compiled tree of a collider's edges, which is cached for the step; None without a kernel.

    The boxes are enlarged by the motion of the edges, see EdgeTree.near().  points: (N, 3) m at the step's end.
    edges: indices of all its edges of a selection.  selection, mean_motion: see _edge_candidates().
    """
    key = ("edge_tree", place, selection)
    if key not in state.cache:
        part, ends = state.model.points_of(place), state.model.surfaces[place].edges_and_faces[0][edges]
        motion = points[part] - state.start[part] - mean_motion
        lengths = np.sqrt((motion * motion).sum(axis=1))
        state.cache[key] = edge_tree(points[part], ends, np.maximum(lengths[ends[:, 0]], lengths[ends[:, 1]]))
    tree = state.cache[key]
    return tree if isinstance(tree, EdgeTree) else None


def edge_edge_contacts(
    state: CollisionState,
    pairs: Sequence[tuple[int, int]],
    points: Array,
    bounds: tuple[Array, Array],
    thorough: bool = False,
) -> list[Collisions]:
    """Return the contacts between edges of pairs of surfaces, at least one edge of each contact being sharp.

    points: (N, 3) m at the step's end.  bounds: see CollisionState.displacement_bounds.  thorough: whether all edges of
        two closed surfaces are included.
    """
    model, batches = state.model, []
    for a, b in pairs:
        first_surface, second_surface = model.surfaces[a], model.surfaces[b]
        # A thread deeper than the closed surface's thickness passes through it. Smooth edges that it met during the
        # step, thousands in a fine mesh, are found by the next detection.
        max_motion = second_surface.thickness if first_surface.is_thread and second_surface.is_closed else 0.0
        first_slice = model.points_of(a)
        displacement = points[first_slice] - state.start[first_slice] - bounds[0][b]
        lengths = np.sqrt((displacement * displacement).sum(axis=1))
        motion = float(lengths.max()) + float(bounds[1][b])
        max_radius = 0.25 * min(first_surface.size or np.inf, second_surface.size)
        # Pairs of two sharp edges are in the first round.
        are_all_tested = thorough and first_surface.is_closed and second_surface.is_closed
        rounds = ((2, 0.0),) if are_all_tested else ((1, 0.0), (0, max_motion))
        for selection, skipped in rounds:
            radius = _SEARCH_FACTOR * state.pair_distances[a, b] + min(max(motion - skipped, 0.0), max_radius)
            batch = _edge_candidates(state, points, a, b, selection, radius, lengths, bounds[0][b])
            if batch is not None:
                batches.append(batch)
    return [_contacts_of_batches(state, batches, points)] if batches else []


def _contacts_of_batches(state: CollisionState, batches: Sequence[_EdgePairBatch], points: Array) -> Collisions:
    """Return the contacts of all batches."""
    model = state.model
    ends_a, ends_b, first_edges, second_edges, radii = [], [], [], [], []
    offset_a = offset_b = 0
    for lot in batches:
        ends_a.append(model.surfaces[lot.a].edges_and_faces[0][lot.first_edges] + model.points_of(lot.a).start)
        ends_b.append(model.surfaces[lot.b].edges_and_faces[0][lot.second_edges] + model.points_of(lot.b).start)
        one, other = edge_pair_candidates(points, ends_a[-1], points, ends_b[-1], lot.radius, lot.tree, lot.margins)
        first_edges.append(one + offset_a)
        second_edges.append(other + offset_b)
        radii.append(np.full(len(one), lot.radius))
        offset_a, offset_b = offset_a + len(ends_a[-1]), offset_b + len(ends_b[-1])
    all_a, all_b = np.concatenate(ends_a), np.concatenate(ends_b)
    candidates = np.concatenate(first_edges), np.concatenate(second_edges)
    pairs = near_edge_pairs(points, all_a, points, all_b, np.concatenate(radii), pairs=candidates)
    batch_index = np.repeat(np.arange(len(batches)), [len(one) for one in ends_a])[pairs.first]
    first_index = np.concatenate([k.first_edges for k in batches])[pairs.first]
    second_index = np.concatenate([k.second_edges for k in batches])[pairs.second]
    stencil = np.concatenate([all_a[pairs.first], all_b[pairs.second]], axis=1)
    surfaces = np.array([(k.a, k.b) for k in batches])[batch_index]
    normals_a = _edge_normals(model, points, surfaces[:, 0], first_index)
    normals_b = _edge_normals(model, points, surfaces[:, 1], second_index)
    end_points = points[stencil]
    normal = common_normals(end_points)
    fold_a, fold_b, is_thread, are_closed = np.zeros((4, len(batch_index)), dtype=bool)
    for number, k in enumerate(batches):
        first_surface, second_surface = model.surfaces[k.a], model.surfaces[k.b]
        selected = np.flatnonzero(batch_index == number)
        if first_surface.is_closed and second_surface.is_closed:
            are_closed[selected] = True
            continue
        # A sheet has no outside. Over a long sharp edge of a closed surface, that edge decides the direction of the
        # push, and the sheet may touch with either side.
        fold_a[selected] = _is_fold_edge(first_surface, end_points[selected, :2], normals_a[selected], second_surface)
        fold_b[selected] = _is_fold_edge(second_surface, end_points[selected, 2:], normals_b[selected], first_surface)
        is_thread[selected] = first_surface.is_thread
    outward = np.where(fold_a[:, None], 0.0, normals_b.sum(axis=1)) - np.where(
        fold_b[:, None], 0.0, normals_a.sum(axis=1)
    )
    normal = normal * np.where((outward * normal).sum(axis=1) < 0.0, -1.0, 1.0)[:, None]
    weights = pairs.weights
    start_gap = (weighted_sum(weights, stencil, state.start) * normal).sum(axis=1)
    end_gap = (pairs.offset * normal).sum(axis=1)
    is_kept = _is_in_normal_cone(normals_b, normal) | (fold_a & _is_in_normal_cone(-normals_b, normal))
    is_kept &= _is_in_normal_cone(normals_a, -normal) | (fold_b & _is_in_normal_cone(-normals_a, -normal))
    is_kept &= model.is_dynamic[stencil].any(axis=1)
    if is_thread.any():
        # A thread along one face of an edge is not behind the other face.
        is_kept &= ~is_thread | (end_gap > 0.0) | _is_in_normal_cone(normals_b, normal, -_CONE_TOLERANCE)
    distance = state.pair_distances[surfaces[:, 0], surfaces[:, 1]]
    is_kept &= start_gap > -_MAX_START_DEPTH * distance
    # The search radius allows for the fastest parts of both surfaces, but most of them move along with each other.
    # Edges that end behind each other started at most _MAX_START_DEPTH deep, so they are near as well.
    reach = _SEARCH_FACTOR * distance + relative_motion(state, stencil, points, 2)
    is_kept &= are_closed | (end_gap < 0.0) | (pairs.distance <= reach)
    # Deep pairs count only if the edges met during the step.
    tunnelled = np.flatnonzero(is_kept & (end_gap < -_TUNNELLING_DEPTH * distance))
    if len(tunnelled):
        heights = start_gap[tunnelled], end_gap[tunnelled]
        is_kept[tunnelled], weights[tunnelled] = _met_on_the_way(
            state.start[stencil[tunnelled]], end_points[tunnelled], heights, weights[tunnelled]
        )
    selected = np.flatnonzero(is_kept)
    edge_counts = np.array([len(model.surfaces[k.b].edges_and_faces[0]) for k in batches])
    feature = first_index * edge_counts[batch_index] + second_index
    stencil = stencil[selected]
    parts = surfaces[selected], stencil, weights[selected], normal[selected], feature[selected]
    return Collisions(*parts, EDGE, edge_pair_areas(model, stencil))


def common_normals(ends: Array) -> Array:
    """Return unit normals (k, 3) of pairs of edges, from their ends (k, 4, 3) m; zero for parallel edges."""
    normal = cross_rows((ends[:, 1] - ends[:, 0]).T, (ends[:, 3] - ends[:, 2]).T)
    return np.asarray((normal / np.maximum(np.sqrt((normal * normal).sum(axis=0)), 1e-300)).T)


def edge_pair_areas(model: ContactModel, stencil: Index) -> Array:
    """Return the area (k,) m^2 of contacts of pairs of edges with ends stencil (k, 4)."""
    return np.asarray(model.edge_areas(stencil).min(axis=1))


def _met_on_the_way(start: Array, end: Array, gaps: tuple[Array, Array], weights: Array) -> tuple[Mask, Array]:
    """Return whether edges on straight paths met (k,), and the weights (k, 4) of the points where they met.

    start, end: (k, 4, 3) m, ends of the edges.  gaps: (k,) m between them before and after.  weights: (k, 4), used
        where they did not meet.
    """
    start_gap, end_gap = gaps
    time = np.clip(start_gap / np.where(start_gap > end_gap, start_gap - end_gap, 1.0), 0.0, 1.0)
    meeting_points = start + time[:, None, None] * (end - start)
    edge_a, edge_b = meeting_points[:, 1] - meeting_points[:, 0], meeting_points[:, 3] - meeting_points[:, 2]
    s, t, _ = closest_points_of_lines(meeting_points[:, 0].T, edge_a.T, meeting_points[:, 2].T, edge_b.T)
    is_met = (s >= -_END_TOLERANCE) & (s <= 1.0 + _END_TOLERANCE) & (t >= -_END_TOLERANCE) & (t <= 1.0 + _END_TOLERANCE)
    return is_met, np.where(is_met[:, None], np.column_stack([1.0 - s, s, t - 1.0, -t]), weights)


def _is_fold_edge(surface: CollisionSurface, ends: Array, face_normals: Array, sheet: CollisionSurface) -> Mask:
    """Return which edges (k,) of a closed surface are sharp and long enough for a sheet to fold over.

    Sharp edges turn by more than 60 degrees.  ends: (k, 2, 3) m.  face_normals: (k, 2, 3).  If the surface is as finely
    meshed as the sheet, the point contacts of its vertices suffice.
    """
    if not surface.is_closed or sheet.is_closed or sheet.is_thread:
        return np.zeros(len(ends), dtype=bool)
    lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    is_sharp = np.einsum("ki,ki->k", face_normals[:, 0], face_normals[:, 1]) < _FOLD_COSINE
    return np.asarray(is_sharp & (lengths > _LONG_EDGE * sheet.median_edge_length))


def _edge_normals(model: ContactModel, points: Array, surfaces: Index, edges: Index) -> Array:
    """Return the normals (k, 2, 3) of each edge's two faces; at a border the same one twice, 0 for threads."""
    faces = np.zeros((len(edges), 2, 3), dtype=np.int64)
    for place in np.flatnonzero(np.bincount(surfaces, minlength=1)):
        surface = model.surfaces[place]
        if not surface.is_thread:
            mine = np.flatnonzero(surfaces == place)
            faces[mine] = surface.triangles[surface.edge_faces[edges[mine]]] + model.point_starts[place]
    # A degenerate triangle stands for a missing one.
    return Triangles(points, faces.reshape(-1, 3)).normals.reshape(-1, 2, 3)


def _is_in_normal_cone(face_normals: Array, normal: Array, tolerance: float = _CONE_TOLERANCE) -> Mask:
    """Return whether directions (k, 3) lie between the normals (k, 2, 3) of the edges' faces; always true for threads.

    tolerance: of the cosine; a negative one narrows the cone at sharp edges.
    """
    face_cosine = np.minimum(np.einsum("ki,ki->k", face_normals[:, 0], face_normals[:, 1]), 0.99)
    min_cosine = face_cosine - (tolerance if tolerance > 0.0 else tolerance * (1.0 - face_cosine))
    cosines = np.einsum("kji,ki->kj", face_normals, normal)
    return np.asarray((cosines >= min_cosine[:, None]).all(axis=1))

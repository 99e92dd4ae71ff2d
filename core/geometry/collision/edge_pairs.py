"""Close pairs of edges, and the sharp edges of a surface, where contact between vertices and faces is not enough."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ...base.arrays import Array, Index
from ...native.box_tree import EdgeTree, MovingEdgeTree
from ...native.library import load_library
from ..mesh.primitives import closest_points_of_lines
from ..mesh.triangles import Topology, Triangles, unit_vectors
from .broad_phase import overlapping_spheres, sorted_pairs, split_segments
from .proximity import PairExclusion

# Sine of the angle below which edges count as parallel: their closest points are then ill-defined.
_PARALLEL_SINE = 0.05
# Up to this number of pairs, testing all of them is faster than a broad phase.
_BRUTE_FORCE_PAIRS = 3_000


@dataclass(frozen=True)
class EdgePairs:
    """Pairs of close edges.

    first: (k,) edge of a, ascending.  second: (k,) edge of b.  s, t: (k,) parameters of the closest points, 0 to 1.
    offset: (k, 3) m from the closest point on b to that on a.  distance: (k,) m.
    """

    first: Index
    second: Index
    s: Array
    t: Array
    offset: Array
    distance: Array

    def __len__(self) -> int:
        return len(self.first)

    @property
    def weights(self) -> Array:
        """Weights (k, 4) of the ends of both edges, whose sum is the offset."""
        return np.stack([1.0 - self.s, self.s, self.t - 1.0, -self.t], axis=1)

    def select(self, indices: Index) -> EdgePairs:
        """Return the pairs at indices (k,)."""
        return EdgePairs(*(getattr(self, one.name)[indices] for one in fields(self)))


def near_edge_pairs(
    points_a: Array,
    edges_a: Index,
    points_b: Array,
    edges_b: Index,
    reach: float | Array,
    is_excluded: PairExclusion | None = None,
    pairs: tuple[Index, Index] | None = None,
) -> EdgePairs:
    """Return all pairs of edges (m, 2), (n, 2) closer than reach (m) whose closest points are in the interior of both.

    Nearly parallel pairs are left out.  is_excluded: returns a mask of pairs of edges (k,), (k,) to ignore.
    pairs: (k,), (k,) restricts the test to these edges, ascending by the first; reach may then be (k,), one per pair.
    """
    first, second = pairs or edge_pair_candidates(points_a, edges_a, points_b, edges_b, float(reach))
    start_a, end_a, start_b, end_b = (
        np.ascontiguousarray(points[edges[which, k]].T)
        for points, edges, which in ((points_a, edges_a, first), (points_b, edges_b, second))
        for k in (0, 1)
    )
    direction_a, direction_b = end_a - start_a, end_b - start_b
    s, t, sines = closest_points_of_lines(start_a, direction_a, start_b, direction_b)
    offset = start_a - start_b + s * direction_a - t * direction_b
    distance = np.sqrt((offset * offset).sum(axis=0))
    kept = np.flatnonzero(
        (s > 0.0) & (s < 1.0) & (t > 0.0) & (t < 1.0) & (sines > _PARALLEL_SINE**2) & (distance < reach)
    )
    if is_excluded is not None and len(kept):
        kept = kept[~is_excluded(first[kept], second[kept])]
    return EdgePairs(
        first[kept], second[kept], s[kept], t[kept], np.ascontiguousarray(offset[:, kept].T), distance[kept]
    )


def meeting_edge_pairs(start: Array, end: Array, edges: Index, reach: float) -> EdgePairs:
    """Return the pairs of edges (m, 2) of moving surfaces that end a step close to each other, each once.

    start, end: (v, 3) m.  reach: m, enlarged by the relative motion of each pair: edges that meet in the step end no
    farther apart than that. Edges with a common vertex are left out.
    """
    library = load_library()
    if library is not None:
        pairs = MovingEdgeTree(library, start, end, edges).meeting(reach, _PARALLEL_SINE**2)
        # The kernel has tested their distances.
        return near_edge_pairs(end, edges, end, edges, np.inf, pairs=pairs)
    motion = end - start
    motion = motion - motion[edges].mean(axis=(0, 1))
    largest = 2.0 * float(np.sqrt((motion * motion).sum(axis=1).max(initial=0.0)))
    first, second = edge_pair_candidates(end, edges, end, edges, reach + largest)
    kept = np.flatnonzero((first < second) & (edges[first][:, :, None] != edges[second][:, None]).all(axis=(1, 2)))
    first, second = first[kept], second[kept]
    way = motion[edges[first]][:, :, None] - motion[edges[second]][:, None]
    reaches = reach + np.sqrt((way * way).sum(axis=3).max(axis=(1, 2)))
    return near_edge_pairs(end, edges, end, edges, reaches, pairs=(first, second))


def sharp_edges(
    vertices: Array, triangles: Index, angle: float, topology: Topology | None = None
) -> tuple[Index, Array, Index]:
    """Return convex edges at which the face normals differ by more than angle (rad), and border edges.

    Returns edges (m, 2), the normalised means (m, 3) of their face normals, and their faces (m, 2), the second being -1
    at a border. Edges of more than two faces and convex edges of degenerate triangles are left out.
    """
    surface = Triangles(vertices, triangles, topology)
    edge_vertices, triangle_edges = surface.topology.edges, surface.topology.triangle_edges.ravel()
    order = np.argsort(triangle_edges, kind="stable")
    counts = np.bincount(triangle_edges, minlength=len(edge_vertices))
    start = np.cumsum(counts) - counts
    border, pair = np.flatnonzero(counts == 1), np.flatnonzero(counts == 2)
    side, other = order[start[pair]], order[start[pair] + 1]
    normal, opposite = surface.normals[side // 3], surface.normals[other // 3]
    # The corner of the other face opposite the edge: the second one after the corner at which the side starts.
    apex = surface.vertices[surface.triangles[other // 3, (other % 3 + 2) % 3]]
    is_convex = (normal * (apex - surface.vertices[edge_vertices[pair, 0]])).sum(axis=1) < 0.0
    tilt = np.arctan2(np.linalg.norm(np.cross(normal, opposite), axis=1), (normal * opposite).sum(axis=1))
    # A fully folded edge (its faces coincide) is neither convex nor concave.
    is_folded = tilt > np.pi - 1e-6
    is_valid = ~surface.is_degenerate[side // 3] & ~surface.is_degenerate[other // 3]
    sharp = np.flatnonzero((is_convex | is_folded) & (tilt > angle) & is_valid)
    means = unit_vectors(normal[sharp] + opposite[sharp])
    blades = np.flatnonzero(is_folded[sharp])
    if len(blades):
        # The normals cancel: use the direction away from the faces instead.
        edge = pair[sharp[blades]]
        faces = np.stack([side[sharp[blades]], other[sharp[blades]]]) // 3
        middles = surface.vertices[surface.triangles[faces]].mean(axis=2).mean(axis=0)
        along = unit_vectors(surface.vertices[edge_vertices[edge, 1]] - surface.vertices[edge_vertices[edge, 0]])
        away = surface.vertices[edge_vertices[edge, 0]] - middles
        means[blades] = unit_vectors(unit_vectors(away - (away * along).sum(axis=1)[:, None] * along))
    sharp_faces, border_faces = np.stack([side[sharp], other[sharp]], axis=1) // 3, order[start[border]] // 3
    faces = np.concatenate([sharp_faces, np.column_stack([border_faces, np.full(len(border), -1)])])
    edges = np.concatenate([edge_vertices[pair[sharp]], edge_vertices[border]])
    normals = np.concatenate([means, surface.normals[border_faces]])
    return edges, normals, faces


def edge_tree(points: Array, edges: Index, margins: Array) -> EdgeTree | None:
    """Return the compiled tree of edges (e, 2) of points (v, 3) m for edge_pair_candidates(); None without a kernel.

    margins: (e,) m, see EdgeTree.near().
    """
    library = load_library()
    return None if library is None else EdgeTree(library, points, edges, margins)


def edge_pair_candidates(
    points_a: Array,
    edges_a: Index,
    points_b: Array,
    edges_b: Index,
    reach: float,
    tree: EdgeTree | None = None,
    margins: Array | None = None,
) -> tuple[Index, Index]:
    """Return candidate pairs (k,), (k,) of edges, ascending by the first: a superset of those of near_edge_pairs().

    tree: that of the edges b, if it exists already.  margins: of the edges a in it, see EdgeTree.near().
    """
    empty = np.zeros(0, dtype=np.int64)
    if len(edges_a) == 0 or len(edges_b) == 0:
        return empty, empty
    library = load_library()
    if library is not None:
        tree = EdgeTree(library, points_b, edges_b) if tree is None else tree
        return tree.near(points_a, edges_a, reach, _PARALLEL_SINE**2, margins)
    if len(edges_a) * len(edges_b) <= _BRUTE_FORCE_PAIRS:
        return np.arange(len(edges_a)).repeat(len(edges_b)), np.tile(np.arange(len(edges_b)), len(edges_a))
    in_reach, spans = [], []
    for points, edges in ((points_a, edges_a), (points_b, edges_b)):
        start, end = points[edges[:, 0]], points[edges[:, 1]]
        spans.append((start, end, np.minimum(start, end), np.maximum(start, end)))
    for (_, _, low, high), (_, _, bottom, top) in ((spans[0], spans[1]), (spans[1], spans[0])):
        box = (low <= top.max(axis=0) + reach) & (high >= bottom.min(axis=0) - reach)
        in_reach.append(np.flatnonzero(box.all(axis=1)))
    if len(in_reach[0]) == 0 or len(in_reach[1]) == 0:
        return empty, empty
    ends = [(start[some], end[some]) for (start, end, _, _), some in zip(spans, in_reach, strict=True)]
    lengths = [np.linalg.norm(end - start, axis=1) for start, end in ends]
    # Edges much longer than the smaller of the two median lengths are split.
    length = 2.0 * max(min(float(np.median(each)) for each in lengths), 0.5 * reach)
    (centres_a, radii_a, owner_a, _), (centres_b, radii_b, owner_b, _) = (
        split_segments(start, end, length) for start, end in ends
    )
    first, second = overlapping_spheres(centres_a, radii_a + reach, centres_b, radii_b)
    return sorted_pairs(in_reach[0][owner_a[first]], in_reach[1][owner_b[second]])

"""Last-resort handling of a step that ends in an intersection: truncate the motion before it is visible.

Contacts are penalties. Where a body is crushed, the minimum may lie beyond all detected contacts, however short the
step is. The step began without intersections, so a part of the motion is free. At worst, a body stands still for a
frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.arrays import Array
from ..contact.collision_state import CollisionState
from ..contact.intersections import (
    INVISIBLE_DEPTH,
    SurfacePair,
    connected_surfaces,
    exactly_checked_pairs,
    initial_depth,
    new_intersections,
    relative_depth,
)
from ..objective.step_objective import StepObjective
from ..system.system import System

# The depth left after truncation, as a fraction of the depth that becomes visible.
_DEPTH_FRACTION = 0.5


def truncate_to_intersection_free(
    system: System,
    collision_state: CollisionState,
    problem: StepObjective,
    v: Array,
    intersecting_pairs: Sequence[SurfacePair],
    max_bisections: int,
) -> tuple[Array, frozenset[int]]:
    """Truncate the motion of blocks that end in an intersection.

    Returns velocities (f, 3) m/s, changed only for these blocks, and the indices of these blocks.

    Intersecting blocks move on with their mean velocity, which conserves their momentum, and a fraction of the
    remaining motion. If that is not free of intersections, they move by a fraction of their whole motion. An
    intersection caused by a block's own animation remains.

    intersecting_pairs: pairs of surfaces that intersect at the end, see new_intersections().
    max_bisections: number of bisections to find the intersection-free fraction of the motion.
    """
    surfaces, pairs = collision_state.model.surfaces, list(intersecting_pairs)
    while True:
        velocities, blocks = v, frozenset[int]()
        for group in connected_surfaces([(a, a if surfaces[b].is_collider else b) for a, b in pairs]):
            group_pairs = [(a, b) for a, b in pairs if a in group]
            group_blocks = frozenset(surfaces[k].block for k in group)
            truncated = _truncate_blocks(
                system, collision_state, problem, velocities, group_blocks, group_pairs, max_bisections=max_bisections
            )
            if truncated is not None:
                velocities, blocks = truncated, blocks | group_blocks
        # Truncated blocks may block the way of other ones.
        new_pairs = [
            pair for pair in new_intersections(collision_state, problem.positions(velocities)) if pair not in pairs
        ]
        if not new_pairs:
            return velocities, blocks
        pairs += new_pairs


def _truncate_blocks(
    system: System,
    collision_state: CollisionState,
    problem: StepObjective,
    v: Array,
    blocks: frozenset[int],
    intersecting_pairs: Sequence[SurfacePair],
    *,
    max_bisections: int,
) -> Array | None:
    """Return velocities (f, 3) m/s with some blocks truncated to the last intersection-free motion.

    Returns None if the pairs intersect even without motion.

    intersecting_pairs: intersecting pairs of the surfaces of these blocks.
    """
    surfaces = collision_state.model.surfaces
    nodes = np.concatenate([np.arange(len(system.rest))[system.slices[block]] for block in sorted(blocks)])
    free_indices = problem.unknowns.row_of_node[nodes]
    nodes, free_indices = nodes[free_indices >= 0], free_indices[free_indices >= 0]
    if not len(nodes):
        return None

    def blend(fraction: float, base: Array) -> Array:
        blended = v.copy()
        blended[free_indices] = base + fraction * (v[free_indices] - base)
        return blended

    def intersection_free(pairs: Sequence[SurfacePair], velocities: Array) -> list[SurfacePair]:
        points = collision_state.points_at(problem.positions(velocities))
        return [
            pair
            for pair in pairs
            if relative_depth(collision_state, points, pair)
            <= max(initial_depth(collision_state, pair), _DEPTH_FRACTION * INVISIBLE_DEPTH)
        ]

    checked_pairs = [
        (a, b)
        for a, b in exactly_checked_pairs(collision_state)
        if surfaces[a].block in blocks and (surfaces[b].is_collider or surfaces[b].block in blocks)
    ]
    zero_velocity = np.zeros(3)
    checked_pairs = intersection_free(
        [pair for pair in checked_pairs if initial_depth(collision_state, pair) <= INVISIBLE_DEPTH],
        blend(0.0, zero_velocity),
    )
    if not {*checked_pairs} & {*intersecting_pairs}:
        return None
    mean = system.mass[nodes] @ v[free_indices] / system.mass[nodes].sum()
    without_obstacles = not any(surfaces[b].is_collider for _, b in intersecting_pairs)
    base_velocity = zero_velocity
    if without_obstacles and intersection_free(checked_pairs, blend(0.0, mean)) == checked_pairs:
        base_velocity = mean
    low, high = (1.0, 1.0) if intersection_free(checked_pairs, v) == checked_pairs else (0.0, 1.0)
    for _ in range(max_bisections if low < high else 0):
        middle = 0.5 * (low + high)
        is_free = intersection_free(checked_pairs, blend(middle, base_velocity)) == checked_pairs
        low, high = (middle, high) if is_free else (low, middle)
    return blend(low, base_velocity)

"""Exact intersection tests between closed surfaces, for steps that may have tunnelled."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ..base.arrays import Array
from ..geometry.collision.intersections import penetration_depth_of_closed
from ..geometry.mesh.triangles import Triangles, cross_rows
from .collision_state import CollisionState
from .penalty_and_friction import DEEP_FRACTION, ContactPotential, ContactSet

# Relative depth that is invisible, as a fraction of the smaller body's size: 10% below the limit of 0.1%, to allow for
# display rounding.
INVISIBLE_DEPTH = 0.9e-3

# Indices of two surfaces; the second may be an obstacle.
SurfacePair = tuple[int, int]


def exactly_checked_pairs(state: CollisionState) -> list[SurfacePair]:
    """Return the pairs of closed surfaces, and of closed surfaces and planes, that are tested exactly."""
    model = state.model
    is_closed = [one.is_closed for one in model.surfaces]
    has_inside = [one.is_closed or one.is_plane for one in model.surfaces]
    pairs = [(a, b) for a, b in model.colliding_pairs if is_closed[a] and has_inside[b]]
    return [pair for pair in pairs if model.are_visible(*pair)]


def new_intersections(state: CollisionState, positions: Array) -> list[SurfacePair]:
    """Return pairs of surfaces that intersect at positions (n, 3) m but did not at the step's start.

    Contacts cover only nearby features. After a long search step, a tip may lie beyond all of them.
    """
    end, known = state.points_at(positions), dict[int, Triangles]()
    pairs = [pair for pair in exactly_checked_pairs(state) if relative_depth(state, end, pair, known) > INVISIBLE_DEPTH]
    return [pair for pair in pairs if initial_depth(state, pair) <= INVISIBLE_DEPTH]


def needs_exact_check(
    state: CollisionState, contacts: ContactSet, positions: Array, excluded_blocks: Collection[int] = ()
) -> bool:
    """Return whether contacts at positions (n, 3) m are so deep that surfaces may intersect visibly.

    On a plane, the points alone decide. Elsewhere the intersection may be deeper between the points, because edges of
    nearly coplanar triangles are not detected. This test is cheap, and runs after every step.

    excluded_blocks: block indices whose contacts with triangulated obstacles are ignored.
    """
    if not len(contacts):
        return False
    depth = -ContactPotential(contacts, np.zeros(len(contacts))).forces_at(positions).gap - contacts.target_gap
    model, first, second = state.model, contacts.key[:, 0], contacts.key[:, 3]
    is_plane = np.array([one.is_plane for one in model.surfaces])[second]
    min_depth = np.where(is_plane, INVISIBLE_DEPTH * model.sizes[first], -DEEP_FRACTION * contacts.distance)
    is_excluded = np.array([not one.is_collider and one.block in excluded_blocks for one in model.surfaces])
    is_ignored = (model.is_collider[first] & is_excluded[second]) | (
        is_excluded[first] & model.is_collider[second] & ~is_plane
    )
    return bool(((depth > min_depth) & ~is_ignored).any())


def initial_depth(state: CollisionState, pair: SurfacePair) -> float:
    """Return relative_depth() at the step's start; cached."""
    known = state.cache.get(("begun", pair))
    if not isinstance(known, float):
        known = state.cache[("begun", pair)] = relative_depth(state, state.start, pair)
    return known


def relative_depth(
    state: CollisionState, points: Array, pair: SurfacePair, known: dict[int, Triangles] | None = None
) -> float:
    """Return the largest penetration of a pair of surfaces, as a fraction of the smaller one's size.

    points: (N, 3) m, of all surfaces.  known: surfaces at these points, to which those of the pair are added.
    """
    model = state.model
    (first, first_points), (second, second_points) = ((model.surfaces[k], points[model.points_of(k)]) for k in pair)
    if second.is_plane:
        return max(-_height_above_plane(first_points, second_points), 0.0) / first.size
    if (first_points.max(axis=0) < second_points.min(axis=0)).any() or (
        second_points.max(axis=0) < first_points.min(axis=0)
    ).any():
        return 0.0
    known = {} if known is None else known
    for place, one, places in zip(pair, (first, second), (first_points, second_points), strict=True):
        if place not in known:
            known[place] = Triangles(places, one.triangles, one.topology)
    return penetration_depth_of_closed(*(known[place] for place in pair)) / min(first.size, second.size)


def _height_above_plane(points: Array, plane: Array) -> float:
    """Return the height in m of the lowest of points (p, 3) above a plane through a triangle (3, 3)."""
    a, b, c = plane
    normal = cross_rows(b - a, c - a)
    return float(((points - a) @ normal).min() / np.sqrt(normal @ normal))


def connected_surfaces(pairs: Sequence[SurfacePair]) -> list[set[int]]:
    """Return the surfaces of pairs, grouped by connection."""
    groups: list[set[int]] = []
    for pair in pairs:
        overlapping = [one for one in groups if one & {*pair}]
        groups = [one for one in groups if not one & {*pair}] + [set(pair).union(*overlapping)]
    return groups

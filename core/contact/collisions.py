"""Collisions between points of surfaces, and the contacts built from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from .collision_state import CollisionState
from .contact_history import EDGE, POINT, ContactHistory
from .contact_model import ContactModel
from .penalty_and_friction import STIFFNESS_FACTOR, ContactSet

# Search radius in contact distances, in addition to the displacement during the step.
SEARCH_FACTOR = 2.0
# A point that started deeper behind a triangle than this fraction of the contact distance did not come from its front.
MAX_START_DEPTH = 0.5
# A point deeper than this many contact distances must have tunnelled through the triangle during the step.
TUNNELLING_DEPTH = 2.0
# Speed, in sizes per second, at which points that start inside a body are pushed out.
_EXIT_SPEED = 0.5
# Such a point moves out by at least this fraction of the contact distance in each step.
_MIN_EXIT = 0.25


@dataclass(frozen=True)
class Collisions:
    """A batch of k detected collisions.

    surfaces: (k, 2) indices of the touching and the touched surface.
    stencil: (k, 4) indices of points whose sum, weighted with weights (k, 4), is the vector from the touched point to
        the touching one.
    normal: (k, 3) outward unit normal of the touched surface.
    feature: (k,) index of the touching feature, or of the pair of edges, which identifies the contact.
    kind: POINT, EDGE, NEIGHBOUR or one of CORNER_KINDS.  area: (k,) m^2 of each contact.
    distance_scale: (k,) factors on the contact distance, or None for 1.
    """

    surfaces: Index
    stencil: Index
    weights: Array
    normal: Array
    feature: Index
    kind: int
    area: Array
    distance_scale: Array | None = None

    def __len__(self) -> int:
        return len(self.normal)


def point_collisions(
    model: ContactModel, surfaces: Index, stencil: Index, weights: Array, normal: Array, kind: int = POINT
) -> Collisions:
    """Return collisions of points with triangles.

    surfaces, stencil, normal, kind: see Collisions.  weights: (k, 3) barycentric, of the touched place.
    """
    point = stencil[:, 0]
    all_weights, feature = np.column_stack([np.ones(len(point)), -weights]), point - model.point_starts[surfaces[:, 0]]
    return Collisions(surfaces, stencil, all_weights, normal, feature, kind, model.areas[point])


def no_collisions() -> Collisions:
    """Return an empty batch."""
    none = np.zeros(0, dtype=np.int64)
    return Collisions(
        none.reshape(0, 2), none.reshape(0, 4), np.zeros((0, 4)), np.zeros((0, 3)), none, POINT, np.zeros(0)
    )


def build_contacts(
    state: CollisionState, collisions: Sequence[Collisions], history: ContactHistory, points: Array
) -> ContactSet:
    """Return the contacts of a step.

    history: contacts of the last step.  points: (N, 3) m, estimated end positions.
    """
    model = state.model
    batches = [one for one in collisions if len(one)]
    count = sum(len(one) for one in batches)
    if not count:
        none, vectors = np.zeros(0), np.zeros((0, 3))
        key, weights = np.zeros((0, 4), dtype=np.int64), csr_matrix((0, model.operator.shape[1]))
        return ContactSet(weights, vectors, vectors, none, none, none, none, vectors, key, vectors)
    surfaces, stencil, weights, normal, feature, area = (
        np.concatenate([getattr(one, name) for one in batches])
        for name in ("surfaces", "stencil", "weights", "normal", "feature", "area")
    )
    kind = np.repeat([one.kind for one in batches], [len(one) for one in batches])
    first, second = surfaces.T
    key = np.stack([first, kind, feature, second], axis=1)
    scales = [np.ones(len(one)) if one.distance_scale is None else one.distance_scale for one in batches]
    distances = state.pair_distances[first, second] * np.concatenate(scales)
    # Between two bodies, points of either one touch the other; an edge pair counts only once.
    bodies = ~model.is_collider
    young = np.where(bodies, state.young, np.inf)
    is_two_sided = bodies[first] & bodies[second] & (kind != EDGE)
    stiffness = np.where(is_two_sided, 0.5, 1.0) * np.minimum(young[first], young[second]) * area / distances
    # The softer side gives way, with its own area. A single pair of a yarn and a rope may carry the whole yarn, so it
    # begins at the first raise of the penalty.
    unlike = np.flatnonzero((kind == EDGE) & model.are_unlike(surfaces))
    strengths = (young[surfaces[unlike]] * model.edge_areas(stencil[unlike])).min(axis=1)
    raises = np.where(model.is_wire[surfaces[unlike]].any(axis=1), STIFFNESS_FACTOR, 1.0)
    stiffness[unlike] = raises * strengths / distances[unlike]
    start_offset = weighted_sum(weights, stencil, state.start)
    start_gap = np.einsum("ki,ki->k", normal, start_offset)
    exit_distance = _EXIT_SPEED * state.h * np.maximum(model.sizes[first], model.sizes[second])
    target_gap = np.minimum(distances, start_gap + np.maximum(_MIN_EXIT * distances, exit_distance))
    retained_slip = history.slips_of(key)
    slip = weighted_sum(weights, stencil, points) - start_offset + retained_slip
    slip -= normal * np.einsum("ki,ki->k", normal, slip)[:, None]
    starts = np.arange(0, weights.size + 1, weights.shape[1])
    interpolation = csr_matrix((weights.ravel(), stencil.ravel(), starts), shape=(count, model.point_count))
    return ContactSet(
        (interpolation @ model.operator).tocsr(),
        weighted_sum(weights, stencil, state.kinematic_offset),
        normal,
        distances,
        target_gap,
        stiffness,
        friction_coefficients(state, stencil, weights, slip, surfaces),
        start_offset - retained_slip,
        key,
        weighted_sum(weights, stencil, state.kinematic_drift),
    )


def weighted_sum(weights: Array, stencil: Index, points: Array) -> Array:
    """Return sums (k, 3) of points (N, 3) with weights (k, m) at indices stencil (k, m)."""
    return np.asarray((weights[:, None] @ points[stencil])[:, 0])


def relative_motion(state: CollisionState, stencil: Index, points: Array, count: int) -> Array:
    """Return the largest relative displacements (k,) m between the first points of stencils and the others.

    stencil: (k, m) indices, of which the first `count` belong to the touching feature.  points: (N, 3) m at the step's
        end.

    If the two features met during the step, they end no farther apart: both move along straight lines.
    """
    displacement = points[stencil] - state.start[stencil]
    difference = displacement[:, :count, None] - displacement[:, None, count:]
    return np.asarray(np.sqrt((difference * difference).sum(axis=3).max(axis=(1, 2))))


def friction_coefficients(state: CollisionState, stencil: Index, weights: Array, slip: Array, surfaces: Index) -> Array:
    """Return friction coefficients (k,); for two bodies the geometric mean.

    stencil, weights: (k, 4), see Collisions.  slip: (k, 3) m, estimated slip.  surfaces: (k, 2).
    """
    with_obstacle = state.model.is_collider[surfaces].any(axis=1)
    a, b = (
        _side_friction(state, stencil, sign * weights, sign * slip, which)
        for sign, which in zip((1.0, -1.0), surfaces.T, strict=True)
    )
    return np.where(with_obstacle, a * b, np.sqrt(a * b))


def _side_friction(state: CollisionState, stencil: Index, weights: Array, slip: Array, surfaces: Index) -> Array:
    """Return friction (k,) of one side; lower forwards than backwards if its surface has a front ([Ctl]).

    weights: (k, 4), positive on this side.  slip: (k, 3) m, relative to the other side.  surfaces: (k,).
    """
    model = state.model
    positive = np.maximum(weights, 0.0)
    # On an infinite plane, weights extend beyond its triangle.
    scale = (positive * model.friction_scale[stencil]).sum(axis=1) / np.maximum(positive.sum(axis=1), 1e-300)
    forward, backward = state.friction[surfaces], state.backward_friction[surfaces]
    if model.front_matrix is None:
        return np.asarray(scale * forward)
    front = weighted_sum(positive, stencil, np.asarray(model.front_matrix @ state.start))
    size = np.linalg.norm(front, axis=1) * np.linalg.norm(slip, axis=1)
    cosine = np.einsum("ki,ki->k", front, slip) / np.maximum(size, 1e-300)
    has_front = np.linalg.norm(front, axis=1) > 0.0
    return np.asarray(
        scale * np.where(has_front, 0.5 * (forward * (1.0 + cosine) + backward * (1.0 - cosine)), forward)
    )

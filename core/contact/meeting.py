"""Collisions between points of surfaces, and the contacts built from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask
from ..geometry.proximity import Triangles
from .memory import EDGE, ContactMemory
from .moment import Moment
from .rows import Rows

# Search radius in contact distances, in addition to the displacement during the step.
REACH = 2.0
# A point that started deeper behind a triangle than this fraction of the contact distance did not come from its front.
BEHIND = 0.5
# A point deeper than this many contact distances must have tunnelled through the triangle during the step.
DEEP = 2.0
# Speed, in sizes per second, at which points that start inside a body are pushed out.
_EXIT = 0.5
# Such a point moves out by at least this fraction of the contact distance in each step.
_OUT = 0.25
# A point touches only triangles that face one of its own faces: the dot product of their normals is below this.
_OPPOSING = -0.1


@dataclass(frozen=True)
class Meeting:
    """A batch of k detected collisions.

    surfaces: (k, 2) indices of the touching and the touched surface.
    stencil: (k, 4) indices of points whose sum, weighted with weights (k, 4), is the vector from the touched point to
        the touching one.
    normal: (k, 3) outward unit normal of the touched surface.
    feature: (k,) index of the touching feature, or of the pair of edges, which identifies the contact.
    kind: POINT, EDGE or one of CORNER_KINDS.  area: (k,) m^2 of each contact.
    """

    surfaces: Index
    points: Index
    weights: Array
    normal: Array
    feature: Index
    kind: int
    area: Array

    def __len__(self) -> int:
        return len(self.normal)

    def some(self, rows: Index) -> Meeting:
        return Meeting(
            self.surfaces[rows], self.points[rows], self.weights[rows], self.normal[rows], self.feature[rows],
            self.kind, self.area[rows],
        )  # fmt: skip


def pair_distance(moment: Moment, first: int, second: int) -> float:
    """Return the contact distance of two surfaces, m."""
    return float(moment.pair_distances[first, second])


def faced(surface: Triangles, around: Index, points: Index, normals: Array) -> Mask:
    """Return whether any triangle at each of the points (k,) faces against normals (k, 3).

    vertex_triangles: (v, d) the triangles at each vertex.
    """
    found = np.asarray(np.einsum("ki,ki->k", surface.vertex_normals[points], normals) < _OPPOSING)
    rest = np.flatnonzero(~found)
    along = np.einsum("kdi,ki->kd", surface.normals[around[points[rest]]], normals[rest])
    found[rest] = along.min(axis=1) < _OPPOSING
    return found


def rows_of(moment: Moment, meetings: Sequence[Meeting], memory: ContactMemory, points: Array) -> Rows:
    """Return the contacts of a step.

    history: contacts of the last step.  points: (N, 3) m, estimated end positions.
    """
    model = moment.model
    parts = [one for one in meetings if len(one)]
    count = sum(len(one) for one in parts)
    if not count:
        return empty(model.operator.shape[1])
    surfaces, stack, weights, normal, feature, area = (
        np.concatenate([getattr(one, name) for one in parts])
        for name in ("surfaces", "points", "weights", "normal", "feature", "area")
    )
    kind = np.repeat([one.kind for one in parts], [len(one) for one in parts])
    first, second = surfaces.T
    key = np.stack([first, kind, feature, second], axis=1)
    distances = moment.pair_distances[first, second]
    # Between two bodies, points of either one touch the other; an edge pair counts only once.
    bodies = ~model.is_obstacle
    young = np.where(bodies, moment.young, np.inf)
    both = bodies[first] & bodies[second] & (kind != EDGE)
    stiffness = np.where(both, 0.5, 1.0) * np.minimum(young[first], young[second]) * area / distances
    way = weighted(weights, stack, moment.start)
    out = np.einsum("ki,ki->k", normal, way)
    exits = _EXIT * moment.h * np.maximum(model.sizes[first], model.sizes[second])
    eased = np.minimum(distances, out + np.maximum(_OUT * distances, exits))
    stretch = memory.stretch(key)
    slip = weighted(weights, stack, points) - way + stretch
    slip -= normal * np.einsum("ki,ki->k", normal, slip)[:, None]
    starts = np.arange(0, weights.size + 1, weights.shape[1])
    between = csr_matrix((weights.ravel(), stack.ravel(), starts), shape=(count, model.count))
    return Rows(
        (between @ model.operator).tocsr(),
        weighted(weights, stack, moment.offset),
        normal,
        distances,
        eased,
        stiffness,
        frictions(moment, stack, weights, slip, surfaces),
        way - stretch,
        key,
        weighted(weights, stack, moment.drift),
    )


def weighted(weights: Array, stack: Index, points: Array) -> Array:
    """Return sums (k, 3) of points (N, 3) with weights (k, m) at indices stencil (k, m)."""
    return np.asarray((weights[:, None] @ points[stack])[:, 0])


def frictions(moment: Moment, stack: Index, weights: Array, slip: Array, surfaces: Index) -> Array:
    """Return friction coefficients (k,); for two bodies the geometric mean.

    stencil, weights: (k, 4), see Collisions.  slip: (k, 3) m, estimated slip.  surfaces: (k, 2).
    """
    alone = moment.model.is_obstacle[surfaces].any(axis=1)
    a, b = (
        _own(moment, stack, sign * weights, sign * slip, which)
        for sign, which in zip((1.0, -1.0), surfaces.T, strict=True)
    )
    return np.where(alone, a * b, np.sqrt(a * b))


def _own(moment: Moment, stack: Index, weights: Array, slip: Array, surfaces: Index) -> Array:
    """Return friction (k,) of one side; lower forwards than backwards if its surface has a front ([Ctl]).

    weights: (k, 4), positive on this side.  slip: (k, 3) m, relative to the other side.  surfaces: (k,).
    """
    model = moment.model
    part = np.maximum(weights, 0.0)
    # On an infinite plane, weights extend beyond its triangle.
    rough = (part * model.rough[stack]).sum(axis=1) / np.maximum(part.sum(axis=1), 1e-300)
    forward, backward = moment.friction[surfaces], moment.backward[surfaces]
    if model.fronts is None:
        return np.asarray(rough * forward)
    front = weighted(part, stack, np.asarray(model.fronts @ moment.start))
    size = np.linalg.norm(front, axis=1) * np.linalg.norm(slip, axis=1)
    along = np.einsum("ki,ki->k", front, slip) / np.maximum(size, 1e-300)
    has = np.linalg.norm(front, axis=1) > 0.0
    return np.asarray(rough * np.where(has, 0.5 * (forward * (1.0 + along) + backward * (1.0 - along)), forward))


def empty(nodes: int) -> Rows:
    """Return a contact set without contacts, for the given number of nodes."""
    none = np.zeros(0)
    return Rows(
        csr_matrix((0, nodes)), np.zeros((0, 3)), np.zeros((0, 3)), none, none, none, none, np.zeros((0, 3)),
        np.zeros((0, 4), dtype=np.int64), np.zeros((0, 3)),
    )  # fmt: skip

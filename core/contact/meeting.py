"""Points of two surfaces that are near each other, and what is made of them."""

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

# Contacts are looked for within so many contact distances, beside the way that is made.
REACH = 2.0
# A point that was behind a triangle by more than this part of the contact distance when the step began did not come
# from in front of it.
BEHIND = 0.5
# What lies deeper than so many contact distances must have gone through the triangle within the step.
DEEP = 2.0
# Sizes per second at which what begins inside of something is pushed out.
_EXIT = 0.5
# A point that is less far out at a step's start than it should be comes out by this part of the distance at least.
_OUT = 0.25
# A point meets only what faces some of the faces around it: their normals times the met one's are below this.
_OPPOSING = -0.1


@dataclass(frozen=True)
class Meeting:
    """Contacts of surfaces, k of them.

    surfaces: (k, 2) which one touches, and which one is touched.
    points: (k, 4) of the stack whose weighted sum (k, 4) is the way from the touched point to the touching one.
    normal: (k, 3) of what is touched, outwards.
    feature: (k,) of the touching surface, or of both, which tells one contact from another.
    kind: POINT, EDGE or one of CORNERS.  area: (k,) m^2 that each one stands for.
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
    """The contact distance of two surfaces, m."""
    return float(moment.pair_distances[first, second])


def faced(surface: Triangles, around: Index, points: Index, normals: Array) -> Mask:
    """Whether some face around points (k,) faces normals (k, 3). around: (v, d) the triangles at each vertex."""
    found = np.asarray(np.einsum("ki,ki->k", surface.vertex_normals[points], normals) < _OPPOSING)
    rest = np.flatnonzero(~found)
    along = np.einsum("kdi,ki->kd", surface.normals[around[points[rest]]], normals[rest])
    found[rest] = along.min(axis=1) < _OPPOSING
    return found


def rows_of(moment: Moment, meetings: Sequence[Meeting], memory: ContactMemory, points: Array) -> Rows:
    """The contacts of a step. memory: what the last one left of them.  points: (N, 3) m, where it seems to end."""
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
    # Of two bodies points of either touch the other, an edge counts once.
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
    """(k, 3) sums of points (N, 3) with weights (k, m) at places stack (k, m)."""
    return np.asarray((weights[:, None] @ points[stack])[:, 0])


def frictions(moment: Moment, stack: Index, weights: Array, slip: Array, surfaces: Index) -> Array:
    """(k,) coefficients of friction; of two bodies the geometric mean.

    stack, weights: (k, 4), see Meeting.  slip: (k, 3) m, the way that each seems to slide.  surfaces: (k, 2).
    """
    alone = moment.model.is_obstacle[surfaces].any(axis=1)
    a, b = (
        _own(moment, stack, sign * weights, sign * slip, which)
        for sign, which in zip((1.0, -1.0), surfaces.T, strict=True)
    )
    return np.where(alone, a * b, np.sqrt(a * b))


def _own(moment: Moment, stack: Index, weights: Array, slip: Array, surfaces: Index) -> Array:
    """(k,) of one side of the contacts: less forwards than backwards where its surface has a front ([Ctl]).

    weights: (k, 4), those of the side are positive.  slip: (k, 3) m, against the other side.  surfaces: (k,).
    """
    model = moment.model
    part = np.maximum(weights, 0.0)
    # In an infinite plane weights go beyond its triangle.
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
    none = np.zeros(0)
    return Rows(
        csr_matrix((0, nodes)), np.zeros((0, 3)), np.zeros((0, 3)), none, none, none, none, np.zeros((0, 3)),
        np.zeros((0, 4), dtype=np.int64), np.zeros((0, 3)),
    )  # fmt: skip

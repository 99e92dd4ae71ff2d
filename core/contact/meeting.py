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

# Sizes per second at which what begins inside of something is pushed out.
_EXIT = 0.5
# A point that is less far out at a step's start than it should be comes out by this part of the distance at least.
_OUT = 0.25
# A point meets only what faces some of the faces around it: their normals times the met one's are below this.
_OPPOSING = -0.1


@dataclass(frozen=True)
class Meeting:
    """Contacts of two surfaces, k of them.

    surfaces: the one that touches, and the one that is touched.
    points: (k, m) of the stack whose weighted sum (k, m) is the way from the touched point to the touching one.
    normal: (k, 3) of what is touched, outwards.
    feature: (k,) of the touching surface, or of both, which tells one contact from another.
    kind: POINT, EDGE or one of CORNERS.  area: (k,) m^2 that each one stands for.
    """

    surfaces: tuple[int, int]
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
            self.surfaces, self.points[rows], self.weights[rows], self.normal[rows], self.feature[rows], self.kind,
            self.area[rows],
        )  # fmt: skip


def pair_distance(moment: Moment, first: int, second: int) -> float:
    """The contact distance of two surfaces, m."""
    a, b = moment.model.surfaces[first], moment.model.surfaces[second]
    if a.is_obstacle or b.is_obstacle:
        return float(moment.distance[first] + moment.distance[second])
    return float(0.5 * (moment.distance[first] + moment.distance[second]))


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
    rows, columns, values = [], [], []
    numbers = np.empty((count, 4))
    normal, key = np.empty((count, 3)), np.empty((count, 4), dtype=np.int64)
    start = 0
    for one in parts:
        place = slice(start, start + len(one))
        width = one.points.shape[1]
        rows.append(np.arange(start, start + len(one)).repeat(width))
        columns.append(one.points.ravel())
        values.append(one.weights.ravel())
        a, b = one.surfaces
        distance = pair_distance(moment, a, b)
        normal[place] = one.normal
        key[place] = np.stack(
            [np.full(len(one), a), np.full(len(one), one.kind), one.feature, np.full(len(one), b)], axis=1
        )
        young = [moment.young[k] for k in (a, b) if not model.surfaces[k].is_obstacle]
        both = len(young) == 2 and one.kind != EDGE
        stiff = (0.5 if both else 1.0) * min(young) * one.area / distance
        numbers[place, 0], numbers[place, 1] = distance, stiff
        numbers[place, 2], numbers[place, 3] = a, b
        start = place.stop
    if not count:
        return empty(model.operator.shape[1])
    between = csr_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(count, model.count)
    )
    way = np.asarray(between @ moment.start)
    distances = numbers[:, 0]
    out = np.einsum("ki,ki->k", normal, way)
    sizes = np.array([one.size if not one.is_obstacle else 0.0 for one in model.surfaces])
    first, second = numbers[:, 2].astype(np.int64), numbers[:, 3].astype(np.int64)
    exits = _EXIT * moment.h * np.maximum(sizes[first], sizes[second])
    eased = np.minimum(distances, out + np.maximum(_OUT * distances, exits))
    stretch = memory.stretch(key)
    slip = np.asarray(between @ points) - way + stretch
    friction = frictions(moment, between, slip - normal * np.einsum("ki,ki->k", normal, slip)[:, None], first, second)
    return Rows(
        (between @ model.operator).tocsr(),
        np.asarray(between @ moment.offset),
        normal,
        distances,
        eased,
        numbers[:, 1],
        friction,
        way - stretch,
        key,
        np.asarray(between @ moment.drift),
    )


def frictions(moment: Moment, between: csr_matrix, slip: Array, first: Index, second: Index) -> Array:
    """(k,) coefficients of friction; of two bodies the geometric mean.

    between: (k, N).  slip: (k, 3) m, the way that each seems to slide.  first, second: (k,) the surfaces.
    """
    model = moment.model
    obstacle = np.array([one.is_obstacle for one in model.surfaces])
    a, b = (_own(moment, between, sign, slip, which) for sign, which in ((1.0, first), (-1.0, second)))
    return np.where(obstacle[first] | obstacle[second], a * b, np.sqrt(a * b))


def _own(moment: Moment, between: csr_matrix, sign: float, slip: Array, surfaces: Index) -> Array:
    """(k,) of one side of the contacts: less forwards than backwards where its surface has a front ([Ctl]).

    sign: of the side's weights.
    """
    model = moment.model
    part = (sign * between).maximum(0.0).tocsr()
    # In an infinite plane weights go beyond its triangle.
    rough = np.asarray(part @ model.rough) / np.maximum(np.asarray(part.sum(axis=1)).ravel(), 1e-300)
    forward, backward = moment.friction[surfaces], moment.backward[surfaces]
    if model.fronts is None:
        return np.asarray(rough * forward)
    front = np.asarray(part @ (model.fronts @ moment.start))
    size = np.linalg.norm(front, axis=1) * np.linalg.norm(slip, axis=1)
    # The touched side slides the other way.
    along = sign * np.einsum("ki,ki->k", front, slip) / np.maximum(size, 1e-300)
    has = np.linalg.norm(front, axis=1) > 0.0
    return np.asarray(rough * np.where(has, 0.5 * (forward * (1.0 + along) + backward * (1.0 - along)), forward))


def empty(nodes: int) -> Rows:
    none = np.zeros(0)
    return Rows(
        csr_matrix((0, nodes)), np.zeros((0, 3)), np.zeros((0, 3)), none, none, none, none, np.zeros((0, 3)),
        np.zeros((0, 4), dtype=np.int64), np.zeros((0, 3)),
    )  # fmt: skip

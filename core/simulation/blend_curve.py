"""Curve of the influence of a bake that lands or fades: the smoothest of some Bezier segments, by the blended motion.

A curve that suits a still shape can pop where the shape swings, and over few frames. The choice therefore measures each
segment on the frames that it blends.

Blends may follow arcs, where straight paths would shorten edges that turn on the way. Each vertex then has the rotation
that best fits the edges around it. It advances by the weight of the blend, and carries the edges, whose lengths change
linearly. The positions are those whose edges come closest to these, in the least-squares sense, as in: Sorkine, Alexa,
*As-rigid-as-possible surface modeling* (2007), section 3, with interpolated rotations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.spatial.transform import Rotation

from ..base.arrays import Array, Index, best_fit_rotations
from ..solvers.factorisation import factorise

# A blend pops at a frame whose acceleration exceeds this multiple of those at the adjacent frames, both of the blend
# and of the simulation. Blends of a re-baked range are compared with the largest one of the kept and the new motion.
MAX_ACCELERATION_RATIO = 1.5
# Part of its length by which a blend may shorten an edge.
MAX_SHORTENING = 0.02
# Accelerations below this part of the object's size per squared frame are rounding of single precision.
_MIN_ACCELERATION = 2e-6
# Handle length of a Bezier segment, as a part of it, at which the segment has the slope of a minimum-jerk curve in the
# middle: 1 / (1 - 7/15) = 15/8.
_MINIMUM_JERK_HANDLE = 7.0 / 15.0
_HANDLE_LENGTHS = (0.15, 0.25, 0.35, 0.4, 0.44, _MINIMUM_JERK_HANDLE, 0.5, 0.55, 0.65, 0.8)
# Vertices or edges that are measured at once.
_BATCH_SIZE = 50_000
# Bisections that invert the time of a segment to single precision.
_BISECTIONS = 40


@dataclass(frozen=True)
class Handles:
    """Lengths of the level handles of a Bezier segment at its start and end, as parts of its length."""

    start: float = _MINIMUM_JERK_HANDLE
    end: float = _MINIMUM_JERK_HANDLE


# The handles of a minimum-jerk curve come first. Blender shortens handles that are together longer than the segment.
CANDIDATES = tuple(
    sorted(
        (Handles(start, end) for start in _HANDLE_LENGTHS for end in _HANDLE_LENGTHS if start + end <= 1.0),
        key=lambda one: (one.start - _MINIMUM_JERK_HANDLE) ** 2 + (one.end - _MINIMUM_JERK_HANDLE) ** 2,
    )
)


@dataclass(frozen=True)
class CurveEffect:
    """Effect of a blend. jump: largest ratio of an acceleration to those at the adjacent frames.

    shortening: largest part by which an edge is shorter than both without and with the simulation.
    """

    jump: float
    shortening: float

    @property
    def excess(self) -> float:
        """Return the larger of jump and shortening, each relative to its limit."""
        return max(self.jump / MAX_ACCELERATION_RATIO, self.shortening / MAX_SHORTENING)


def bezier_values(times: Array, handles: Handles) -> Array:
    """Return the values (n,), from 0 to 1, of a segment with level handles at times (n,) as parts of its length."""
    times = np.clip(times, 0.0, 1.0)
    low, high = np.zeros_like(times), np.ones_like(times)
    for _ in range(_BISECTIONS):
        s = 0.5 * (low + high)
        reached = 3.0 * s * (1.0 - s) ** 2 * handles.start + 3.0 * s**2 * (1.0 - s) * (1.0 - handles.end) + s**3
        low, high = np.where(reached < times, s, low), np.where(reached < times, high, s)
    s = 0.5 * (low + high)
    return np.asarray(s**2 * (3.0 - 2.0 * s))


def choose_handles(
    plain: Array, simulated: Array, pairs: Index, weights: Callable[[Handles], Array]
) -> tuple[Handles, CurveEffect]:
    """Return the handles of the first candidate without a pop or a short edge, else of the best one, and its effect.

    Prefer candidates that stay below MAX_ACCELERATION_RATIO on their own, without allowance for accelerations of the
    simulation.

    plain, simulated: vertices (f, v, 3), m, of consecutive frames.  pairs: vertices (p, 2) of edges.  weights: weight
    (f,) of the simulation at each frame.
    """
    table = np.array([weights(handles) for handles in CANDIDATES])
    effects, smoothness = _effects(plain, simulated, pairs, table)
    # A pop is seen more easily than a short edge.
    fallback = min(effects, key=lambda one: (max(one.jump, MAX_ACCELERATION_RATIO), one.shortening))
    suitable = [
        (jump > MAX_ACCELERATION_RATIO, place) for place, jump in enumerate(smoothness) if effects[place].excess <= 1.0
    ]
    place = min(suitable)[1] if suitable else effects.index(fallback)
    return CANDIDATES[place], effects[place]


def measure_blend(plain: Array, simulated: Array, displayed: Array, pairs: Index) -> CurveEffect:
    """Return the effect of a blend as displayed (f, v, 3), m. See choose_handles()."""
    natural = _accelerations(simulated - plain, np.ones((1, len(plain))))[0]
    found = _accelerations(displayed - plain, np.ones((1, len(plain))))
    shortening = max(largest_shortening(pairs, d, p, s) for d, p, s in zip(displayed, plain, simulated, strict=True))
    return CurveEffect(float(_jumps(found, natural, _floor(plain))[0]), shortening)


def largest_shortening(pairs: Index, blended: Array, plain: Array, simulated: Array) -> float:
    """Return the largest part by which a blend brings vertices closer together than in both of its originals.

    pairs: (p, 2).  blended, plain, simulated: vertices (v, 3), m.
    """
    return float(_shortenings(plain, simulated, blended - plain, pairs, np.ones(1))[0])


def _effects(plain: Array, simulated: Array, pairs: Index, table: Array) -> tuple[list[CurveEffect], Array]:
    """Return the effect of each row of weights (c, f), and its jump (c,) without those of the simulation."""
    moved = simulated - plain
    natural = _accelerations(moved, np.ones((1, len(plain))))[0]
    found, floor = _accelerations(moved, table), _floor(plain)
    jumps = _jumps(found, natural, floor)
    shortenings = np.zeros(len(table))
    for p, s, weights in zip(plain, simulated, table.T, strict=True):
        if ((weights > 0.0) & (weights < 1.0)).any():
            shortenings = np.maximum(shortenings, _shortenings(p, s, s - p, pairs, weights))
    effects = [CurveEffect(float(a), float(b)) for a, b in zip(jumps, shortenings, strict=True)]
    return effects, _jumps(found, np.zeros_like(natural), floor)


def _floor(plain: Array) -> float:
    return _MIN_ACCELERATION * max(float(np.ptp(plain[0], axis=0).max()), 1e-12)


def _accelerations(moved: Array, weights: Array) -> Array:
    """Return the largest second difference (c, f - 2) of the weighted shapes, for each row of weights (c, f).

    moved: (f, v, 3).
    """
    found = np.zeros((len(weights), len(moved) - 2))
    for place in range(len(moved) - 2):
        factors = weights[:, place : place + 3] * [1.0, -2.0, 1.0]
        factors = (factors[:, :, None] * factors[:, None]).reshape(-1, 9)
        for start in range(0, moved.shape[1], _BATCH_SIZE):
            near = moved[place : place + 3, start : start + _BATCH_SIZE]
            squares = factors @ np.einsum("avk,bvk->abv", near, near).reshape(9, -1)
            found[:, place] = np.maximum(found[:, place], squares.max(axis=1))
    return np.sqrt(found)


def _jumps(found: Array, natural: Array, floor: float) -> Array:
    """Return the largest ratio (c,) of accelerations (c, n) to adjacent ones. natural: of the simulation, (n,)."""
    adjacent = np.maximum(found[:, :-2], found[:, 2:])
    allowed = np.maximum(np.maximum(natural[:-2], natural[1:-1]), natural[2:])
    return np.asarray((found[:, 1:-1] / np.maximum(np.maximum(adjacent, allowed), floor)).max(axis=1))


def _shortenings(plain: Array, simulated: Array, moved: Array, pairs: Index, weights: Array) -> Array:
    """Return the largest part (c,) by which plain + weight * moved brings pairs closer than both shapes, at a frame.

    plain, simulated, moved: (v, 3).  weights: (c,).
    """
    found = np.zeros(len(weights))
    for part in (pairs[start : start + _BATCH_SIZE] for start in range(0, len(pairs), _BATCH_SIZE)):
        before, step, after = (one[part[:, 0]] - one[part[:, 1]] for one in (plain, moved, simulated))
        terms = [np.einsum("pk,pk->p", a, b) for a, b in ((before, before), (before, step), (step, step))]
        shown = terms[0] + 2.0 * weights[:, None] * terms[1] + weights[:, None] ** 2 * terms[2]
        natural = np.minimum(terms[0], np.einsum("pk,pk->p", after, after))
        ratio = np.sqrt(np.maximum(shown, 0.0) / np.maximum(natural, 1e-24))
        found = np.maximum(found, 1.0 - ratio.min(axis=1))
    return found


# Part of the trace of the products of edges that favours no rotation: it stops the free spin of edges along one line.
_STILL_SHARE = 1e-3
# Weight of the straight path of a vertex, relative to an edge: it places what no edge does, such as whole pieces.
_PATH_WEIGHT = 1e-7
# Vertices that move by less than this part of the size at all frames stay on their paths: pins.
_STILL_PART = 1e-5
# Weight of the path of such a vertex, relative to an edge.
_PIN_WEIGHT = 1e4
# Edges shorter than this part of the mean length count like edges of this length.
_SHORTEST_PART = 1e-2
# Length below which a blended edge has no direction, m.
_TINY = 1e-12


class ArcBlend:
    """Blend of a shape into another one at several frames, along arcs.

    plain, simulated: vertices (f, v, 3), m.  pairs: vertices (p, 2) of edges.
    """

    def __init__(self, plain: Array, simulated: Array, pairs: Index) -> None:
        self._plain, self._simulated, self._pairs = plain, simulated, pairs
        count = plain.shape[1]
        rows, signs = np.repeat(np.arange(len(pairs)), 2), np.tile([1.0, -1.0], len(pairs))
        self._edges = csr_matrix((signs, (rows, pairs.ravel())), shape=(len(pairs), count))
        # Edges count by their directions: the short ones across a long tube tell how it twists.
        lengths = np.linalg.norm(self._edges @ plain[0], axis=1)
        mean = float(lengths.mean()) if len(lengths) else 1.0
        self._weights = np.maximum(lengths / max(mean, _TINY), _SHORTEST_PART) ** -2.0
        self._around = abs(self._edges).T.tocsr()
        # A vertex without edges has only its path.
        nearby = self._around @ self._weights
        nearby[nearby == 0.0] = 1.0
        moves = np.linalg.norm(simulated - plain, axis=2).max(axis=0)
        size = float(np.linalg.norm(np.ptp(plain[0], axis=0)))
        self._hold = nearby * np.where(moves <= _STILL_PART * size, _PIN_WEIGHT, _PATH_WEIGHT)
        self._weighted = (self._edges.T @ diags(self._weights)).tocsr()
        self._solve = factorise((self._weighted @ self._edges + diags(self._hold)).tocsr())
        self._turns: dict[int, Array] = {}

    def shape(self, place: int, weight: float) -> Array:
        """Return the vertices (v, 3), m, of a frame. weight: of the simulation.  place: index of the frame."""
        plain, simulated = self._plain[place], self._simulated[place]
        if weight in (0.0, 1.0):
            return np.asarray(simulated if weight else plain)
        turns, path = self._rotation_vectors(place), plain + weight * (simulated - plain)
        before, after = self._edges @ plain, self._edges @ simulated
        wanted = np.zeros_like(before)
        for side in range(2):
            turn = turns[self._pairs[:, side]]
            unturned = Rotation.from_rotvec(turn).apply(after, inverse=True)
            wanted += 0.5 * Rotation.from_rotvec(weight * turn).apply(before + weight * (unturned - before))
        # Where the rotations of both ends differ, their mean is shorter.
        lengths = [np.linalg.norm(one, axis=1) for one in (before, after, wanted)]
        wanted *= (lengths[0] + weight * (lengths[1] - lengths[0]))[:, None] / np.maximum(lengths[2], _TINY)[:, None]
        return np.asarray(self._solve(self._weighted @ wanted + self._hold[:, None] * path))

    def _rotation_vectors(self, place: int) -> Array:
        """Return the rotation (v, 3), rad, from the edges around each vertex to those of the simulation."""
        if place not in self._turns:
            before, after = (self._edges @ shape[place] for shape in (self._plain, self._simulated))
            products = self._weights[:, None, None] * after[:, :, None] * before[:, None]
            products = (self._around @ products.reshape(-1, 9)).reshape(-1, 3, 3)
            still = _STILL_SHARE * (self._around @ (self._weights * np.einsum("pk,pk->p", before, before)))
            # A vertex without edges does not turn.
            still[still == 0.0] = 1.0
            rotations = best_fit_rotations(products + still[:, None, None] * np.eye(3))
            self._turns[place] = Rotation.from_matrix(rotations).as_rotvec()
        return self._turns[place]

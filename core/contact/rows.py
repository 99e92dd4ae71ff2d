"""A set of contacts with its potential: penalty with thickness, and friction as a spring with a Coulomb limit.

Each contact is a row that gives the way d between two points as a mean of points; with the outward normal n of what is
touched, the contact distance r, how far out e the points are to be, and the stiffness k,

    g = n.d - e,     U = sum k/2 min(g, 0)^2 + 20 k/2 min(g + r/2, 0)^2

and with the way u along the surface since the contact holds, and the limit l = mu f/k of the pressing force f,

    U = sum k/2 |u|^2 where |u| <= l, else mu f (|u| - l/2)

f is that of the last iteration: Coulomb's law has no potential of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask
from ..geometry.triangles import cross_rows

# So much stiffer is what has gone through this part of the contact distance: beyond all of it one could see it.
BEYOND, PART = 20.0, 0.5
_TINY = 1e-30
# Of a coordinate.
_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Rows:
    """k contacts.

    weights: (k, n) the way between the two points as a mean of nodes; base: (k, 3) m, what else is in it.
    normal: (k, 3).  distance: (k,) m, r.  out: (k,) m, e: r, or less for what began behind, and is eased out.
    stiffness: (k,) N/m.  friction: (k,).
    begun: (k, 3) m, the way at which the contact began to hold; friction pulls back there.
    key: (k, 4) the touching surface, the kind, its feature, and the touched surface.
    drift: (k, 3) m, how far what no node moves changes the way in the step.
    """

    weights: csr_matrix
    base: Array
    normal: Array
    distance: Array
    out: Array
    stiffness: Array
    friction: Array
    begun: Array
    key: Index
    drift: Array

    def __len__(self) -> int:
        return len(self.base)

    @cached_property
    def of(self) -> Index:
        """(w,) the row of each of the weights that are kept."""
        return np.arange(len(self.base)).repeat(np.diff(self.weights.indptr))

    @cached_property
    def back(self) -> csr_matrix:
        """(n, k) the same weights by nodes."""
        return self.weights.T.tocsr()

    def side(self, sign: float) -> Array:
        """(k,) what the weights of one side add up to: 1.0 of what touches, -1.0 of what is touched."""
        part = np.maximum(sign * self.weights.data, 0.0)
        return np.asarray(np.bincount(self.of, part, minlength=len(self.base)))

    def some(self, rows: Index | Mask) -> Rows:
        return Rows(
            self.weights[rows], self.base[rows], self.normal[rows], self.distance[rows], self.out[rows],
            self.stiffness[rows], self.friction[rows], self.begun[rows], self.key[rows], self.drift[rows],
        )  # fmt: skip

    def scaled(self, factors: Array) -> Rows:
        """With the stiffness times factors (k,)."""
        return replace(self, stiffness=self.stiffness * factors)


@dataclass(frozen=True)
class Pressing:
    """What rows do at positions.

    gap: (k,) m.  force: (k,) N along the normals.  slip: (k, 3) m along the surface.  way: (k, 3) m.
    """

    gap: Array
    force: Array
    slip: Array
    way: Array


class ContactEnergy:
    """U of rows, with the pressing forces that friction knows.

    pressing: (k,) N.  What was found at the last positions is kept: a search asks for it again and again.
    """

    rounding = 0.0

    def __init__(self, rows: Rows, pressing: Array) -> None:
        self.rows, self.pressing = rows, pressing
        self._last: tuple[Array, Pressing] | None = None
        self._found: tuple[Pressing, float, Array] | None = None

    def at(self, positions: Array) -> Pressing:
        """At nodes' positions (n, 3) m."""
        if self._last is None or not np.array_equal(self._last[0], positions):
            self._last = positions, self._at(positions)
        return self._last[1]

    def _at(self, positions: Array) -> Pressing:
        rows = self.rows
        way = np.asarray(rows.weights @ positions) + rows.base
        gap = np.einsum("ki,ki->k", rows.normal, way) - rows.out
        force = -rows.stiffness * (np.minimum(gap, 0.0) + BEYOND * np.minimum(gap + PART * rows.distance, 0.0))
        slip = way - rows.begun
        slip -= rows.normal * np.einsum("ki,ki->k", rows.normal, slip)[:, None]
        return Pressing(gap, force, slip, way)

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        """J, and the gradient (n, 3) N."""
        there = self.at(positions)
        if self._found is None or self._found[0] is not there:
            self._found = there, *self._value_gradient(there)
        return self._found[1:]

    def _value_gradient(self, there: Pressing) -> tuple[float, Array]:
        rows = self.rows
        inner, outer = np.minimum(there.gap, 0.0), np.minimum(there.gap + PART * rows.distance, 0.0)
        value = 0.5 * float(rows.stiffness @ (inner**2 + BEYOND * outer**2))
        length, most = self._sliding(there)
        held = length * rows.stiffness <= most
        value += float(
            np.where(
                held,
                0.5 * rows.stiffness * length**2,
                most * (length - 0.5 * most / np.maximum(rows.stiffness, _TINY)),
            ).sum()
        )
        pull = np.where(held, rows.stiffness, most / np.maximum(length, _TINY))
        return value, np.asarray(rows.back @ (pull[:, None] * there.slip - there.force[:, None] * rows.normal))

    def _sliding(self, there: Pressing) -> tuple[Array, Array]:
        """How far rows have slipped (k,) m, and what friction pulls with at most (k,) N."""
        return np.sqrt(np.einsum("ki,ki->k", there.slip, there.slip)), self.rows.friction * self.pressing

    def branches(self, positions: Array) -> Index:
        """(k,) which piece of U each row is on: 0 none, 1 pressing, 2 where it is stiffer; 4 more where it slides."""
        there = self.at(positions)
        length, most = self._sliding(there)
        slides = (length * self.rows.stiffness > most) & (most > 0.0)
        return (there.gap < 0.0).astype(np.int64) + (there.gap + PART * self.rows.distance < 0.0) + 4 * slides

    def stiffness(self, positions: Array, branches: Index | None = None) -> Array:
        """The second derivative of U by each row's way, (k, 3, 3) N/m; never negative. branches: as if on those."""
        rows, there = self.rows, self.at(positions)
        n = rows.normal
        on = self.branches(positions) if branches is None else branches
        steep = rows.stiffness * ((on % 4 > 0) + BEYOND * (on % 4 > 1))
        both = n[:, :, None] * n[:, None, :]
        total = steep[:, None, None] * both
        length, most = self._sliding(there)
        sticks = most > 0.0
        held = on < 4
        across = np.where(held, rows.stiffness, most / np.maximum(length, _TINY)) * sticks
        total += across[:, None, None] * (np.eye(3) - both)
        unit = there.slip / np.maximum(length, _TINY)[:, None]
        slides = np.where(held, 0.0, across)
        total -= slides[:, None, None] * (unit[:, :, None] * unit[:, None, :])
        return total

    def resisted(self, positions: Array, branches: Index) -> tuple[Index, Array]:
        """The ways in which rows resist: which row each is of (q,), and (q, 3) sqrt(N/m).

        Each row's ways times themselves add up to its stiffness() on the same branches.
        """
        rows, there = self.rows, self.at(positions)
        steep = rows.stiffness * ((branches % 4 > 0) + BEYOND * (branches % 4 > 1))
        length, most = self._sliding(there)
        held, sticks = branches < 4, most > 0.0
        across = np.where(held, rows.stiffness, most / np.maximum(length, _TINY)) * sticks
        # Along the way that it slides friction gives way, across that it turns with it.
        along = np.where(held[:, None], _aside(rows.normal), there.slip / np.maximum(length, _TINY)[:, None])
        beside = cross_rows(rows.normal.T, along.T).T
        found, ways = [], []
        for amount, unit in ((steep, rows.normal), (np.where(held, across, 0.0), along), (across, beside)):
            some = np.flatnonzero(amount > 0.0)
            found.append(some)
            ways.append(np.sqrt(amount[some])[:, None] * unit[some])
        return np.concatenate(found), np.concatenate(ways)

    def noise(self, positions: Array, h: float) -> float:
        """The error estimate of a step of h s that rounding of positions leaves in what presses, sqrt(W s)."""
        pieces = self.branches(positions) % 4
        stiff = float(self.rows.stiffness @ ((pieces > 0) + BEYOND * (pieces > 1)))
        return _ROUNDING * float(np.abs(positions).max(initial=0.0)) * float(np.sqrt(stiff / h))

    def hessian(self, positions: Array, project: bool = True) -> csr_matrix:
        """(3n, 3n) N/m."""
        return spread(self.rows.weights, self.stiffness(positions))

    def holding(self, positions: Array) -> csr_matrix:
        """The same of what holds: what slides is free to."""
        branches = self.branches(positions)
        blocks = self.stiffness(positions, branches)
        n, slides = self.rows.normal, branches >= 4
        steep = np.einsum("ki,kij,kj->k", n, blocks, n)
        blocks[slides] = (steep[:, None, None] * n[:, :, None] * n[:, None, :])[slides]
        return spread(self.rows.weights, blocks)

    def pressed(self, positions: Array) -> ContactEnergy:
        """The same with the pressing forces as they are at positions."""
        there = self.at(positions)
        other = ContactEnergy(self.rows, there.force)
        other._last = positions, there
        return other

    def stretched(self, positions: Array) -> Array:
        """(k, 3) m, what of the slip stays after a step that ends at positions: what friction can hold."""
        there = self.at(positions)
        length = np.sqrt(np.einsum("ki,ki->k", there.slip, there.slip))
        most = self.rows.friction * there.force / np.maximum(self.rows.stiffness, _TINY)
        return np.asarray(there.slip * np.minimum(1.0, most / np.maximum(length, _TINY))[:, None])


def _aside(normal: Array) -> Array:
    """Unit vectors (k, 3) across unit vectors (k, 3)."""
    other = np.zeros_like(normal)
    other[np.arange(len(normal)), np.abs(normal).argmin(axis=1)] = 1.0
    found = cross_rows(normal.T, other.T).T
    return np.asarray(found / np.sqrt((found * found).sum(axis=1))[:, None])


def spread(weights: csr_matrix, blocks: Array) -> csr_matrix:
    """sum_i (w_i x 1)^T B_i (w_i x 1) for rows w_i (k, n) and symmetric blocks (k, 3, 3): (3n, 3n)."""
    wide = weights.tocoo()
    rows = (3 * wide.row[:, None] + np.arange(3)).ravel()
    columns = (3 * wide.col[:, None] + np.arange(3)).ravel()
    three = csr_matrix((wide.data.repeat(3), (rows, columns)), shape=(3 * weights.shape[0], 3 * weights.shape[1]))
    k = len(blocks)
    place = 3 * np.arange(k)[:, None, None]
    axes = np.arange(3)
    inner = csr_matrix(
        (
            blocks.ravel(),
            (
                np.broadcast_to(place + axes[None, :, None], blocks.shape).ravel(),
                np.broadcast_to(place + axes[None, None, :], blocks.shape).ravel(),
            ),
        ),
        shape=(3 * k, 3 * k),
    )
    return (three.T @ inner @ three).tocsr()

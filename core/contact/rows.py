"""Contact potential: a penalty with a contact distance, and lagged Coulomb friction as a spring with a limit.

Each contact gives the vector d between two points as a linear combination of points. With the outward normal n of the
touched surface, the contact distance r, the target gap e and the stiffness k,

    g = n.d - e,     U = sum k/2 min(g, 0)^2 + 20 k/2 min(g + r/2, 0)^2

With the tangential slip u since the contact began to stick, and the limit l = mu f/k for the normal force f,

    U = sum k/2 |u|^2 where |u| <= l, else mu f (|u| - l/2)

f is the normal force of the last iteration (lagged), because Coulomb friction has no potential.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask
from ..geometry.triangles import cross_rows

# Additional stiffness beyond this fraction of the contact distance: deeper contacts would be visible.
BEYOND, PART = 20.0, 0.5
_TINY = 1e-30
# Relative rounding error of a coordinate.
_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Rows:
    """A set of k contacts.

    weights: (k, n) gives the vector between the two points from the nodes; base_offset: (k, 3) m is its constant part.
    normal: (k, 3).  distance: (k,) m, r.  target_gap: (k,) m, e: r, or less for points that started behind and are
        moved out gradually.
    stiffness: (k,) N/m.  friction: (k,) coefficients.
    stick_anchor: (k, 3) m, the vector at which the contact began to stick; friction pulls back to it.
    key: (k, 4) touching surface, kind, feature and touched surface.
    kinematic_drift: (k, 3) m, change of base_offset during the step.
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
        """Contact index (w,) of each stored weight."""
        return np.arange(len(self.base)).repeat(np.diff(self.weights.indptr))

    @cached_property
    def back(self) -> csr_matrix:
        """Transposed weights (n, k)."""
        return self.weights.T.tocsr()

    def side(self, sign: float) -> Array:
        """Return the sum (k,) of one side's node weights.

        sign: 1 for the touching side, -1 for the touched one.  The sums are at most 1.
        """
        part = np.maximum(sign * self.weights.data, 0.0)
        return np.asarray(np.bincount(self.of, part, minlength=len(self.base)))

    def some(self, rows: Index | Mask) -> Rows:
        """Return the contacts at some indices or in a mask."""
        return Rows(
            self.weights[rows], self.base[rows], self.normal[rows], self.distance[rows], self.out[rows],
            self.stiffness[rows], self.friction[rows], self.begun[rows], self.key[rows], self.drift[rows],
        )  # fmt: skip

    def scaled(self, factors: Array) -> Rows:
        """Return the contacts with their stiffness multiplied by factors (k,)."""
        return replace(self, stiffness=self.stiffness * factors)


@dataclass(frozen=True)
class Pressing:
    """Forces of contacts at given positions.

    gap: (k,) m.  force: (k,) N along the normals.  slip: (k, 3) m, tangential.  offset: (k, 3) m between the points.
    """

    gap: Array
    force: Array
    slip: Array
    way: Array


class ContactEnergy:
    """Potential U of contacts with given normal forces for friction.

    lagged_normal_force: (k,) N.  The results at the last positions are cached, because searches request them
        repeatedly.
    """

    rounding = 0.0

    def __init__(self, rows: Rows, pressing: Array) -> None:
        self.rows, self.pressing = rows, pressing
        self._last: tuple[Array, Pressing] | None = None
        self._found: tuple[Pressing, float, Array] | None = None

    def at(self, positions: Array) -> Pressing:
        """Return the contact forces with nodes at positions (n, 3) m."""
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
        """Return U in J and its gradient (n, 3) in N."""
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
        """Return the slip distances (k,) m, and the friction limits (k,) N."""
        return np.sqrt(np.einsum("ki,ki->k", there.slip, there.slip)), self.rows.friction * self.pressing

    def branches(self, positions: Array) -> Index:
        """Return the piece (k,) of U that each contact is on.

        0 open, 1 closed, 2 closed and stiffened; 4 is added if it slides.
        """
        there = self.at(positions)
        length, most = self._sliding(there)
        slides = (length * self.rows.stiffness > most) & (most > 0.0)
        return (there.gap < 0.0).astype(np.int64) + (there.gap + PART * self.rows.distance < 0.0) + 4 * slides

    def stiffness(self, positions: Array, branches: Index | None = None) -> Array:
        """Return the second derivative of U by each contact's offset, (k, 3, 3) N/m, positive semi-definite.

        states: (k,) to use instead of those at the positions.
        """
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
        """Return factors of the stiffness: the contact of each factor (q,), and the factors (q, 3) in sqrt(N/m).

        The sum of the outer products of a contact's factors is its stiffness_blocks() in the same states.
        """
        rows, there = self.rows, self.at(positions)
        steep = rows.stiffness * ((branches % 4 > 0) + BEYOND * (branches % 4 > 1))
        length, most = self._sliding(there)
        held, sticks = branches < 4, most > 0.0
        across = np.where(held, rows.stiffness, most / np.maximum(length, _TINY)) * sticks
        # The friction force is constant along the slip, and rotates with the slip across it.
        along = np.where(held[:, None], _aside(rows.normal), there.slip / np.maximum(length, _TINY)[:, None])
        beside = cross_rows(rows.normal.T, along.T).T
        found, ways = [], []
        for amount, unit in ((steep, rows.normal), (np.where(held, across, 0.0), along), (across, beside)):
            some = np.flatnonzero(amount > 0.0)
            found.append(some)
            ways.append(np.sqrt(amount[some])[:, None] * unit[some])
        return np.concatenate(found), np.concatenate(ways)

    def noise(self, positions: Array, h: float) -> float:
        """Return the error estimate, sqrt(W s), that rounding of positions causes in a step of h s."""
        pieces = self.branches(positions) % 4
        stiff = float(self.rows.stiffness @ ((pieces > 0) + BEYOND * (pieces > 1)))
        return _ROUNDING * float(np.abs(positions).max(initial=0.0)) * float(np.sqrt(stiff / h))

    def hessian(self, positions: Array, project: bool = True) -> csr_matrix:
        """Return the Hessian of U, (3n, 3n) N/m."""
        return spread(self.rows.weights, self.stiffness(positions))

    def holding(self, positions: Array) -> csr_matrix:
        """Return the Hessian without the friction of sliding contacts, which resist no motion."""
        branches = self.branches(positions)
        blocks = self.stiffness(positions, branches)
        n, slides = self.rows.normal, branches >= 4
        steep = np.einsum("ki,kij,kj->k", n, blocks, n)
        blocks[slides] = (steep[:, None, None] * n[:, :, None] * n[:, None, :])[slides]
        return spread(self.rows.weights, blocks)

    def pressed(self, positions: Array) -> ContactEnergy:
        """Return the potential with the lagged normal forces updated to those at positions."""
        there = self.at(positions)
        other = ContactEnergy(self.rows, there.force)
        other._last = positions, there
        return other

    def stretched(self, positions: Array) -> Array:
        """Return the slip (k, 3) m that friction can hold after a step that ends at positions."""
        there = self.at(positions)
        length = np.sqrt(np.einsum("ki,ki->k", there.slip, there.slip))
        most = self.rows.friction * there.force / np.maximum(self.rows.stiffness, _TINY)
        return np.asarray(there.slip * np.minimum(1.0, most / np.maximum(length, _TINY))[:, None])


def _aside(normal: Array) -> Array:
    """Return unit vectors (k, 3) perpendicular to unit vectors (k, 3)."""
    other = np.zeros_like(normal)
    other[np.arange(len(normal)), np.abs(normal).argmin(axis=1)] = 1.0
    found = cross_rows(normal.T, other.T).T
    return np.asarray(found / np.sqrt((found * found).sum(axis=1))[:, None])


def spread(weights: csr_matrix, blocks: Array) -> csr_matrix:
    """Return the sum of (w_i x 1)^T B_i (w_i x 1), (3n, 3n).

    weights: (k, n), rows w_i.  blocks: (k, 3, 3), symmetric, B_i.
    """
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

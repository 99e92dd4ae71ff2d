"""Bending of rods and ropes: E = sum E I theta^2/L over pairs of following edges (docs/physics.md section 6).

theta is the angle between the edges a and b, tan theta = |a x b|/(a . b), L the length that bends, at rest. Twist is
not felt; what is straight at rest needs none, as it untwists for nothing.

Where the rest shape has an angle r, theta^2 gives way to (sqrt(theta^2 + r^2/4) - sqrt(r^2 + r^2/4))^2, which is at
rest at r and smooth where the rod is pulled straight. Which way it is bent there, it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask
from ..elements.assembly import assembled, gathered, positive
from ..elements.bending import bending
from ..elements.strains import differences

# Of the rest angle, what rounds the corner that an angle has at zero.
_ROUND = 0.5
# Below this sine the angle over it is taken for one.
_TINY = 1e-9
_LEAST = 1e-30


@dataclass(frozen=True)
class RodBending:
    """elements: (m, 3) nodes, the middle one where it bends.  stiffness: (m,) E I in N m^2.  lengths: (m,) m that bend.
    angles: (m,) rad at rest.
    """

    elements: Index
    stiffness: Array
    lengths: Array
    angles: Array

    @staticmethod
    def of(rest: Array, elements: Index, stiffness: Array, fixed: Mask | None = None) -> RodBending:
        """rest: (n, 3) m.  fixed: (n,) whether a node is pinned hard.

        Of two edges of which one is pinned at both ends the other one alone bends: the rod is clamped at the last
        pinned node, not in the middle of the pinned edge.
        """
        corners = rest[elements]
        sides = np.linalg.norm(np.diff(corners, axis=1), axis=2)
        lengths = sides.sum(axis=1)
        if fixed is not None:
            held = fixed[elements]
            first, second = held[:, :2].all(axis=1), held[:, 1:].all(axis=1)
            lengths = np.where(first & ~second, sides[:, 1], np.where(second & ~first, sides[:, 0], lengths))
        return RodBending(elements, stiffness, lengths, _angles(corners))

    @property
    def weights(self) -> Array:
        """(m,) N m."""
        return np.asarray(self.stiffness / self.lengths)

    @cached_property
    def rounding(self) -> float:
        """Angles are known to the last digit of one."""
        return 8.0 * float(np.finfo(float).eps) * float(self.weights.sum())

    def scaled(self, parts: Array) -> RodBending:
        return replace(self, stiffness=self.stiffness * parts[self.elements].mean(axis=1))

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        corners = positions[self.elements]
        squares = _angles(corners) ** 2
        over = np.sqrt(squares + self._rounded) - np.sqrt(self.angles**2 + self._rounded)
        # A straight rest shape needs no root.
        value = np.where(self.angles > 0.0, over**2, squares)
        return float(self.weights @ value), gathered(self._slopes(corners)[:, 0], self.elements, len(positions))

    @property
    def _rounded(self) -> Array:
        return np.asarray((_ROUND * self.angles) ** 2)

    def _slopes(self, corners: Array) -> Array:
        """Of each element's energy, (m, 1, 9)."""
        a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
        c, d = np.cross(a, b), (a * b).sum(axis=1)
        sine = np.linalg.norm(c, axis=1)
        angle = np.arctan2(sine, d)
        # theta times its slope, without a direction of theta where it has none.
        ratio = np.where(sine > _TINY * np.abs(d), angle / np.maximum(sine, _LEAST), 1.0 / np.maximum(d, _LEAST))
        now, rest = np.sqrt(angle**2 + self._rounded), np.sqrt(self.angles**2 + self._rounded)
        bent = np.where(self.angles > 0.0, 1.0 - rest / np.maximum(now, _LEAST), 1.0)
        amount = (2.0 * self.weights * bent * ratio)[:, None]
        by_a = -amount * np.cross(c, a) / np.maximum((a * a).sum(axis=1), _LEAST)[:, None]
        by_b = amount * np.cross(c, b) / np.maximum((b * b).sum(axis=1), _LEAST)[:, None]
        return np.asarray(np.concatenate([-by_a, by_a - by_b, by_b], axis=1)[:, None])

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """By differences of the slopes, which is exact enough for a Hessian; each element's part is made positive."""
        corners = positions[self.elements]
        blocks = differences(self._slopes, corners, np.ones((len(corners), 1))) if len(corners) else np.zeros((0, 9, 9))
        return assembled(positive(blocks) if project else blocks, self.elements, len(positions))

    def strain_stiffness(self, positions: Array) -> csr_matrix:
        """What a change of the angles meets, (3n, 3n) N/m: with [SRD] (20) to (24), and no turning of what is bent."""
        corners = positions[self.elements]
        total = csr_matrix((positions.size, positions.size))
        for strain, which in bending(corners, self.lengths, self.elements):
            B = strain.gradient(corners[which])
            # Strains are angles over the length.
            weights = 2.0 * self.stiffness[which] * self.lengths[which]
            total = total + assembled(
                weights[:, None, None] * (B.transpose(0, 2, 1) @ B), strain.elements, len(positions)
            )
        return total.tocsr()


def _angles(corners: Array) -> Array:
    """(m,) rad, from 0 to pi."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
    return np.asarray(np.arctan2(np.linalg.norm(np.cross(a, b), axis=1), (a * b).sum(axis=1)))

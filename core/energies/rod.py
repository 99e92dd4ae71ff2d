"""Bending of rods and ropes: E = sum E I theta^2/L over pairs of consecutive edges (docs/physics.md section 6).

theta is the angle between the edges a and b, tan theta = |a x b|/(a . b), and L the bending length at rest. Twist is
not modelled; rods that are straight at rest do not need it, since they untwist without resistance.

For a rest angle r, theta^2 is replaced by (sqrt(theta^2 + r^2/4) - sqrt(r^2 + r^2/4))^2, which is zero at r and smooth
where the rod is straight. The direction of the rest bend is not modelled.
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

# Smoothing of the angle at zero, relative to the rest angle.
_ROUND = 0.5
# Below this relative sine, the ratio of angle to sine counts as one.
_TINY = 1e-9
_LEAST = 1e-30


@dataclass(frozen=True)
class RodBending:
    """Bending energy of rods.

    elements: (m, 3) nodes, in order along the rod.  stiffness: (m,) E I in N m^2.  lengths: (m,) m, bending lengths.
    rest_angles: (m,) rad.
    """

    elements: Index
    stiffness: Array
    lengths: Array
    angles: Array

    @staticmethod
    def of(rest: Array, elements: Index, stiffness: Array, fixed: Mask | None = None) -> RodBending:
        """Return the energy of a rest shape. rest: (n, 3) m.  fixed: (n,) mask of hard-pinned nodes.

        If one of two edges is pinned at both ends, only the other edge bends: the rod is clamped at the last pinned
        node, not in the middle of the pinned edge.
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
        """Bending stiffness E I/L (m,) in N m."""
        return np.asarray(self.stiffness / self.lengths)

    @cached_property
    def rounding(self) -> float:
        """Rounding error of the energy in J, from angles that are accurate to machine epsilon."""
        return 8.0 * float(np.finfo(float).eps) * float(self.weights.sum())

    def scaled(self, parts: Array) -> RodBending:
        return replace(self, stiffness=self.stiffness * parts[self.elements].mean(axis=1))

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        corners = positions[self.elements]
        squares = _angles(corners) ** 2
        over = np.sqrt(squares + self._rounded) - np.sqrt(self.angles**2 + self._rounded)
        # A straight rest shape needs no smoothing.
        value = np.where(self.angles > 0.0, over**2, squares)
        return float(self.weights @ value), gathered(self._slopes(corners)[:, 0], self.elements, len(positions))

    @property
    def _rounded(self) -> Array:
        return np.asarray((_ROUND * self.angles) ** 2)

    def _slopes(self, corners: Array) -> Array:
        """Return the gradients (m, 1, 9) of the element energies in N."""
        a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
        c, d = np.cross(a, b), (a * b).sum(axis=1)
        sine = np.linalg.norm(c, axis=1)
        angle = np.arctan2(sine, d)
        # theta times its gradient is smooth at zero, where the gradient of theta alone is singular.
        ratio = np.where(sine > _TINY * np.abs(d), angle / np.maximum(sine, _LEAST), 1.0 / np.maximum(d, _LEAST))
        now, rest = np.sqrt(angle**2 + self._rounded), np.sqrt(self.angles**2 + self._rounded)
        bent = np.where(self.angles > 0.0, 1.0 - rest / np.maximum(now, _LEAST), 1.0)
        amount = (2.0 * self.weights * bent * ratio)[:, None]
        by_a = -amount * np.cross(c, a) / np.maximum((a * a).sum(axis=1), _LEAST)[:, None]
        by_b = amount * np.cross(c, b) / np.maximum((b * b).sum(axis=1), _LEAST)[:, None]
        return np.asarray(np.concatenate([-by_a, by_a - by_b, by_b], axis=1)[:, None])

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Return the Hessian by finite differences of the gradient; if projected, each element block is positive."""
        corners = positions[self.elements]
        blocks = differences(self._slopes, corners, np.ones((len(corners), 1))) if len(corners) else np.zeros((0, 9, 9))
        return assembled(positive(blocks) if project else blocks, self.elements, len(positions))

    def strain_stiffness(self, positions: Array) -> csr_matrix:
        """Return the stiffness (3n, 3n) N/m by [SRD] (20) to (24), without geometric stiffness."""
        corners = positions[self.elements]
        total = csr_matrix((positions.size, positions.size))
        for strain, which in bending(corners, self.lengths, self.elements):
            B = strain.gradient(corners[which])
            # Strains are angles per length.
            weights = 2.0 * self.stiffness[which] * self.lengths[which]
            total = total + assembled(
                weights[:, None, None] * (B.transpose(0, 2, 1) @ B), strain.elements, len(positions)
            )
        return total.tocsr()


def _angles(corners: Array) -> Array:
    """Return the angles (m,) between consecutive edges in rad, 0 to pi."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
    return np.asarray(np.arctan2(np.linalg.norm(np.cross(a, b), axis=1), (a * b).sum(axis=1)))

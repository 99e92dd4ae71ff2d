"""Bending of rods and ropes: E = sum E I theta^2/L over pairs of consecutive edges.

theta is the angle between the edges a and b, tan theta = |a x b|/(a . b), and L the bending length at rest. Twist is
not modelled; rods that are straight at rest do not need it, since they untwist without resistance.

For a rest angle r, theta^2 is replaced by (sqrt(theta^2 + r^2/4) - sqrt(r^2 + r^2/4))^2, which is zero at r and smooth
where the rod is straight. The direction of the rest bend is not modelled.

See docs/explanation/physics/06-body-models.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, Mask
from .assembly import assemble_matrix, assemble_vector, project_positive
from .rod_strains import rod_bending_strains
from .strains import finite_difference_hessian

# Smoothing of the angle at zero, relative to the rest angle.
_SMOOTHING_RATIO = 0.5
# Below this relative sine, the ratio of angle to sine counts as one.
_SMALL_SINE = 1e-9
_MIN_DIVISOR = 1e-30


@dataclass(frozen=True)
class RodBending:
    """Bending energy of rods.

    elements: (m, 3) nodes, in order along the rod.  stiffness: (m,) E I in N m^2.  lengths: (m,) m, bending lengths.
    rest_angles: (m,) rad.
    """

    elements: Index
    stiffness: Array
    lengths: Array
    rest_angles: Array

    @staticmethod
    def from_rest_shape(rest: Array, elements: Index, stiffness: Array, fixed: Mask | None = None) -> RodBending:
        """Return the energy of a rest shape. rest: (n, 3) m.  fixed: (n,) mask of hard-pinned nodes.

        If one of two edges is pinned at both ends, only the other edge bends: the rod is clamped at the last pinned
        node, not in the middle of the pinned edge.
        """
        corners = rest[elements]
        edge_lengths = np.linalg.norm(np.diff(corners, axis=1), axis=2)
        lengths = edge_lengths.sum(axis=1)
        if fixed is not None:
            is_fixed = fixed[elements]
            first, second = is_fixed[:, :2].all(axis=1), is_fixed[:, 1:].all(axis=1)
            lengths = np.where(
                first & ~second, edge_lengths[:, 1], np.where(second & ~first, edge_lengths[:, 0], lengths)
            )
        return RodBending(elements, stiffness, lengths, _edge_angles(corners))

    @property
    def weights(self) -> Array:
        """Bending stiffness E I/L (m,) in N m."""
        return np.asarray(self.stiffness / self.lengths)

    @cached_property
    def rounding(self) -> float:
        """Rounding error of the energy in J, from angles that are accurate to machine epsilon."""
        return 8.0 * float(np.finfo(float).eps) * float(self.weights.sum())

    def with_nodal_scale(self, factors: Array) -> RodBending:
        return replace(self, stiffness=self.stiffness * factors[self.elements].mean(axis=1))

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        corners = positions[self.elements]
        squares = _edge_angles(corners) ** 2
        smoothed_difference = np.sqrt(squares + self._smoothing) - np.sqrt(self.rest_angles**2 + self._smoothing)
        # A straight rest shape needs no smoothing.
        value = np.where(self.rest_angles > 0.0, smoothed_difference**2, squares)
        return float(self.weights @ value), assemble_vector(
            self._element_gradients(corners)[:, 0], self.elements, len(positions)
        )

    @property
    def _smoothing(self) -> Array:
        return np.asarray((_SMOOTHING_RATIO * self.rest_angles) ** 2)

    def _element_gradients(self, corners: Array) -> Array:
        """Return the gradients (m, 1, 9) of the element energies in N."""
        a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
        c, d = np.cross(a, b), (a * b).sum(axis=1)
        sine = np.linalg.norm(c, axis=1)
        angle = np.arctan2(sine, d)
        # theta times its gradient is smooth at zero, where the gradient of theta alone is singular.
        ratio = np.where(
            sine > _SMALL_SINE * np.abs(d), angle / np.maximum(sine, _MIN_DIVISOR), 1.0 / np.maximum(d, _MIN_DIVISOR)
        )
        smoothed_angle, smoothed_rest_angle = (
            np.sqrt(angle**2 + self._smoothing),
            np.sqrt(self.rest_angles**2 + self._smoothing),
        )
        bend_factor = np.where(
            self.rest_angles > 0.0, 1.0 - smoothed_rest_angle / np.maximum(smoothed_angle, _MIN_DIVISOR), 1.0
        )
        amount = (2.0 * self.weights * bend_factor * ratio)[:, None]
        by_a = -amount * np.cross(c, a) / np.maximum((a * a).sum(axis=1), _MIN_DIVISOR)[:, None]
        by_b = amount * np.cross(c, b) / np.maximum((b * b).sum(axis=1), _MIN_DIVISOR)[:, None]
        return np.asarray(np.concatenate([-by_a, by_a - by_b, by_b], axis=1)[:, None])

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Return the Hessian by finite differences of the gradient; if projected, each element block is positive."""
        corners = positions[self.elements]
        blocks = (
            finite_difference_hessian(self._element_gradients, corners, np.ones((len(corners), 1)))
            if len(corners)
            else np.zeros((0, 9, 9))
        )
        return assemble_matrix(project_positive(blocks) if project else blocks, self.elements, len(positions))

    def strain_stiffness(self, positions: Array) -> csr_matrix:
        """Return the stiffness (3n, 3n) N/m by [SRD] (20) to (24), without geometric stiffness."""
        corners = positions[self.elements]
        total = csr_matrix((positions.size, positions.size))
        for strain, mask in rod_bending_strains(corners, self.lengths, self.elements):
            B = strain.gradient(corners[mask])
            # Strains are angles per length.
            weights = 2.0 * self.stiffness[mask] * self.lengths[mask]
            total = total + assemble_matrix(
                weights[:, None, None] * (B.transpose(0, 2, 1) @ B), strain.elements, len(positions)
            )
        return total.tocsr()


def _edge_angles(corners: Array) -> Array:
    """Return the angles (m,) between consecutive edges in rad, 0 to pi."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
    return np.asarray(np.arctan2(np.linalg.norm(np.cross(a, b), axis=1), (a * b).sum(axis=1)))

"""Bending of rods and ropes: E = sum E I theta^2/L over pairs of consecutive edges.

theta is the angle between the edges a and b, tan theta = |a x b|/(a . b), and L the bending length at rest. Twist is
not modelled; rods that are straight at rest do not need it, since they untwist without resistance.

For a rest angle r, theta^2 is replaced by (sqrt(theta^2 + r^2/4) - sqrt(r^2 + r^2/4))^2, which is zero at r and smooth
where the rod is straight. The direction of the rest bend is not modelled.

The bending strain of a rod is its angle per length ([SRD] (20) to (24)). Above a small angle theta it is theta/L. Below
it, where the gradient of theta is singular, it is the vector k/L with k = a x b/(a . b), of length tan theta ~ theta.

See docs/explanation/physics/06-body-models.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, Mask
from ..native.library import KernelLibrary
from ..native.ropes import CompiledRods
from .assembly import assemble_matrix, assemble_vector, project_positive
from .strain_energy import KernelEnergy
from .strains import RelativeStrain

SMALL_ANGLE = 0.1
_MIN_LENGTH = 1e-30
# Smoothing of the angle at zero, relative to the rest angle.
_SMOOTHING_RATIO = 0.5
# Below this relative sine, the ratio of angle to sine counts as one.
_SMALL_SINE = 1e-9
_MIN_DIVISOR = 1e-30
# Angle (rad) below which the derivatives by the cosine are Taylor series; their relative error is at most 1e-11.
_STRAIGHT = 2e-3
# Smallest sine of the angle in these derivatives.
_MIN_FOLD_SINE = 1e-4


def _edge_products(corners: Array) -> tuple[Array, Array, Array, Array]:
    """Return the edges a, b (m, 3), a x b (m, 3) and a . b (m,)."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
    return a, b, np.cross(a, b), (a * b).sum(axis=1)


def _node_derivatives(by_a: Array, by_b: Array) -> Array:
    """Return derivatives (m, c, 9) with respect to the three nodes, from those with respect to a and b (m, c, 3)."""
    return np.concatenate([-by_a, by_a - by_b, by_b], axis=2)


def cross_matrix(a: Array) -> Array:
    """Return the matrices (m, 3, 3) that map a vector v to a x v."""
    zero = np.zeros(len(a))
    x, y, z = a.T
    return np.asarray(np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3))


class AngleStrain(RelativeStrain):
    """Bending strain theta/L, one component; singular gradient at theta = 0."""

    def values(self, corners: Array) -> Array:
        _, _, c, d = _edge_products(corners)
        return np.asarray((np.arctan2(np.linalg.norm(c, axis=1), d) / self.lengths)[:, None])

    def gradient(self, corners: Array) -> Array:
        a, b, c, _ = _edge_products(corners)
        axis = c / np.maximum(np.linalg.norm(c, axis=1), _MIN_LENGTH)[:, None]
        # Rotating b about the axis increases the angle, rotating a decreases it.
        by_a = -np.cross(axis, a) / np.maximum((a * a).sum(axis=1), _MIN_LENGTH)[:, None]
        by_b = np.cross(axis, b) / np.maximum((b * b).sum(axis=1), _MIN_LENGTH)[:, None]
        return _node_derivatives(by_a[:, None], by_b[:, None]) / self.lengths[:, None, None]


class TangentStrain(RelativeStrain):
    """Bending strain k/L, three components; smooth at theta = 0, singular at pi/2."""

    def values(self, corners: Array) -> Array:
        _, _, c, d = _edge_products(corners)
        return np.asarray(c / (d * self.lengths)[:, None])

    def gradient(self, corners: Array) -> Array:
        a, b, c, d = _edge_products(corners)
        k = c / d[:, None]
        by_a = (-cross_matrix(b) - k[:, :, None] * b[:, None, :]) / d[:, None, None]
        by_b = (cross_matrix(a) - k[:, :, None] * a[:, None, :]) / d[:, None, None]
        return _node_derivatives(by_a, by_b) / self.lengths[:, None, None]


def rod_bending_strains(
    corners: Array, lengths: Array, elements: Index
) -> list[tuple[AngleStrain | TangentStrain, Mask]]:
    """Return the strain measure for each range of angles, with the mask (m,) of its rods. lengths: (m,) m."""
    _, _, c, d = _edge_products(corners)
    is_wide = np.arctan2(np.linalg.norm(c, axis=1), d) > SMALL_ANGLE
    kinds = ((AngleStrain, is_wide), (TangentStrain, ~is_wide))
    return [(kind(lengths[mask], elements[mask]), mask) for kind, mask in kinds if mask.any()]


@dataclass(frozen=True)
class RodBending(KernelEnergy[CompiledRods]):
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

    def _compile(self, library: KernelLibrary) -> CompiledRods:
        return CompiledRods(library, self.elements, self.weights, self.rest_angles, self.smoothing)

    def _value_gradient(self, positions: Array) -> tuple[float, Array]:
        corners = positions[self.elements]
        angles = _edge_angles(corners)
        smoothed_difference = self._smoothed(angles) - self._smoothed(self.rest_angles)
        # A straight rest shape needs no smoothing.
        value = np.where(self.rest_angles > 0.0, smoothed_difference**2, angles**2)
        forces = self._element_gradients(corners)
        return float(self.weights @ value), assemble_vector(forces, self.elements, len(positions))

    @property
    def smoothing(self) -> Array:
        return np.asarray((_SMOOTHING_RATIO * self.rest_angles) ** 2)

    def _smoothed(self, angles: Array) -> Array:
        """Return angles (m,) that are smoothed at zero, by rods that are bent at rest."""
        return np.asarray(np.sqrt(angles**2 + self.smoothing))

    def _element_gradients(self, corners: Array) -> Array:
        """Return the gradients (m, 9) of the element energies in N."""
        a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
        c, d = _cross(a, b), (a * b).sum(axis=1)
        sine = np.linalg.norm(c, axis=1)
        angle = np.arctan2(sine, d)
        # theta times its gradient is smooth at zero, where the gradient of theta alone is singular.
        ratio = np.where(
            sine > _SMALL_SINE * np.abs(d), angle / np.maximum(sine, _MIN_DIVISOR), 1.0 / np.maximum(d, _MIN_DIVISOR)
        )
        relative = self._smoothed(self.rest_angles) / np.maximum(self._smoothed(angle), _MIN_DIVISOR)
        bend_factor = np.where(self.rest_angles > 0.0, 1.0 - relative, 1.0)
        amount = (2.0 * self.weights * bend_factor * ratio)[:, None]
        by_a = -amount * _cross(c, a) / np.maximum((a * a).sum(axis=1), _MIN_DIVISOR)[:, None]
        by_b = amount * _cross(c, b) / np.maximum((b * b).sum(axis=1), _MIN_DIVISOR)[:, None]
        return np.concatenate([-by_a, by_a - by_b, by_b], axis=1)

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Return the Hessian; if projected, each element block is positive."""
        blocks = self._element_hessians(positions[self.elements])
        return assemble_matrix(project_positive(blocks) if project else blocks, self.elements, len(positions))

    def _element_hessians(self, corners: Array) -> Array:
        """Return the second derivatives (m, 9, 9) of the element energies in N/m.

        The energy is a function G of the cosine d = t . u of the unit edges t and u. Its second derivatives are
        G' H + G'' g g^T, with the gradient g and the Hessian H of d by the edges.
        """
        # Elements come last, so that numpy's inner loops are long.
        x = np.ascontiguousarray(corners.transpose(1, 2, 0))
        a, b = x[1] - x[0], x[2] - x[1]
        length_a, length_b = (np.maximum(np.sqrt((one * one).sum(axis=0)), _MIN_DIVISOR) for one in (a, b))
        t, u = a / length_a, b / length_b
        d = (t * u).sum(axis=0)
        first, second = (self.weights * one for one in self._cosine_derivatives(_edge_angles(corners)))
        by_t, by_u = u - d * t, t - d * u
        tt, uu, tu, unit = t[:, None] * t, u[:, None] * u, t[:, None] * u, np.eye(3)[:, :, None]
        aa = _own_block(t, by_t, d * (unit - tt), length_a, first, second)
        bb = _own_block(u, by_u, d * (unit - uu), length_b, first, second)
        ab = (second * by_t[:, None] * by_u + first * (unit - tt - uu + d * tu)) / (length_a * length_b)
        ba = ab.transpose(1, 0, 2)
        # The edges are differences of corners.
        H = np.empty((9, 9, len(d)))
        H[:3, :3], H[:3, 3:6], H[:3, 6:] = aa, ab - aa, -ab
        H[3:6, :3], H[3:6, 3:6], H[3:6, 6:] = ba - aa, aa - ab - ba + bb, ab - bb
        H[6:, :3], H[6:, 3:6], H[6:, 6:] = -ba, ba - bb, bb
        return np.ascontiguousarray(H.transpose(2, 0, 1))

    def _cosine_derivatives(self, angle: Array) -> tuple[Array, Array]:
        """Return the first and second derivatives (m,) of the bending function by the cosine of the angle."""
        # The energy has a kink where an edge folds back onto the other.
        sine, cosine = np.maximum(np.sin(angle), _MIN_FOLD_SINE), np.cos(angle)
        # Taylor series at a straight rod: theta/sin theta = 1 + theta^2/6, and its derivative over sin theta.
        is_straight = angle < _STRAIGHT
        ratio = np.where(is_straight, 1.0 + angle**2 / 6.0, angle / sine)
        ratio_slope = np.where(is_straight, 1.0 / 3.0 + 2.0 * angle**2 / 15.0, (sine - angle * cosine) / sine**3)
        is_bent = self.rest_angles > 0.0
        rest, smoothed = self._smoothed(self.rest_angles), np.where(is_bent, self._smoothed(angle), 1.0)
        factor = np.where(is_bent, 1.0 - rest / smoothed, 1.0)
        factor_slope = np.where(is_bent, rest * ratio / smoothed**3, 0.0)
        return -2.0 * factor * ratio, 2.0 * (factor_slope * ratio + factor * ratio_slope)

    def strain_stiffness(self, positions: Array) -> csr_matrix:
        """Return the stiffness (3n, 3n) N/m by [SRD] (20) to (24), without geometric stiffness."""
        corners = positions[self.elements]
        total = csr_matrix((positions.size, positions.size))
        for strain, mask in rod_bending_strains(corners, self.lengths, self.elements):
            B = strain.gradient(corners[mask])
            # Strains are angles per length.
            weights = 2.0 * self.stiffness[mask] * self.lengths[mask]
            blocks = weights[:, None, None] * (B.transpose(0, 2, 1) @ B)
            total = total + assemble_matrix(blocks, strain.elements, len(positions))
        return total.tocsr()


def _own_block(edge: Array, across: Array, part: Array, length: Array, first: Array, second: Array) -> Array:
    """Return the second derivatives (3, 3, m) by one of the two edges.

    edge: (3, m), a unit vector.  across: (3, m), the other edge's part perpendicular to it.
    part: (3, 3, m), the cosine times the projection onto the plane perpendicular to the edge.
    first, second: (m,) derivatives of the energies by the cosine, J.
    """
    mixed = across[:, None] * edge
    curvature = mixed + mixed.transpose(1, 0, 2) + part
    return np.asarray((second * across[:, None] * across - first * curvature) / (length * length))


def _cross(a: Array, b: Array) -> Array:
    """Return the cross products (m, 3); np.cross takes three times as long for a few hundred."""
    found = np.empty_like(a)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        found[:, i] = a[:, j] * b[:, k] - a[:, k] * b[:, j]
    return found


def _edge_angles(corners: Array) -> Array:
    """Return the angles (m,) between consecutive edges in rad, 0 to pi."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
    return np.asarray(np.arctan2(np.linalg.norm(_cross(a, b), axis=1), (a * b).sum(axis=1)))

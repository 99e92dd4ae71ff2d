"""Membranes: sheets that resist stretching and shearing in their own plane.

F (3 x 2) maps the plane of a triangle to space. Corotational elasticity is quadratic in the stretches s1, s2 of F,

    Psi = mu ((s1 - 1)^2 + (s2 - 1)^2) + lambda/2 (s1 + s2 - 2)^2

and Saint Venant-Kirchhoff elasticity is quadratic in Green's strain. Woven fabric has yarns in addition, along the warp
a and the weft b of the plane,

    Psi_y = phi(|F a|) + phi(|F b|)

with phi = k/2 e^2 + (r - 1) k/2 max(0, e - e_s)^2 and the strain e = |F a| - 1. They resist stretching, r times as much
beyond e_s, but let the fabric shear. All are per area, with moduli in N/m.

See docs/explanation/physics/06-body-models.md.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import bsr_matrix, csr_matrix

from ..base.arrays import Array, Index
from ..geometry.mesh.grain import plane_axes
from ..native.elements import CompiledMembrane
from ..native.library import KernelLibrary
from .assembly import CORNER_PAIRS, SymmetricPattern
from .strain_energy import KernelEnergy
from .strains import plane_shape_gradients

# Smallest ratio of a crushed triangle's area to its rest area.
_MIN_AREA = 1e-12
# Smallest stretch of a yarn that has a direction.
_MIN_STRETCH = 1e-12
# Strain from which a yarn stiffens, because its crimp is pulled straight, and its stiffness from there relative to that
# before. The kernel uses the same values.
_STIFFENING_STRAIN, _STIFFENING_RATIO = 0.015, 8.0


@dataclass(frozen=True)
class Fabric:
    """Sheet material that is isotropic, or woven and equally stiff along warp and weft.

    stretch_modulus: Young's modulus along the yarns times thickness, N/m.  poisson: Poisson's ratio in the plane, of
    the isotropic part.  shear_ratio: shear modulus relative to that of an isotropic sheet; 1 for isotropic.
    """

    stretch_modulus: float
    poisson: float
    shear_ratio: float = 1.0

    @property
    def mu(self) -> float:
        """Shear modulus times thickness in N/m."""
        return self.shear_ratio * (self.stretch_modulus / (2.0 * (1.0 + self.poisson)))

    @property
    def lam(self) -> float:
        """First Lamé parameter of plane stress times thickness of the isotropic part, N/m."""
        return self.shear_ratio * (self.stretch_modulus * self.poisson / (1.0 - self.poisson**2))

    @property
    def yarn_modulus(self) -> float:
        """Modulus k of warp and weft, N/m; 0 if isotropic.

        With C = lambda + 2 mu + k, a strip along the yarns has the modulus C - lambda^2/C, which is stretch_modulus.
        """
        if self.shear_ratio >= 1.0:
            return 0.0
        young = self.stretch_modulus
        return 0.5 * (young + math.sqrt(young**2 + 4.0 * self.lam**2)) - self.lam - 2.0 * self.mu


class Membrane(KernelEnergy[CompiledMembrane]):
    """Membrane energy: sum over triangles of weight * Psi(F).

    triangles: (m, 3).  weights: (m,) m^2, the rest area times a painted stiffness scale.

    Woven fabric has its warp along the first coordinate of each triangle's plane, and its weft along the second one.

    Subclasses implement density and stress (_stress) and second derivatives (_second_derivatives or _pair_blocks) of
    the isotropic part.
    """

    name: ClassVar[str]
    number: ClassVar[int]
    label: ClassVar[str]
    description: ClassVar[str]

    def __init__(
        self,
        rest: Array,
        triangles: Index,
        fabric: Fabric,
        stiffness_scale: Array | None = None,
        warp: Array | None = None,
    ) -> None:
        """rest: (n, 3) m.  stiffness_scale: (m,) of the triangles; 1 if None.

        warp: (m, 3) directions of the warp, which are projected to the planes; along the first side if None.
        """
        shape_gradients, areas = plane_shape_gradients(rest, triangles)
        if warp is not None:
            shape_gradients = shape_gradients @ _turns_to_warp(rest, triangles, warp)
        self.triangles, self.fabric = triangles, fabric
        self.weights = areas if stiffness_scale is None else areas * stiffness_scale
        self._nodes = len(rest)
        self._pattern = SymmetricPattern(triangles, self._nodes)
        self._set_shape_gradients(shape_gradients)
        self._update_rounding()

    def _set_shape_gradients(self, shape_gradients: Array) -> None:
        self.shape_gradients, m = shape_gradients, len(self.triangles)
        # Row c*m + e of the operator gives column c of F in element e, so that one sparse product yields all F.
        rows = (np.arange(2)[:, None, None] * m + np.arange(m)[None, :, None]).repeat(3, axis=2)
        columns = np.broadcast_to(self.triangles[None], (2, m, 3))
        values = self.shape_gradients.transpose(2, 0, 1)
        self._gradient = csr_matrix((values.ravel(), (rows.ravel(), columns.ravel())), shape=(2 * m, self._nodes))
        self._divergence = self._gradient.T.tocsr()
        # In the corner order of the pattern.
        self._sorted_gradients = np.take_along_axis(shape_gradients, self._pattern.corner_order[:, :, None], axis=1)

    def _update_rounding(self) -> None:
        modulus = self.fabric.lam + 2.0 * self.fabric.mu + self.fabric.yarn_modulus
        self.rounding = 8.0 * float(np.finfo(float).eps) * modulus * float(self.weights.sum())

    def with_length_scale(self, length_scale: Array) -> Membrane:
        """Return the membrane with the rest lengths of each triangle scaled by length_scale (m,), and equal weights."""
        other = copy(self)
        other._set_shape_gradients(self.shape_gradients / length_scale[:, None, None])
        return other

    def with_flow(self, flow: Array) -> Membrane:
        """Return the membrane after a plastic flow F_p (m, 2, 2): F F_p^-1 replaces F.

        Plastic flow conserves volume, so the weights do not change.
        """
        other = copy(self)
        other._set_shape_gradients(self.shape_gradients @ np.linalg.inv(flow))
        return other

    def with_nodal_scale(self, factors: Array) -> Membrane:
        other = copy(self)
        other.weights = self.weights * factors[self.triangles].mean(axis=1)
        other._update_rounding()
        return other

    @property
    def kernel_data(self) -> tuple[Array, Array] | None:
        return None

    def deformation_gradients(self, positions: Array) -> Array:
        """Return the columns of F, (2, m, 3)."""
        return np.asarray((self._gradient @ positions).reshape(2, -1, 3))

    def _value_gradient(self, positions: Array) -> tuple[float, Array]:
        F = self.deformation_gradients(positions)
        density, stress = self._stress(F)
        if self.fabric.yarn_modulus:
            yarns = _Yarns.create(F, self.fabric.yarn_modulus)
            density, stress = density + yarns.energy, stress + yarns.tension[:, :, None] * yarns.directions
        stress *= self.weights[:, None]
        return float(self.weights @ density), np.asarray(self._divergence @ stress.reshape(-1, 3))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        return self.block_hessian(positions, project).tocsr()

    def block_hessian(self, positions: Array, project: bool) -> bsr_matrix:
        """Return the Hessian in blocks (3, 3), which are faster to assemble than single entries."""
        F = self.deformation_gradients(positions)
        pair_blocks = self._pair_blocks(F, project)
        if self.fabric.yarn_modulus:
            pair_blocks = pair_blocks + self._yarn_blocks(F, project)
        return self._pattern.assemble(pair_blocks)

    def _yarn_blocks(self, F: Array, project: bool) -> Array:
        """Return the blocks of the yarns, phi'' u u^T + (phi'/s) (1 - u u^T) with the stretch s and direction u."""
        yarns = _Yarns.create(F, self.fabric.yarn_modulus)
        across = yarns.tension / np.maximum(yarns.stretch, _MIN_STRETCH)
        across = np.maximum(across, 0.0) if project else across
        u = yarns.directions
        blocks = (yarns.modulus - across)[:, :, None, None] * u[:, :, :, None] * u[:, :, None, :]
        blocks += across[:, :, None, None] * np.eye(3)
        blocks *= self.weights[:, None, None]
        slopes = self._sorted_gradients
        pairs = [
            sum(slopes[:, i, c, None, None] * slopes[:, j, c, None, None] * blocks[c] for c in (0, 1))
            for i, j in CORNER_PAIRS
        ]
        return np.asarray(np.concatenate(pairs).reshape(-1, 9).T)

    def _pair_blocks(self, F: Array, project: bool) -> Array:
        """Return the Hessian blocks of corner pairs (9, 3m), see SymmetricPattern."""
        directions, coefficients = self._second_derivatives(F, project)
        weighted = (coefficients * self.weights[:, None, None]) @ directions
        hessians = (directions.transpose(0, 2, 1) @ weighted).reshape(-1, 3, 3, 3, 3)
        return np.asarray(np.stack([hessians[:, i, :, j] for i, j in CORNER_PAIRS]).reshape(-1, 9).T)

    def stiffness_laplacian(self) -> csr_matrix:
        """Return a matrix (n, n) N/m that approximates the stiffness of each coordinate, whatever the orientation."""
        modulus = 2.0 * self.fabric.mu + 0.5 * self.fabric.lam + self.fabric.yarn_modulus
        stiff = np.tile(self.weights * modulus, 2)
        return (self._divergence.multiply(stiff[None, :]) @ self._gradient).tocsr()

    def _stress(self, F: Array) -> tuple[Array, Array]:
        """Return Psi (m,) in N/m and dPsi/dF (2, m, 3) in N/m."""
        raise NotImplementedError

    def _second_derivatives(self, F: Array, project: bool) -> tuple[Array, Array]:
        """Return Z (m, k, 9) and A (m, k, k) in N/m with second derivatives Z^T A Z per weight.

        Corners are in the order of the pattern. Not needed by subclasses that override _pair_blocks.
        """
        raise NotImplementedError

    def _gradient_rows(self, *vectors: Array) -> Array:
        """Return the derivatives of both columns of F along vectors (m, 3) by the corners: two rows per vector."""
        rows = [self._sorted_gradients[:, :, c, None] * vector[:, None, :] for vector in vectors for c in (0, 1)]
        return np.stack(rows, axis=1).reshape(len(self._sorted_gradients), -1, 9)


def _turns_to_warp(rest: Array, triangles: Index, warp: Array) -> Array:
    """Return the axes (m, 2, 2) along warp and weft as columns, in the plane of plane_shape_gradients()."""
    first, second = plane_axes(rest, triangles)
    x, y = (warp * first).sum(axis=1), (warp * second).sum(axis=1)
    length = np.hypot(x, y)
    # Keep the first side where the warp is across the plane.
    x, y = np.where(length > 0.0, x, 1.0), np.where(length > 0.0, y, 0.0)
    length = np.hypot(x, y)
    x, y = x / length, y / length
    return np.stack([np.stack([x, -y], axis=1), np.stack([y, x], axis=1)], axis=1)


@dataclass(frozen=True)
class _Yarns:
    """Warp and weft of triangles.

    stretch: (2, m), s.  directions: (2, m, 3), u.  energy: (m,) N/m, phi of both.  tension, modulus: (2, m) N/m, phi'
    and phi''.
    """

    stretch: Array
    directions: Array
    energy: Array
    tension: Array
    modulus: Array

    @staticmethod
    def create(F: Array, modulus: float) -> _Yarns:
        """Return the yarns that F (2, m, 3) stretches: phi = k/2 (s - 1)^2, and stiffer from a strain."""
        stretch = np.sqrt((F * F).sum(axis=2))
        strain, added = stretch - 1.0, (_STIFFENING_RATIO - 1.0) * modulus
        beyond = np.maximum(strain - _STIFFENING_STRAIN, 0.0)
        return _Yarns(
            stretch,
            F / np.maximum(stretch, _MIN_STRETCH)[:, :, None],
            0.5 * (modulus * strain**2 + added * beyond**2).sum(axis=0),
            modulus * strain + added * beyond,
            modulus + np.where(beyond > 0.0, added, 0.0),
        )


@dataclass(frozen=True)
class _PolarDecomposition:
    """Polar decomposition F = R S of triangles: tr S, tr S^2, S^-1 and the columns of R, (2, 3, m)."""

    trace: Array
    squares: Array
    inverse: tuple[Array, Array, Array]
    rotation: Array

    @staticmethod
    def decompose(F: Array) -> _PolarDecomposition:
        """Decompose F, given by the coordinates of its columns (2, 3, m), like the rotation."""
        p, q = F
        aa, ab, bb = (x[0] * y[0] + x[1] * y[1] + x[2] * y[2] for x, y in ((p, p), (p, q), (q, q)))
        area = np.zeros(F.shape[2])
        for i, j in ((1, 2), (2, 0), (0, 1)):
            area += (p[i] * q[j] - p[j] * q[i]) ** 2
        area = np.maximum(np.sqrt(area), _MIN_AREA)
        squares = aa + bb
        trace = np.sqrt(squares + 2.0 * area)
        # With I = tr S and J the area ratio: S = (C + J 1)/I, and by Cayley-Hamilton S^-1 = (I 1 - S)/J.
        scale = 1.0 / (trace * area)
        first, mixed, second = scale * (bb + area), -scale * ab, scale * (aa + area)
        rotation = np.stack([first * p + mixed * q, mixed * p + second * q])
        return _PolarDecomposition(trace, squares, (first, mixed, second), rotation)


class Corotational(Membrane):
    """Psi = mu (tr C - 2 I + 2) + lambda/2 (I - 2)^2, C = F^T F, I = s1 + s2; P = 2 mu F + k R, F = R S.

    Its Hessian, with k = lambda (I - 2) - 2 mu, t = (r2, -r1) and the normal n = r1 x r2, is

        dP = 2 mu dF + lambda R (R : dF) + k (t (t : dF)/I + n n^T dF S^-1)

    so that negative eigenvalues can be removed in closed form: the in-plane rotation has the eigenvalue 2 mu + 2 k/I,
    and out-of-plane motion the 2 x 2 matrix 2 mu 1 + k S^-1.
    """

    name = "COROTATIONAL"
    number = 0
    label = "Corotational"
    description = "Equally stiff at any stretch, and stable under compression"

    @property
    def kernel_data(self) -> tuple[Array, Array]:
        return self.shape_gradients, self.weights

    def _compile(self, library: KernelLibrary) -> CompiledMembrane:
        moduli = self.weights[:, None] * np.array([self.fabric.mu, self.fabric.lam, self.fabric.yarn_modulus])
        return CompiledMembrane(library, self._nodes, self.triangles, self.shape_gradients, moduli)

    def _stress(self, F: Array) -> tuple[Array, Array]:
        # Put the coordinates first: numpy is much faster along many elements than along three coordinates.
        F = np.ascontiguousarray(F.transpose(0, 2, 1))
        mu, lam, polar = self.fabric.mu, self.fabric.lam, _PolarDecomposition.decompose(F)
        trace_excess = polar.trace - 2.0
        density = mu * (polar.squares - 2.0 * polar.trace + 2.0) + 0.5 * lam * trace_excess**2
        stress = 2.0 * mu * F + (lam * trace_excess - 2.0 * mu) * polar.rotation
        return density, np.ascontiguousarray(stress.transpose(0, 2, 1))

    def _pair_blocks(self, F: Array, project: bool) -> Array:
        """Return the blocks in closed form, R M R^T + c n n^T with the in-plane matrix M (2 x 2), entry by entry."""
        mu, lam = self.fabric.mu, self.fabric.lam
        polar = _PolarDecomposition.decompose(np.ascontiguousarray(F.transpose(0, 2, 1)))
        k = lam * (polar.trace - 2.0) - 2.0 * mu
        rotation_stiffness, (a, b, c) = _curvature(mu, k, polar, project)
        r1, r2 = polar.rotation
        normal = np.cross(r1, r2, axis=0)
        slopes = np.ascontiguousarray(self._sorted_gradients.transpose(1, 2, 0))
        trace_stiffness, shear_stiffness = lam * self.weights, 2.0 * mu * self.weights
        rotation_term = self.weights * (0.5 * rotation_stiffness - mu)
        a, b, c = self.weights * a, self.weights * b, self.weights * c
        blocks = np.empty((9, 3, len(k)))
        for place, (i, j) in enumerate(CORNER_PAIRS):
            (g1, g2), (h1, h2) = slopes[i], slopes[j]
            first, mixed, other, second = g1 * h1, g1 * h2, g2 * h1, g2 * h2
            isotropic_term = shear_stiffness * (first + second)
            normal_term = a * first + b * (mixed + other) + c * second
            m11 = trace_stiffness * first + rotation_term * second + isotropic_term
            m12 = trace_stiffness * mixed - rotation_term * other
            m21 = trace_stiffness * other - rotation_term * mixed
            m22 = trace_stiffness * second + rotation_term * first + isotropic_term
            for column in range(3):
                x, y, z = r1[column], r2[column], normal_term * normal[column]
                p, q = m11 * x + m12 * y, m21 * x + m22 * y
                for row in range(3):
                    entry = np.multiply(r1[row], p, out=blocks[3 * row + column, place])
                    entry += r2[row] * q
                    entry += normal[row] * z
        return blocks.reshape(9, -1)


def _curvature(
    mu: float, k: Array, polar: _PolarDecomposition, project: bool
) -> tuple[Array, tuple[Array, Array, Array]]:
    """Return the stiffness of in-plane rotation (m,) and the entries of the out-of-plane matrix.

    project: set negative eigenvalues to zero.
    """
    first, mixed, second = polar.inverse
    rotation, entries = 2.0 * mu + 2.0 * k / polar.trace, (2.0 * mu + k * first, k * mixed, 2.0 * mu + k * second)
    return (np.maximum(rotation, 0.0), _positive_part(*entries)) if project else (rotation, entries)


def _positive_part(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    """Return the positive semi-definite part of symmetric matrices [[a, b], [b, c]]."""
    middle, half = 0.5 * (a + c), 0.5 * (a - c)
    radius = np.hypot(half, b)
    high, low = np.maximum(middle + radius, 0.0), np.maximum(middle - radius, 0.0)
    # m 1 + d (A - middle 1)/radius has the eigenvalues m + d and m - d.
    mean, part = 0.5 * (high + low), 0.5 * (high - low) / np.maximum(radius, 1e-300)
    return mean + part * half, part * b, mean - part * half


class StVKMembrane(Membrane):
    """Psi = lambda/2 tr(E)^2 + mu E:E with Green's strain E, [SRD] (13) in the plane.

    If projected, the geometric stiffness uses only the tensile part of the stress ([SRD] after (9)).
    """

    name = "STVK"
    number = 1
    label = "Saint Venant-Kirchhoff"
    description = "The model used by the papers; it goes soft under compression"

    def _density_and_stress(self, F: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        """Return Psi (m,) and the second Piola-Kirchhoff stress s11, s12, s22, all in N/m."""
        a, b = F
        e11, e22 = 0.5 * ((a * a).sum(axis=1) - 1.0), 0.5 * ((b * b).sum(axis=1) - 1.0)
        e12 = 0.5 * (a * b).sum(axis=1)
        mu, pressure = self.fabric.mu, self.fabric.lam * (e11 + e22)
        stress = (pressure + 2.0 * mu * e11, 2.0 * mu * e12, pressure + 2.0 * mu * e22)
        return 0.5 * (stress[0] * e11 + 2.0 * stress[1] * e12 + stress[2] * e22), stress

    def _stress(self, F: Array) -> tuple[Array, Array]:
        density, (s11, s12, s22) = self._density_and_stress(F)
        a, b = F
        return density, np.stack([s11[:, None] * a + s12[:, None] * b, s12[:, None] * a + s22[:, None] * b], axis=0)

    def _second_derivatives(self, F: Array, project: bool) -> tuple[Array, Array]:
        mu, lam, (_, stress) = self.fabric.mu, self.fabric.lam, self._density_and_stress(F)
        a, b, c = _positive_part(*stress) if project else stress
        f1, f2 = F
        # Strain derivatives f1 . dF1, (f1 . dF2 + f2 . dF1)/2, f2 . dF2; then the geometric part, stress : dF^T dF.
        rows = self._gradient_rows(f1, f2)
        strain_rows = np.stack([rows[:, 0], 0.5 * (rows[:, 1] + rows[:, 2]), rows[:, 3]], axis=1)
        directions = np.concatenate(
            [strain_rows, self._gradient_rows(*np.broadcast_to(np.eye(3)[:, None], (3, len(f1), 3)))], axis=1
        )
        coefficients = np.zeros((len(f1), 9, 9))
        coefficients[:, 0, 0] = coefficients[:, 2, 2] = lam + 2.0 * mu
        coefficients[:, 0, 2] = coefficients[:, 2, 0] = lam
        coefficients[:, 1, 1] = 4.0 * mu
        for axis in (3, 5, 7):
            coefficients[:, axis, axis], coefficients[:, axis + 1, axis + 1] = a, c
            coefficients[:, axis, axis + 1] = coefficients[:, axis + 1, axis] = b
        return directions, coefficients

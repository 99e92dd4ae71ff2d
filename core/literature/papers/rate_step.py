"""Steps of the literature: an implicit one with damping at its end, and the traditional method.

The implicit step is for the Jacobians of [SRD] 3.4:

    M (v+ - v^) = g (f_e(x+) + f_d(x+, v+) + M g_0),   x+ = x^ + g v+

Backward Euler has g = h, x^ = x, v^ = v; Newmark's average acceleration has g = h/2, x^ = x + h v/2 and v^ = v + h a/2.
DampSim's own steps hold C constant in each solve, so that [SRD] (9) occurs in none of them.

The traditional method of [You] 4.2 has explicit elasticity, then damping by the predicted strain rate ([You] (4.3) to
(4.9)), with the forces of Green's strain; see docs/explanation/physics/05-stress-form.md for those of the thesis:

    v~ = v + h M^-1 f_e(x),   x~ = x + h v~,   v+ = v + h M^-1 (f_e(x) + f_d(x~, v~)),   x+ = x + h v+
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.sparse import csc_matrix, diags
from scipy.sparse.linalg import splu

from ...base.arrays import Array
from ...materials.strain_energy import StrainEnergy, isotropic_moduli
from ...system.system import System
from ..damping.damping import REFERENCE_FRAME_RATE, Damping
from ..damping.viscous_dampings import Dissipation, StrainRatePotential


class PositionJacobian(StrEnum):
    """Used part of the damping force's derivative with respect to positions, [SRD] (9)."""

    WHOLE = "whole"
    SYMMETRIC = "without its second part"
    CLAMPED = "clamped, without its second part"
    NONE = "none"


@dataclass(frozen=True)
class RateStepResult:
    """Result of a step.

    positions, velocities: (n, 3).
    iterations: of Newton's method.
    converged: whether they were sufficient.
    """

    positions: Array
    velocities: Array
    iterations: int
    converged: bool


@dataclass(frozen=True)
class RateStep:
    """Stepper for one block with a strain energy, either free or with fixed pins.

    elastic_clamped: whether the elastic Hessian also has its stress clamped.
    newmark: Newmark's average acceleration instead of backward Euler.
    max_iterations: an unconverged result is accepted after these.
    tolerance: of the velocity change, relative to the largest velocity.
    """

    system: System
    energy: StrainEnergy
    damping: StrainRatePotential
    jacobian: PositionJacobian = PositionJacobian.CLAMPED
    elastic_clamped: bool = True
    newmark: bool = False
    max_iterations: int = 60
    tolerance: float = 1e-10

    def _force(self, x: Array, v: Array) -> Array:
        weight = self.system.mass[:, None] * self.system.gravity
        return np.asarray(weight - self.energy.value_gradient(x)[1] + self.damping.force(x, v))

    def _residual_jacobian(self, x: Array, v: Array, g: float) -> csc_matrix:
        """Return the derivative of the residual with respect to v+."""
        total = diags(self.system.mass.repeat(3)) - g * self.damping.velocity_jacobian(x, v)
        total = total + g * g * self.energy.hessian(x, self.elastic_clamped)
        if self.jacobian is not PositionJacobian.NONE:
            is_whole, is_clamped = self.jacobian is PositionJacobian.WHOLE, self.jacobian is PositionJacobian.CLAMPED
            total = total - g * g * self.damping.position_jacobian(x, v, is_whole, is_clamped)
        return total.tocsc()

    def step(self, positions: Array, velocities: Array, h: float) -> RateStepResult:
        """Advance positions and velocities (n, 3) by h seconds."""
        mass = self.system.mass[:, None]
        g, x0, v0 = h, positions, velocities
        if self.newmark:
            g, x0 = 0.5 * h, positions + 0.5 * h * velocities
            v0 = velocities + 0.5 * h * self._force(positions, velocities) / mass
        free = np.flatnonzero(np.repeat(~self.system.is_fixed, 3))
        v = np.where(self.system.is_fixed[:, None], 0.0, velocities)
        iterations, converged = 0, False
        while iterations < self.max_iterations and not converged:
            x = np.where(self.system.is_fixed[:, None], positions, x0 + g * v)
            residual = (mass * (v - v0) - g * self._force(x, v)).ravel()[free]
            change = np.zeros(v.size)
            change[free] = -splu(self._residual_jacobian(x, v, g)[free][:, free]).solve(residual)
            v = v + change.reshape(v.shape)
            iterations += 1
            if not np.isfinite(v).all():
                break
            converged = float(np.abs(change).max()) <= self.tolerance * float(np.abs(v).max())
        x = np.where(self.system.is_fixed[:, None], positions, x0 + g * v)
        return RateStepResult(x, v, iterations, converged)


class PerStepDamping(Damping):
    """Damping that removes its gamma in every step, independent of the step size, as in the paper."""

    def __init__(self, inner: Damping) -> None:
        self._inner = inner

    def damp_velocities(self, positions: Array, start_velocities: Array, predicted: Array, h: float) -> Array:
        return self._inner.damp_velocities(positions, start_velocities, predicted, 1.0 / REFERENCE_FRAME_RATE)


@dataclass(frozen=True)
class TraditionalStep:
    """Stepper for a membrane. phi, psi: N s/m, the viscosities of [You] (4.7)."""

    system: System
    phi: float
    psi: float

    def step(self, positions: Array, velocities: Array, h: float) -> tuple[Array, Array]:
        """Return positions and velocities (n, 3) h seconds later."""
        (energy,) = self.system.blocks[0].energies
        assert isinstance(energy, StrainEnergy)
        damping = Dissipation(energy.strain, isotropic_moduli(self.phi, self.psi, 2), energy.weights, len(positions))
        # Fixed nodes have no mobility.
        mobility_step = np.where(self.system.is_fixed, 0.0, h / self.system.mass)[:, None]
        elastic = -energy.value_gradient(positions)[1]
        predicted = velocities + mobility_step * elastic
        after = predicted + mobility_step * damping.force(positions + h * predicted, predicted)
        return positions + h * after, after

"""The thesis's traditional method, [You] 4.2: explicit elasticity, then damping by the predicted strain rate.

    v~ = v + h M^-1 f_e(x),   x~ = x + h v~,   v+ = v + h M^-1 (f_e(x) + f_d(x~, v~)),   x+ = x + h v+

[You] (4.3) to (4.9). The forces are those of Green's strain; see docs/explanation/physics/05-stress-form.md for
those of the thesis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.arrays import Array
from ...materials.strain_energy import StrainEnergy, isotropic_moduli
from ...system.system import System
from ..damping.dissipation import Dissipation


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

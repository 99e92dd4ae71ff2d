"""Settings that the dials give for a step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array
from .law import Coefficients, DeformationLaw


@dataclass(frozen=True)
class YarnDials:
    """Dials for the yarns of woven cloth (docs/explanation/woven-cloth.md).

    friction: Coulomb coefficient.
    grip: N, normal force at each crossing even without tension.
    drag: N s/m, resistance to sliding.
    stretch, bend: s, damping over stiffness.
    rayleigh: whether this damping multiplies the tangent instead of the strain rates.

    The defaults prevent sliding, as the search for the hanging shape needs.
    """

    friction: float = 1.0
    grip: float = 1e9
    drag: float = 0.0
    stretch: float = 0.0
    bend: float = 0.0
    rayleigh: bool = False


@dataclass(frozen=True)
class Controls:
    """Settings that the dials give for one system.

    laws: one per region.
    follow_through: phi, 1 is physical; one value for all blocks or one per block.
    tolerance: tolerance of the solver.
    stiffness: factor on the elastic energies, for a material that stiffens during the shot; one value or one per block.
        The eigenvalues of the laws already include it.
    yarns: one per woven block.
    velocity_ratios: factor of each region on the deformation's velocity at the start of the step, because the dials
        have changed (docs/explanation/physics/02-settle-law.md); none if they have not.
    is_static: whether the steps search for an equilibrium, so that changes too small to see still add up.
    """

    laws: tuple[DeformationLaw, ...]
    follow_through: float | tuple[float, ...]
    tolerance: float
    stiffness: float | tuple[float, ...] = 1.0
    yarns: tuple[YarnDials, ...] = ()
    velocity_ratios: tuple[float | Array, ...] = ()
    is_static: bool = False

    def coefficients(self, region: int, h: float, use_fallback: bool = False) -> Coefficients:
        """Return the coefficients of a region for a step of h seconds."""
        law = self.laws[region]
        found = law.fallback_coefficients(h) if use_fallback else law.coefficients(h)
        if not self.velocity_ratios:
            return found
        ratio = self.velocity_ratios[region]
        return replace(found, kappa=found.kappa * ratio, sigma=found.sigma * ratio)

    def with_unchanged_dials(self) -> Controls:
        """Return the controls of the later parts of a step."""
        return replace(self, velocity_ratios=()) if self.velocity_ratios else self

    def follow_through_per_block(self, block_count: int) -> Array:
        """Return the follow-through of each block, (b,)."""
        return np.broadcast_to(np.asarray(self.follow_through, dtype=float), block_count)

    def stiffness_per_block(self, block_count: int) -> Array:
        """Return the stiffness factor of each block, (b,)."""
        return np.broadcast_to(np.asarray(self.stiffness, dtype=float), block_count)

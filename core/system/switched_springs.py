"""Springs with dampers of their own, and those of muscles, which change while they are switched on ([Ctl])."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, Mask
from ..base.computation import Memo
from ..materials import Energy, SoftPins
from ..materials.assembly import assemble_matrix
from ..materials.loads_and_springs import SpringEnergy, spring_energy
from .inputs import BlockInputs
from .state import BlockHistory
from .term import ForceTerm, Potential, StiffnessScaling


@dataclass(frozen=True)
class SpringDampers(ForceTerm):
    """Dampers along springs. Their coefficients do not depend on the stiffness of the body.

    ends: (e, 2) nodes.  damping: (e,) N s/m.
    """

    ends: Index
    damping: Array
    damping_scaling: ClassVar[StiffnessScaling | None] = StiffnessScaling.FIXED

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        return SoftPins(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 3)))

    def damping_matrix(self, history: BlockHistory, positions: Array) -> csr_matrix | None:
        return axial_damping_matrix(self.ends, self.damping, positions)


def axial_damping_matrix(ends: Index, damping: Array, positions: Array) -> csr_matrix:
    """Return the damping matrix (3n, 3n) N s/m, c n n^T of each damper along its spring; rotation is not damped.

    ends: (e, 2) nodes.  damping: (e,) N s/m.  positions: (n, 3) m.
    """
    difference = positions[ends[:, 0]] - positions[ends[:, 1]]
    unit = difference / np.maximum(np.linalg.norm(difference, axis=1), 1e-30)[:, None]
    axes = np.concatenate([unit, -unit], axis=1)
    return assemble_matrix(damping[:, None, None] * axes[:, :, None] * axes[:, None, :], ends, len(positions))


@dataclass(frozen=True)
class SwitchedSprings(Potential):
    """Springs of muscles; `energy` is theirs while all are off.

    muscle_indices: (e,) index of each spring's muscle.
    length_ratios, stiffness_ratios: (m,) rest length and stiffness while on, relative to those while off.
    damping_times: (m, 2) s, damping over stiffness while off and while on.
    """

    energy: SpringEnergy
    muscle_indices: Index = field(kw_only=True)
    length_ratios: Array = field(kw_only=True)
    stiffness_ratios: Array = field(kw_only=True)
    damping_times: Array = field(kw_only=True)
    _cache: Memo[Energy] = field(init=False, default_factory=lambda: Memo(64), compare=False, repr=False)

    @property
    def _springs_off(self) -> tuple[Index, Array, Array]:
        """Ends (e, 2), rest lengths (e,) m and stiffness (e,) N/m of the springs while off."""
        strain = self.energy.strain
        return strain.elements, strain.lengths, self.energy.weights / strain.lengths**2

    def active_muscles(self, history: BlockHistory) -> Mask:
        """Return which muscles are on, (m,)."""
        return np.zeros(len(self.length_ratios), dtype=bool) if history.muscles is None else history.muscles.is_on

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Energy:
        return self.energy_when_active(self.active_muscles(history))

    def energy_when_active(self, active: Mask) -> Energy:
        """Return the energy while the muscles in a mask (m,) are on."""
        if not active.any():
            return self.energy
        ratios = (np.where(active, one, 1.0) for one in (self.length_ratios, self.stiffness_ratios))
        return self._cache.get(active.tobytes(), lambda: self._springs(*ratios))

    def preconditioner_energy(self, rest: Array) -> Energy | None:
        # The preconditioner stays valid whichever muscles are on.
        return self._springs(np.ones(len(self.length_ratios)), np.maximum(self.stiffness_ratios, 1.0))

    def _springs(self, length_ratios: Array, stiffness_ratios: Array) -> Energy:
        """Return the energy of the springs. length_ratios, stiffness_ratios: (m,) relative to those while off."""
        ends, rest, stiffness = self._springs_off
        rest_lengths = rest * length_ratios[self.muscle_indices]
        ratios = stiffness_ratios[self.muscle_indices]
        return spring_energy(ends, rest_lengths, np.asarray(stiffness * ratios * rest_lengths))

    def damping_matrix(self, history: BlockHistory, positions: Array) -> csr_matrix | None:
        ends, _, stiffness = self._springs_off
        active = self.active_muscles(history)
        times = np.where(active, self.stiffness_ratios * self.damping_times[:, 1], self.damping_times[:, 0])
        damping = stiffness * times[self.muscle_indices]
        return axial_damping_matrix(ends, damping, positions) if damping.any() else None

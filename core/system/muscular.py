"""Springs of muscles, which have another rest length, stiffness and damping while switched on ([Ctl])."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask
from ..elements.assembly import assembled
from ..elements.strains import Stretch
from ..energies import Energy
from ..energies.springs import springs
from ..energies.strain_energy import StrainEnergy
from .inputs import BlockInputs
from .term import Memory, Potential

MUSCLES, SENSORS = "muscles", "sensors"
"""History keys of a block: (m, 2) on state and counter of each muscle; (s,) last measurement of each sensor."""


@dataclass(frozen=True)
class Muscular(Potential):
    """Springs of muscles; `energy` is theirs while all are off.

    muscle_indices: (e,) index of each spring's muscle.
    length_ratios, stiffness_ratios: (m,) rest length and stiffness while on, relative to those while off.
    damping_times: (m, 2) s, damping over stiffness while off and while on.
    """

    muscle: Index = field(kw_only=True)
    lengths: Array = field(kw_only=True)
    factors: Array = field(kw_only=True)
    dampers: Array = field(kw_only=True)
    _made: dict[bytes, Energy] = field(init=False, default_factory=dict, compare=False, repr=False)

    @property
    def _off(self) -> tuple[Index, Array, Array]:
        """Ends (e, 2), rest lengths (e,) m and stiffness (e,) N/m of the springs while off."""
        assert isinstance(self.energy, StrainEnergy)
        assert isinstance(self.energy.strain, Stretch)
        strain = self.energy.strain
        return strain.elements, strain.lengths, self.energy.weights / strain.lengths**2

    def on(self, memory: Memory) -> Mask:
        """Return which muscles are on, (m,)."""
        kept = memory.get(MUSCLES)
        return np.zeros(len(self.lengths), dtype=bool) if kept is None else np.asarray(kept[:, 0] > 0.0)

    def prepare(self, inputs: BlockInputs, memory: Memory) -> Energy:
        return self.switched(self.on(memory))

    def switched(self, on: Mask) -> Energy:
        """Return the energy while the muscles in a mask (m,) are on."""
        if not on.any():
            return self.energy
        if on.tobytes() not in self._made:
            if len(self._made) >= 64:
                self._made.clear()
            self._made[on.tobytes()] = self._springs(np.where(on, self.lengths, 1.0), np.where(on, self.factors, 1.0))
        return self._made[on.tobytes()]

    def stiffest(self, rest: Array) -> Energy | None:
        # The preconditioner stays valid whichever muscles are on.
        return self._springs(np.ones(len(self.lengths)), np.maximum(self.factors, 1.0))

    def _springs(self, lengths: Array, factors: Array) -> Energy:
        """Return the energy of the springs. length_ratios, stiffness_ratios: (m,) relative to those while off."""
        ends, rest, stiffness = self._off
        there = rest * lengths[self.muscle]
        return springs(ends, there, np.asarray(stiffness * factors[self.muscle] * there))

    def drag(self, memory: Memory, positions: Array) -> csr_matrix | None:
        """Return the damping matrix c n n^T of each damper along its spring; rotation is not damped."""
        ends, _, stiffness = self._off
        on = self.on(memory)
        damper = stiffness * np.where(on, self.factors * self.dampers[:, 1], self.dampers[:, 0])[self.muscle]
        if not damper.any():
            return None
        way = positions[ends[:, 0]] - positions[ends[:, 1]]
        unit = way / np.maximum(np.linalg.norm(way, axis=1), 1e-30)[:, None]
        both = np.concatenate([unit, -unit], axis=1)
        return assembled(damper[:, None, None] * both[:, :, None] * both[:, None, :], ends, len(positions))

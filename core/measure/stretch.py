"""Stretch of sheets and ropes, which should be nearly inextensible."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array
from ..materials import Membrane
from ..materials.strain_energy import StrainEnergy
from ..materials.strains import SpringStrain
from ..system.switched_springs import SwitchedSprings
from ..system.system import System
from ..system.term import Potential

# Smaller stretches are invisible.
_VISIBLE_STRETCH = 0.1


def max_stretch(system: System, block_index: int, positions: Array) -> float:
    """Return the largest relative stretch of a block's sheets and ropes; 0 if it is invisible.

    block_index: of the block.
    positions: (n, 3) m of all nodes.
    Plastic terms and springs are left out, because they are meant to stretch.
    """
    block, x = system.blocks[block_index], positions[system.slices[block_index]]
    if not (block.is_sheet or block.is_rope):
        return 0.0
    max_ratio = 1.0
    for term in block.terms:
        # Muscles change their length by design.
        if not isinstance(term, Potential) or isinstance(term, SwitchedSprings):
            continue
        energy = term.energy
        if isinstance(energy, Membrane):
            a, b = energy.deformation_gradients(x)
            aa, ab, bb = ((one * other).sum(axis=1) for one, other in ((a, a), (a, b), (b, b)))
            # The larger eigenvalue of F^T F.
            square = 0.5 * (aa + bb) + np.sqrt((0.5 * (aa - bb)) ** 2 + ab**2)
            max_ratio = max(max_ratio, float(np.sqrt(square.max(initial=0.0))))
        elif isinstance(energy, StrainEnergy) and isinstance(energy.strain, SpringStrain):
            values = energy.strain.values(x[energy.strain.elements])
            max_ratio = max(max_ratio, 1.0 + float(values.max(initial=0.0)))
    return max_ratio - 1.0 if max_ratio - 1.0 > _VISIBLE_STRETCH else 0.0

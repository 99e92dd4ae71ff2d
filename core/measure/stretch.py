"""Stretch of sheets and ropes, which should be nearly inextensible."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..elements.strains import Stretch
from ..energies import Membrane
from ..energies.strain_energy import StrainEnergy
from ..system.muscular import Muscular
from ..system.system import System
from ..system.term import Potential

# Smaller stretches are invisible.
_SEEN = 0.1


def stretched(system: System, place: int, positions: Array) -> float:
    """Return the largest relative stretch of a block's sheets and ropes; 0 if it is invisible.

    block_index: of the block.
    positions: (n, 3) m of all nodes.
    Plastic terms and springs are left out, because they are meant to stretch.
    """
    block, x = system.blocks[place], positions[system.slices[place]]
    if not (block.is_sheet or block.is_rope):
        return 0.0
    longest = 1.0
    for term in block.terms:
        # Muscles change their length by design.
        if not isinstance(term, Potential) or isinstance(term, Muscular):
            continue
        energy = term.energy
        if isinstance(energy, Membrane):
            a, b = energy.deformation(x)
            aa, ab, bb = ((one * other).sum(axis=1) for one, other in ((a, a), (a, b), (b, b)))
            # The larger eigenvalue of F^T F.
            square = 0.5 * (aa + bb) + np.sqrt((0.5 * (aa - bb)) ** 2 + ab**2)
            longest = max(longest, float(np.sqrt(square.max(initial=0.0))))
        elif isinstance(energy, StrainEnergy) and isinstance(energy.strain, Stretch):
            values = energy.strain.values(x[energy.strain.elements])
            longest = max(longest, 1.0 + float(values.max(initial=0.0)))
    return longest - 1.0 if longest - 1.0 > _SEEN else 0.0

"""The constant part of a simulation: everything that does not change from step to step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index, Mask
from ..energies import Energy, SoftPins
from .region import Region, find_regions


@dataclass(frozen=True)
class System:
    """One stacked vector of n nodes.

    rest: (n, 3) m.  mass: (n,) kg, lumped.  elements: (m, k) nodes that belong together: tetrahedra, triangles, edges.
    energies: elastic ones.  gravity: (3,) m/s^2.
    pinned: (p,) nodes that follow targets, hard and soft.  pin_stiffness: (p,) N/m, infinite for hard pins.
    """

    rest: Array
    mass: Array
    elements: Index
    energies: tuple[Energy, ...]
    gravity: Array
    pinned: Index
    pin_stiffness: Array
    regions: tuple[Region, ...]

    @property
    def fixed(self) -> Mask:
        """(n,) whether a node is hard-pinned, so no unknown."""
        fixed = np.zeros(len(self.rest), dtype=bool)
        fixed[self.pinned[np.isinf(self.pin_stiffness)]] = True
        return fixed

    def soft_pins(self, targets: Array) -> SoftPins:
        """The springs of the soft pins for the targets (p, 3) of all pins."""
        soft = np.isfinite(self.pin_stiffness)
        return SoftPins(self.pinned[soft], self.pin_stiffness[soft], targets[soft])


def build_system(
    rest: Array,
    elements: Index,
    mass: Array,
    energies: tuple[Energy, ...],
    gravity: Array,
    pinned: Index,
    pin_stiffness: Array,
    modal: bool = True,
) -> System:
    """Assemble the system and find its regions. modal: with first eigenvalues, which loose elements do not have."""
    soft = np.isfinite(pin_stiffness)
    hard_mask, soft_mask = np.zeros(len(rest), dtype=bool), np.zeros(len(rest), dtype=bool)
    hard_mask[pinned[~soft]] = True
    soft_mask[pinned[soft]] = True
    stiffness = SoftPins(pinned[soft], pin_stiffness[soft], rest[pinned[soft]]).hessian(rest, False)
    for energy in energies:
        stiffness = stiffness + energy.hessian(rest, False)
    regions = find_regions(rest, elements, mass, stiffness if modal else None, hard_mask, soft_mask)
    return System(rest, mass, elements, energies, gravity, pinned, pin_stiffness, regions)

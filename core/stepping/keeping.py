"""Deformation history written at the end of a step; corrects momenta where no external force changed them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, rows
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from .carrier import turned
from .flight import restored
from .inertia import RegionTerms
from .law import Coefficients
from .potentials import AtStart, Potentials
from .remembered import Remembered
from .sleep import still_steps, stillness


@dataclass(frozen=True)
class Ending:
    """State and terms of a step of h seconds at its end.

    region_inertias, coefficients: one per region.  stiffness_factors: (b,) stiffness factor of each block.
    separating_regions: regions without history, see StepProblem.
    truncated_regions: regions whose motion was truncated. They get no history, and their momenta are not corrected.
    """

    system: System
    state: State
    inputs: Inputs
    h: float
    potentials: Potentials
    terms: Sequence[RegionTerms]
    coefficients: Sequence[Coefficients]
    factors: Array
    hit: Set[int]
    stopped: Set[int]

    def kept(self, x: Array, velocities: Array, begin: AtStart) -> Remembered:
        """Return the history of a step that ends at positions x and velocities (n, 3).

        Modifies x and velocities in place: the momenta of free regions are corrected.
        """
        system, h = self.system, self.h
        force, velocity, rate = self.potentials.elastic(x), np.zeros_like(x), np.zeros_like(x)
        # External forces change the momenta, which are then not corrected.
        pushed = [self.potentials.pushed(x, region.free) for region in system.regions]
        for place, (terms, region, outer) in enumerate(zip(self.terms, system.regions, pushed, strict=True)):
            if terms.ahead is None or terms.turn is None:
                continue
            free = region.free
            velocity[free] = (rows(x, free) - terms.ahead) / h
            if begin.force is not None:
                rate[free] = (rows(force, free) - turned(terms.turn, rows(begin.force, free))) / h
            if terms.flight is not None and terms.flight.exact and not outer and place not in self.stopped:
                x[free], turn = restored(terms.flight, system.mass[free], x[free], h)
                velocities[free] = (x[free] - self.state.positions[free]) / h
                for vectors in (velocity, force, rate):
                    vectors[free] = vectors[free] @ turn.T
        for place in {*self.hit, *self.stopped}:
            free = system.regions[place].free
            velocity[free] = 0.0
            rate[free] = 0.0
        still = stillness(system, self.inputs, self.coefficients, h, x - self.state.positions)
        pulls = tuple(one.pull for one in self.inputs)
        # A truncated region is not at rest, however still it is.
        counts = still_steps(begin.past, self.factors, still and not self.stopped, pulls)
        if begin.force is None:
            return Remembered(velocity, None, None, counts, pulls)
        return Remembered(velocity, force, rate, counts, pulls)

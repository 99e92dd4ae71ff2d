"""Deformation history written at the end of a step; corrects momenta where no external force changed them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array, take_rows
from ..settle.law import Coefficients
from ..system.history import DeformationHistory
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from .inertia import RegionInertia
from .reference_motion import rotate
from .rigid_prediction import project_onto_momenta
from .sleep import is_still_step, update_sleep_counters
from .step_potential import StepPotential, StepStartForces


@dataclass(frozen=True)
class StepEnd:
    """State and terms of a step of h seconds at its end.

    region_inertias, coefficients: one per region.  stiffness_factors: (b,) stiffness factor of each block.
    separating_regions: regions without history, see StepProblem.
    truncated_regions: regions whose motion was truncated. They get no history, and their momenta are not corrected.
    """

    system: System
    state: State
    inputs: Inputs
    h: float
    potential: StepPotential
    region_inertias: Sequence[RegionInertia]
    coefficients: Sequence[Coefficients]
    stiffness_factors: Array
    separating_regions: Set[int]
    truncated_regions: Set[int]

    def history_after(self, x: Array, velocities: Array, step_start: StepStartForces) -> DeformationHistory:
        """Return the history of a step that ends at positions x and velocities (n, 3).

        Modifies x and velocities in place: the momenta of free regions are corrected.
        """
        system, h = self.system, self.h
        force, velocity, force_rate = self.potential.elastic_gradient(x), np.zeros_like(x), np.zeros_like(x)
        # External forces change the momenta, which are then not corrected.
        externally_forced = [self.potential.has_external_force(x, region.free) for region in system.regions]
        for place, (terms, region, has_external) in enumerate(
            zip(self.region_inertias, system.regions, externally_forced, strict=True)
        ):
            if terms.predicted_positions is None or terms.step_rotation is None:
                continue
            free = region.free
            velocity[free] = (take_rows(x, free) - terms.predicted_positions) / h
            if step_start.elastic_gradient is not None:
                force_rate[free] = (
                    take_rows(force, free) - rotate(terms.step_rotation, take_rows(step_start.elastic_gradient, free))
                ) / h
            if (
                terms.rigid_prediction is not None
                and terms.rigid_prediction.conserves_momenta
                and not has_external
                and place not in self.truncated_regions
            ):
                x[free], turn = project_onto_momenta(terms.rigid_prediction, system.mass[free], x[free], h)
                velocities[free] = (x[free] - self.state.positions[free]) / h
                for vectors in (velocity, force, force_rate):
                    vectors[free] = vectors[free] @ turn.T
        for place in {*self.separating_regions, *self.truncated_regions}:
            free = system.regions[place].free
            velocity[free] = 0.0
            force_rate[free] = 0.0
        still = is_still_step(system, self.inputs, self.coefficients, h, x - self.state.positions)
        accelerations = tuple(one.acceleration for one in self.inputs)
        # A truncated region is not at rest, however still it is.
        sleep_counters = update_sleep_counters(
            step_start.history, self.stiffness_factors, still and not self.truncated_regions, accelerations
        )
        if step_start.elastic_gradient is None:
            return DeformationHistory(velocity, None, None, sleep_counters, accelerations)
        return DeformationHistory(velocity, force, force_rate, sleep_counters, accelerations)

"""Warm start of L-BFGS by a secant pair of the last step (docs/explanation/physics/01-step-potential.md)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.arrays import Array, Index, take_rows
from ..settle.law import Coefficients
from .inertia import RegionInertia
from .reference_motion import rotate
from .step_potential import StepStartForces

# Largest relative difference between the change of the elastic force in the prediction and that expected from the last
# step.
_MAX_DEVIATION = 0.03


def last_step_secant(
    step_start: StepStartForces,
    region_inertias: Sequence[tuple[Index, RegionInertia]],
    coefficients: Sequence[Coefficients],
    free: Index,
    elastic_gradient: Array,
    h: float,
) -> tuple[Array, Array] | None:
    """Return the last deformation velocity (f, 3) m/s and elastic force rate (f, 3) N/s, both rotated with the body.

    Return None if the pair would mislead the search. The prediction extrapolates along this velocity. If the elastic
    force does not change accordingly, for example because motion along straight lines stretches a slender body, search
    directions built from the pair are ten times too long. Unpinned regions have no pair either, since no search
    direction may change their momenta.

    region_inertias: of each region, with its indices among the free nodes (f,).
    elastic_gradient: (n, 3) N, at the start of the search.
    Forces are divided by the stiffness factors, see DeformationHistory.
    """
    history = step_start.history
    if (
        history is None
        or history.elastic_gradient is None
        or history.force_rate is None
        or step_start.elastic_gradient is None
    ):
        return None
    if history.sleep_counters[:, 0].any():
        # The pair of a nearly still body would consist of rounding errors.
        return None
    direction, force_rates = np.zeros((len(free), 3)), np.zeros((len(free), 3))
    predicted_work = expected_work = 0.0
    for (slots, one), law in zip(region_inertias, coefficients, strict=True):
        if one.predicted_positions is None or one.step_rotation is None or one.rigid_prediction is not None:
            return None
        nodes = free[slots]
        velocity, change = (
            rotate(one.step_rotation, take_rows(of, nodes)) for of in (step_start.velocity, history.force_rate)
        )
        kappa = np.broadcast_to(law.kappa, len(nodes))[:, None]
        predicted_work += float(
            np.vdot(
                velocity,
                take_rows(elastic_gradient, nodes)
                - rotate(one.step_rotation, take_rows(step_start.elastic_gradient, nodes)),
            )
        )
        expected_work += h * float(np.vdot(velocity, kappa * change))
        direction[slots], force_rates[slots] = velocity, change
    return (
        (direction, force_rates) if abs(predicted_work - expected_work) < _MAX_DEVIATION * abs(expected_work) else None
    )

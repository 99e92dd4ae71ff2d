"""Guard against runaway steps: velocities above those of all surrounding motion and of free elastic swinging.

The history of the waveform law applies the previous elastic force as a dead load. If contacts crush a body until it
snaps through, its elastic force no longer balances that load. The minimum then lies a body length away, however short
the step is.
"""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, take_rows
from ..settle.controls import Controls
from ..solvers.displacement_criterion import max_norm
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System

# Largest speed relative to the surrounding speeds: landings reach 0.9, snap-through reaches hundreds.
_MAX_SPEED_RATIO = 1.0


def is_runaway_step(
    system: System, state: State, inputs: Inputs, h: float, controls: Controls, velocities: Array
) -> bool:
    """Return whether a step of h s from the state to velocities (n, 3) m/s is a runaway step."""
    max_speeds = [max_norm(take_rows(velocities, region.free)) for region in system.regions]
    swing_speeds = []
    for region, law in zip(system.regions, controls.laws, strict=True):
        size = float(np.ptp(take_rows(system.rest, region.free), axis=0).max(initial=0.0))
        coefficients = law.coefficients(h)
        # Speed of a swing with the region's size as amplitude, w = sqrt(lambda_1 / reference_inertia_ratio).
        swing_speeds.append(
            size
            * float(
                np.sqrt(
                    np.max(
                        coefficients.first_mode_stiffness_ratio
                        / (h * coefficients.inertia_time * coefficients.reference_inertia_ratio)
                    )
                )
            )
        )

    def exceeds_limit(reference_speed: float) -> bool:
        return any(
            fast > _MAX_SPEED_RATIO * (reference_speed + swing)
            for fast, swing in zip(max_speeds, swing_speeds, strict=True)
        )

    surrounding_speed = max_norm(state.velocities)
    # Most steps pass this cheap test. The full surrounding speed is only larger, and may need many points.
    return exceeds_limit(surrounding_speed) and exceeds_limit(
        max(surrounding_speed, _max_kinematic_displacement(inputs) / h)
        + h * max_norm(_external_accelerations(system, inputs))
    )


def _max_kinematic_displacement(inputs: Inputs) -> float:
    """Return the largest displacement of animated points in the step, m."""
    displacements = []
    for block_inputs in inputs:
        displacements.append(block_inputs.end - block_inputs.start)
        if block_inputs.contact is not None:
            displacements += [
                span.end - span.start
                for span in (block_inputs.contact.motion, *(o.motion for o in block_inputs.contact.colliders))
            ]
    return max(map(max_norm, displacements))


def _external_accelerations(system: System, inputs: Inputs) -> Array:
    """Return the external accelerations of all nodes, (n, 3) m/s^2, or (1, 3) if they are uniform."""
    return np.atleast_2d(system.acceleration(inputs, np.arange(len(system.rest))))

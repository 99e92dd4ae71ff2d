"""Guard against runaway steps: velocities above those of all surrounding motion and of free elastic swinging.

The history of the waveform law applies the previous elastic force as a dead load. If contacts crush a body until it
snaps through, its elastic force no longer balances that load. The minimum then lies a body length away, however short
the step is.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, rows
from ..solvers.ways import longest
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from .controls import Controls

# Largest speed relative to the surrounding speeds: landings reach 0.9, snap-through reaches hundreds.
_MOST = 1.0


def bolts(system: System, state: State, inputs: Inputs, h: float, controls: Controls, velocities: Array) -> bool:
    """Return whether a step of h s from the state to velocities (n, 3) m/s is a runaway step."""
    fastest = [longest(rows(velocities, region.free)) for region in system.regions]
    swings = []
    for region, law in zip(system.regions, controls.laws, strict=True):
        size = float(np.ptp(rows(system.rest, region.free), axis=0).max(initial=0.0))
        found = law.coefficients(h)
        # Speed of a swing with the region's size as amplitude, w = sqrt(lambda_1 / reference_inertia_ratio).
        swings.append(size * float(np.sqrt(np.max(found.q / (h * found.s * found.throw)))))

    def thrown(around: float) -> bool:
        return any(fast > _MOST * (around + swing) for fast, swing in zip(fastest, swings, strict=True))

    around = longest(state.velocities)
    # Most steps pass this cheap test. The full surrounding speed is only larger, and may need many points.
    return thrown(around) and thrown(max(around, _led(inputs) / h) + h * longest(_pulls(system, inputs)))


def _led(inputs: Inputs) -> float:
    """Return the largest displacement of animated points in the step, m."""
    ways = []
    for one in inputs:
        ways.append(one.end - one.start)
        if one.touching is not None:
            ways += [span.end - span.start for span in (one.touching.span, *(o.span for o in one.touching.obstacles))]
    return max(map(longest, ways))


def _pulls(system: System, inputs: Inputs) -> Array:
    """Return the external accelerations of all nodes, (n, 3) m/s^2, or (1, 3) if they are uniform."""
    return np.atleast_2d(system.pull(inputs, np.arange(len(system.rest))))

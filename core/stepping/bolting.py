"""What a step must not do: throw what is touched faster than anything around it moves and it can swing.

What the waveform law remembers of an elastic force is a dead load in the next step. Where contacts crush a body so far
that it snaps through, its own force lets go of that load, and the minimum lies a body's length away, however short the
step is.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from .controls import Controls

# Times the speeds that there are: landings come to 0.9, what snaps through to hundreds.
_MOST = 1.0


def bolts(system: System, state: State, inputs: Inputs, h: float, controls: Controls, velocities: Array) -> bool:
    """Whether a step of h s from the state to velocities (n, 3) m/s is such a throw."""
    around = float(np.linalg.norm(state.velocities, axis=1).max(initial=0.0))
    for one in inputs:
        ways = [one.end - one.start]
        if one.touching is not None:
            ways += [span.end - span.start for span in (one.touching.span, *(o.span for o in one.touching.obstacles))]
        around = max(around, *(float(np.linalg.norm(way, axis=1).max(initial=0.0)) / h for way in ways))
    around += h * float(np.linalg.norm(system.pull(inputs, np.arange(len(system.rest))), axis=-1).max())
    for region, law in zip(system.regions, controls.laws, strict=True):
        size = float(np.ptp(system.rest[region.free], axis=0).max(initial=0.0))
        found = law.coefficients(h)
        # What swings by all of its size, w = sqrt(lambda_1 / throw).
        swing = size * float(np.sqrt(np.max(found.q / (h * found.s * found.throw))))
        fastest = float(np.linalg.norm(velocities[region.free], axis=1).max(initial=0.0))
        if fastest > _MOST * (around + swing):
            return True
    return False

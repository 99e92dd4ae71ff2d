"""What a step must not do: throw what is touched faster than anything around it moves and it can swing.

What the waveform law remembers of an elastic force is a dead load in the next step. Where contacts crush a body so far
that it snaps through, its own force lets go of that load, and the minimum lies a body's length away, however short the
step is.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, rows
from ..solvers.ways import longest
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from .controls import Controls

# Times the speeds that there are: landings come to 0.9, what snaps through to hundreds.
_MOST = 1.0


def bolts(system: System, state: State, inputs: Inputs, h: float, controls: Controls, velocities: Array) -> bool:
    """Whether a step of h s from the state to velocities (n, 3) m/s is such a throw."""
    fastest = [longest(rows(velocities, region.free)) for region in system.regions]
    swings = []
    for region, law in zip(system.regions, controls.laws, strict=True):
        size = float(np.ptp(rows(system.rest, region.free), axis=0).max(initial=0.0))
        found = law.coefficients(h)
        # What swings by all of its size, w = sqrt(lambda_1 / throw).
        swings.append(size * float(np.sqrt(np.max(found.q / (h * found.s * found.throw)))))

    def thrown(around: float) -> bool:
        return any(fast > _MOST * (around + swing) for fast, swing in zip(fastest, swings, strict=True))

    around = longest(state.velocities)
    # Of most steps that is enough: what moves around them only adds to it, and may have many points.
    return thrown(around) and thrown(max(around, _led(inputs) / h) + h * longest(_pulls(system, inputs)))


def _led(inputs: Inputs) -> float:
    """m, the farthest that anything animated goes in the step."""
    ways = []
    for one in inputs:
        ways.append(one.end - one.start)
        if one.touching is not None:
            ways += [span.end - span.start for span in (one.touching.span, *(o.span for o in one.touching.obstacles))]
    return max(map(longest, ways))


def _pulls(system: System, inputs: Inputs) -> Array:
    """(k, 3) m/s^2, what fields make of all nodes, or of any."""
    return np.atleast_2d(system.pull(inputs, np.arange(len(system.rest))))

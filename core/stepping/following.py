"""How fibres follow what is keyed for them: thrown by it as a body is by its pins (docs/physics.md section 11).

With r the keyed contraction and r + e the one that the fibres have, the lag e is the deflection of the dialled law,

    e'' + 2 a e' + (a^2 + w^2) e = -phi r'',     without overshoot  e'' + 3 a e' + 2 a^2 e = -phi r'',

solved exactly for a rate r' that is constant in each step. After a stop of r, Settle and Bounce lead e to nothing.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .waveform import SECOND, WaveformLaw

LAG = "contraction lag"
"""Under which a block's memory keeps (3,): e, e' in 1/s, and the last step's r' in 1/s."""

# Below these parts of the fibres' length, what is left of the lag is over: what rests may sleep.
_OVER = 1e-7


def lagged(law: WaveformLaw, kept: Array, way: float, h: float, throw: float) -> Array:
    """What is kept after a step of h s in which r goes by a way. kept: (3,), see LAG.  throw: phi."""
    e, speed, before = (float(value) for value in kept)
    rate = way / h
    e, speed = _swung(law, e, speed - throw * (rate - before), h)
    if rate == 0.0 and abs(e) < _OVER and abs(speed) * h < _OVER:
        e = speed = 0.0
    return np.array([e, speed, rate])


def _swung(law: WaveformLaw, e: float, speed: float, h: float) -> tuple[float, float]:
    """The law's deflection and its rate h s later, with nothing that throws it."""
    a, w = law.decay, law.frequency
    if w == 0.0:
        slow, fast = np.exp(-a * h), np.exp(-SECOND * a * h)
        # Of the two roots -a and -SECOND a.
        first = (speed + SECOND * a * e) / ((SECOND - 1.0) * a)
        second = e - first
        return float(first * slow + second * fast), float(-a * (first * slow + SECOND * second * fast))
    part, sine, cosine = np.exp(-a * h), np.sin(w * h), np.cos(w * h)
    across = (speed + a * e) / w
    after = e * cosine + across * sine
    return float(part * after), float(part * (w * (across * cosine - e * sine) - a * after))

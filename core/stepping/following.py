"""Lag of fibres behind their keyed contraction: an inertial response like that to pins (docs/physics.md section 11).

With r the keyed contraction and r + e the actual one, the lag e is the deflection of the law set by the dials,

    e'' + 2 a e' + (a^2 + w^2) e = -phi r'',     without overshoot  e'' + 3 a e' + 2 a^2 e = -phi r'',

solved exactly for a rate r' that is constant in each step. After a stop of r, the lag decays as set by Settle and
Bounce.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .waveform import SECOND, WaveformLaw

LAG = "contraction lag"
"""History key of the lag state of a block, (3,): e, e' in 1/s, and r' of the last step in 1/s."""

# A lag below this fraction of the fibre length is set to zero, so that bodies at rest can sleep.
_OVER = 1e-7


def lagged(law: WaveformLaw, kept: Array, way: float, h: float, throw: float) -> Array:
    """Advance the contraction lag by a step of h s.

    Returns the new lag state (3,), see LAG_KEY.

    lag_state: (3,), see LAG_KEY.  contraction_change: change of r in the step.  follow_through: phi.
    """
    e, speed, before = (float(value) for value in kept)
    rate = way / h
    e, speed = _swung(law, e, speed - throw * (rate - before), h)
    if rate == 0.0 and abs(e) < _OVER and abs(speed) * h < _OVER:
        e = speed = 0.0
    return np.array([e, speed, rate])


def _swung(law: WaveformLaw, e: float, speed: float, h: float) -> tuple[float, float]:
    """Return the free response of the lag and its rate after h s."""
    a, w = law.decay, law.frequency
    if w == 0.0:
        slow, fast = np.exp(-a * h), np.exp(-SECOND * a * h)
        # Amplitudes of the two roots -a and -SECOND a.
        first = (speed + SECOND * a * e) / ((SECOND - 1.0) * a)
        second = e - first
        return float(first * slow + second * fast), float(-a * (first * slow + SECOND * second * fast))
    part, sine, cosine = np.exp(-a * h), np.sin(w * h), np.cos(w * h)
    across = (speed + a * e) / w
    after = e * cosine + across * sine
    return float(part * after), float(part * (w * (across * cosine - e * sine) - a * after))

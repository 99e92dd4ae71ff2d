"""Lag of fibres behind their keyed contraction: an inertial response like that to pins.

With r the keyed contraction and r + e the actual one, the lag e is the deflection of the law set by the dials,

    e'' + 2 a e' + (a^2 + w^2) e = -phi r'',     without overshoot  e'' + 3 a e' + 2 a^2 e = -phi r'',

solved exactly for a rate r' that is constant in each step. After a stop of r, the lag decays as set by Settle and
Bounce.

See docs/explanation/physics/11-fibres.md.
"""

from __future__ import annotations

import numpy as np

from ..system.history import ContractionLag
from .waveform import SECOND_ROOT_RATIO, WaveformLaw

# A lag below this fraction of the fibre length is set to zero, so that bodies at rest can sleep.
_LAG_TOLERANCE = 1e-7


def advance_lag(
    law: WaveformLaw, last: ContractionLag, contraction_change: float, h: float, follow_through: float
) -> ContractionLag:
    """Advance the contraction lag by a step of h s.

    last: at the start of the step.  contraction_change: change of r in the step.  follow_through: phi.
    """
    rate = contraction_change / h
    e, lag_rate = _free_response(law, last.lag, last.lag_rate - follow_through * (rate - last.keyed_rate), h)
    if rate == 0.0 and abs(e) < _LAG_TOLERANCE and abs(lag_rate) * h < _LAG_TOLERANCE:
        e = lag_rate = 0.0
    return ContractionLag(e, lag_rate, rate)


def _free_response(law: WaveformLaw, e: float, lag_rate: float, h: float) -> tuple[float, float]:
    """Return the free response of the lag and its rate after h s."""
    a, w = law.decay, law.frequency
    if w == 0.0:
        slow_decay, fast_decay = np.exp(-a * h), np.exp(-SECOND_ROOT_RATIO * a * h)
        # Amplitudes of the two roots -a and -SECOND a.
        slow_amplitude = (lag_rate + SECOND_ROOT_RATIO * a * e) / ((SECOND_ROOT_RATIO - 1.0) * a)
        fast_amplitude = e - slow_amplitude
        return float(slow_amplitude * slow_decay + fast_amplitude * fast_decay), float(
            -a * (slow_amplitude * slow_decay + SECOND_ROOT_RATIO * fast_amplitude * fast_decay)
        )
    decay_factor, sine, cosine = np.exp(-a * h), np.sin(w * h), np.cos(w * h)
    sine_amplitude = (lag_rate + a * e) / w
    next_lag = e * cosine + sine_amplitude * sine
    return float(decay_factor * next_lag), float(
        decay_factor * (w * (sine_amplitude * cosine - e * sine) - a * next_lag)
    )

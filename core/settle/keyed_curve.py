"""Curve of the first mode through changes of the dials, and the tempo at which it rests on time.

Each frame takes a body by 1/Settle of the way to rest, whatever Bounce is (docs/decisions/0112):

    sum over frames of 1/Settle = 1      at rest

The curve of a law from the same point on rests earlier or later than this if Bounce has changed. Its decay and
frequency are therefore multiplied by a tempo, which keeps the overshoot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array
from .controls import SettleLaw
from .first_mode import FirstModeLaw
from .waveform import REST_FRACTION, SECOND_ROOT_RATIO

CURVE_PHASES = np.linspace(0.0, 10.0, 2001)
"""Phases (k,) at which a curve is evaluated. A motion that starts at the threshold times e^10 rests within them."""
# Bounds of the tempo.
_TEMPI = (0.5, 2.0)


@dataclass(frozen=True)
class CurvePoint:
    """Point of the first mode's curve. position: x, over the largest swing.  rate: nu = x'/w0, see (2.42)."""

    position: float
    rate: float

    @staticmethod
    def stopped(law: SettleLaw) -> CurvePoint:
        """Return the point at which the settle time begins: a stop, or the largest swing if the law has no other."""
        if law.time_to_peak == 0.0:
            return CurvePoint(1.0, -1.0)
        start = CurvePoint(0.0, 1.0)
        return CurvePoint(0.0, 1.0 / float(start.path(law, np.array([law.decay * law.time_to_peak]))[0]))

    def path(self, law: SettleLaw, phases: Array) -> Array:
        """Return x (k,) at phases a t (k,) from here on."""
        slow = np.exp(-phases)
        if law.frequency > 0.0:
            turns = law.frequency / law.decay * phases
            sine = (law.natural_frequency * self.rate + law.decay * self.position) / law.frequency
            return np.asarray(slow * (self.position * np.cos(turns) + sine * np.sin(turns)))
        if isinstance(law, FirstModeLaw):
            return self.position * slow
        fast = -(law.natural_frequency / law.decay * self.rate + self.position) / (SECOND_ROOT_RATIO - 1.0)
        return np.asarray((self.position - fast) * slow + fast * slow**SECOND_ROOT_RATIO)

    def after(self, law: SettleLaw, phase: float) -> CurvePoint:
        """Return the point at a phase a t from here."""
        position, slope = self._values(law, phase)
        return CurvePoint(position, slope * law.decay / law.natural_frequency)

    def _values(self, law: SettleLaw, phase: float) -> tuple[float, float]:
        """Return x and dx/d(a t) at a phase."""
        slow = math.exp(-phase)
        if law.frequency == 0.0 and isinstance(law, FirstModeLaw):
            return slow * self.position, -slow * self.position
        x, slope = self.position, law.natural_frequency / law.decay * self.rate
        if law.frequency == 0.0:
            fast = -(slope + x) / (SECOND_ROOT_RATIO - 1.0)
            first, second = slow * (x - fast), slow**SECOND_ROOT_RATIO * fast
            return first + second, -first - SECOND_ROOT_RATIO * second
        ratio = law.frequency / law.decay
        cosine, sine, part = math.cos(ratio * phase), math.sin(ratio * phase), (slope + x) / ratio
        value = slow * (x * cosine + part * sine)
        return value, -value + slow * ratio * (part * cosine - x * sine)


def phase_to_rest(distances: Array, swing: float) -> float:
    """Return the last of CURVE_PHASES at which distances (k,) from rest are visible; 0 if none is.

    swing: largest one so far.
    """
    moving = np.flatnonzero(distances > REST_FRACTION * max(swing, float(distances.max())))
    return float(CURVE_PHASES[moving[-1]]) if len(moving) else 0.0


def tempo_on_time(law: SettleLaw, rest_phase: float, time_left: float) -> float:
    """Return the factor on a law at which a curve rests in time. rest_phase: of the curve.  time_left: s."""
    if time_left <= 0.0 or rest_phase <= 0.0:
        return 1.0
    return min(max(rest_phase / (law.decay * time_left), _TEMPI[0]), _TEMPI[1])

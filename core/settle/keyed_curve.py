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
# Least part of the root mean square motion that the mean has if it moves in the visible mode.
_LEAST_PART = 0.25
_TINY = float(np.finfo(float).tiny)
# Largest nu of (2.42), over the deflection, where a swing turns.
_TURNING_RATE = 0.5
# Bounds of the tempo. The lower one is for motions that are hardly visible any more.
_TEMPI = (0.1, 2.0)


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


@dataclass(frozen=True)
class SwingMotion:
    """Motion of a region's f free nodes.

    deflections: (f, 3) m from the hanging shape.  moves: (f, 3) m in the last step.  shares: (f,) of the mass.
    step: duration of the last step, s.
    """

    deflections: Array
    moves: Array
    shares: Array
    step: float

    @property
    def largest(self) -> float:
        """Largest deflection, m."""
        return float(np.linalg.norm(self.deflections, axis=1).max())

    @property
    def mean_share(self) -> float:
        """Mean deflection over the largest one. Modes that are faster than the first one have less part in the mean."""
        largest = self.largest
        return float(np.linalg.norm(self.shares @ self.deflections)) / largest if largest > 0.0 else 0.0

    def is_turning(self, former: SettleLaw) -> bool:
        """Return whether the deflection hardly changes, as at its largest. former: law of the last step."""
        energies = [self.shares @ (one**2).sum(axis=1) for one in (self._rates(former), self.deflections)]
        return bool(energies[0] <= _TURNING_RATE**2 * energies[1])

    def _rates(self, former: SettleLaw) -> Array:
        """Return nu (f, 3) m of (2.42)."""
        released, thrown = former.last_moves(self.step)
        return np.asarray((self.moves - released * self.deflections) / thrown)

    def distances(self, law: SettleLaw, former: SettleLaw, mean_share: float) -> Array:
        """Return the largest deflections (k,) m at CURVE_PHASES if the first mode goes on under a law.

        former: law of the last step.  mean_share: of the first mode.
        """
        rates = self._rates(former)
        by_position, by_rate = (CurvePoint(*one).path(law, CURVE_PHASES) for one in ((1.0, 0.0), (0.0, 1.0)))
        y, v = self.deflections, rates
        square, product, rate_square = (float(self.shares @ (a * b).sum(axis=1)) for a, b in ((y, y), (y, v), (v, v)))
        mean, mean_rate = self.shares @ y, self.shares @ v
        if mean @ mean + mean_rate @ mean_rate > _LEAST_PART**2 * (square + rate_square) and mean_share > 0.0:
            distances = np.linalg.norm(np.outer(by_position, mean) + np.outer(by_rate, mean_rate), axis=1)
            return np.asarray(distances / mean_share)
        # The mean hardly moves in this mode, as in a fold between two corners.
        squares = by_position**2 * square + 2.0 * by_position * by_rate * product + by_rate**2 * rate_square
        return np.asarray(np.sqrt(np.maximum(squares, 0.0) / max(square, _TINY)) * self.largest)


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

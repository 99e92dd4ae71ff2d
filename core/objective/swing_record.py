"""Record of a region's swing, and whether the region will buckle past rest (docs/decisions/0065 and 0128).

A solid that is stretched along its length and released is compressed when it swings past rest. If it buckles, the
energy of the stiff stretch goes into soft bending, and it moves many times as far as it was pulled. If the shape that
mirrors its largest deflection is unstable, it therefore follows the law without overshoot, in the same settle time.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.linalg import LinearOperator, lobpcg

from ..base.arrays import Array
from ..settle.law import DeformationLaw
from ..settle.waveform import WaveformLaw, settle_law
from ..system.region import Region
from .factorised_system import FactorisedSystem

# Part of the dialled overshoot at which the mirrored shape has to be stable. Of 93 random releases with Bounce, 23 are
# without it: all 18 that ran away, and five others.
_MIRRORED_PART = 2.0 / 3.0
# Number of vectors and iterations of the search for an unstable motion; coordinates up to which it is dense.
_SEARCHED_MODES, _MAX_ROUNDS, _DENSE_SIZE = 3, 20, 30


@dataclass(frozen=True)
class SwingRecord:
    """Swing of a region so far.

    swing: Y in m; negative while other forces act.  phase: phi since the largest swing.  pace: a'/a in the last step.
    acceleration: (3,) m/s^2, external, in the last step.
    tempo: factor on the decay and the frequency of the law since Bounce has changed.
    progress: part of the settle time that is over.
    has_bounce: False if the body would buckle past rest, until it rests.
    """

    swing: float
    phase: float
    pace: float
    acceleration: Array
    tempo: float = 1.0
    progress: float = 0.0
    has_bounce: bool = True

    @staticmethod
    def read(numbers: Array) -> SwingRecord:
        """Return the record in an array (9,)."""
        swing, phase, pace, tempo, progress, bounce = (float(one) for one in numbers[:6])
        return SwingRecord(swing, phase, pace, numbers[6:], tempo, progress, bounce > 0.0)

    @property
    def numbers(self) -> Array:
        """Array (9,) of the record."""
        known = (self.swing, self.phase, self.pace, self.tempo, self.progress, self.has_bounce)
        return np.array([*known, *self.acceleration])

    def after(self, law: WaveformLaw, h: float) -> SwingRecord:
        """Return the record h s later."""
        phase, progress = self.phase + law.decay * self.tempo * h, self.progress + h / law.settle_time
        return replace(self, phase=phase, progress=progress)

    def law(self, law: DeformationLaw) -> DeformationLaw:
        """Return a dialled law at the record's tempo and pace, without bounce if the record has none."""
        return self.paced(self.curve(law)) if isinstance(law, WaveformLaw) else law

    def curve(self, law: WaveformLaw) -> WaveformLaw:
        """Return a dialled law, with the same settle time but no bounce if the record has none."""
        if self.has_bounce:
            return law
        return settle_law(law.settle_time, 0.0, law.eigenvalue, law.high_mode_frequency_ratio)

    def paced(self, law: WaveformLaw) -> WaveformLaw:
        """Return the law of the curve at the record's tempo and pace."""
        return replace(law, decay=law.decay * self.tempo * self.pace, frequency=law.frequency * self.tempo)


def will_buckle(stepper: FactorisedSystem, region: Region, deflection: Array, factors: Array, overshoot: float) -> bool:
    """Return whether a region buckles when it swings past rest.

    deflection: (f, 3) m, the largest one, from the hanging shape in the rest frame.  factors: (b,) stiffness factor of
    each block.  overshoot: dialled.
    """
    return not is_stable(stepper, region, -_MIRRORED_PART * overshoot * deflection, factors)


def is_stable(stepper: FactorisedSystem, region: Region, displacements: Array, factors: Array) -> bool:
    """Return whether no motion is found that a region does not resist in a shape.

    displacements: (f, 3) m, from the hanging shape in the rest frame.  factors: (b,) stiffness factor of each block.

    The smallest eigenvalue of the tangent is searched relative to that in the hanging shape: of its eigenvectors, a
    buckling one is far from the others (Knyazev, *Toward the Optimal Preconditioned Eigensolver*, 2001).
    """
    hanging = stepper.hanging_positions()
    shape = hanging.copy()
    shape[region.free] += displacements
    reference, tangent = (stepper.free_tangent(one, factors) for one in (hanging, shape))
    size = len(stepper.dof)
    if size <= _DENSE_SIZE:
        return bool(np.linalg.eigvalsh(tangent.toarray())[0] > 0.0)
    solve = stepper.hanging_compliance(factors)

    def solve_columns(right: Array) -> Array:
        if right.ndim == 1:
            return np.asarray(solve(right))
        return np.stack([solve(np.ascontiguousarray(one)) for one in right.T], axis=1)

    start = solve_columns(np.random.default_rng(0).standard_normal((size, _SEARCHED_MODES)))
    with warnings.catch_warnings():
        # The sign of the smallest value found counts, not its accuracy.
        warnings.simplefilter("ignore")
        inverse = LinearOperator((size, size), matvec=solve_columns, matmat=solve_columns, dtype=float)
        try:
            values, _ = lobpcg(tangent, start, B=reference, M=inverse, tol=1e-2, maxiter=_MAX_ROUNDS, largest=False)
        except (ValueError, np.linalg.LinAlgError):
            # The hanging shape itself is not stable, so that nothing can be said about another one.
            return True
    return not values[0] <= 0.0

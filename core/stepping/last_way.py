"""What the last step tells of the Hessian, before a search begins (docs/physics.md section 1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array, Index, rows
from .carrier import turned
from .inertia import RegionTerms
from .law import Coefficients
from .potentials import AtStart

# By how much, in parts, what a prediction pulls with may be off from going on as in the last step.
_STEADY = 0.03


def secant(
    begin: AtStart,
    terms: Sequence[tuple[Index, RegionTerms]],
    coefficients: Sequence[Coefficients],
    free: Index,
    ahead: Array,
    h: float,
) -> tuple[Array, Array] | None:
    """The deformation's last velocity (f, 3) m/s, and how fast it changed the elastic force (f, 3) N/s; both turned
    as the body turns in this step. None where they would mislead.

    A search's prediction goes on along that way. Where the force does not go on as it did, as in a slender body that a
    straight line stretches, a direction made from it leads ten times too far. What nothing holds is left alone too: no
    direction of its search may change its momenta.

    terms: of each region, at its slots among the free nodes (f,).  ahead: (n, 3) N, the elastic force where the search
    begins.  Forces are over the stiffness factors, see Remembered.
    """
    past = begin.past
    if past is None or past.force is None or past.rate is None or begin.force is None:
        return None
    if past.still[:, 0].any():
        # What hardly moves tells of rounding.
        return None
    step, rate = np.zeros((len(free), 3)), np.zeros((len(free), 3))
    found = wanted = 0.0
    for (slots, one), law in zip(terms, coefficients, strict=True):
        if one.ahead is None or one.turn is None or one.flight is not None:
            return None
        nodes = free[slots]
        way, change = (turned(one.turn, rows(of, nodes)) for of in (begin.velocity, past.rate))
        kappa = np.broadcast_to(law.kappa, len(nodes))[:, None]
        found += float(np.vdot(way, rows(ahead, nodes) - turned(one.turn, rows(begin.force, nodes))))
        wanted += h * float(np.vdot(way, kappa * change))
        step[slots], rate[slots] = way, change
    return (step, rate) if abs(found - wanted) < _STEADY * abs(wanted) else None

"""Secant pair of the last step, which warm-starts the search (docs/physics.md section 1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array, Index, rows
from .carrier import turned
from .inertia import RegionTerms
from .law import Coefficients
from .potentials import AtStart

# Relative deviation up to which the predicted force change may differ from that of the last step.
_STEADY = 0.03


def secant(
    begin: AtStart,
    terms: Sequence[tuple[Index, RegionTerms]],
    coefficients: Sequence[Coefficients],
    free: Index,
    ahead: Array,
    h: float,
) -> tuple[Array, Array] | None:
    """Return the last deformation velocity (f, 3) m/s and elastic force rate (f, 3) N/s, both rotated with the body.

    Return None where the pair would mislead. The prediction continues along this velocity. If the force does not
    continue with it, as in a slender body that straight motion stretches, a direction built from the pair is ten
    times too long. Unpinned regions have no pair either: no search direction may change their momenta.

    region_inertias: of each region, with its indices among the free nodes (f,).
    elastic_gradient: (n, 3) N, at the start of the search.
    Forces are divided by the stiffness factors, see DeformationHistory.
    """
    past = begin.past
    if past is None or past.force is None or past.rate is None or begin.force is None:
        return None
    if past.still[:, 0].any():
        # A nearly still body yields only rounding errors.
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

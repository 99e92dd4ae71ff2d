"""Which solve a metric is: the factors of all nodes, those of a coarse grid and smoothing, or exact ones."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, identity

from ..arrays import Array
from ..geometry.rigid import shifts_and_turns
from .factor import Solve, factorise
from .multifrontal import Multifrontal, Symbolic, multifrontal
from .two_level import TwoLevel, two_levels

# Numbers of factors from which a solve waits for memory: beyond the caches, one of two levels is sooner.
LARGE = 4_000_000
# Nodes below which nothing is gained.
_FEW = 250
# What a metric may miss of shapes that its matrix hardly resists, as a body's shifts and turns, and of a noise.
_MISSED = 0.05
# Of the largest entry, what is added on the diagonal of a matrix that is exactly singular.
_LITTLE = 1e-12


def soon(matrix: csr_matrix, places: Array, large: int = LARGE) -> TwoLevel | Multifrontal | None:
    """A solve in single precision with a matrix (3n, 3n); None where that is not positive.

    Where factors would have more than so many numbers, one of two levels if that serves.  places: (n, 3) of the nodes.
    """
    symbolic = Symbolic.of(matrix, places)
    if symbolic.entries > large:
        two = two_levels(matrix, places)
        if two is not None:
            return two
    return multifrontal(matrix, places, symbolic)


def metric_of(matrix: csr_matrix, places: Array) -> Solve:
    """A solve for what needs to be no more exact than a metric, of (3n, 3n) with nodes at places (n, 3)."""
    if len(places) >= _FEW:
        found = soon(matrix, places)
        if isinstance(found, TwoLevel) or (found is not None and _serves(found, matrix, places)):
            return found
    try:
        return factorise(matrix)
    except RuntimeError:
        # What lies free and hardly resists, as a frame of springs, may cancel to the last digit.
        little = _LITTLE * float(np.abs(matrix.diagonal()).max(initial=0.0))
        return factorise((matrix + little * identity(matrix.shape[0])).tocsr())


def _serves(solve: Solve, matrix: csr_matrix, places: Array) -> bool:
    """Whether single precision is enough: not where a matrix resists some shapes a million times less than others."""
    x = (places - places.mean(axis=0)) / max(float(np.ptp(places, axis=0).max()), 1e-300)
    noise = np.random.default_rng(0).standard_normal((3 * len(places), 1))
    known = np.concatenate([shifts_and_turns(x).reshape(-1, 6), noise], axis=1)
    off = solve(matrix @ known) - known
    wrong = np.linalg.norm(off, axis=0) / np.linalg.norm(known, axis=0)
    return bool(np.isfinite(wrong).all() and wrong.max() < _MISSED)

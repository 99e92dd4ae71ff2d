"""Choice of the preconditioner: single-precision factors, two levels, or double-precision factors."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, identity

from ..arrays import Array
from ..geometry.rigid import shifts_and_turns
from .factor import Solve, factorise
from .multifrontal import Multifrontal, Symbolic, multifrontal
from .two_level import TwoLevel, two_levels

# Number of factor entries above which solves exceed the caches and a two-level preconditioner is faster.
LARGE = 4_000_000
# Number of nodes below which single precision saves no time.
_FEW = 250
# Largest relative error on soft shapes, such as rigid motions, and on noise.
_MISSED = 0.05
# Diagonal shift of a singular matrix, relative to its largest entry.
_LITTLE = 1e-12


def soon(matrix: csr_matrix, places: Array, large: int = LARGE) -> TwoLevel | Multifrontal | None:
    """Return a single-precision solve with a matrix (3n, 3n), or None if it is not positive definite.

    A two-level solve is returned if the factors would exceed max_entries and it converges quickly.  places: (n, 3),
    node positions.
    """
    symbolic = Symbolic.of(matrix, places)
    if symbolic.entries > large:
        two = two_levels(matrix, places)
        if two is not None:
            return two
    return multifrontal(matrix, places, symbolic)


def metric_of(matrix: csr_matrix, places: Array) -> Solve:
    """Return an approximate solve with a matrix (3n, 3n), for use as a preconditioner.

    places: (n, 3), node positions.
    """
    if len(places) >= _FEW:
        found = soon(matrix, places)
        if isinstance(found, TwoLevel) or (found is not None and _serves(found, matrix, places)):
            return found
    try:
        return factorise(matrix)
    except RuntimeError:
        # A free and soft object, such as a frame of springs, may be exactly singular by cancellation.
        little = _LITTLE * float(np.abs(matrix.diagonal()).max(initial=0.0))
        return factorise((matrix + little * identity(matrix.shape[0])).tocsr())


def _serves(solve: Solve, matrix: csr_matrix, places: Array) -> bool:
    """Return whether single precision is sufficient for a solve.

    It is not if the matrix resists some shapes 10^6 times less than others.
    """
    x = (places - places.mean(axis=0)) / max(float(np.ptp(places, axis=0).max()), 1e-300)
    noise = np.random.default_rng(0).standard_normal((3 * len(places), 1))
    known = np.concatenate([shifts_and_turns(x).reshape(-1, 6), noise], axis=1)
    off = solve(matrix @ known) - known
    wrong = np.linalg.norm(off, axis=0) / np.linalg.norm(known, axis=0)
    return bool(np.isfinite(wrong).all() and wrong.max() < _MISSED)

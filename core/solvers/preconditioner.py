"""Choice of the preconditioner: a factorisation in single or double precision, or a two-level method."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, identity
from scipy.sparse.linalg import LinearOperator, cg

from ..base.arrays import Array
from ..geometry.mesh.rigid_motion import rigid_body_modes
from .factorisation import Solve, factorise
from .multifrontal import MultifrontalSolve, SymbolicFactorisation, factorise_multifrontal
from .two_level import TwoLevelPreconditioner, build_two_level

# Number of factor entries above which the factors exceed the CPU caches and a two-level preconditioner is faster.
TWO_LEVEL_ENTRIES = 4_000_000
# Number of nodes below which single precision saves no time.
_MIN_NODES = 250
# Largest relative error of a solve for rigid motions, which the matrix may hardly resist, and for a random vector.
_MAX_ERROR = 0.05
# Relative residual of refined solves, and the largest number of refinements.
_REFINED_ERROR, _REFINEMENTS = 3e-3, 30
# Diagonal shift of a singular matrix, relative to its largest entry.
_RELATIVE_SHIFT = 1e-12


def try_single_precision(
    matrix: csr_matrix, positions: Array, max_entries: int = TWO_LEVEL_ENTRIES
) -> TwoLevelPreconditioner | MultifrontalSolve | None:
    """Return a single-precision solve with a matrix (3n, 3n), or None if it is not positive definite.

    A two-level solve is returned if the factors would exceed max_entries and the two-level method converges quickly.

    places: (n, 3) m, node positions.
    """
    symbolic = SymbolicFactorisation.of(matrix, positions)
    if symbolic.entry_count > max_entries:
        two_level = build_two_level(matrix, positions)
        if two_level is not None:
            return two_level
    return factorise_multifrontal(matrix, positions, symbolic)


def build_preconditioner(matrix: csr_matrix, positions: Array) -> Solve:
    """Return an approximate solve with a matrix (3n, 3n), for use as a preconditioner.

    places: (n, 3) m, node positions.
    """
    if len(positions) >= _MIN_NODES:
        found = try_single_precision(matrix, positions)
        if isinstance(found, TwoLevelPreconditioner) or (
            found is not None and _is_accurate_enough(found, matrix, positions)
        ):
            return found
    try:
        return factorise(matrix)
    except RuntimeError:
        # By cancellation, the matrix of a soft object without pins, such as a frame of springs, may be singular.
        shift = _RELATIVE_SHIFT * float(np.abs(matrix.diagonal()).max(initial=0.0))
        return factorise((matrix + shift * identity(matrix.shape[0])).tocsr())


def accurate_solve(matrix: csr_matrix, positions: Array) -> Solve:
    """Return a solve with a positive definite matrix (3n, 3n), with a relative error of about 1%.

    positions: (n, 3) m, of the nodes.
    """
    solve = build_preconditioner(matrix, positions)
    if not isinstance(solve, TwoLevelPreconditioner):
        return solve
    operator = LinearOperator(matrix.shape, matvec=solve)
    return lambda right: np.asarray(cg(matrix, right, rtol=_REFINED_ERROR, maxiter=_REFINEMENTS, M=operator)[0])


def _is_accurate_enough(solve: Solve, matrix: csr_matrix, positions: Array) -> bool:
    """Return whether a single-precision solve is accurate enough.

    It is not if the condition number of the matrix exceeds about 10^6.
    """
    x = (positions - positions.mean(axis=0)) / max(float(np.ptp(positions, axis=0).max()), 1e-300)
    noise = np.random.default_rng(0).standard_normal((3 * len(positions), 1))
    exact = np.concatenate([rigid_body_modes(x).reshape(-1, 6), noise], axis=1)
    difference = solve(matrix @ exact) - exact
    errors = np.linalg.norm(difference, axis=0) / np.linalg.norm(exact, axis=0)
    return bool(np.isfinite(errors).all() and errors.max() < _MAX_ERROR)

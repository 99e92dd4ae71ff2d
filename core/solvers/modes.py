"""Vibration modes: K a = lambda M a on a subset of the nodes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, diags, identity
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, lobpcg

from ..base.arrays import Array, Index
from .factorisation import Solve, factorise, symmetric_pivots
from .multifrontal import SymbolicFactorisation, factorise_multifrontal
from .two_level import build_two_level

# Shift of a possibly singular matrix, relative to its mean diagonal.
_SHIFT = 1e-6
# Number of coordinates up to which a dense eigenvalue solve takes a few seconds.
_DENSE_SIZE = 3000
# Largest number of restarts where many eigenvalues may be nearly equal.
_RESTARTS = 300
# Number of coordinates from which single-precision factors suffice; number of modes searched at once; largest number of
# iterations.
_ITERATIVE_SIZE, _SEARCHED_MODES, _MAX_ROUNDS = 750, 3, 40
# Number of factor entries up to which a factorisation pays off for so few solves; inverse iterations with the
# approximate two-level solve, until the error is smooth.
_MAX_FACTOR_ENTRIES, _POWER_STEPS = 20_000_000, 4
# Residual relative to the eigenvalue, whose relative error is the square of this.
_RESIDUAL = 1e-5


def mass_scaled_stiffness(stiffness: csr_matrix, mass: Array, nodes: Index) -> tuple[csr_matrix, Array]:
    """Return M^-1/2 K M^-1/2 (3f, 3f) in 1/s^2 on nodes (f,), and the diagonal (3f,) of M^-1/2.

    stiffness: (3n, 3n) N/m.  mass: (n,) kg.
    """
    dof = (3 * nodes[:, None] + np.arange(3)).ravel()
    root = 1.0 / np.sqrt(mass[nodes].repeat(3))
    return stiffness[dof][:, dof].multiply(root[:, None]).multiply(root[None, :]).tocsc(), root


def smallest_eigenvalue(
    stiffness: csr_matrix,
    mass: Array,
    nodes: Index,
    rigid_modes: int,
    singular: bool = False,
    places: Array | None = None,
) -> float:
    """Return lambda_1 in 1/s^2 on nodes (f,), after the given number of rigid modes.

    stiffness: (3n, 3n) N/m.  mass: (n,) kg.  singular: whether further motions may have no stiffness.  places: (n, 3)
        m, approximate node positions, which speed up the search for large bodies.
    """
    block, root = mass_scaled_stiffness(stiffness, mass, nodes)
    count = rigid_modes + 1
    if block.shape[0] <= max(4 * count, 24):
        return float(np.linalg.eigvalsh(block.toarray())[rigid_modes])
    is_large = block.shape[0] >= _ITERATIVE_SIZE
    if is_large and places is not None and not (rigid_modes or singular):
        found_iteratively = _smallest_by_iteration(block, root, places[nodes])
        if found_iteratively is not None:
            return found_iteratively
    # A shift slightly below zero keeps the factorisation regular if rigid motions make K singular. If many motions have
    # no stiffness, the shift must not be far below the eigenvalues, as the mean diagonal with a few rigid links would
    # be: they would form one cluster, and nothing would converge.
    diagonal = block.diagonal()
    stiff = diagonal[diagonal > 0.0]
    scale = float(np.median(stiff) if singular and len(stiff) else diagonal.mean())
    shift = -_SHIFT * scale if rigid_modes or singular else 0.0
    inverse = None
    if is_large:
        # By default, eigsh would use a non-symmetric factorisation.
        solve = factorise((block - shift * identity(block.shape[0])).tocsr())
        inverse = LinearOperator(block.shape, matvec=solve, dtype=float)
    try:
        values = _eigenvalues_near(block, count, shift, maxiter=_RESTARTS if singular else None, OPinv=inverse)
    except ArpackError:
        # Among so many eigenvalues near zero, the smallest is zero.
        if singular or block.shape[0] > _DENSE_SIZE:
            return 0.0
        values = np.linalg.eigvalsh(block.toarray())
    found = float(np.sort(values)[rigid_modes])
    if rigid_modes and _count_below(block, 0.5 * found) > rigid_modes:
        # Some of several equal eigenvalues were missed, for example if a hinge turns freely besides the rigid motions.
        if block.shape[0] > _DENSE_SIZE:
            return 0.0
        found = float(np.linalg.eigvalsh(block.toarray())[rigid_modes])
    return found


def _eigenvalues_near(block: csr_matrix, count: int, shift: float, **options: Any) -> Array:
    """Return a number of eigenvalues near a shift. options: of eigsh().  Raises ArpackError."""
    start = np.random.default_rng(0).standard_normal(block.shape[0])
    return np.asarray(eigsh(block, count, sigma=shift, v0=start, return_eigenvectors=False, tol=1e-8, **options))


def _smallest_by_iteration(block: csr_matrix, root: Array, places: Array) -> float | None:
    """Return the smallest eigenvalue of M^-1/2 K M^-1/2 (3f, 3f), or None if it is not positive definite or not
    converged.

    Knyazev, *Toward the Optimal Preconditioned Eigensolver* (2001), with a single-precision inverse.
    root: (3f,) of M^-1/2.  places: (f, 3).
    """
    symbolic = SymbolicFactorisation.of(block, places)
    if symbolic.entry_count > _MAX_FACTOR_ENTRIES:
        # Smoothness refers to displacements in space, without the scaling by masses.
        unscaled = block.multiply(1.0 / root[:, None]).multiply(1.0 / root[None, :]).tocsr()
        two = build_two_level(unscaled, places)
        if two is not None:
            found = _lobpcg_inverse(block, _mass_scaled_solve(two, root), _POWER_STEPS)
            if found is not None:
                return found
    solve = factorise_multifrontal(block, places, symbolic)
    return None if solve is None else _lobpcg_inverse(block, solve, 1)


def _mass_scaled_solve(solve: Solve, root: Array) -> Solve:
    """Return a solve with M^-1/2 K M^-1/2 from a solve with K."""

    def rescaled(right: Array) -> Array:
        root_mass = 1.0 / (root if right.ndim == 1 else root[:, None])
        return root_mass * solve(root_mass * right)

    return rescaled


def _lobpcg_inverse(block: csr_matrix, solve: Solve, steps: int) -> float | None:
    """Return the smallest eigenvalue, see _smallest_by_iteration.

    solve: approximate inverse.  steps: inverse iterations before the eigenvalue is estimated.
    """
    start = np.random.default_rng(0).standard_normal((block.shape[0], _SEARCHED_MODES))
    for _ in range(steps):
        start, _ = np.linalg.qr(solve(start))
    estimate = float(np.linalg.eigvalsh(start.T @ (block @ start))[0])
    with warnings.catch_warnings():
        # Convergence is checked below.
        warnings.simplefilter("ignore")
        inverse = LinearOperator(block.shape, matvec=solve, matmat=solve, dtype=float)
        values, vectors = lobpcg(block, start, M=inverse, tol=_RESIDUAL * estimate, maxiter=_MAX_ROUNDS, largest=False)
    eigenvalue, vector = float(values[0]), vectors[:, 0]
    residual = float(np.linalg.norm(block @ vector - eigenvalue * vector)) / float(np.linalg.norm(vector))
    return eigenvalue if eigenvalue > 0.0 and residual <= 10.0 * _RESIDUAL * eigenvalue else None


def _count_below(matrix: csr_matrix, bound: float) -> int:
    """Return the number of eigenvalues below a bound, or 0 if the factorisation fails.

    It is the number of negative pivots (Sylvester's law of inertia).
    """
    try:
        pivots = symmetric_pivots(matrix - bound * identity(matrix.shape[0], format="csc"))
    except RuntimeError:
        return 0
    return 0 if pivots is None else int((pivots < 0.0).sum())


def smallest_eigenvalue_above(stiffness: csr_matrix, mass: Array, nodes: Index, bound: float) -> float | None:
    """Return the smallest eigenvalue on the nodes above a bound, 1/s^2; None if it is not found."""
    block, _ = mass_scaled_stiffness(stiffness, mass, nodes)
    if block.shape[0] <= 24:
        values = np.linalg.eigvalsh(block.toarray())
        above = values[values > bound]
        return float(above[0]) if len(above) else None
    try:
        # With this shift, eigenvalues above the bound come first.
        values = _eigenvalues_near(block, 1, bound, which="LA", maxiter=_RESTARTS)
    except (ArpackError, RuntimeError):
        return None
    return float(values[0]) if values[0] > bound else None


def has_no_eigenvalue_below(stiffness: csr_matrix, mass: Array, nodes: Index, bound: float) -> bool:
    """Return whether all eigenvalues on the nodes are known to be at least a bound in 1/s^2."""
    block, _ = mass_scaled_stiffness(stiffness, mass, nodes)
    try:
        pivots = symmetric_pivots(block - bound * identity(block.shape[0], format="csc"))
    except RuntimeError:
        return False
    return pivots is not None and not (pivots < 0.0).any()


def lowest_mode(stiffness: csr_matrix, mass: Array, nodes: Index, bound: float) -> Array | None:
    """Return the shape (f, 3) of the mode with the smallest eigenvalue if it is below a bound < 0 (1/s^2), else None.

    The largest node displacement is 1.
    """
    block, root = mass_scaled_stiffness(stiffness, mass, nodes)
    if block.shape[0] <= 24:
        values, every = np.linalg.eigh(block.toarray())
        return _normalised_shape(root * every[:, 0]) if values[0] < bound else None
    shift = bound
    while _count_below(block, shift):
        # Seen from below all eigenvalues, the smallest is the nearest.
        shift *= 4.0
    if shift == bound:
        return None
    start = np.random.default_rng(0).standard_normal(block.shape[0])
    return _normalised_shape(root * eigsh(block, k=1, sigma=shift, v0=start)[1][:, 0])


def first_mode_shape(stiffness: csr_matrix, mass: Array, nodes: Index, bound: float = 0.0) -> Array:
    """Return the shape (f, 3) of the first mode above a bound (1/s^2); the largest node displacement is 1."""
    block, root = mass_scaled_stiffness(stiffness, mass, nodes)
    if bound > 0.0 and block.shape[0] > 24:
        _, vectors = eigsh(block, k=1, sigma=bound, which="LA", v0=np.ones(len(root)))
    elif bound > 0.0:
        values, every = np.linalg.eigh(block.toarray())
        vectors = every[:, [int(np.flatnonzero(values > bound)[0])]]
    else:
        _, vectors = eigsh(block, k=1, sigma=0.0, v0=np.ones(len(root)))
    return _normalised_shape(root * vectors[:, 0])


def _normalised_shape(displacements: Array) -> Array:
    """Return displacements (3f,) as (f, 3), scaled to a largest node displacement of 1."""
    shape = displacements.reshape(-1, 3)
    shape = shape / np.linalg.norm(shape, axis=1).max()
    # The sign of an eigenvector is arbitrary; the largest component shall be positive.
    return np.asarray(shape * np.sign(shape.ravel()[np.abs(shape).argmax()]))


def largest_eigenvalue(stiffness: csr_matrix, mass: Array) -> float:
    """Return the largest eigenvalue on all nodes, 1/s^2. stiffness: (3f, 3f) N/m.  mass: (f,) kg."""
    root = diags(1.0 / np.sqrt(mass.repeat(3)))
    start = np.random.default_rng(0).standard_normal(3 * len(mass))
    matrix = (root @ stiffness @ root).tocsr()
    return float(eigsh(matrix, k=1, which="LA", v0=start, return_eigenvectors=False, tol=1e-4)[0])

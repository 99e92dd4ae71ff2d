"""Polar decomposition: nearest and best-fit rotations of 3 x 3 matrices."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Mask
from .density import cofactor

# Number of Newton iterations, after which nearly all have converged, and the tolerance of orthogonality.
_TIMES, _TURNED = 8, 1e-10
# Squared norm of the cofactors below which a matrix has nearly rank one.
_LINE = 1e-6


def rotations(F: Array, times: int) -> tuple[Array, Mask]:
    """Return the rotations nearest to F (3, 3, k) by Newton iterations, and a mask (k,) of where F is not inverted.

    Higham, *Computing the polar decomposition, with applications* (1986), (3.1) without scaling. After four iterations
    a hundredth remains of stretches by a factor of three, or to a fifth; after two, less of stretches by a third. The
    orthogonal matrix nearest to an inverted F is not a rotation.
    """
    with np.errstate(all="ignore"):
        turn, upright = F, np.ones(F.shape[2], dtype=bool)
        for _ in range(times):
            cof = cofactor(turn)
            size = (turn[0] * cof[0]).sum(axis=0)
            upright &= size > 0.0
            turn = 0.5 * (turn + cof / size)
    return turn, upright


def best_rotations(products: Array) -> Array:
    """Return the rotations R (k, 3, 3) that maximise R : C for matrices C (k, 3, 3), also singular or mirrored ones.

    Kabsch, *A solution for the best rotation to relate two sets of vectors* (1976). With C = U S V^T its cofactors are
    det(U V) U cof(S) V^T. For a C of rank two, or nearly so, C + cof C has the same U and V, and a smallest singular
    value with that sign: the orthogonal matrix nearest to it is R, and Newton's iteration is faster than an SVD.
    """
    C = np.ascontiguousarray(products.transpose(1, 2, 0))
    with np.errstate(all="ignore"):
        C = _sized(C)
        cof = cofactor(C)
        # With a squared norm of 3, singular values are at most sqrt(3), and the middle one is at least |cof C|/3.
        squares = (cof * cof).sum(axis=(0, 1))
        kept = (squares > _LINE) & ((C[0] * cof[0]).sum(axis=0) > -squares / 36.0)
        turn, _ = rotations(_sized(C + cof), _TIMES)
        found = np.ascontiguousarray(turn.transpose(2, 0, 1))
        off = np.abs(found.transpose(0, 2, 1) @ found - np.eye(3)).max(axis=(1, 2))
    # Mirrored matrices, and those of nearly rank one.
    hard = np.flatnonzero(~(kept & (off < _TURNED)))
    if len(hard):
        u, _, w = np.linalg.svd(products[hard])
        u[:, :, 2] *= np.sign(np.linalg.det(u @ w))[:, None]
        found[hard] = u @ w
    return found


def _sized(C: Array) -> Array:
    """Return C (3, 3, k) scaled to a squared Frobenius norm of 3."""
    return np.asarray(C / np.sqrt((C * C).sum(axis=(0, 1)) / 3.0))

"""The rotations next to matrices (3, 3)."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Mask
from .density import cofactor

# Iterations with which nearly all have ended, and how far from a rotation the others may be then.
_TIMES, _TURNED = 8, 1e-10
# Squares of cofactors below which hardly more than one direction is known.
_LINE = 1e-6


def rotations(F: Array, times: int) -> tuple[Array, Mask]:
    """The rotations next to F (3, 3, k), by so many of Newton's iterations for the polar decomposition, and where F has
    one: turned inside out, the nearest is none.

    Higham, *Computing the polar decomposition, with applications* (1986), (3.1) with no scaling. Four leave a hundredth
    of strains by three, or to a fifth; two leave less of those by a third.
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
    """The rotations R (k, 3, 3) with the largest R : C of matrices C (k, 3, 3), flat ones and mirrored ones too.

    Kabsch, *A solution for the best rotation to relate two sets of vectors* (1976). With C = U S V^T its cofactors are
    det(U V) U cof(S) V^T. Of a C that is flat, or nearly, C + cof C has the same U and V, and a least singular value
    with that sign: the orthogonal matrix next to it is R, and Newton's iteration leads there sooner than an SVD.
    """
    C = np.ascontiguousarray(products.transpose(1, 2, 0))
    with np.errstate(all="ignore"):
        C = _sized(C)
        cof = cofactor(C)
        # With a norm of 3 singular values are at most sqrt(3), and the middle one is at least |cof C|/3.
        squares = (cof * cof).sum(axis=(0, 1))
        kept = (squares > _LINE) & ((C[0] * cof[0]).sum(axis=0) > -squares / 36.0)
        turn, _ = rotations(_sized(C + cof), _TIMES)
        found = np.ascontiguousarray(turn.transpose(2, 0, 1))
        off = np.abs(found.transpose(0, 2, 1) @ found - np.eye(3)).max(axis=(1, 2))
    # Mirrored, or nearly a line.
    hard = np.flatnonzero(~(kept & (off < _TURNED)))
    if len(hard):
        u, _, w = np.linalg.svd(products[hard])
        u[:, :, 2] *= np.sign(np.linalg.det(u @ w))[:, None]
        found[hard] = u @ w
    return found


def _sized(C: Array) -> Array:
    return np.asarray(C / np.sqrt((C * C).sum(axis=(0, 1)) / 3.0))

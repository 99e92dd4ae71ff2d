"""Compiled potential of contacts with lagged friction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from .library import (
    KernelLibrary,
    doubles,
    integers,
    pointers,
    require_indices,
    require_result,
    require_row_count,
    require_rows,
    require_shape,
    require_sparse,
)


@dataclass(frozen=True)
class ContactEvaluation:
    """Potential of k contacts at given positions.

    value: J.  gradient: (n, 3) N.  gap: (k,) m.  force: (k,) N.  slip, offset: (k, 3) m.  states: (k,), see
    contact.penalty_and_friction.
    """

    value: float
    gradient: Array
    gap: Array
    force: Array
    slip: Array
    offset: Array
    states: Index


def require_contacts(weights: csr_matrix, vectors: Sequence[Array], scalars: Sequence[Array]) -> None:
    """Raise ValueError unless the weights (k, n), vectors (k, 3) each and scalars (k,) each of contacts match."""
    count = weights.shape[0]
    require_sparse(weights, weights.shape, "weights of contacts")
    for one in vectors:
        require_shape(one, (count, 3), "vectors of contacts")
    for one in scalars:
        require_shape(one, (count,), "scalars of contacts")


class CompiledContacts:
    """Compiled equivalent of contact.penalty_and_friction.ContactPotential, with another summation order."""

    def __init__(
        self,
        library: KernelLibrary,
        weights: csr_matrix,
        vectors: tuple[Array, Array, Array],
        scalars: tuple[Array, Array, Array],
    ) -> None:
        """Store the contacts.

        weights: (k, n).  vectors: (k, 3) each: m of the base offset, the normal, and m of the anchor.
        scalars: (k,) each: m of the contact distance and of the target gap, and the stiffness in N/m.

        Raises ValueError if the arrays do not match, because the kernel does not check bounds.
        """
        count, nodes = weights.shape
        require_row_count(count, "contacts")
        require_row_count(nodes, "nodes")
        require_contacts(weights, vectors, scalars)
        self._library, self._count, self._nodes = library, count, nodes
        rows = integers(weights.indptr), integers(weights.indices), doubles(weights.data)
        base, normal, anchor = map(doubles, vectors)
        distance, target, stiffness = map(doubles, scalars)
        self._buffers = *rows, base, normal, distance, target, stiffness, anchor
        self._pointers = pointers(*self._buffers)
        self._hessian_pointers = pointers(*rows, normal, stiffness)
        self._known_pattern: tuple[NDArray[np.int32], ...] | None = None

    def evaluate(self, limits: Array, positions: Array) -> ContactEvaluation:
        """Return the potential at positions (n, 3) m. limits: (k,) N, of friction."""
        require_shape(limits, (self._count,), "limits of friction")
        require_shape(positions, (self._nodes, 3), "positions")
        given = doubles(limits), doubles(positions)
        gap, force = np.empty((2, self._count))
        slip, offset = np.empty((2, self._count, 3))
        states, gradient = np.empty(self._count, dtype=np.int64), np.zeros((self._nodes, 3))
        value = self._library.contacts(
            self._count, *self._pointers, *pointers(*given, gap, force, slip, offset, states, gradient)
        )
        return ContactEvaluation(float(value), gradient, gap, force, slip, offset, states)

    def add_blocks(
        self,
        limits: Array,
        at: ContactEvaluation,
        factor: float,
        pattern: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
        blocks: Array,
    ) -> int:
        """Add the positive semi-definite Hessian times a factor to blocks (b, 3, 3), and return 0.

        If blocks are missing, only return their number.

        limits: (k,) N.  at: evaluation with these limits.  pattern: the row (n,) of each node or -1, and the starts
        (m + 1,) and columns (b,) of the matrix's rows.  Raises ValueError if the arrays do not match.
        """
        columns = pattern[2]
        require_shape(limits, (self._count,), "limits of friction")
        require_shape(at.slip, (self._count, 3), "slips")
        # The kernel only compares them.
        if at.states.shape != (self._count,) or at.states.dtype.kind not in "iu":
            raise ValueError("the states are not one integer per contact")
        self._require_pattern(pattern)
        require_result(blocks, (len(columns), 3, 3), np.float64, "blocks")
        # The arrays must live on while the kernel uses their addresses.
        of = doubles(limits), doubles(at.slip), np.ascontiguousarray(at.states, dtype=np.int64)
        matrix = list(map(integers, pattern))
        given = *self._hessian_pointers, *pointers(*of), factor, *pointers(*matrix, blocks)
        return int(self._library.contact_blocks(self._count, *given))

    def _require_pattern(self, pattern: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]) -> None:
        """Check a pattern, see add_blocks(), unless it is known and read-only."""
        if self._known_pattern is not None and all(map(is_, pattern, self._known_pattern)):
            return
        slots, starts, columns = pattern
        if slots.dtype != np.int32 or starts.dtype != np.int32 or columns.dtype != np.int32:
            raise ValueError("the pattern is not made of 32-bit integers")
        require_indices(slots, (self._nodes,), len(starts) - 1, "rows of nodes", -1)
        require_rows(starts, len(starts) - 1, len(columns), "blocks")
        is_fixed = not any(one.flags.writeable for one in pattern)
        self._known_pattern = pattern if is_fixed else None

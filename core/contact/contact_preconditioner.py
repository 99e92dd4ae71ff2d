"""Preconditioner with contact stiffness: the inverse of H + C by Woodbury's formula on constant factors of H.

With the stiffness C = L L^T of the contacts on their nodes, and the compliance S = H^-1 among those nodes,

    (H + C)^-1 = H^-1 - H^-1 L (1 + L^T S L)^-1 L^T H^-1 = H^-1 - H^-1 C (1 + S C)^-1 H^-1

The first form is used if L has not many more columns than there are node coordinates. C is exact and couples the bodies
in contact, while S is zero between bodies that are not connected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from scipy.linalg.blas import strsv
from scipy.linalg.lapack import spotrf
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, SinglePrecisionArray
from ..solvers.block_factorisation import BlockFactorisation
from ..solvers.factorisation import LowRankUpdate, Solve
from ..solvers.multifrontal import MultifrontalSolve

# Number of nodes whose columns are solved for at once. The batches are fixed, so that results do not depend on the
# order of requests.
COLUMN_BATCH = 16
# Diagonal added to avoid a singular matrix, in units of the last digit.
_UNIT_DIGITS = 4.0
# Bytes of cached columns per factorisation.
_COLUMN_CACHE_BYTES = 256_000_000
# Bytes of cached blocks: resting contacts request the same block in every step.
_BLOCK_CACHE_BYTES = 32_000_000
# Number of column batches computed in advance in a step without closed contacts.
_PREFETCHED_BATCHES = 4
# Cholesky costs half as much as LU, and is used up to this ratio of contact factors to node coordinates.
_CHOLESKY_RATIO = 1.25
# Blocks of up to this many coordinates use dense products, larger ones sparse products.
_DENSE_SIZE = 400
# More blocks than this with fewer coordinates on average than the second number are factorised as one dense block: they
# fill in, and each pair of blocks takes time.
_MAX_SMALL_BLOCKS, _SMALL_BLOCK = 32, 45
# Up to this many multiplications, a dense product is as fast as finding the nonzeros.
_DENSE_PRODUCTS = 10_000_000


class InverseColumns:
    """Lazily computed columns of a constant inverse matrix, for nodes that may get contacts.

    In single precision, which is sufficient for a preconditioner.
    nodes: (s,) free-node indices that may be requested.
    """

    def __init__(self, solve: Solve, count: int, nodes: Index) -> None:
        """Create an empty cache of columns.

        solve: with the matrix (3f, 3f).  count: f.
        """
        self._solve, self._count = solve, count
        self.nodes = nodes
        self._node_position = np.full(count, -1)
        self._node_position[nodes] = np.arange(len(nodes))
        self._rows = (3 * nodes[:, None] + np.arange(3)).ravel()
        self._column_batches: dict[int, SinglePrecisionArray] = {}
        self._blocks: dict[bytes, SinglePrecisionArray] = {}

    def block(self, slots: Index) -> SinglePrecisionArray:
        """Return the inverse among nodes slots (a,): (a, 3, a, 3) m/(N s); the first two axes are the columns."""
        key = slots.tobytes()
        if key in self._blocks:
            self._blocks[key] = known = self._blocks.pop(key)
            return known
        found = self._compute_block(slots)
        while self._blocks and sum(one.nbytes for one in self._blocks.values()) + found.nbytes > _BLOCK_CACHE_BYTES:
            self._blocks.pop(next(iter(self._blocks)))
        self._blocks[key] = found
        return found

    def _compute_block(self, slots: Index) -> SinglePrecisionArray:
        position = self._node_position[slots]
        rows = (3 * position[:, None] + np.arange(3)).ravel()
        block = np.empty((len(slots), 3, len(rows)), dtype=np.float32)
        for batch in np.unique(position // COLUMN_BATCH):
            selected = np.flatnonzero(position // COLUMN_BATCH == batch)
            block[selected] = self._column_batch(int(batch))[position[selected] % COLUMN_BATCH][:, :, rows]
        return block.reshape(len(slots), 3, len(slots), 3)

    def prefetch_columns(self, slots: Index) -> None:
        """Compute some of the columns of slots (a,) in advance, to spread the cost over several steps."""
        missing = [
            int(lot) for lot in np.unique(self._node_position[slots] // COLUMN_BATCH) if lot not in self._column_batches
        ]
        for lot in missing[:_PREFETCHED_BATCHES]:
            self._column_batch(lot)

    def _column_batch(self, batch: int) -> SinglePrecisionArray:
        """Return the columns (COLUMN_BATCH, 3, 3s) of a batch of nodes, restricted to the nodes."""
        if batch in self._column_batches:
            self._column_batches[batch] = known = self._column_batches.pop(batch)
            return known
        nodes = self.nodes[batch * COLUMN_BATCH : (batch + 1) * COLUMN_BATCH]
        right = np.zeros((3 * self._count, 3 * len(nodes)))
        right[(3 * nodes[:, None] + np.arange(3)).ravel(), np.arange(3 * len(nodes))] = 1.0
        if isinstance(self._solve, MultifrontalSolve):
            found = self._solve.solve_single_precision(right.astype(np.float32))
        else:
            found = np.asarray(self._solve(right), dtype=np.float32)
        columns = np.ascontiguousarray(found[self._rows].T).reshape(len(nodes), 3, -1)
        while self._column_batches and (len(self._column_batches) + 1) * columns.nbytes > _COLUMN_CACHE_BYTES:
            self._column_batches.pop(next(iter(self._column_batches)))
        self._column_batches[batch] = columns
        return columns


@dataclass(frozen=True)
class ComplianceBlock:
    """The inverse within a group of contact nodes that is connected to no other.

    positions: (b,) contiguous positions among the contact nodes.  inverse: (3b, 3b) m/(N s), H^-1 within the group.
    """

    positions: Index
    inverse: SinglePrecisionArray

    @property
    def dof(self) -> Index:
        """Coordinates (3b,) of the nodes."""
        return np.asarray((3 * self.positions[:, None] + np.arange(3)).ravel())

    @property
    def part(self) -> slice:
        """The same as a slice."""
        return slice(3 * int(self.positions[0]), 3 * int(self.positions[-1]) + 3)


class ContactPreconditioner:
    """The inverse of H + C."""

    def __init__(
        self, base: LowRankUpdate, blocks: Sequence[ComplianceBlock], factors: csr_matrix, slots: Index
    ) -> None:
        """Factorise the contact term of the inverse.

        base: the inverse of H.  blocks: of all nodes with contacts.
        factors: (q, 3a) sqrt(N s/m), L^T on the coordinates of slots (a,), indices of free nodes.
        """
        self._base, self._dof = base, (3 * slots[:, None] + np.arange(3)).ravel()
        use_cholesky = factors.shape[0] <= _CHOLESKY_RATIO * len(self._dof)
        self._factors = _sorted_by_block(factors, blocks) if use_cholesky and len(blocks) > 1 else factors
        self._transposed_factors = self._factors.T.tocsr()
        response = self._cholesky_response(blocks) if use_cholesky else None
        self._contact_response = response or self._lu_response(blocks)

    def __call__(self, right: Array) -> Array:
        answer = self._base(right)
        pull = np.zeros(len(answer))
        pull[self._dof] = self._contact_response(answer[self._dof])
        return np.asarray(answer - self._base(pull))

    def stiffness_times(self, step: Array) -> Array:
        """Return C v (f, 3) for v (f, 3)."""
        answer = np.zeros(step.size)
        answer[self._dof] = self._transposed_factors @ (self._factors @ step.ravel()[self._dof])
        return answer.reshape(step.shape)

    def _cholesky_response(self, blocks: Sequence[ComplianceBlock]) -> Callable[[Array], Array] | None:
        """Return L (1 + L^T S L)^-1 L^T by a Cholesky factorisation, or None if it fails by rounding."""
        factors = self._factors
        matrix = np.zeros((factors.shape[0],) * 2, dtype=np.float32)
        row = np.arange(factors.shape[0]).repeat(np.diff(factors.indptr))
        single = factors.data.astype(np.float32)
        for block in blocks:
            first, last = block.part.start, block.part.stop
            # Nodes of a group are contiguous.
            entry_index = np.flatnonzero((factors.indices >= first) & (factors.indices < last))
            is_used = np.zeros(factors.shape[0], dtype=bool)
            is_used[row[entry_index]] = True
            used_rows = np.flatnonzero(is_used)
            position = np.cumsum(is_used) - 1
            entries = position[row[entry_index]], factors.indices[entry_index] - first
            block_factors: SinglePrecisionArray | csr_matrix
            if last - first <= _DENSE_SIZE:
                block_factors = np.zeros((len(used_rows), last - first), dtype=np.float32)
                block_factors[entries] = single[entry_index]
                inner = block_factors @ block.inverse @ block_factors.T
            else:
                block_factors = csr_matrix((single[entry_index], entries), shape=(len(used_rows), last - first))
                inner = block_factors @ np.ascontiguousarray((block_factors @ block.inverse).T)
            # Adding contiguous pieces is much faster than adding single entries.
            cuts = [*np.flatnonzero(np.diff(used_rows, prepend=-2) != 1), len(used_rows)]
            for (a, b), (c, d) in product(pairwise(cuts), repeat=2):
                matrix[used_rows[a] : used_rows[b - 1] + 1, used_rows[c] : used_rows[d - 1] + 1] += inner[a:b, c:d]
        _add_identity([matrix])
        factor, info = spotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if info:
            return None

        def pull(way: Array) -> Array:
            gram = strsv(factor, (factors @ way).astype(np.float32), lower=1)
            gram = strsv(factor, gram, lower=1, trans=1)
            return np.asarray(self._transposed_factors @ gram.astype(np.float64))

        return pull

    def _lu_response(self, blocks: Sequence[ComplianceBlock]) -> Callable[[Array], Array]:
        """Return C (1 + S C)^-1 by an LU factorisation in blocks, which couples only the bodies that touch."""
        rows, columns = self._factors.shape
        all_factors: Array | csr_matrix = self._factors
        if rows * columns**2 <= _DENSE_PRODUCTS:
            all_factors = self._factors.toarray()
        stiffness = all_factors.T @ all_factors
        single = stiffness.astype(np.float32)
        if not isinstance(single, np.ndarray):
            single = single.tocsr()
        is_whole = len(blocks) > _MAX_SMALL_BLOCKS and columns < _SMALL_BLOCK * len(blocks)
        whole = np.zeros((columns if is_whole else 0,) * 2, dtype=np.float32, order="F")
        diagonal, others = [whole] if is_whole else [], {}
        for one, column in enumerate(blocks):
            strip = single[:, column.part]
            product = strip @ column.inverse
            if is_whole:
                whole[column.part] = product.T
                continue
            is_used = strip.any(axis=1) if isinstance(strip, np.ndarray) else np.diff(strip.indptr) > 0
            for other, row in enumerate(blocks):
                if one == other:
                    # The transpose of rows is column-major without a copy.
                    diagonal.append(np.ascontiguousarray(product[row.part]).T)
                    continue
                used = np.flatnonzero(is_used[row.part])
                if len(used):
                    others[one, other] = used, product[row.part][used].T
        _add_identity(diagonal)
        factors = BlockFactorisation(diagonal, others)

        def pull(way: Array) -> Array:
            return np.asarray(stiffness @ factors.solve(way.astype(np.float32)).astype(np.float64))

        return pull


def _sorted_by_block(factors: csr_matrix, blocks: Sequence[ComplianceBlock]) -> csr_matrix:
    """Return the rows sorted by the blocks that they act on."""
    block_of_column = np.zeros(factors.shape[1], dtype=np.int64)
    for number, one in enumerate(blocks):
        block_of_column[one.dof] = number
    block_of_entry = block_of_column[factors.indices]
    first, last = np.full(factors.shape[0], len(blocks)), np.zeros(factors.shape[0], dtype=np.int64)
    nonempty = np.flatnonzero(np.diff(factors.indptr))
    first[nonempty] = np.minimum.reduceat(block_of_entry, factors.indptr[nonempty])
    last[nonempty] = np.maximum.reduceat(block_of_entry, factors.indptr[nonempty])
    return factors[np.lexsort((last, first))]


def _add_identity(diagonal: Sequence[SinglePrecisionArray]) -> None:
    """Add the identity to a matrix, given by its diagonal blocks.

    Where the compliance is nearly infinite, as for a free body in a static solve, 1 would be lost to rounding.
    """
    largest = max(max(float(one.max(initial=0.0)), -float(one.min(initial=0.0))) for one in diagonal)
    digit = np.finfo(np.float32).eps * largest
    for one in diagonal:
        one[np.diag_indices(len(one))] += _UNIT_DIGITS * digit if digit > 1.0 else 1.0

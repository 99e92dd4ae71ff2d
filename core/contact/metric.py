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
from scipy.linalg import lu_factor
from scipy.linalg.blas import strsv
from scipy.linalg.lapack import sgetrs, spotrf
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Single
from ..solvers.factor import LowRankUpdate, Solve
from ..solvers.multifrontal import Multifrontal

# Number of nodes whose columns are solved for at once. The batches are fixed, so that results do not depend on the
# order of requests.
LOT = 16
# Diagonal added to avoid a singular matrix, in units of the last digit.
_LAST = 4.0
# Bytes of cached columns per factorisation.
_MOST = 256_000_000
# Bytes of cached blocks: resting contacts request the same block in every step.
_ASKED = 32_000_000
# Number of column batches computed in advance in a step without closed contacts.
_AHEAD = 4
# Cholesky costs half as much as LU, and is used up to this ratio of contact factors to node coordinates.
_CHEAPER = 1.25
# Blocks of up to this many coordinates use dense products, larger ones sparse products.
_DENSE = 400
# Up to this many multiplications, a dense product is as fast as finding the nonzeros.
_SOON = 10_000_000


class Compliance:
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
        self._place = np.full(count, -1)
        self._place[nodes] = np.arange(len(nodes))
        self._rows = (3 * nodes[:, None] + np.arange(3)).ravel()
        self._lots: dict[int, Single] = {}
        self._asked: dict[bytes, Single] = {}

    def among(self, slots: Index) -> Single:
        """Return the inverse among nodes slots (a,): (a, 3, a, 3) m/(N s); the first two axes are the columns."""
        key = slots.tobytes()
        if key in self._asked:
            self._asked[key] = known = self._asked.pop(key)
            return known
        found = self._among(slots)
        while self._asked and sum(one.nbytes for one in self._asked.values()) + found.nbytes > _ASKED:
            self._asked.pop(next(iter(self._asked)))
        self._asked[key] = found
        return found

    def _among(self, slots: Index) -> Single:
        place = self._place[slots]
        rows = (3 * place[:, None] + np.arange(3)).ravel()
        found = np.empty((len(slots), 3, len(rows)), dtype=np.float32)
        for lot in np.unique(place // LOT):
            mine = np.flatnonzero(place // LOT == lot)
            found[mine] = self._lot(int(lot))[place[mine] % LOT][:, :, rows]
        return found.reshape(len(slots), 3, len(slots), 3)

    def foresee(self, slots: Index) -> None:
        """Compute some of the columns of slots (a,) in advance, to spread the cost over several steps."""
        lots = [int(lot) for lot in np.unique(self._place[slots] // LOT) if lot not in self._lots]
        for lot in lots[:_AHEAD]:
            self._lot(lot)

    def _lot(self, lot: int) -> Single:
        """Return the columns (COLUMN_BATCH, 3, 3s) of a batch of nodes, restricted to the nodes."""
        if lot in self._lots:
            self._lots[lot] = found = self._lots.pop(lot)
            return found
        nodes = self.nodes[lot * LOT : (lot + 1) * LOT]
        right = np.zeros((3 * self._count, 3 * len(nodes)))
        right[(3 * nodes[:, None] + np.arange(3)).ravel(), np.arange(3 * len(nodes))] = 1.0
        made = np.ascontiguousarray(_single(self._solve, right)[self._rows].T).reshape(len(nodes), 3, -1)
        while self._lots and (len(self._lots) + 1) * made.nbytes > _MOST:
            self._lots.pop(next(iter(self._lots)))
        self._lots[lot] = made
        return made


def _single(solve: Solve, right: Array) -> Single:
    if isinstance(solve, Multifrontal):
        return solve.columns(right.astype(np.float32))
    return np.asarray(solve(right), dtype=np.float32)


@dataclass(frozen=True)
class Compliant:
    """The inverse within a group of contact nodes that is connected to no other.

    positions: (b,) contiguous positions among the contact nodes.  inverse: (3b, 3b) m/(N s), H^-1 within the group.
    """

    places: Index
    inverse: Single

    @property
    def dof(self) -> Index:
        """Coordinates (3b,) of the nodes."""
        return np.asarray((3 * self.places[:, None] + np.arange(3)).ravel())


class ContactMetric:
    """The inverse of H + C."""

    def __init__(self, base: LowRankUpdate, parts: Sequence[Compliant], resisted: csr_matrix, slots: Index) -> None:
        """Factorise the contact term of the inverse.

        base: the inverse of H.  blocks: of all nodes with contacts.
        factors: (q, 3a) sqrt(N s/m), L^T on the coordinates of slots (a,), indices of free nodes.
        """
        self._base, self._dof = base, (3 * slots[:, None] + np.arange(3)).ravel()
        few = resisted.shape[0] <= _CHEAPER * len(self._dof)
        self._resisted = _gathered(resisted, parts) if few and len(parts) > 1 else resisted
        self._back = self._resisted.T.tocsr()
        self._pull = (self._by_ways(parts) if few else None) or self._by_nodes(parts)

    def __call__(self, right: Array) -> Array:
        answer = self._base(right)
        pull = np.zeros(len(answer))
        pull[self._dof] = self._pull(answer[self._dof])
        return np.asarray(answer - self._base(pull))

    def pushed(self, step: Array) -> Array:
        """Return C v (f, 3) for v (f, 3)."""
        answer = np.zeros(step.size)
        answer[self._dof] = self._back @ (self._resisted @ step.ravel()[self._dof])
        return answer.reshape(step.shape)

    def _by_ways(self, parts: Sequence[Compliant]) -> Callable[[Array], Array] | None:
        """Return L (1 + L^T S L)^-1 L^T by a Cholesky factorisation, or None if it fails by rounding."""
        resisted = self._resisted
        matrix = np.zeros((resisted.shape[0],) * 2, dtype=np.float32)
        row = np.arange(resisted.shape[0]).repeat(np.diff(resisted.indptr))
        single = resisted.data.astype(np.float32)
        for part in parts:
            first, last = 3 * int(part.places[0]), 3 * int(part.places[-1]) + 3
            # Nodes of a group are contiguous.
            mine = np.flatnonzero((resisted.indices >= first) & (resisted.indices < last))
            there = np.zeros(resisted.shape[0], dtype=bool)
            there[row[mine]] = True
            ways = np.flatnonzero(there)
            place = np.cumsum(there) - 1
            entries = place[row[mine]], resisted.indices[mine] - first
            own: Single | csr_matrix
            if last - first <= _DENSE:
                own = np.zeros((len(ways), last - first), dtype=np.float32)
                own[entries] = single[mine]
                inner = own @ part.inverse @ own.T
            else:
                own = csr_matrix((single[mine], entries), shape=(len(ways), last - first))
                inner = own @ np.ascontiguousarray((own @ part.inverse).T)
            # Adding contiguous pieces is much faster than adding single entries.
            cuts = [*np.flatnonzero(np.diff(ways, prepend=-2) != 1), len(ways)]
            for (a, b), (c, d) in product(pairwise(cuts), repeat=2):
                matrix[ways[a] : ways[b - 1] + 1, ways[c] : ways[d - 1] + 1] += inner[a:b, c:d]
        _with_unit(matrix)
        factor, wrong = spotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if wrong:
            return None

        def pull(way: Array) -> Array:
            inner = strsv(factor, (resisted @ way).astype(np.float32), lower=1)
            inner = strsv(factor, inner, lower=1, trans=1)
            return np.asarray(self._back @ inner.astype(np.float64))

        return pull

    def _by_nodes(self, parts: Sequence[Compliant]) -> Callable[[Array], Array]:
        """Return C (1 + S C)^-1 by an LU factorisation."""
        rows, columns = self._resisted.shape
        every: Array | csr_matrix = self._resisted
        if rows * columns**2 <= _SOON:
            every = self._resisted.toarray()
        stiffness = every.T @ every
        single = stiffness.astype(np.float32)
        # 1 + C S is the transpose of the required matrix.
        matrix = np.empty(single.shape, dtype=np.float32)
        for part in parts:
            matrix[:, part.dof] = (single if len(parts) == 1 else single[:, part.dof]) @ part.inverse
        _with_unit(matrix)
        # Its transpose in column-major order is a view, without a copy.
        factors, pivots = lu_factor(matrix.T, overwrite_a=True, check_finite=False)

        def pull(way: Array) -> Array:
            inner, _ = sgetrs(factors, pivots, way.astype(np.float32))
            return np.asarray(stiffness @ inner.astype(np.float64))

        return pull


def _gathered(resisted: csr_matrix, parts: Sequence[Compliant]) -> csr_matrix:
    """Return the rows sorted by the blocks that they act on."""
    part = np.zeros(resisted.shape[1], dtype=np.int64)
    for number, one in enumerate(parts):
        part[one.dof] = number
    of = part[resisted.indices]
    first, last = np.full(resisted.shape[0], len(parts)), np.zeros(resisted.shape[0], dtype=np.int64)
    some = np.flatnonzero(np.diff(resisted.indptr))
    first[some] = np.minimum.reduceat(of, resisted.indptr[some])
    last[some] = np.maximum.reduceat(of, resisted.indptr[some])
    return resisted[np.lexsort((last, first))]


def _with_unit(matrix: Single) -> None:
    """Add the identity.

    Where the compliance is nearly infinite, as for a free body in a static solve, 1 would be lost to rounding.
    """
    digit = np.finfo(np.float32).eps * max(float(matrix.max(initial=0.0)), -float(matrix.min(initial=0.0)))
    matrix[np.diag_indices(len(matrix))] += _LAST * digit if digit > 1.0 else 1.0

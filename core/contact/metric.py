"""The inverse of a metric with the stiffness of contacts added, by Woodbury's formula on its constant factors.

With the stiffness C = L L^T of the contacts on the nodes that they press, and the compliance S = H^-1 among those,

    (H + C)^-1 = H^-1 - H^-1 L (1 + L^T S L)^-1 L^T H^-1 = H^-1 - H^-1 C (1 + S C)^-1 H^-1

the first where the ways that L resists are not many more than the nodes' coordinates. C is taken as it is: two bodies
that press each other are coupled by it, while S is none between bodies that do not hang together.
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

# Nodes whose columns are solved for at once. Always the same ones together, so that it makes no difference when.
LOT = 16
# Of the last digit, what keeps a matrix from being singular.
_LAST = 4.0
# Bytes of columns that are kept for one factorisation.
_MOST = 256_000_000
# The same of what was asked for as a whole: what lies still asks for the same in every step.
_ASKED = 32_000_000
# Lots of columns that are made in a step in which nothing presses yet.
_AHEAD = 4
# Cholesky's factors cost half of what LU's do: they serve for so many times as many ways as there are coordinates.
_CHEAPER = 1.25
# Products with a part of up to so many coordinates are sooner made with all of its numbers, beyond it with those that
# are not zero.
_DENSE = 400
# So many products of numbers take no longer than to find out which of them are zero.
_SOON = 10_000_000


class Compliance:
    """The inverse of a constant matrix among nodes that may touch something, column by column when first asked.

    In single precision, which is enough for a metric.
    nodes: (s,) slots that may be asked for.
    """

    def __init__(self, solve: Solve, count: int, nodes: Index) -> None:
        """solve: with the matrix (3f, 3f).  count: f."""
        self._solve, self._count = solve, count
        self.nodes = nodes
        self._place = np.full(count, -1)
        self._place[nodes] = np.arange(len(nodes))
        self._rows = (3 * nodes[:, None] + np.arange(3)).ravel()
        self._lots: dict[int, Single] = {}
        self._asked: dict[bytes, Single] = {}

    def among(self, slots: Index) -> Single:
        """(a, 3, a, 3) m/(N s), the inverse among slots (a,); the first two indices are the columns'."""
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
        """Make some of the columns of slots (a,) that will be asked for, so that not all of them are at once."""
        lots = [int(lot) for lot in np.unique(self._place[slots] // LOT) if lot not in self._lots]
        for lot in lots[:_AHEAD]:
            self._lot(lot)

    def _lot(self, lot: int) -> Single:
        """(LOT, 3, 3s), columns of the nodes of a lot, at all of them."""
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
    """A part of the nodes that carry contacts, which hangs together with no other.

    places: (b,) of them among those nodes, one after the other.  inverse: (3b, 3b) m/(N s), H^-1 among them.
    """

    places: Index
    inverse: Single

    @property
    def dof(self) -> Index:
        """(3b,) their coordinates."""
        return np.asarray((3 * self.places[:, None] + np.arange(3)).ravel())


class ContactMetric:
    """The inverse of H + C."""

    def __init__(self, base: LowRankUpdate, parts: Sequence[Compliant], resisted: csr_matrix, slots: Index) -> None:
        """base: the inverse of H.  parts: of all that carries contacts.

        resisted: (q, 3a) sqrt(N s/m), L^T, by the coordinates of slots (a,) of the free nodes.
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
        """C v for v (f, 3), (f, 3)."""
        answer = np.zeros(step.size)
        answer[self._dof] = self._back @ (self._resisted @ step.ravel()[self._dof])
        return answer.reshape(step.shape)

    def _by_ways(self, parts: Sequence[Compliant]) -> Callable[[Array], Array] | None:
        """L (1 + L^T S L)^-1 L^T by Cholesky's factors; None where these lose a pivot to rounding."""
        resisted = self._resisted
        matrix = np.zeros((resisted.shape[0],) * 2, dtype=np.float32)
        row = np.arange(resisted.shape[0]).repeat(np.diff(resisted.indptr))
        single = resisted.data.astype(np.float32)
        for part in parts:
            first, last = 3 * int(part.places[0]), 3 * int(part.places[-1]) + 3
            # What hangs together lies together.
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
            # Piece by piece of what lies together, many times as fast as one by one.
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
        """C (1 + S C)^-1."""
        rows, columns = self._resisted.shape
        every: Array | csr_matrix = self._resisted
        if rows * columns**2 <= _SOON:
            every = self._resisted.toarray()
        stiffness = every.T @ every
        single = stiffness.astype(np.float32)
        # 1 + C S, the transpose of what is needed.
        matrix = np.empty(single.shape, dtype=np.float32)
        for part in parts:
            matrix[:, part.dof] = (single if len(parts) == 1 else single[:, part.dof]) @ part.inverse
        _with_unit(matrix)
        # Column by column, as it is factorised, it is what is needed itself.
        factors, pivots = lu_factor(matrix.T, overwrite_a=True, check_finite=False)

        def pull(way: Array) -> Array:
            inner, _ = sgetrs(factors, pivots, way.astype(np.float32))
            return np.asarray(stiffness @ inner.astype(np.float64))

        return pull


def _gathered(resisted: csr_matrix, parts: Sequence[Compliant]) -> csr_matrix:
    """The same rows, those together that resist what moves the same parts."""
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
    """Add 1 on the diagonal.

    Beside what gives way without end, as a body that lies free where it is looked for at rest, 1 has no digit.
    """
    digit = np.finfo(np.float32).eps * max(float(matrix.max(initial=0.0)), -float(matrix.min(initial=0.0)))
    matrix[np.diag_indices(len(matrix))] += _LAST * digit if digit > 1.0 else 1.0

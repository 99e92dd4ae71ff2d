"""The inverse of a metric with the stiffness of contacts added, by Woodbury's formula on its constant factors.

(H + C)^-1 = H^-1 - H^-1 C (1 + S C)^-1 H^-1, with the stiffness C of the contacts on the nodes that they press, and the
compliance S = H^-1 among those alone. C is taken as it is: two bodies that press each other are coupled by it.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lu_factor, lu_solve
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

    def among(self, slots: Index) -> Single:
        """(a, 3, a, 3) m/(N s), the inverse among slots (a,); the first two indices are the columns'."""
        place = self._place[slots]
        rows = (3 * place[:, None] + np.arange(3)).ravel()
        found = np.empty((len(slots), 3, len(rows)), dtype=np.float32)
        for lot in np.unique(place // LOT):
            mine = np.flatnonzero(place // LOT == lot)
            found[mine] = self._lot(int(lot))[place[mine] % LOT][:, :, rows]
        return found.reshape(len(slots), 3, len(slots), 3)

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


class ContactMetric:
    """The inverse of H + C."""

    def __init__(self, base: LowRankUpdate, compliance: Single, stiffness: csr_matrix, slots: Index) -> None:
        """base: the inverse of H, a constant matrix A and a low rank.

        compliance: (3a, 3a), A^-1 among slots (a,) of the free nodes.  stiffness: (3a, 3a), C.
        """
        self._base = base
        self.stiffness = stiffness
        self._dof = (3 * slots[:, None] + np.arange(3)).ravel()
        # 1 + C S, the transpose of what is needed.
        matrix = np.asarray(stiffness.astype(np.float32) @ (compliance - base.given(slots).astype(np.float32)))
        # Beside what gives way without end, as a body that lies free where it is looked for at rest, 1 has no digit.
        digit = np.finfo(np.float32).eps * float(np.abs(matrix).max(initial=0.0))
        matrix[np.diag_indices(len(matrix))] += _LAST * digit if digit > 1.0 else 1.0
        self._factors = lu_factor(matrix, overwrite_a=True, check_finite=False)

    def __call__(self, right: Array) -> Array:
        answer = self._base(right)
        inner = lu_solve(self._factors, answer[self._dof].astype(np.float32), trans=1, check_finite=False)
        pull = np.zeros(len(answer))
        pull[self._dof] = self.stiffness @ inner.astype(np.float64)
        return np.asarray(answer - self._base(pull))

    def pushed(self, step: Array) -> Array:
        """C v for v (f, 3), (f, 3)."""
        answer = np.zeros(step.size)
        answer[self._dof] = self.stiffness @ step.ravel()[self._dof]
        return answer.reshape(step.shape)

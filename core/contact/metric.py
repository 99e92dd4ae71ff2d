"""The inverse of a metric with the stiffness of contacts added, by Woodbury's formula on its constant factors.

(H + C)^-1 = H^-1 - H^-1 C (1 + S C)^-1 H^-1, with the stiffness C of the contacts on the nodes that they press, and the
compliance S = H^-1 among those alone. C is taken as it is: two bodies that press each other are coupled by it.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Single
from ..solvers.factor import Solve

# Nodes whose columns are solved for at once. Always the same ones together, so that it makes no difference when.
_LOT = 8
# Bytes of columns that are kept for one factorisation.
_MOST = 256_000_000


class Compliance:
    """Columns of the inverse of a constant matrix, at nodes that may touch something; solved for when first asked.

    In single precision, which is enough for a metric.
    nodes: (s,) slots that may be asked for.
    """

    def __init__(self, solve: Solve, count: int, nodes: Index) -> None:
        """solve: with the matrix (3f, 3f).  count: f."""
        self._solve, self._count = solve, count
        self.nodes = nodes
        self._place = np.full(count, -1)
        self._place[nodes] = np.arange(len(nodes))
        self._dof = (3 * nodes[:, None] + np.arange(3)).ravel()
        self._lots: dict[int, Single] = {}
        # As one table, where there is room for it.
        self._table: Single | None = None
        if 4 * len(self._dof) ** 2 <= _MOST:
            self._table = np.zeros((len(self._dof), len(self._dof)), dtype=np.float32)
        self._known = np.zeros(len(nodes) // _LOT + 1, dtype=bool)

    def among(self, slots: Index) -> Single:
        """(3a, 3a) m/(N s) among slots (a,)."""
        place = self._place[slots]
        lots = np.unique(place // _LOT)
        dof = (3 * place[:, None] + np.arange(3)).ravel()
        if self._table is not None:
            for lot in lots[~self._known[lots]]:
                first = 3 * int(lot) * _LOT
                columns = self._columns(int(lot))
                self._table[:, first : first + columns.shape[1]] = columns
                self._known[lot] = True
            return np.asarray(self._table[dof[:, None], dof])
        found = np.empty((len(dof), len(dof)), dtype=np.float32)
        for lot in lots:
            mine = np.flatnonzero(place // _LOT == lot)
            columns = (3 * (place[mine] % _LOT)[:, None] + np.arange(3)).ravel()
            there = (3 * mine[:, None] + np.arange(3)).ravel()
            found[:, there] = self._lot(int(lot))[dof[:, None], columns]
        return found

    def _lot(self, lot: int) -> Single:
        if lot not in self._lots:
            columns = self._columns(lot)
            while self._lots and (len(self._lots) + 1) * columns.nbytes > _MOST:
                self._lots.pop(next(iter(self._lots)))
            self._lots[lot] = columns
        return self._lots[lot]

    def _columns(self, lot: int) -> Single:
        nodes = self.nodes[lot * _LOT : (lot + 1) * _LOT]
        right = np.zeros((3 * self._count, 3 * len(nodes)))
        right[(3 * nodes[:, None] + np.arange(3)).ravel(), np.arange(3 * len(nodes))] = 1.0
        return np.ascontiguousarray(self._solve(right)[self._dof], dtype=np.float32)


class ContactMetric:
    """The inverse of H + C."""

    def __init__(self, solve: Solve, compliance: Single, stiffness: csr_matrix, slots: Index) -> None:
        """solve: with H (3f, 3f).  compliance: (3a, 3a), S.  stiffness: (3a, 3a), C.  slots: (a,) of the free nodes."""
        self._solve = solve
        self.stiffness = stiffness
        self._dof = (3 * slots[:, None] + np.arange(3)).ravel()
        # 1 + C S, the transpose of what is needed.
        matrix = np.asarray(stiffness.astype(np.float32) @ compliance)
        matrix[np.diag_indices(len(matrix))] += 1.0
        self._factors = lu_factor(matrix, overwrite_a=True, check_finite=False)

    def __call__(self, right: Array) -> Array:
        answer = self._solve(right)
        pull = np.zeros_like(right)
        inner = lu_solve(self._factors, answer[self._dof].astype(np.float32), trans=1, check_finite=False)
        pull[self._dof] = self.stiffness @ inner.astype(np.float64)
        return np.asarray(answer - self._solve(pull))

    def pushed(self, step: Array) -> Array:
        """C v for v (f, 3), (f, 3)."""
        answer = np.zeros(step.size)
        answer[self._dof] = self.stiffness @ step.ravel()[self._dof]
        return answer.reshape(step.shape)

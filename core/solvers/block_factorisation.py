"""LU factorisation of a matrix of dense blocks, many of which are zero, in single precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import sgemm
from scipy.linalg.lapack import sgetrf, sgetrs

from ..base.arrays import Index, SinglePrecisionArray


@dataclass(frozen=True)
class _Step:
    """Elimination of a block row.

    factors, pivots: of the diagonal block.  below: by block row, the columns (k,) that are not zero in a block of this
    block column, and these columns.  right: by block column, the same of the diagonal block's inverse times a block of
    this block row.
    """

    place: int
    factors: SinglePrecisionArray
    pivots: Index
    below: dict[int, tuple[Index, SinglePrecisionArray]]
    right: dict[int, tuple[Index, SinglePrecisionArray]]


class BlockFactorisation:
    """Solve with a matrix of blocks, pivoting within the diagonal blocks only.

    This is stable for 1 + S C with positive semi-definite C and block diagonal S, because its pivots are similar to
    symmetric matrices with eigenvalues of at least 1.
    """

    def __init__(
        self,
        diagonal: list[SinglePrecisionArray],
        others: Mapping[tuple[int, int], tuple[Index, SinglePrecisionArray]],
    ) -> None:
        """Factorise the matrix.

        diagonal: (n, n) each, column-major; overwritten.  others: by block row and column, the columns (k,) of a block
            that are not zero, ascending, and these columns (n, k), column-major.
        """
        rows: list[dict[int, tuple[Index, SinglePrecisionArray]]] = [{} for _ in diagonal]
        for (row, column), block in others.items():
            rows[row][column] = block
        sizes = [len(one) for one in diagonal]
        self._slices = [slice(last - size, last) for size, last in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]
        self._steps: list[_Step] = []
        remaining = set(range(len(diagonal)))
        while remaining:
            # Blocks with few neighbours first, so that few others become nonzero.
            place = min(remaining, key=lambda one: (len(rows[one]) * sizes[one], one))
            remaining.remove(place)
            step = self._step(place, diagonal[place], rows)
            self._steps.append(step)
            for row, below in step.below.items():
                for column, right in step.right.items():
                    _subtract_product(row, column, below, right, diagonal, rows)

    @staticmethod
    def _step(
        place: int, diagonal: SinglePrecisionArray, rows: list[dict[int, tuple[Index, SinglePrecisionArray]]]
    ) -> _Step:
        """Factorise a diagonal block, and take its row and column out of the rows."""
        factors, pivots, _ = sgetrf(diagonal, overwrite_a=1)
        below = {row: rows[row].pop(place) for row in list(rows[place])}
        right = {}
        for column, (used, values) in rows[place].items():
            right[column] = used, sgetrs(factors, pivots, values)[0]
        return _Step(place, factors, pivots, below, right)

    def solve(self, right: SinglePrecisionArray) -> SinglePrecisionArray:
        """Return the inverse times right (n,)."""
        parts = [right[part] for part in self._slices]
        for step in self._steps:
            parts[step.place], _ = sgetrs(step.factors, step.pivots, parts[step.place])
            for row, (used, values) in step.below.items():
                parts[row] = parts[row] - values @ parts[step.place][used]
        for step in reversed(self._steps):
            for column, (used, values) in step.right.items():
                parts[step.place] = parts[step.place] - values @ parts[column][used]
        return np.concatenate(parts)


def _subtract_product(
    row: int,
    column: int,
    below: tuple[Index, SinglePrecisionArray],
    right: tuple[Index, SinglePrecisionArray],
    diagonal: list[SinglePrecisionArray],
    rows: list[dict[int, tuple[Index, SinglePrecisionArray]]],
) -> None:
    """Subtract the product of a block in the pivot's column and one in its row from the block where they meet."""
    product = sgemm(1.0, below[1], right[1][below[0]])
    if row == column:
        diagonal[row][:, right[0]] -= product
        return
    known, values = rows[row].get(column, (np.zeros(0, dtype=np.int64), None))
    used = np.union1d(known, right[0])
    total = np.zeros((len(product), len(used)), dtype=np.float32, order="F")
    if values is not None:
        total[:, np.searchsorted(used, known)] = values
    total[:, np.searchsorted(used, right[0])] -= product
    rows[row][column] = used, total

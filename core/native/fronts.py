"""Compiled multifrontal solve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Index, Single
from .library import Library


class Fronts:
    """Compiled equivalent of solvers.multifrontal.MultifrontalSolve for one right-hand side.

    It sums in another order.  columns: the given matrices, as views of one buffer.
    """

    def __init__(
        self,
        library: Library,
        bounds: Sequence[tuple[int, int]],
        others: Sequence[Index],
        ups: Sequence[Single],
        order: Index,
    ) -> None:
        """Copy the factors of fronts into one buffer.

        bounds: first own row of each front and one past its last.  ancestor_rows: later rows that each front updates.
        columns: (own + ancestor rows, own) each.  order: (n,) rows in elimination order.
        """
        self._call, self._rows, self._count = library.solve, len(order), len(bounds)
        far, sizes = np.array([len(one) for one in others]), np.array([one.size for one in ups])
        fronts = np.column_stack([np.array(bounds), _starts(far), far, _starts(sizes)]).astype(np.int64)
        up = np.empty(int(sizes.sum()), dtype=np.float32)
        self.ups = list[Single]()
        for place, one in zip(fronts[:, 4], ups, strict=True):
            piece = up[place : place + one.size].reshape(one.shape, order="F")
            piece[...] = one
            self.ups.append(piece)
        self._room = max(one.shape[0] for one in ups)
        self._held = fronts, np.concatenate(others).astype(np.int32), up, order.astype(np.int32)
        self._arrays = [one.ctypes.data for one in self._held]

    def solve(self, right: Single) -> Single:
        """Return the inverse times right (n,).

        Raises ValueError if the right-hand side has another shape.
        """
        b, answer = np.ascontiguousarray(right, dtype=np.float32), np.empty(self._rows, dtype=np.float32)
        if b.shape != answer.shape:
            raise ValueError(f"the right-hand side has shape {b.shape}; expected {self._rows} rows")
        # Allocate a workspace per call, because several threads may solve at once.
        x, y = np.empty(self._rows, dtype=np.float32), np.empty(self._room, dtype=np.float32)
        self._call(
            self._rows, self._count, *self._arrays, b.ctypes.data, answer.ctypes.data, x.ctypes.data, y.ctypes.data
        )
        return answer


def _starts(lengths: Index) -> Index:
    return np.concatenate([[0], np.cumsum(lengths)[:-1]])
